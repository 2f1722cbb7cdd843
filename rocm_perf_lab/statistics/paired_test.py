"""Sequential test whether a rewrite is faster, from pairs of interleaved times.

The two times of a pair are measured right after one another, so clock, temperature and other load affect both alike, and only
their ratio counts. The speed-up is the Hodges-Lehmann estimate of the log ratios; its bounds come from inverting Wilcoxon's
signed-rank test (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3.1 to 3.3). No distribution is assumed, and
outliers have little influence. The test is sequential: it stops as soon as the answer is known, and divides its level among its
looks. `scipy.stats.wilcoxon` returns p-values without estimate or bounds, so the null distribution is computed here.

A rewrite is accepted if it is faster at the level of the test, and the estimated improvement is at least `min_improvement`. To
require that the lower bound reaches `min_improvement` instead would need nine times the pairs to find 3 % if 2 % is required,
because only the difference of 1 % could be tested. The number of pairs is planned from the noise of the pairs measured so far.

Emulated times repeat exactly, so one pair suffices. Their uncertainty is the error of the timing model: the bounds come from the
error band of a ratio (:mod:`.error_bands`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.statistics.power import cautious, noise_about_median, noise_about_zero, pairs_needed, smallest_gain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.statistics.error_bands import RatioBand

Pair = tuple[float, float]
"""Time of the old source and of the new one, in ns, measured right after one another."""
_MOST_LOOKS = 20
_PLANNED_GAIN = 1.5
"""Gain for which pairs are planned, relative to `min_improvement`: estimates of a gain that is just sufficient miss it half of
the time, whatever the number of pairs."""
_FUTILITY = 0.05
"""Level at which a look concludes that the improvement is too small. It costs power, and no false acceptance."""


@dataclass(frozen=True)
class PairedComparison:
    """Time saved by the new source, relative to the old time: 0.25 means a quarter less.

    The true improvement is above `least` with `confidence`, and below `most` with the same. `pairs` counts the measurements.
    For measured times, `confidence` is that of all bounds of a run together.
    """

    improvement: float
    least: float
    most: float
    confidence: float
    pairs: int
    method: str
    band: float | None = None
    """Factor of the error band of emulated times; None for measured ones."""
    level: float | None = None
    """Significance level of this comparison, of those of the run together."""
    planned_pairs: int | None = None
    """Number of pairs after which the comparison would have ended at the latest."""
    smallest_gain: float | None = None
    """Gain that is found with 80 % power with the planned pairs and the noise of these."""

    @property
    def is_indistinguishable(self) -> bool:
        """True for emulated times whose difference is inside the error band; False for measured times."""
        return self.band is not None and self.least <= 0 <= self.most

    @property
    def speedup(self) -> float:
        """Old time over new time."""
        return _speedup(self.improvement)

    @property
    def speedup_interval(self) -> tuple[float, float]:
        """Bounds of the speed-up."""
        return _speedup(self.least), _speedup(self.most)

    @property
    def is_exact(self) -> bool:
        """True if the bounds are equal."""
        return self.least == self.most


@dataclass(frozen=True)
class AcceptanceRule:
    """Condition for accepting a rewrite as faster: significantly faster, and by an estimate of at least `min_improvement`.

    Args:
        min_improvement: Least estimate of the improvement, relative to the old time.
        confidence: Probability that a run of several comparisons accepts no rewrite that is not faster.
        level: Probability that this comparison does; None for a run with one comparison, 1 - confidence.
        first_pairs: Number of pairs at the first look; each further look doubles it.
        most_pairs: Maximum number of pairs.
    """

    min_improvement: float
    confidence: float = 0.95
    level: float | None = None
    first_pairs: int = 16
    most_pairs: int = 256

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of pairs after which the test can be evaluated."""
        looks = [min(self.first_pairs, self.most_pairs)]
        while looks[-1] < self.most_pairs and len(looks) < _MOST_LOOKS:
            looks.append(min(2 * looks[-1], self.most_pairs))
        return tuple(looks)

    @property
    def own_level(self) -> float:
        """Significance level of this comparison."""
        return 1 - self.confidence if self.level is None else self.level

    def last_look(self, noise: float) -> int:
        """Return the look at which a test ends at the latest; `noise` is the standard deviation of the log ratio of a pair."""
        gain = _PLANNED_GAIN * self.min_improvement
        if not 0 < gain < 1:
            return self.looks[-1]
        needed = pairs_needed(noise, gain, self.own_level / 2)
        return next((look for look in self.looks if look >= needed), self.looks[-1])

    def accepts(self, comparison: PairedComparison) -> bool:
        """Return whether a rewrite is certainly faster, and its estimated improvement sufficient; zero never is."""
        return comparison.least > 0 and comparison.improvement >= self.min_improvement

    def refuses(self, comparison: PairedComparison) -> bool:
        """Return whether it is certain that the improvement is too small."""
        return comparison.most <= 0 or comparison.most < self.min_improvement


def compare_emulated(old_ns: float, new_ns: float, band: RatioBand) -> PairedComparison:
    """Compare one emulated time of each source; the bounds are those of the error band.

    Args:
        old_ns: Emulated time of the old source.
        new_ns: Emulated time of the new source.
        band: Error band of the ratio of two emulated times.
    """
    if not old_ns or not new_ns:  # the ratio is unknown without a timing model
        return PairedComparison(0.0, -math.inf, 1.0, 0.0, 0, "no emulated times", band=math.inf)
    low, high = band.around(new_ns / old_ns)
    return PairedComparison(
        improvement=(old_ns - new_ns) / old_ns,
        least=1 - high,
        most=1 - low,
        confidence=band.confidence,
        pairs=1,
        method="ratio of two emulated times, with the error band of the timing model",
        band=band.factor,
    )


def compare_sequentially(measure: Callable[[int], Sequence[Pair]], rule: AcceptanceRule) -> PairedComparison:
    """Measure pairs until the rule accepts, an improvement is improbable, or the planned number of pairs is reached.

    A look before the last one may use a part of the level in proportion to its pairs; the last one uses the rest. The plan is
    made again at each look. It depends on magnitudes of the log ratios only, and so does not change the error rate.

    Args:
        measure: Returns that many more pairs, each in a random order (see :mod:`.interleaving`).
        rule: Condition and numbers of pairs.

    Raises:
        LabError: A time is not positive.
    """
    pairs: list[Pair] = []
    unspent = rule.own_level
    for look in rule.looks:
        pairs.extend(measure(look - len(pairs)))
        ratios = log_ratios(pairs)
        last = max(look, rule.last_look(cautious(noise_about_zero(ratios), look)))
        level = unspent if look == last else min(unspent, rule.own_level * look / (2 * last))
        unspent -= level
        comparison = compare_pairs(pairs, level, rule.confidence)
        if look == last or rule.accepts(comparison) or rule.refuses(compare_pairs(pairs, _FUTILITY, rule.confidence)):
            break
    found = smallest_gain(noise_about_median(ratios), last, rule.own_level / 2, rule.min_improvement)
    return replace(comparison, level=rule.own_level, planned_pairs=last, smallest_gain=found)


def log_ratios(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Return the logarithm of old over new time of each pair, (n_pairs).

    Raises:
        LabError: There is no pair, or a time is not positive.
    """
    times = np.asarray(pairs, dtype=np.float64)
    if times.size == 0 or not (np.isfinite(times).all() and (times > 0).all()):
        raise LabError("times that cannot be compared: each must be a positive number", where=f"{len(pairs)} pairs")
    return np.asarray(np.log(times[:, 0]) - np.log(times[:, 1]))


def compare_pairs(pairs: Sequence[Pair], level: float, confidence: float) -> PairedComparison:
    """Return the Hodges-Lehmann estimate and one-sided bounds at `level` each; infinitely wide for too few pairs.

    Raises:
        LabError: There is no pair, or a time is not positive.
    """
    averages = walsh_averages(log_ratios(pairs))
    rank = critical_rank(len(pairs), level)
    return PairedComparison(
        improvement=-math.expm1(-float(np.median(averages))),
        least=-math.inf if rank is None else -math.expm1(-float(averages[rank])),
        most=1.0 if rank is None else -math.expm1(-float(averages[-1 - rank])),
        confidence=confidence,
        pairs=len(pairs),
        method="Hodges-Lehmann estimate and signed-rank bounds of interleaved pairs",
    )


def walsh_averages(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sorted means of all pairs of `values` (n,), each value paired with itself too: (n (n + 1) / 2,)."""
    first, second = np.triu_indices(len(values))
    return np.sort((values[first] + values[second]) / 2)


def critical_rank(n: int, level: float) -> int | None:
    """Return the largest c with P(T+ <= c) <= level for the signed-rank statistic T+ of `n` values, or None if none exists.

    The distribution is exact: T+ is the sum of a random subset of the ranks 1..n.
    """
    probability = np.ones(1)
    for rank in range(1, n + 1):
        included = np.concatenate([np.zeros(rank), probability])
        probability = (included + np.concatenate([probability, np.zeros(rank)])) / 2
    below = np.flatnonzero(np.cumsum(probability) <= level)
    return int(below[-1]) if below.size else None


def _speedup(improvement: float) -> float:
    return 1 / (1 - improvement) if improvement < 1 else math.inf
