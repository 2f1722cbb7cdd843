"""How far repeated times of one dispatch can be trusted.

Takes durations in ns, gives mean, spread and a class by the coefficient of variation (CV = standard deviation / mean).
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

STABLE_CV = 0.05
MODERATE_CV = 0.10

Classification = Literal["stable", "moderate", "unstable"]


@dataclass(frozen=True)
class Stability:
    """Spread of the times; `cv` is None where one run cannot tell."""

    runs: int
    mean_ns: float
    median_ns: float
    stddev_ns: float
    mad_ns: float
    """Median of the absolute deviations from the median."""
    cv: float | None
    classification: Classification
    note: str | None = None


def stability(durations_ns: Sequence[int], *, deterministic: bool) -> Stability:
    """Classify at least one duration.

    Args:
        durations_ns: Of equal dispatches.
        deterministic: The device repeats a dispatch in exactly the same time, so that one run shows all.
    """
    mean = statistics.fmean(durations_ns)
    median = statistics.median(durations_ns)
    single = len(durations_ns) == 1
    stddev = 0.0 if single else statistics.stdev(durations_ns)
    cv = None if single and not deterministic else stddev / mean if mean else 0.0
    return Stability(
        runs=len(durations_ns),
        mean_ns=mean,
        median_ns=median,
        stddev_ns=stddev,
        mad_ns=statistics.median(abs(duration - median) for duration in durations_ns),
        cv=cv,
        classification=_classify(cv),
        note=_note_on_one_run(deterministic) if single else None,
    )


def _classify(cv: float | None) -> Classification:
    if cv is None or cv > MODERATE_CV:
        return "unstable"
    return "stable" if cv <= STABLE_CV else "moderate"


def _note_on_one_run(deterministic: bool) -> str:
    if deterministic:
        return "one run: the device repeats a dispatch in exactly the same time"
    return "one run says nothing of the spread: repeat it"
