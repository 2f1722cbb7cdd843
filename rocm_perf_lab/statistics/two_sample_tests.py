"""Tests whether two independent series of times differ, and by which factor.

`rank_test` is the Mann-Whitney test (Ann. Math. Stat. 18, 1947), exact for small samples, with the Hodges-Lehmann estimate and
interval (Ann. Math. Stat. 34, 1963) of the ratio new / base. It assumes no distribution. Consecutive times are often correlated
(clocks, temperature), so the variance is multiplied by the autocorrelation time. `summary_test` is a normal approximation for
series of which only mean, spread and number are known.

The rank distribution is computed here because `scipy.stats.mannwhitneyu` returns p-values only: the interval needs quantiles
of the same distribution, and SciPy has no correction for autocorrelation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_LARGEST_EXACT = 400
"""Largest number of pairs with the exact distribution; above it the normal approximation is within 0.001."""
_MIN_RUNS_FOR_AUTOCORRELATION = 8
_MEDIAN_ERROR = math.sqrt(math.pi / 2)
"""Standard error of the median over that of the mean, for normal times."""
_ONE_SIDED_5_PERCENT = 1.645
_STRONGEST_CORRELATION = 0.99
_LARGEST_AUTOCORRELATION_TIME = 0.3
"""As a fraction of the runs, so that samples without overlap differ at 5 % whatever their correlation."""


@dataclass(frozen=True)
class RatioTest:
    """Ratio new / base, its interval, and the two-sided p-value of "the times do not differ".

    `p_value` is at most 1 - confidence exactly if `interval` excludes 1.
    """

    ratio: float
    interval: tuple[float, float]
    p_value: float
    autocorrelation_time: float = 1.0
    """Number of consecutive runs that carry as much information as one independent run; 1 if they are uncorrelated."""


@dataclass(frozen=True)
class TimeSummary:
    """Median, standard deviation (same unit) and number of times of a series."""

    median: float
    stddev: float
    runs: int


def rank_test(base: Floats, new: Floats, confidence: float) -> RatioTest:
    """Compare two series of positive times; a 95 % interval needs at least four of each."""
    inflation = _joint_autocorrelation_time(base, new)
    ratios = np.sort((new[:, None] / base[None, :]).ravel())
    pairs = len(ratios)
    shorter, longer = int(np.count_nonzero(ratios < 1)), int(np.count_nonzero(ratios > 1))
    # Equal times count against a difference, as in the interval, which then touches 1.
    against = pairs - max(shorter, longer)
    p_value = min(1.0, 2 * _chance_of_at_most(against, len(base), len(new), inflation))
    out = _left_out(len(base), len(new), inflation, (1 - confidence) / 2)
    return RatioTest(float(np.median(ratios)), (float(ratios[out]), float(ratios[pairs - 1 - out])), p_value, inflation)


def summary_test(base: TimeSummary, new: TimeSummary, confidence: float) -> RatioTest:
    """Compare two series of which only summaries are known, as if times were normally distributed and independent."""
    ratio = new.median / base.median
    errors = [_MEDIAN_ERROR * one.stddev / math.sqrt(one.runs) / one.median for one in (base, new) if one.median]
    error = ratio * math.hypot(*errors)
    half = NormalDist().inv_cdf((1 + confidence) / 2) * error
    change = ratio - 1
    p_value = math.erfc(abs(change) / (error * math.sqrt(2))) if error else float(change == 0)
    return RatioTest(ratio, (ratio - half, ratio + half), p_value)


def autocorrelation_time(times: Floats) -> float:
    """Return the integrated autocorrelation time of the ranks, in runs; 1 for independent times, or fewer than eight.

    It is the larger of two estimates: (1 + r) / (1 - r) for the correlation r of neighbours, and Geyer's sum of positive pairs
    (Statistical Science 7, 1992). A correlation r that is not significant counts as 0.
    """
    count = len(times)
    if count < _MIN_RUNS_FOR_AUTOCORRELATION:
        return 1.0
    ranks = np.argsort(np.argsort(times, kind="stable"), kind="stable") - (count - 1) / 2
    spectrum = np.fft.rfft(ranks, 2 * count)
    correlation = np.fft.irfft(spectrum * np.conj(spectrum))[:count] / float(ranks @ ranks)
    # Subtracting the mean lowers the correlation of neighbours by 1 / n.
    neighbours = float(correlation[1]) + 1 / count
    if neighbours < _ONE_SIDED_5_PERCENT / math.sqrt(count):
        return 1.0
    neighbours = min(neighbours, _STRONGEST_CORRELATION)
    in_pairs = correlation[: count // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = int(np.argmax(in_pairs <= 0)) if (in_pairs <= 0).any() else len(in_pairs)
    return max(1.0, (1 + neighbours) / (1 - neighbours), 2 * float(in_pairs[:positive].sum()) - 1)


def least_p_value(base_runs: int, new_runs: int) -> float:
    """Return the smallest p-value that two samples of this size can reach: all of one above all of the other."""
    return 2 / math.comb(base_runs + new_runs, new_runs)


def _joint_autocorrelation_time(base: Floats, new: Floats) -> float:
    """Return the autocorrelation time of the difference: that of each sample, weighted by the runs of the other."""
    both = (autocorrelation_time(base) * len(new) + autocorrelation_time(new) * len(base)) / (len(base) + len(new))
    return max(1.0, min(float(both), _LARGEST_AUTOCORRELATION_TIME * min(len(base), len(new))))


def _left_out(base_runs: int, new_runs: int, inflation: float, tail: float) -> int:
    """Return the number of ordered ratios outside the interval at each end."""
    rejected, kept = 0, (base_runs * new_runs + 1) // 2
    while kept - rejected > 1:
        middle = (rejected + kept) // 2
        if _chance_of_at_most(middle, base_runs, new_runs, inflation) <= tail:
            rejected = middle
        else:
            kept = middle
    return rejected


def _chance_of_at_most(pairs: int, base_runs: int, new_runs: int, inflation: float) -> float:
    """Return the probability that at most `pairs` of all pairs are reversed if both samples have one distribution."""
    every = base_runs * new_runs
    if inflation == 1.0 and every <= _LARGEST_EXACT:
        return float(_distribution(min(base_runs, new_runs), max(base_runs, new_runs))[min(pairs, every)])
    deviation = math.sqrt(inflation * every * (base_runs + new_runs + 1) / 12)
    return math.erfc((every / 2 - pairs - 0.5) / (deviation * math.sqrt(2))) / 2


@lru_cache(maxsize=256)
def _distribution(fewer: int, more: int) -> Floats:
    """Return the cumulative distribution of the number of reversed pairs, shape (fewer * more + 1,).

    The numbers of orders with k reversed pairs are the coefficients of the Gaussian binomial: the product of
    (1 - x^(more + i)) / (1 - x^i).
    """
    orders = np.zeros(fewer * more + 1)
    orders[0] = 1
    for i in range(1, fewer + 1):
        orders[more + i :] -= orders[: -(more + i)].copy()
        for start in range(i):
            orders[start::i] = np.cumsum(orders[start::i])
    cumulative: Floats = np.cumsum(orders) / orders.sum()
    return cumulative
