"""Bootstrap distribution and confidence interval of a median.

`scipy.stats.bootstrap` draws every element of every resample, which takes minutes for a million times. The median of a resample
is an order statistic, so drawing the quantile of that order statistic suffices, whatever the length of the sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CONFIDENCE = 0.95
MIN_RUNS_FOR_INTERVAL = 6
"""The smallest n for which the range of the sample contains the median with 95 % confidence: 1 - 2 ** (1 - n)."""

_RESAMPLES = 4000
_SEED = 20250101


def median_interval(times: Floats, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Return the percentile bootstrap interval of the median, or None for fewer than six times."""
    if len(times) < MIN_RUNS_FOR_INTERVAL:
        return None
    low, high = np.quantile(bootstrap_medians(times), [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def bootstrap_medians(times: Floats, *, stream: int = 0) -> Floats:
    """Return the medians of 4000 resamples with replacement, shape (4000,).

    The k-th smallest of n uniform draws has a beta distribution, and the k-th smallest value of a resample is the value of
    the sample at that quantile.

    Args:
        times: The sample.
        stream: Random stream. Samples that are compared use different streams, so that their resamples are independent.
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


def _positions(quantile: Floats, count: int) -> NDArray[np.int64]:
    return np.minimum((quantile * count).astype(np.int64), count - 1)
