"""What a rewrite may change about the results, and the seed of what it is tried on: configuration, `optimizer.verification`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt


class TrialPolicy(BaseModel):
    """What a rewrite may change, and the seed of what it is tried on.

    `reassociate`: floating-point results may differ from the unmodified kernel's within tolerance, as a reduction in
    another order gives them; without it every stable byte has to be the same. `nan`: NaN and infinity exactly where the
    unmodified kernel has them, or anywhere. `in_place`: where the unmodified kernel also works with an output in the
    place of an input, so must a rewrite.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: NonNegativeInt = 20_261_121
    reassociate: bool = True
    nan: Literal["same", "ignore"] = "same"
    in_place: bool = True
