"""Stability of the repeated times of one dispatch.

Classifies durations in ns by their coefficient of variation (CV = standard deviation / mean), and reports mean, median, spread,
a confidence interval of the median, warm-up runs, outliers and drift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from rocm_perf_lab.statistics.bootstrap import median_interval
from rocm_perf_lab.statistics.drift import Drift, drift

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

STABLE_CV = 0.05
MODERATE_CV = 0.10
OUTLIER_SCORE = 3.5
"""Modified z-score of Iglewicz and Hoaglin, "How to detect and handle outliers" (1993)."""

_MIN_OUTLIER_SHARE = 0.01
_MIN_WARM_UP = 0.05
_MIN_RUNS_FOR_WARM_UP = 5
_NORMAL_MAD = 0.6745
_NORMAL_MEAN_DEVIATION = 1.253314
_MOST_OUTLIERS_LISTED = 100

Classification = Literal["stable", "moderate", "unstable"]


@dataclass(frozen=True)
class Stability:
    """Spread of the times. `cv` is None if unknown (one measured run). Only `runs` counts warm-up runs."""

    runs: int
    mean_ns: float
    median_ns: float
    stddev_ns: float
    mad_ns: float
    """Median of the absolute deviations from the median."""
    cv: float | None
    classification: Classification
    note: str | None = None
    median_interval_ns: tuple[float, float] | None = None
    """Bootstrap confidence interval; None for fewer than six runs."""
    warm_up_runs: int = 0
    """Number of leading runs that are slower than the rest."""
    outliers: tuple[int, ...] = ()
    """Positions of the first hundred outliers, without warm-up runs."""
    outlier_count: int = 0
    drift: Drift | None = None
    """None for fewer than six runs, or on a deterministic device."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons not to trust the median, as sentences."""
        found = []
        if self.classification == "unstable":
            spread = "one run does not show the spread" if self.cv is None else f"the times vary by {self.cv:.0%} (CV)"
            found.append(f"unstable: {spread}; profile it again with --runs {max(30, 2 * self.runs)}")
        if self.drift is not None and self.drift.is_drifting:
            way = "slower" if self.drift.change > 0 else "faster"
            found.append(
                f"drifting: {abs(self.drift.change):.0%} {way} from first to last run (p = {self.drift.p_value:.1g}); "
                "check clocks and temperature"
            )
        if self.warm_up_runs:
            found.append(
                f"warming up: of {self.runs} runs, the first {_runs(self.warm_up_runs)} slower and excluded from the statistics"
            )
        return tuple(found)


def stability(durations_ns: Sequence[float], *, deterministic: bool) -> Stability:
    """Return the statistics of one or more durations.

    Args:
        durations_ns: Durations of equal dispatches, in order of start.
        deterministic: Whether the device repeats a dispatch in exactly the same time, so that one run suffices.
    """
    every = np.asarray(durations_ns, dtype=np.float64)
    warm_up = 0 if deterministic else warm_up_runs(every)
    times = every[warm_up:]
    mean, median = float(times.mean()), float(np.median(times))
    single = len(times) == 1
    stddev = 0.0 if single else float(times.std(ddof=1))
    cv = None if single and not deterministic else stddev / mean if mean else 0.0
    outliers = outlier_positions(times)
    return Stability(
        runs=len(every),
        mean_ns=mean,
        median_ns=median,
        stddev_ns=stddev,
        mad_ns=float(np.median(np.abs(times - median))),
        cv=cv,
        classification=_classify(cv),
        note=_note(single=single, deterministic=deterministic, warm_up=warm_up),
        median_interval_ns=(median, median) if single and deterministic else median_interval(times),
        warm_up_runs=warm_up,
        outliers=tuple(int(i) + warm_up for i in outliers[:_MOST_OUTLIERS_LISTED]),
        outlier_count=len(outliers),
        drift=None if deterministic else drift(times),
    )


def warm_up_runs(times: Floats) -> int:
    """Return the number of warm-up runs, at most a third of all runs.

    These are leading runs that are slower than the second half of the series by more than its spread and by more than 5 %.
    """
    runs = len(times)
    if runs < _MIN_RUNS_FOR_WARM_UP:
        return 0
    settled = times[runs // 2 :]
    median = float(np.median(settled))
    spread = float(np.median(np.abs(settled - median))) / _NORMAL_MAD
    slow = times > median + max(OUTLIER_SCORE * spread, _MIN_WARM_UP * median)
    leading = int(np.argmin(slow)) if not slow.all() else runs
    return leading if leading <= runs // 3 else 0


def outlier_positions(times: Floats) -> NDArray[np.int64]:
    """Return the positions with a modified z-score above 3.5 that are also more than 1 % off the median."""
    median = np.median(times)
    deviation = np.abs(times - median)
    mad = float(np.median(deviation))
    # If more than half of the times are equal, the median deviation is 0: use the mean deviation.
    scale = mad / _NORMAL_MAD if mad else float(deviation.mean()) * _NORMAL_MEAN_DEVIATION
    far = (deviation > OUTLIER_SCORE * scale) & (deviation > _MIN_OUTLIER_SHARE * median)
    return np.flatnonzero(far)


def _classify(cv: float | None) -> Classification:
    if cv is None or cv > MODERATE_CV:
        return "unstable"
    return "stable" if cv <= STABLE_CV else "moderate"


def _note(*, single: bool, deterministic: bool, warm_up: int) -> str | None:
    if warm_up:
        return f"the first {_runs(warm_up)} slower than the rest (warm-up) and excluded from the statistics"
    if not single:
        return None
    if deterministic:
        return "one run: the device repeats a dispatch in exactly the same time"
    return "one run does not show the spread: repeat it"


def _runs(count: int) -> str:
    return "run is" if count == 1 else f"{count} runs are"
