"""Groups of repeated times: recognises a series with two typical times instead of one.

The sorted times are divided by Otsu's criterion (the largest variance between two groups; IEEE Trans. SMC 9, 1979). They count
as two groups if Ashman's D, the distance of the means over the root mean square of the standard deviations, exceeds that
of one normal or uniform group that is divided in the middle (2.65 and 3.46) with a margin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_MIN_RUNS = 40
_MIN_SHARE = 0.1
_MIN_DISTANCE = 5.0
_MIN_DIFFERENCE = 0.05
_TRIMMED = 0.02
"""Share of the times at each end that is ignored: outliers would form a group."""


@dataclass(frozen=True)
class TimeGroup:
    """One of two groups of times: its median, and its share of the runs."""

    median_ns: float
    share: float


def time_groups(times: Floats) -> tuple[TimeGroup, ...]:
    """Return the two groups of a series of times, the shorter times first, or an empty tuple if there is a single one.

    Each group has at least 10 % of the runs, and their means differ by at least 5 %.
    """
    if len(times) < _MIN_RUNS:
        return ()
    ordered = np.sort(times)
    cut = math.ceil(len(ordered) * _TRIMMED)
    ordered = ordered[cut : len(ordered) - cut]
    count = len(ordered)
    # Differences from the first time keep the sums of squares exact.
    values = ordered - ordered[0]
    sums, squares, below = np.cumsum(values), np.cumsum(values * values), np.arange(1, count)
    low, high = sums[:-1] / below, (sums[-1] - sums[:-1]) / (count - below)
    split = int(np.argmax(below * (count - below) * (high - low) ** 2)) + 1
    share = split / count
    means = low[split - 1], high[split - 1]
    variances = (
        squares[split - 1] / split - means[0] ** 2,
        (squares[-1] - squares[split - 1]) / (count - split) - means[1] ** 2,
    )
    spread = float(np.sqrt(max(sum(variances) / 2, 0.0)))
    difference = float(means[1] - means[0])
    apart = difference > _MIN_DISTANCE * spread and difference > _MIN_DIFFERENCE * float(ordered[0] + means[0])
    if not apart or not _MIN_SHARE <= share <= 1 - _MIN_SHARE:
        return ()
    return TimeGroup(float(np.median(ordered[:split])), share), TimeGroup(float(np.median(ordered[split:])), 1 - share)
