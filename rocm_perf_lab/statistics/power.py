"""Power of the paired test: how many pairs a gain needs, and which gain a number of pairs finds.

The formulas are those of the normal approximation of Wilcoxon's signed-rank test, whose efficiency relative to the t-test is
3 / pi for normal noise and larger for noise with heavy tails, so the plan errs towards more pairs.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

POWER = 0.8
"""Power at which the smallest gain that a comparison finds is reported."""
PLANNED_POWER = 0.95
"""Power for which pairs are planned; higher than reported, since the noise is estimated and the last comparison must hold too."""
_EFFICIENCY = 3 / math.pi
_NORMAL_MEAN = math.sqrt(2 / math.pi)
"""Mean magnitude of a standard normal value."""


def noise_about_zero(log_ratios: NDArray[np.float64]) -> float:
    """Return the standard deviation of log ratios of pairs, from their mean magnitude.

    It depends on magnitudes only. Under the null hypothesis the signs are independent of them, so a plan that is based on this
    estimate does not change the error rate of the signed-rank test on the same pairs.
    """
    return float(np.abs(log_ratios).mean()) / _NORMAL_MEAN


def cautious(noise: float, pairs: int) -> float:
    """Return an estimate of noise plus its standard error, for a plan that is rarely too short."""
    return noise * (1 + math.sqrt((1 / _NORMAL_MEAN**2 - 1) / pairs))


def noise_about_median(log_ratios: NDArray[np.float64]) -> float:
    """Return the standard deviation of log ratios of pairs around their median, from the mean magnitude of the differences."""
    return noise_about_zero(log_ratios - np.median(log_ratios))


def pairs_needed(noise: float, gain: float, level: float) -> float:
    """Return the number of pairs that finds a gain with :data:`PLANNED_POWER`.

    Args:
        noise: Standard deviation of the log ratio of a pair.
        gain: Relative gain, between 0 and 1.
        level: One-sided significance level.
    """
    return (_quantiles(level, PLANNED_POWER) * noise / -math.log1p(-gain)) ** 2 / _EFFICIENCY


def smallest_gain(noise: float, pairs: int, level: float, min_improvement: float) -> float:
    """Return the smallest true gain that is accepted with :data:`POWER`: significant, and estimated above `min_improvement`.

    Args:
        noise: Standard deviation of the log ratio of a pair.
        pairs: Number of pairs.
        level: One-sided significance level.
        min_improvement: Least estimate that is accepted.
    """
    spread = noise / math.sqrt(_EFFICIENCY * pairs)
    significant = _quantiles(level, POWER) * spread
    large_enough = -math.log1p(-min_improvement) + NormalDist().inv_cdf(POWER) * spread
    return -math.expm1(-max(significant, large_enough))


def _quantiles(level: float, power: float) -> float:
    return NormalDist().inv_cdf(1 - level) + NormalDist().inv_cdf(power)
