"""Interface of search strategies: observations in, the next configuration and an assessment of the model out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.remaining import Outlook, WorkloadOutlook
    from rocm_perf_lab.autotune.spaces.formula import Column

LOW_CONFIDENCE = 0.75
"""R² below which predictions exclude no configuration."""
WARNING = "low_model_confidence"
FROM_PRIOR = "from_prior"
"""Key in the decision of configurations that the prior proposed."""


@dataclass(frozen=True)
class Observations:
    """Measurements so far.

    Args:
        rows: Rows of the measured configurations.
        times: Their times in ms, infinite if failed.
        pending: Rows that are being measured.
        proposed: Rows among these that a prior proposed.
        ratios: Whether ratios of times are ratios of the objective's values, so that a margin of 2 % has a meaning.
        first: The times of the first of several objectives, of which `times` are a random weighting; None for one objective.
    """

    rows: Column
    times: Column
    pending: Column = field(default_factory=lambda: np.zeros(0, np.int64))
    proposed: Column = field(default_factory=lambda: np.zeros(0, np.int64))
    ratios: bool = True
    first: Column | None = None

    @property
    def feasible(self) -> Column:
        """Mask of the measured rows that ran."""
        return np.isfinite(self.times)

    @property
    def tried(self) -> Column:
        """Mask of the measured rows that a prior proposed."""
        return np.isin(self.rows, self.proposed)

    @property
    def led(self) -> Column:
        """Mask of the measured rows that were faster than all before them."""
        return self.times < np.minimum.accumulate(np.append(np.inf, self.times))[:-1]

    def open(self, count: int) -> Column:
        """Return a mask of the free ones among `count` configurations."""
        free = np.ones(count, bool)
        free[self.rows] = False
        free[self.pending] = False
        return free


@dataclass(frozen=True)
class StrategyChoice:
    """Next configuration, its phase of the search, and the reason as plain data."""

    row: int
    phase: str
    decision: dict[str, Any]


@dataclass(frozen=True)
class Assessment:
    """Quality of a model, and the configurations that it rules out.

    Args:
        name: Name of the model.
        r2: Cross-validated R² of the model; None for fewer than three measurements.
        residual_std: Standard deviation of the residuals, in the unit of the model (default model: logarithm of time).
        pruned_rows: Rows that the strategy will not measure; empty under low confidence.
        outlook: What is left to find, for models that describe it.
    """

    name: str
    r2: float | None
    residual_std: float | None
    pruned_rows: Column = field(default_factory=lambda: np.zeros(0, np.int64))
    outlook: Outlook | WorkloadOutlook | None = None

    @property
    def pruned(self) -> int:
        """Number of pruned rows."""
        return len(self.pruned_rows)

    @property
    def warning(self) -> str | None:
        """`low_model_confidence`, or None."""
        return WARNING if self.r2 is None or self.r2 < LOW_CONFIDENCE else None


@runtime_checkable
class Strategy(Protocol):
    """Interface of a search strategy. Equal observations and seeds return equal choices."""

    def choose(self, seen: Observations) -> StrategyChoice | None:
        """Return the next configuration, or None to end the search."""
        ...

    def assess(self, seen: Observations) -> Assessment:
        """Return the quality of the model."""
        ...
