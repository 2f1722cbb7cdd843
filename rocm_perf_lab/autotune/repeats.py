"""Times of one configuration, repeated until they can be trusted: a median of times that vary too much decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.autotune.objective import Measurement
from rocm_perf_lab.statistics.stability import stability

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NS_PER_MS = 1e6
_MOST_KEPT = 200


@dataclass(frozen=True)
class Gate:
    """When a configuration is measured again.

    Args:
        runs: Times of one round.
        max_cv: Coefficient of variation above which another round is added.
        max_rounds: Rounds in all.
    """

    runs: int = 10
    max_cv: float = 0.10
    max_rounds: int = 3


def measure(sample: Callable[[int], Sequence[float]], gate: Gate, *, deterministic: bool) -> Measurement:
    """The median of one round or more.

    Args:
        sample: Gives so many times, in ms.
        gate: How many, and when they are too few.
        deterministic: One time tells all.
    """
    times = list(sample(1 if deterministic else gate.runs))
    rounds = 1
    while rounds < gate.max_rounds:
        cv = stability(_ns(times), deterministic=deterministic).cv
        if cv is None or cv <= gate.max_cv:
            break
        times += sample(gate.runs)
        rounds += 1
    return measurement(times, rounds=rounds, deterministic=deterministic)


def measurement(times_ms: Sequence[float], *, rounds: int, deterministic: bool, **details: Any) -> Measurement:
    """What the times say: their median, spread and number; warm-up runs do not count."""
    found = stability(_ns(times_ms), deterministic=deterministic)
    known: dict[str, Any] = {"runs": found.runs, "rounds": rounds, "cv": found.cv, "stability": found.classification}
    median_ms = float(np.median(times_ms[found.warm_up_runs :]))
    return Measurement(median_ms, {**known, "times_ms": list(times_ms)[-_MOST_KEPT:], **details})


def _ns(times_ms: Sequence[float]) -> list[float]:
    return [time * _NS_PER_MS for time in times_ms]
