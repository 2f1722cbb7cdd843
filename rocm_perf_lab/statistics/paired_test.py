"""Sequential test whether a rewrite is faster, from pairs of interleaved times.

The two times of a pair are measured right after one another, so clock, temperature and other load affect both alike, and only
their ratio counts. The speed-up is the Hodges-Lehmann estimate of the log ratios; its bounds come from inverting Wilcoxon's
signed-rank test (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3.1 to 3.3). No distribution is assumed, and
outliers have little influence. The test is sequential: it stops as soon as the answer is known, and divides the error rate among
its looks. `scipy.stats.wilcoxon` returns p-values without estimate or bounds, so the null distribution is computed here.

Emulated times repeat exactly, so one pair suffices. Their uncertainty is the error of the timing model: the bounds come from the
error band of a ratio (:mod:`.error_bands`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.statistics.error_control import level_per_look

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.statistics.error_bands import RatioBand

Pair = tuple[float, float]
"""Time of the old source and of the new one, in ns, measured right after one another."""
_MOST_LOOKS = 20


@dataclass(frozen=True)
class PairedComparison:
    """Time saved by the new source, relative to the old time: 0.25 means a quarter less.

    The true improvement is above `least` with `confidence`, and below `most` with the same. `pairs` counts the measurements.
    """

    improvement: float
    least: float
    most: float
    confidence: float
    pairs: int
    method: str
    band: float | None = None
    """Factor of the error band of emulated times; None for measured ones."""

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
    """Condition for accepting a rewrite as faster.

    Args:
        min_improvement: Least value of the lower bound of the improvement, relative to the old time.
        confidence: Of the whole sequential test: at most 1 - confidence of rewrites without that improvement are accepted.
        first_pairs: Number of pairs at the first look; each further look doubles it.
        most_pairs: Number of pairs at the last look.
    """

    min_improvement: float
    confidence: float = 0.95
    first_pairs: int = 8
    most_pairs: int = 32

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of pairs after which the test is evaluated."""
        looks = [min(self.first_pairs, self.most_pairs)]
        while looks[-1] < self.most_pairs and len(looks) < _MOST_LOOKS:
            looks.append(min(2 * looks[-1], self.most_pairs))
        return tuple(looks)

    def accepts(self, comparison: PairedComparison) -> bool:
        """Return whether the improvement is certain; an improvement of zero never is."""
        return comparison.least > 0 and comparison.least >= self.min_improvement

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
    """Measure pairs until the rule accepts or refuses, or until the largest number of pairs is reached.

    Args:
        measure: Returns that many more pairs; it alternates which source runs first.
        rule: Condition and numbers of pairs.

    Raises:
        LabError: A time is not positive.
    """
    pairs: list[Pair] = []
    level = level_per_look(rule.confidence, len(rule.looks))
    for look in rule.looks:
        pairs.extend(measure(look - len(pairs)))
        comparison = compare_pairs(pairs, level, rule.confidence)
        if rule.accepts(comparison) or rule.refuses(comparison):
            break
    return comparison


def compare_pairs(pairs: Sequence[Pair], level: float, confidence: float) -> PairedComparison:
    """Return the Hodges-Lehmann estimate and one-sided bounds at `level` each; infinitely wide for too few pairs.

    Raises:
        LabError: There is no pair, or a time is not positive.
    """
    times = np.asarray(pairs, dtype=np.float64)
    if times.size == 0 or not (np.isfinite(times).all() and (times > 0).all()):
        raise LabError("times that cannot be compared: each must be a positive number", where=f"{len(pairs)} pairs")
    ratios = np.log(times[:, 0]) - np.log(times[:, 1])
    averages = walsh_averages(ratios)
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
