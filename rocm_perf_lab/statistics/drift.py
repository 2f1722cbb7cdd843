"""Drift of repeated times: the Mann-Kendall trend test and Sen's slope (`scipy.stats.kendalltau`, `theilslopes`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.statistics.bootstrap import MIN_RUNS_FOR_INTERVAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

DRIFT_P_VALUE = 0.01
_MIN_DRIFT = 0.02
_LARGEST_SERIES = 500


@dataclass(frozen=True)
class Drift:
    """Trend of times over the runs: Kendall's tau with the run number, its p-value, and Sen's slope times the runs."""

    tau: float
    p_value: float
    change: float
    """From the first run to the last, relative to the median."""

    @property
    def is_drifting(self) -> bool:
        """True if the trend is significant and at least 2 %."""
        return self.p_value < DRIFT_P_VALUE and abs(self.change) >= _MIN_DRIFT


def drift(times: NDArray[np.float64]) -> Drift | None:
    """Test for a trend over the runs, or return None for fewer than six times.

    A series of more than 500 times is reduced to the medians of 500 consecutive groups.
    """
    if len(times) < MIN_RUNS_FOR_INTERVAL:
        return None
    from scipy.stats import kendalltau, theilslopes

    if len(times) > _LARGEST_SERIES:
        times = np.array([np.median(group) for group in np.array_split(times, _LARGEST_SERIES)])
    median = float(np.median(times))
    if times.min() == times.max():
        return Drift(tau=0.0, p_value=1.0, change=0.0)
    trend = kendalltau(np.arange(len(times)), times)
    slope = float(theilslopes(times).slope)
    change = slope * (len(times) - 1) / median if median else 0.0
    return Drift(tau=float(trend.statistic), p_value=float(trend.pvalue), change=change)
