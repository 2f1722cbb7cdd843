"""Configuration `optimizer.verification`: allowed differences in results, number of trials, and their seed.

This module imports only pydantic and the standard library, so that reading the configuration is fast.
"""

from __future__ import annotations

import secrets
from typing import Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

_SEED_BITS = 31


class TrialPolicy(BaseModel):
    """Allowed differences in results, number of trials, and their seed.

    Args:
        seed: Seed of shapes and inputs; None draws a secret one per run (see :func:`seeded`).
        reassociate: Floating-point results may differ from the unmodified kernel's within tolerance, for example because of
            a different order of sums; otherwise every stable byte must be identical.
        nan: `same` requires NaN and infinity exactly where the unmodified kernel has them; `ignore` does not compare these
            elements.
        in_place: A rewrite must support an output that shares memory with an input if the unmodified kernel does.
        shapes: Number of small shapes, in which every size has each residue modulo this number, and of shapes with one long size.
        instructions: Limit of wave instructions of the unmodified kernel in all trials; further trials are omitted.
        builds: Maximum number of builds of one source, for languages whose compiler specialises code for a shape.
        searched: Maximum number of trials that search for shapes, scalars and inputs to take the remaining branches of a rewrite.
        require_coverage: Reject a rewrite with a branch that was taken in no trial.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: NonNegativeInt | None = None
    reassociate: bool = True
    nan: Literal["same", "ignore"] = "same"
    in_place: bool = True
    shapes: PositiveInt = 64
    instructions: PositiveInt = 12_000_000
    builds: PositiveInt = 8
    searched: NonNegativeInt = 192
    require_coverage: bool = False


def drawn_seed() -> int:
    """Return a secret seed."""
    return secrets.randbits(_SEED_BITS)


def seeded(policy: TrialPolicy, recorded: int | None = None) -> TrialPolicy:
    """Return the policy with a seed: from the configuration, else recorded by an interrupted run, else drawn at random."""
    if policy.seed is not None:
        return policy
    return policy.model_copy(update={"seed": recorded if recorded is not None else drawn_seed()})
