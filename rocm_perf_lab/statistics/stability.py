"""How far repeated times of one dispatch can be trusted.

Takes durations in ns, in order; gives mean, median and spread, a class by the coefficient of variation (CV = standard
deviation / mean), a confidence interval of the median, and what is odd about the series: warm-up, outliers, drift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

STABLE_CV = 0.05
MODERATE_CV = 0.10
CONFIDENCE = 0.95
MIN_RUNS_FOR_INTERVAL = 6
"""The smallest n whose whole range holds the median with 95 % confidence: 1 - 2 ** (1 - n)."""
OUTLIER_SCORE = 3.5
"""Modified z-score of Iglewicz and Hoaglin, "How to detect and handle outliers" (1993)."""
DRIFT_P_VALUE = 0.01

_MIN_OUTLIER_SHARE = 0.01
_MIN_DRIFT = 0.02
_MIN_WARM_UP = 0.05
_MIN_RUNS_FOR_WARM_UP = 5
_NORMAL_MAD = 0.6745
_NORMAL_MEAN_DEVIATION = 1.253314
_RESAMPLES = 4000
_SEED = 20250101
_LARGEST_TREND_SERIES = 500
_LARGEST_EXACT_TREND = 30
_MOST_OUTLIERS_LISTED = 100

Classification = Literal["stable", "moderate", "unstable"]


@dataclass(frozen=True)
class Drift:
    """Trend of the times over the runs: Kendall's tau with time, its p-value, and Sen's slope over all runs."""

    tau: float
    p_value: float
    change: float
    """From the first run to the last, relative to the median."""

    @property
    def is_drifting(self) -> bool:
        """Not chance, and large enough to matter."""
        return self.p_value < DRIFT_P_VALUE and abs(self.change) >= _MIN_DRIFT


@dataclass(frozen=True)
class Stability:
    """Spread of the times; `cv` is None where one run cannot tell. Warm-up runs are in no statistic but `runs`."""

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
    """Bootstrap confidence interval; None where there are too few runs for one."""
    warm_up_runs: int = 0
    """Leading runs that are slower than the rest."""
    outliers: tuple[int, ...] = ()
    """Positions of runs far off the median, the first hundred; warm-up runs are not among them."""
    outlier_count: int = 0
    drift: Drift | None = None
    """None where there are too few runs for a trend."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader has to know before trusting the median."""
        found = []
        if self.classification == "unstable":
            spread = "one run says nothing of the spread" if self.cv is None else f"the times vary by {self.cv:.0%} (CV)"
            found.append(f"unstable: {spread}; profile it again with --runs {max(30, 2 * self.runs)}")
        if self.drift is not None and self.drift.is_drifting:
            way = "slower" if self.drift.change > 0 else "faster"
            found.append(
                f"drifting: {abs(self.drift.change):.0%} {way} from first to last run (p = {self.drift.p_value:.1g}); "
                "look at clocks and temperature"
            )
        if self.warm_up_runs:
            found.append(
                f"warming up: of {self.runs} runs the first {_runs(self.warm_up_runs)} slower, and left out of the statistics"
            )
        return tuple(found)


def stability(durations_ns: Sequence[float], *, deterministic: bool) -> Stability:
    """Classify at least one duration.

    Args:
        durations_ns: Of equal dispatches, in order of start.
        deterministic: The device repeats a dispatch in exactly the same time, so that one run shows all.
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
    """How many leading runs are slower than the second half by more than its own spread and by 5 %; at most a third."""
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
    """Positions whose modified z-score exceeds 3.5 and that are more than 1 % off the median."""
    median = np.median(times)
    deviation = np.abs(times - median)
    mad = float(np.median(deviation))
    # More than half of the times are equal: the mean deviation takes the place of the median one.
    scale = mad / _NORMAL_MAD if mad else float(deviation.mean()) * _NORMAL_MEAN_DEVIATION
    far = (deviation > OUTLIER_SCORE * scale) & (deviation > _MIN_OUTLIER_SHARE * median)
    return np.flatnonzero(far)


def median_interval(times: Floats, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Percentile bootstrap interval of the median; equal times give equal intervals."""
    if len(times) < MIN_RUNS_FOR_INTERVAL:
        return None
    low, high = np.quantile(bootstrap_medians(times), [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def bootstrap_medians(times: Floats, *, stream: int = 0) -> Floats:
    """Medians of resamples with replacement, in a time that does not grow with their length.

    The k-th smallest of n uniform draws has a beta distribution, and a resample's k-th smallest value is the sample's
    at that quantile: so only the draws in the middle have to be made.

    Args:
        times: The sample.
        stream: Samples that are compared take different streams, so that their resamples are independent.
    """
    generator = np.random.default_rng((_SEED, stream))
    ordered, count = np.sort(times), len(times)
    lower = (count + 1) // 2
    quantile = generator.beta(lower, count - lower + 1, _RESAMPLES)
    values = ordered[_positions(quantile, count)]
    if count % 2:
        return values
    following = quantile + (1 - quantile) * generator.beta(1, count - lower, _RESAMPLES)
    return (values + ordered[_positions(following, count)]) / 2


def drift(times: Floats) -> Drift | None:
    """Mann-Kendall test of a trend over the runs; of very many runs over medians of consecutive groups."""
    if len(times) < MIN_RUNS_FOR_INTERVAL:
        return None
    if len(times) > _LARGEST_TREND_SERIES:
        times = np.array([np.median(group) for group in np.array_split(times, _LARGEST_TREND_SERIES)])
    count = len(times)
    first, second = np.triu_indices(count, 1)
    differences = times[second] - times[first]
    score = int(np.sign(differences).sum())
    slope = float(np.median(differences / (second - first)))
    median = float(np.median(times))
    return Drift(
        tau=score / len(differences),
        p_value=_trend_p_value(times, score),
        change=slope * (count - 1) / median if median else 0.0,
    )


def _trend_p_value(times: Floats, score: int) -> float:
    """Two-sided: exact for short series without ties, else the normal approximation with its corrections."""
    count = len(times)
    _, ties = np.unique(times, return_counts=True)
    if count <= _LARGEST_EXACT_TREND and len(ties) == count:
        # The number of discordant pairs of a random order: as many orders as there are permutations with that many inversions.
        pairs = count * (count - 1) // 2
        discordant = (pairs - abs(score)) // 2
        orders = [1]
        for length in range(2, count + 1):
            sums = np.cumsum([0, *map(int, orders), *[0] * (length - 1)], dtype=object)
            orders = [int(sums[k + 1] - sums[max(0, k + 1 - length)]) for k in range(len(orders) + length - 1)]
        return min(1.0, 2 * sum(orders[: discordant + 1]) / math.factorial(count))
    variance = (_tie_term(count) - sum(_tie_term(int(tie)) for tie in ties)) / 18
    if variance <= 0 or score == 0:
        return 1.0
    return math.erfc((abs(score) - 1) / math.sqrt(2 * variance))


def _tie_term(count: int) -> int:
    return count * (count - 1) * (2 * count + 5)


def _positions(quantile: Floats, count: int) -> NDArray[np.int64]:
    return np.minimum((quantile * count).astype(np.int64), count - 1)


def _classify(cv: float | None) -> Classification:
    if cv is None or cv > MODERATE_CV:
        return "unstable"
    return "stable" if cv <= STABLE_CV else "moderate"


def _note(*, single: bool, deterministic: bool, warm_up: int) -> str | None:
    if warm_up:
        return f"the first {_runs(warm_up)} slower than the rest (warm-up) and left out of the statistics"
    if not single:
        return None
    if deterministic:
        return "one run: the device repeats a dispatch in exactly the same time"
    return "one run says nothing of the spread: repeat it"


def _runs(count: int) -> str:
    return "run is" if count == 1 else f"{count} runs are"
