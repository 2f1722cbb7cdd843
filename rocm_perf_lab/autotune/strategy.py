"""What a search knows, what it answers, and how far it can be trusted: shared by all ways to search a space."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.formula import Column

LOW_CONFIDENCE = 0.75
"""R² below which predictions must not exclude anything."""
WARNING = "low_model_confidence"
FROM_PRIOR = "from_prior"
"""Key of a decision: the prior proposed it."""


@dataclass(frozen=True)
class Observations:
    """What is known so far.

    Args:
        rows: Configurations that were measured.
        times: Their times; infinite where one cannot run.
        pending: Configurations that are being measured.
        proposed: Those of all these that a prior proposed.
    """

    rows: Column
    times: Column
    pending: Column = field(default_factory=lambda: np.zeros(0, np.int64))
    proposed: Column = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def feasible(self) -> Column:
        """Which of them ran."""
        return np.isfinite(self.times)

    @property
    def tried(self) -> Column:
        """Which of the measured ones a prior proposed."""
        return np.isin(self.rows, self.proposed)

    @property
    def led(self) -> Column:
        """Which of them were faster than all before them."""
        return self.times < np.minimum.accumulate(np.append(np.inf, self.times))[:-1]

    def open(self, count: int) -> Column:
        """Which of `count` configurations nobody has taken."""
        free = np.ones(count, bool)
        free[self.rows] = False
        free[self.pending] = False
        return free


@dataclass(frozen=True)
class StrategyChoice:
    """The next configuration, the phase that it belongs to, and why it was taken (plain data)."""

    row: int
    phase: str
    decision: dict[str, Any]


@dataclass(frozen=True)
class Assessment:
    """How far the model can be trusted, and what it rules out.

    Args:
        r2: Cross-validated, of what the model was fitted to; None below three measurements.
        residual_std: Of the same predictions and in the same unit (logarithm of time, for the default model).
        pruned_rows: Configurations that are neither measured nor worth it; none under low confidence.
    """

    name: str
    r2: float | None
    residual_std: float | None
    pruned_rows: Column = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def pruned(self) -> int:
        """How many are pruned."""
        return len(self.pruned_rows)

    @property
    def warning(self) -> str | None:
        """`low_model_confidence`, or nothing."""
        return WARNING if self.r2 is None or self.r2 < LOW_CONFIDENCE else None


class Strategy(Protocol):
    """One way to search a space. Equal observations and seed give equal choices."""

    def choose(self, seen: Observations) -> StrategyChoice | None:
        """The next configuration; None where the search has come to its end."""
        ...

    def assess(self, seen: Observations) -> Assessment:
        """What the model makes of the measurements."""
        ...
