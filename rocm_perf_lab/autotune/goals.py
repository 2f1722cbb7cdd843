"""Objectives other than time: expressions over the facts of a trial, several at once, and limits.

An expression reads the time (`runtime_ms`), numbers among the trial's details (registers, LDS, occupancy, `compile_s`,
`energy_mj`, printed metrics), parameters, and derived values of the space. Several objectives are searched by a new random
weighting for every trial (Knowles: ParEGO, 2006).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.expressions import evaluate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.space import Space
    from rocm_perf_lab.autotune.trials import TrialRecord

RUNTIME = "runtime_ms"
COMPILE = "compile_s"
ENERGY = "energy_mj"
_SUM = 0.05
"""Share of the weighted sum in a score, besides the weighted maximum, which alone does not prefer one of two equal maxima."""


class GoalError(LabError):
    """Objective or limit that cannot be evaluated."""


@dataclass(frozen=True)
class Goal:
    """Expression to minimise, or to maximise."""

    metric: str
    maximise: bool = False

    def __str__(self) -> str:
        return f"{'maximise' if self.maximise else 'minimise'} {self.metric}"


@dataclass(frozen=True)
class FrontMember:
    """Trial that no other trial beats in all objectives, with the value of each."""

    trial: TrialRecord
    values: tuple[float, ...]


@dataclass(frozen=True)
class Goals:
    """Objectives and limits of a search.

    Args:
        goals: The objectives, the first of which selects the best configuration.
        limits: Expressions that hold for valid trials: `vgpr <= 128`.
        constants: Further names, such as parameters of the kernel.
        space: The search space, whose fixed and derived values expressions may read.
    """

    goals: tuple[Goal, ...] = (Goal(RUNTIME),)
    limits: tuple[str, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)
    space: Space | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """All expressions."""
        return (*(goal.metric for goal in self.goals), *self.limits)

    @property
    def is_time(self) -> bool:
        """Return whether the time is the only objective, so that there are limits alone."""
        return self.goals == (Goal(RUNTIME),)

    @property
    def timed_compilation(self) -> bool:
        """Return whether an expression reads the compile time."""
        return self._reads(COMPILE)

    @property
    def reads_energy(self) -> bool:
        """Return whether an expression reads the energy of a dispatch."""
        return self._reads(ENERGY)

    def _reads(self, name: str) -> bool:
        return any(re.search(rf"\b{name}\b", text) for text in self.texts)

    def values(self, trial: TrialRecord) -> tuple[float, ...] | None:
        """Return the values of the objectives; None for a trial that failed or exceeds a limit.

        Raises:
            GoalError: An expression has no number as its value.
            ExpressionError: An expression reads an unknown name.
        """
        if trial.runtime_ms is None:
            return None
        numbers = {name: value for name, value in trial.details.items() if isinstance(value, int | float)}
        parameters = trial.parameters if self.space is None else self.space.complete(trial.parameters)
        names = {**self.constants, **numbers, **parameters, RUNTIME: trial.runtime_ms}
        if not all(evaluate(text, names, where="autotune.limits") for text in self.limits):
            return None
        found = tuple(evaluate(goal.metric, names, where="autotune.objectives") for goal in self.goals)
        for goal, value in zip(self.goals, found, strict=True):
            if not isinstance(value, int | float) or not np.isfinite(value):
                raise GoalError(
                    f"{goal.metric} is {value!r}", where="autotune.objectives", hint="an objective is a finite number"
                )
        return tuple(float(value) for value in found)

    def costs(self, values: Sequence[tuple[float, ...] | None]) -> Column:
        """Return values to minimise, infinite for missing ones: (trials, objectives)."""
        signs = np.array([-1.0 if goal.maximise else 1.0 for goal in self.goals])
        return np.array([signs * one if one is not None else np.full(len(signs), np.inf) for one in values]).reshape(
            -1, len(signs)
        )

    def scores(self, costs: Column, seed: int, tasks: Column | None = None) -> Column:
        """Return one positive number to minimise per trial, by a random weighting of several objectives.

        Args:
            costs: Values to minimise: (trials, objectives).
            seed: Seed of the weighting.
            tasks: Shape of each trial, if objectives are compared among the trials of one shape only.
        """
        able = np.isfinite(costs).all(axis=1)
        scores = np.full(len(costs), np.inf)
        weights = np.random.default_rng([seed, 9, len(costs)]).dirichlet(np.ones(costs.shape[1]))
        groups = np.zeros(len(costs), np.int64) if tasks is None else tasks
        for group in np.unique(groups[able]):
            own = able & (groups == group)
            scores[own] = np.exp(weighted_objectives(_scaled(costs[own]), weights))
        return scores

    def front(self, trials: Sequence[TrialRecord]) -> tuple[FrontMember, ...]:
        """Return the trials that no other beats in all objectives, best of the first objective first."""
        known = [(trial, values) for trial in trials if (values := self.values(trial)) is not None]
        costs = self.costs([values for _, values in known])
        kept: list[int] = []
        for place in np.lexsort(costs.T[::-1]).tolist():
            if not any((costs[other] <= costs[place]).all() for other in kept):
                kept.append(place)
        return tuple(FrontMember(*known[place]) for place in kept)


def weighted_objectives(costs: Column, weights: Column) -> Column:
    """Return one number to minimise per trial, the augmented maximum of its weighted costs: (trials, objectives)."""
    weighted = weights * costs
    return np.asarray(weighted.max(axis=1) + _SUM * weighted.sum(axis=1))


def _scaled(costs: Column) -> Column:
    """Return each objective scaled to 0 to 1, by its logarithm if all values are positive."""
    positive = (costs > 0).all(axis=0)
    known = np.where(positive, np.log(np.where(positive, costs, 1.0)), costs)
    spread = np.ptp(known, axis=0)
    return np.asarray((known - known.min(axis=0)) / np.where(spread > 0, spread, 1.0))
