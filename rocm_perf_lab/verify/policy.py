"""Configuration `optimizer.verification`: allowed differences in results, and the seed of trials.

This module has no imports besides pydantic, so that reading the configuration stays fast.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt


class TrialPolicy(BaseModel):
    """Allowed differences in results, and the seed of trials.

    Args:
        seed: Seed of inputs.
        reassociate: Floating-point results may differ from the unmodified kernel's within tolerance, for example because of
            a different order of sums; otherwise every stable byte must be identical.
        nan: `same` requires NaN and infinity exactly where the unmodified kernel has them; `ignore` does not compare there.
        in_place: A rewrite must support an output that shares memory with an input if the unmodified kernel does.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: NonNegativeInt = 20_261_121
    reassociate: bool = True
    nan: Literal["same", "ignore"] = "same"
    in_place: bool = True
