"""Selected configurations of a workload, from the trials of a search of its joint space."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.portfolio import select
from rocm_perf_lab.autotune.shapes import SHAPE, normalised

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.autotune.goals import FrontMember, Goals
    from rocm_perf_lab.autotune.shapes import WorkloadShape
    from rocm_perf_lab.autotune.spaces.shaped_space import ShapedSpace
    from rocm_perf_lab.autotune.spaces.space import Configuration
    from rocm_perf_lab.autotune.trials import TrialRecord
    from rocm_perf_lab.statistics.racing import RaceResult


@dataclass(frozen=True)
class ValuedTrial:
    """Trial that ran, with the value of the objective: the time in ms, or another metric."""

    trial: TrialRecord
    value: float


@dataclass(frozen=True)
class TunedShape:
    """Result of one shape; see :class:`.shapes_document.ShapeResult`."""

    shape: WorkloadShape
    weight: float
    evaluated: int
    configuration: int | None
    chosen: ValuedTrial | None
    best: ValuedTrial | None
    first_ms: float | None
    front: tuple[FrontMember, ...] = ()
    """Trials of the shape that no other beats in all of several objectives."""

    @property
    def regret(self) -> float | None:
        """Share of the best measured value that the selected configuration loses; for times, its slowdown."""
        return None if self.chosen is None or self.best is None else _loss(self.chosen.value, self.best.value)


@dataclass(frozen=True)
class TunedWorkload:
    """Selected configurations, and the result of each shape."""

    configurations: tuple[Configuration, ...]
    shapes: tuple[TunedShape, ...]

    @property
    def weighted_regret(self) -> float | None:
        """Weighted mean regret of the shapes that have a configuration."""
        known = [(one.weight, one.regret) for one in self.shapes if one.regret is not None]
        total = sum(weight for weight, _ in known)
        return sum(weight * regret for weight, regret in known) / total if known else None


def tuned_workload(
    space: ShapedSpace,
    trials: Sequence[TrialRecord],
    most: int | None,
    goals: Goals | None = None,
    races: Mapping[str, RaceResult] | None = None,
) -> TunedWorkload:
    """Select at most `most` configurations by the measured values of the trials that exceed no limit.

    Args:
        space: The joint space.
        trials: Trials of the search.
        most: Largest number of configurations; None: one per shape.
        goals: The objective and limits; None: the time alone.
        races: Label of a shape -> the race of its fastest trials, whose times replace those of the trials.
    """
    sign = -1.0 if goals is not None and goals.goals[0].maximise else 1.0
    by_shape: dict[str, list[TrialRecord]] = {shape.label: [] for shape in space.shapes}
    for trial in trials:
        if space.index(trial.parameters) is not None:
            by_shape[trial.parameters[SHAPE]].append(trial)
    lost = np.full(space.table.shape, np.inf)
    ran: list[dict[int, ValuedTrial]] = []
    """Of each shape: configuration -> its best trial."""
    best: list[ValuedTrial | None] = []
    for task, shape in enumerate(space.shapes):
        race = (races or {}).get(shape.label)
        own = _valued(by_shape[shape.label], goals, race)
        own.sort(key=partial(_order, sign, race.winner.trial if race is not None else None))
        best.append(own[0] if own else None)
        columns: dict[int, ValuedTrial] = {}
        for one in own:
            row = space.index(one.trial.parameters)
            assert row is not None
            columns.setdefault(int(space.configurations[row]), one)
        ran.append(columns)
        for column, one in columns.items():
            lost[task, column] = _loss(one.value, own[0].value)
    used = np.flatnonzero(np.isfinite(lost).any(axis=0))
    weights = normalised(space.shapes)
    chosen = select(1 + lost[:, used], weights, most or len(space.shapes))
    shapes = []
    for task, (shape, weight) in enumerate(zip(space.shapes, weights, strict=True)):
        column, own_trials = chosen.choice[task], by_shape[shape.label]
        shapes.append(
            TunedShape(
                shape,
                weight,
                len(own_trials),
                chosen.columns.index(column) if column >= 0 else None,
                ran[task][int(used[column])] if column >= 0 else None,
                best[task],
                own_trials[0].runtime_ms if own_trials else None,
                goals.front(own_trials) if goals is not None and len(goals.goals) > 1 else (),
            )
        )
    return TunedWorkload(tuple(_configuration(space, int(used[column])) for column in chosen.columns), tuple(shapes))


def _order(sign: float, winner: int | None, one: ValuedTrial) -> tuple[float, bool, int]:
    return sign * one.value, one.trial.number != winner, one.trial.number


def _valued(trials: Sequence[TrialRecord], goals: Goals | None, race: RaceResult | None) -> list[ValuedTrial]:
    """Return the trials that ran and exceed no limit, with their values.

    Contenders of a race have the times of the race. None is better than its winner, which is decided round by round: clocks
    drift, so the medians of other rounds or of times before the race may be smaller.
    """
    raced = {standing.trial: standing for standing in race.standings} if race is not None else {}
    least = race.winner.median_ms if race is not None else -math.inf
    found = []
    for trial in trials:
        values = (trial.runtime_ms,) if goals is None else goals.values(trial)
        standing = raced.get(trial.number)
        if values is None or values[0] is None or (standing is not None and standing.outcome == "failed"):
            continue
        if standing is not None:
            found.append(ValuedTrial(replace(trial, runtime_ms=standing.median_ms), max(standing.median_ms, least)))
        else:
            found.append(ValuedTrial(trial, max(values[0], least)))
    return found


def _loss(value: float, best: float) -> float:
    """Return the difference to the best value, relative to it unless it is 0."""
    difference = abs(value - best)
    return difference / abs(best) if best != 0 and math.isfinite(difference / abs(best)) else difference


def _configuration(space: ShapedSpace, column: int) -> Configuration:
    rows = space.table[:, column]
    found = space.configuration(int(rows[rows >= 0][0]))
    return {name: value for name, value in found.items() if name != SHAPE}
