"""Measurement of one configuration, repeated while its times vary too much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.autotune.objective import Measurement
from rocm_perf_lab.statistics.stability import stability

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NS_PER_MS = 1e6
MOST_KEPT = 200
"""Largest number of times of a trial that are kept, the last ones."""


@dataclass(frozen=True)
class Gate:
    """Condition for measuring a configuration again.

    Args:
        runs: Measurements per round.
        max_cv: Coefficient of variation above which another round follows.
        max_rounds: Largest number of rounds.
    """

    runs: int = 10
    max_cv: float = 0.10
    max_rounds: int = 3


def measure(sample: Callable[[int], Sequence[float]], gate: Gate, *, deterministic: bool) -> Measurement:
    """Measure one or more rounds, and return their median.

    Args:
        sample: Returns that many times in ms.
        gate: Number of measurements.
        deterministic: Whether all runs have the same time.
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
    """Return the median of the times without warm-up runs, with their spread and number as details."""
    found = stability(_ns(times_ms), deterministic=deterministic)
    known: dict[str, Any] = {"runs": found.runs, "rounds": rounds, "cv": found.cv, "stability": found.classification}
    median_ms = float(np.median(times_ms[found.warm_up_runs :]))
    return Measurement(median_ms, {**known, "times_ms": list(times_ms)[-MOST_KEPT:], **details})


def _ns(times_ms: Sequence[float]) -> list[float]:
    return [time * _NS_PER_MS for time in times_ms]
