"""Settings of the sample of traced workgroups: their number, and the seed of the random choice.

All launches of a device have the same seed, so that sources are compared on equal samples, and equal commands have equal results
on every computer. Jobs that judge sources draw a secret seed for each run (:func:`drawn_seed`), so that the author of a kernel
cannot know the sample.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from rocm_perf_lab.core.errors import LabError

DEFAULT_SEED = 20_261_122
_SEED_BITS = 31
_STRATA, _ALL = "strata", "all"
_SAMPLES = (_STRATA, _ALL)


@dataclass(frozen=True)
class SamplePolicy:
    """Number of workgroups to trace, and the seed of their choice.

    Args:
        workgroups: Maximum number of traced workgroups per launch; None traces all of them.
        seed: Seed of the choice.
    """

    workgroups: int | None
    seed: int = DEFAULT_SEED


def drawn_seed() -> int:
    """Return a secret seed."""
    return secrets.randbits(_SEED_BITS)


DEFAULT_SAMPLE = SamplePolicy(16)


def sample_policy(sample: str, traced_workgroups: int, seed: int | None) -> SamplePolicy:
    """Return the policy of a device configuration.

    Args:
        sample: `strata` traces at most `traced_workgroups` workgroups, `all` traces every one.
        traced_workgroups: Maximum number of traced workgroups, at least 1.
        seed: Seed of the choice; None selects :data:`DEFAULT_SEED`.

    Raises:
        LabError: A value is invalid.
    """
    if sample not in _SAMPLES:
        raise LabError(f"unknown sample {sample!r}", where="device.sample", hint=f"Use one of {', '.join(_SAMPLES)}.")
    if traced_workgroups < 1:
        raise LabError(
            f"{traced_workgroups} workgroups cannot be traced",
            where="device.traced_workgroups",
            hint="Use at least 1, or device.sample=all.",
        )
    if seed is not None and seed < 0:
        raise LabError(f"the seed is negative: {seed}", where="device.sample_seed", hint="Use an integer of at least 0.")
    return SamplePolicy(traced_workgroups if sample == _STRATA else None, DEFAULT_SEED if seed is None else seed)
