"""Is a rewrite faster? Speed-ups with confidence intervals, from pairs of times that were measured interleaved.

Times of one pair are taken right after one another, so clock, temperature and neighbours change both alike, and only the
ratio within a pair counts. The speed-up is the Hodges-Lehmann estimate of the log ratios, its bounds come from inverting
Wilcoxon's signed-rank test (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3.1 to 3.3): no normal
distribution is assumed, and a few wild times move nothing. The test is sequential: it looks after a few pairs, and again
only while the answer is open; the error rate is divided among the looks (Bonferroni), so looking early costs no honesty.

On a deterministic device there is one pair and nothing to estimate: the interval is the ratio itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

Pair = tuple[float, float]
"""Time of the old source and of the new one, in ns, measured right after one another."""
_MOST_LOOKS = 20


@dataclass(frozen=True)
class Comparison:
    """How much less time the new source takes, as a part of the old time: 0.25 means a quarter less.

    The true gain is above `least` with `confidence`, and below `most` with the same. `pairs` counts the measurements.
    """

    improvement: float
    least: float
    most: float
    confidence: float
    pairs: int
    method: str

    @property
    def speedup(self) -> float:
        """Old time over new time."""
        return _speedup(self.improvement)

    @property
    def speedup_interval(self) -> tuple[float, float]:
        """Its bounds."""
        return _speedup(self.least), _speedup(self.most)

    @property
    def is_exact(self) -> bool:
        """Whether this is a plain comparison of two times that cannot vary."""
        return self.least == self.most


@dataclass(frozen=True)
class Acceptance:
    """When a rewrite is faster for certain.

    Args:
        min_improvement: What the lower bound has to save, relative to the old time.
        confidence: Of the whole sequential test: at most 1 - confidence of rewrites without that gain are accepted.
        first_pairs: Before the first look; each further look doubles the number of pairs.
        most_pairs: At the last look.
    """

    min_improvement: float
    confidence: float = 0.95
    first_pairs: int = 8
    most_pairs: int = 32

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of pairs after which the answer may be known."""
        looks = [min(self.first_pairs, self.most_pairs)]
        while looks[-1] < self.most_pairs and len(looks) < _MOST_LOOKS:
            looks.append(min(2 * looks[-1], self.most_pairs))
        return tuple(looks)

    def accepts(self, comparison: Comparison) -> bool:
        """Whether the gain is there for certain; a gain of nothing never is."""
        return comparison.least > 0 and comparison.least >= self.min_improvement

    def refuses(self, comparison: Comparison) -> bool:
        """Whether the gain is not there for certain."""
        return comparison.most <= 0 or comparison.most < self.min_improvement


def compare_exactly(old_ns: float, new_ns: float) -> Comparison:
    """Of a deterministic device: one time each is all there is to know."""
    gain = (old_ns - new_ns) / old_ns
    return Comparison(gain, gain, gain, 1.0, 1, "comparison of two times of a deterministic device")


def compare_sequentially(measure: Callable[[int], Sequence[Pair]], acceptance: Acceptance) -> Comparison:
    """Measure pairs until the answer is known, or until there are as many as are allowed.

    Args:
        measure: Gives that many more pairs; whoever measures alternates which of the two goes first.
        acceptance: When the answer is known, and how much is measured.

    Raises:
        LabError: A time is not positive.
    """
    pairs: list[Pair] = []
    level = (1 - acceptance.confidence) / len(acceptance.looks)
    for look in acceptance.looks:
        pairs.extend(measure(look - len(pairs)))
        comparison = compare_pairs(pairs, level, acceptance.confidence)
        if acceptance.accepts(comparison) or acceptance.refuses(comparison):
            break
    return comparison


def compare_pairs(pairs: Sequence[Pair], level: float, confidence: float) -> Comparison:
    """Hodges-Lehmann estimate and one-sided bounds at `level` each; none where there are too few pairs for them.

    Raises:
        LabError: No pair, or a time is not positive.
    """
    times = np.asarray(pairs, dtype=np.float64)
    if times.size == 0 or not (np.isfinite(times).all() and (times > 0).all()):
        raise LabError("times that cannot be compared: each has to be a positive number", where=f"{len(pairs)} pairs")
    ratios = np.log(times[:, 0]) - np.log(times[:, 1])
    averages = walsh_averages(ratios)
    rank = critical_rank(len(pairs), level)
    return Comparison(
        improvement=-math.expm1(-float(np.median(averages))),
        least=-math.inf if rank is None else -math.expm1(-float(averages[rank])),
        most=1.0 if rank is None else -math.expm1(-float(averages[-1 - rank])),
        confidence=confidence,
        pairs=len(pairs),
        method="Hodges-Lehmann estimate and signed-rank bounds of interleaved pairs",
    )


def walsh_averages(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of all pairs of `values` (n,), each value with itself included, sorted: (n (n + 1) / 2,)."""
    first, second = np.triu_indices(len(values))
    return np.sort((values[first] + values[second]) / 2)


def critical_rank(n: int, level: float) -> int | None:
    """Largest c with P(T+ <= c) <= level for the signed-rank statistic T+ of `n` values; None where there is none.

    The distribution is exact: T+ is the sum of the ranks 1..n, each taken or not by the toss of a coin.
    """
    probability = np.ones(1)
    for rank in range(1, n + 1):
        taken = np.concatenate([np.zeros(rank), probability])
        probability = (taken + np.concatenate([probability, np.zeros(rank)])) / 2
    below = np.flatnonzero(np.cumsum(probability) <= level)
    return int(below[-1]) if below.size else None


def _speedup(improvement: float) -> float:
    return 1 / (1 - improvement) if improvement < 1 else math.inf
