"""Stability of the repeated times of one dispatch.

Classifies durations in ns by their spread relative to the typical time, and reports mean, median, a confidence interval of the
median, warm-up runs, outliers, groups of times and drift. The spread is the robust coefficient of variation (scaled median
absolute deviation / median) if at most a tenth of ten or more runs are outliers, so that a few outliers are reported as
outliers; otherwise the coefficient of variation (CV = standard deviation / mean).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from rocm_perf_lab.statistics.bootstrap import median_interval
from rocm_perf_lab.statistics.drift import Drift, drift
from rocm_perf_lab.statistics.modes import TimeGroup, time_groups

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
_MIN_RUNS_FOR_ROBUST_SPREAD = 10
_MOST_OUTLIERS = 0.1
"""Larger shares of outliers are part of the spread."""
_ENOUGH_RUNS = 30
"""Runs after which repeating is no longer the first advice."""
_PRECISE = 0.05
"""Half of the relative width of a median's interval that suffices to compare kernels."""
_MOST_REPEATED = 200

Classification = Literal["stable", "moderate", "unstable"]


@dataclass(frozen=True)
class Stability:
    """Spread of the times. `cv` and `robust_cv` are None if unknown (one measured run). Only `runs` counts warm-up runs."""

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
    robust_cv: float | None = None
    """Scaled median absolute deviation over the median."""
    outlier_share: float = 0.0
    """Share of the runs after the warm-up."""
    groups: tuple[TimeGroup, ...] = ()
    """Two groups if the times have two typical values, otherwise none."""
    waits_for_peers: bool = False
    """Whether the times include waiting for other processes, as those of a collective do."""

    @property
    def spread(self) -> float | None:
        """Spread by which the times are classified: `robust_cv`, or `cv` for few runs or many outliers."""
        few = self.runs - self.warm_up_runs < _MIN_RUNS_FOR_ROBUST_SPREAD
        return self.cv if few or self.groups or self.outlier_share > _MOST_OUTLIERS else self.robust_cv

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons not to trust the median, as sentences."""
        found = [_spread_advice(self)] if self.classification == "unstable" else []
        if self.drift is not None and self.drift.is_drifting:
            way = "slower" if self.drift.change > 0 else "faster"
            cause = "check the balance of the processes" if self.waits_for_peers else "check clocks and temperature"
            found.append(
                f"drifting: {abs(self.drift.change):.0%} {way} from first to last run (p = {self.drift.p_value:.1g}); {cause}"
            )
        if self.warm_up_runs:
            found.append(
                f"warming up: of {self.runs} runs, the first {_runs(self.warm_up_runs)} slower and excluded from the statistics"
            )
        return tuple(found)


def stability(durations_ns: Sequence[float], *, deterministic: bool, waits_for_peers: bool = False) -> Stability:
    """Return the statistics of one or more durations.

    Args:
        durations_ns: Durations of equal dispatches, in order of start.
        deterministic: Whether the device repeats a dispatch in exactly the same time, so that one run suffices.
        waits_for_peers: Whether the times include waiting for other processes: repeating does not reduce their spread.
    """
    every = np.asarray(durations_ns, dtype=np.float64)
    warm_up = 0 if deterministic else warm_up_runs(every)
    times = every[warm_up:]
    mean, median = float(times.mean()), float(np.median(times))
    single = len(times) == 1
    stddev = 0.0 if single else float(times.std(ddof=1))
    cv = None if single and not deterministic else stddev / mean if mean else 0.0
    outliers = outlier_positions(times)
    found = Stability(
        runs=len(every),
        mean_ns=mean,
        median_ns=median,
        stddev_ns=stddev,
        mad_ns=float(np.median(np.abs(times - median))),
        cv=cv,
        classification="unstable",
        note=_note(single=single, deterministic=deterministic, warm_up=warm_up),
        median_interval_ns=(median, median) if single and deterministic else median_interval(times),
        warm_up_runs=warm_up,
        outliers=tuple(int(i) + warm_up for i in outliers[:_MOST_OUTLIERS_LISTED]),
        outlier_count=len(outliers),
        drift=None if deterministic else drift(times),
        robust_cv=None if cv is None else _robust_deviation(times) / median if median else 0.0,
        outlier_share=len(outliers) / len(times),
        groups=time_groups(times),
        waits_for_peers=waits_for_peers,
    )
    return replace(found, classification=_classify(found.spread))


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
    far = (deviation > OUTLIER_SCORE * _robust_deviation(times)) & (deviation > _MIN_OUTLIER_SHARE * median)
    return np.flatnonzero(far)


def _robust_deviation(times: Floats) -> float:
    """Return the standard deviation of normal times with the same median absolute deviation."""
    deviation = np.abs(times - np.median(times))
    mad = float(np.median(deviation))
    # If more than half of the times are equal, the median deviation is 0: use the mean deviation.
    return mad / _NORMAL_MAD if mad else float(deviation.mean()) * _NORMAL_MEAN_DEVIATION


def _classify(spread: float | None) -> Classification:
    if spread is None or spread > MODERATE_CV:
        return "unstable"
    return "stable" if spread <= STABLE_CV else "moderate"


def _spread_advice(found: Stability) -> str:
    """Return the reason why the times are unstable, and a remedy: repetition only if more runs make the median precise."""
    if found.spread is None:
        return f"unstable: one run does not show the spread; profile it again with --runs {_ENOUGH_RUNS}"
    said = f"the times vary by {found.spread:.0%}"
    if found.waits_for_peers:
        return f"{said}, because they include waiting for the other processes: more runs do not help, balance the processes"
    if found.groups:
        times = " and ".join(f"{group.median_ns / 1e3:.4g} us ({group.share:.0%})" for group in found.groups)
        return f"unstable: two groups of times, {times}: check inputs, clocks and cache contents, more runs do not help"
    runs = found.runs - found.warm_up_runs
    interval = found.median_interval_ns
    half = None if interval is None or not found.median_ns else (interval[1] - interval[0]) / 2 / found.median_ns
    if runs < _ENOUGH_RUNS or (half is not None and half > _PRECISE and 2 * runs <= _MOST_REPEATED):
        return f"unstable: {said}; profile it again with --runs {max(_ENOUGH_RUNS, 2 * found.runs)}"
    known = "" if half is None else f", the median of {runs} runs is known to {max(half, 0.001):.1%}"
    return f"unstable: {said}{known}: check clocks, inputs and other users of the GPU"


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
