"""Two samples of times: by which factor they differ, and how likely chance alone makes such a difference.

Takes positive times in order; gives the ratio new / base, its interval, and a p-value. The test is that of Mann and Whitney
(Ann. Math. Stat. 18, 1947), exact for small samples; ratio and interval are those of Hodges and Lehmann (Ann. Math. Stat. 34,
1963) on logarithms: the median of the ratios of all pairs, and the factors that the test does not reject. It asks for no
distribution, so times with outliers or of two clocks are no harder than normal ones. Times that follow one another are often
alike (clocks, temperature): the variance then grows by the time that the series takes to forget itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_LARGEST_EXACT = 400
"""Pairs of times up to which the distribution is counted; the normal one is within 0.001 of it from there on."""
_MIN_RUNS_FOR_MEMORY = 8
_ONE_SIDED_5_PERCENT = 1.645
_STRONGEST_CORRELATION = 0.99
_LARGEST_MEMORY = 0.3
"""Of the runs: samples that do not overlap at all differ at 5 % however alike neighbours are."""


@dataclass(frozen=True)
class RatioTest:
    """`p_value` is that of "the times do not differ", two-sided; it is at most 1 - confidence where `interval` leaves out 1."""

    ratio: float
    interval: tuple[float, float]
    p_value: float
    memory: float
    """How many runs say as much as one that is independent of the others; 1 where neighbours are not alike."""


def ratio_test(base: Floats, new: Floats, confidence: float) -> RatioTest:
    """Compare positive times; at least four of each for an interval of 95 %."""
    memory = _joint_memory(base, new)
    ratios = np.sort((new[:, None] / base[None, :]).ravel())
    pairs = len(ratios)
    shorter, longer = int(np.count_nonzero(ratios < 1)), int(np.count_nonzero(ratios > 1))
    # Equal times count against a difference, as they do where the interval touches 1.
    against = pairs - max(shorter, longer)
    p_value = min(1.0, 2 * _chance_of_at_most(against, len(base), len(new), memory))
    out = _left_out(len(base), len(new), memory, (1 - confidence) / 2)
    return RatioTest(float(np.median(ratios)), (float(ratios[out]), float(ratios[pairs - 1 - out])), p_value, memory)


def memory_of(times: Floats) -> float:
    """The integrated autocorrelation time of the ranks, in runs: 1 where the times are independent, or too few to tell.

    The larger of two estimates: (1 + r) / (1 - r) of the correlation r between neighbours, and Geyer's sum of positive pairs
    (Statistical Science 7, 1992). Independent times are spared both: r has to be beyond chance.
    """
    count = len(times)
    if count < _MIN_RUNS_FOR_MEMORY:
        return 1.0
    ranks = np.argsort(np.argsort(times, kind="stable"), kind="stable") - (count - 1) / 2
    spectrum = np.fft.rfft(ranks, 2 * count)
    correlation = np.fft.irfft(spectrum * np.conj(spectrum))[:count] / float(ranks @ ranks)
    # The mean that was taken out makes neighbours look unlike by 1 / n.
    neighbours = float(correlation[1]) + 1 / count
    if neighbours < _ONE_SIDED_5_PERCENT / math.sqrt(count):
        return 1.0
    neighbours = min(neighbours, _STRONGEST_CORRELATION)
    in_pairs = correlation[: count // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = int(np.argmax(in_pairs <= 0)) if (in_pairs <= 0).any() else len(in_pairs)
    return max(1.0, (1 + neighbours) / (1 - neighbours), 2 * float(in_pairs[:positive].sum()) - 1)


def least_p_value(base_runs: int, new_runs: int) -> float:
    """What two samples of this many runs reach at best: all of one above all of the other."""
    return 2 / math.comb(base_runs + new_runs, new_runs)


def adjusted_p_values(p_values: list[float]) -> list[float]:
    """Holm's correction for as many tests as there are p-values (Scand. J. Stat. 6, 1979), in the order given."""
    adjusted, reached = [0.0] * len(p_values), 0.0
    for rank, position in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        reached = max(reached, min(1.0, (len(p_values) - rank) * p_values[position]))
        adjusted[position] = reached
    return adjusted


def _joint_memory(base: Floats, new: Floats) -> float:
    """The variance of the difference is that of both samples: each memory counts by the other's runs."""
    both = (memory_of(base) * len(new) + memory_of(new) * len(base)) / (len(base) + len(new))
    return max(1.0, min(float(both), _LARGEST_MEMORY * min(len(base), len(new))))


def _left_out(base_runs: int, new_runs: int, memory: float, tail: float) -> int:
    """How many of the ordered ratios lie outside of the interval at each end: as many pairs as the test rejects at most."""
    rejected, kept = 0, (base_runs * new_runs + 1) // 2
    while kept - rejected > 1:
        middle = (rejected + kept) // 2
        if _chance_of_at_most(middle, base_runs, new_runs, memory) <= tail:
            rejected = middle
        else:
            kept = middle
    return rejected


def _chance_of_at_most(pairs: int, base_runs: int, new_runs: int, memory: float) -> float:
    """That of all pairs of times no more than `pairs` are the other way round, if both samples are alike."""
    every = base_runs * new_runs
    if memory == 1.0 and every <= _LARGEST_EXACT:
        return float(_distribution(min(base_runs, new_runs), max(base_runs, new_runs))[min(pairs, every)])
    deviation = math.sqrt(memory * every * (base_runs + new_runs + 1) / 12)
    return math.erfc((every / 2 - pairs - 0.5) / (deviation * math.sqrt(2))) / 2


@lru_cache(maxsize=256)
def _distribution(fewer: int, more: int) -> Floats:
    """Cumulative, of the number of pairs the other way round, shape (fewer * more + 1,).

    The orders with k such pairs are the coefficients of the Gaussian binomial: the product of (1 - x^(more + i)) / (1 - x^i).
    """
    orders = np.zeros(fewer * more + 1)
    orders[0] = 1
    for i in range(1, fewer + 1):
        orders[more + i :] -= orders[: -(more + i)].copy()
        for start in range(i):
            orders[start::i] = np.cumsum(orders[start::i])
    cumulative: Floats = np.cumsum(orders) / orders.sum()
    return cumulative
