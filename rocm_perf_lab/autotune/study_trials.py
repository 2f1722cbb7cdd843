"""Trials of any Optuna study as numbers: their parameters, and their values as costs to minimise."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.study import StudyDirection
from optuna.trial import TrialState

from rocm_perf_lab.autotune.goals import weighted_objectives
from rocm_perf_lab.autotune.study_axes import Axes, axes_of
from rocm_perf_lab.autotune.trials import is_interrupted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from rocm_perf_lab.autotune.spaces.formula import Column

_MOST_AXES = 80
_LARGEST_LOG = 500.0


@dataclass(frozen=True)
class StudyTrial:
    """Trial of a study.

    Args:
        numbers: Parameter -> value as Optuna stores it.
        distributions: Parameter -> distribution.
        costs: Values to minimise: infinite if it failed; empty while it runs.
        pruned: Whether `costs` is the last intermediate value of a pruned trial.
    """

    numbers: Mapping[str, float]
    distributions: Mapping[str, BaseDistribution]
    costs: tuple[float, ...] = ()
    pruned: bool = False


class StudyReader:
    """Reader of the trials of studies, which converts each finished trial once."""

    def __init__(self) -> None:
        self._study: str | None = None
        self._finished: dict[tuple[Any, ...], StudyTrial] = {}

    def read(self, study: Study, own: int) -> tuple[list[StudyTrial], dict[int, StudyTrial]]:
        """Return the finished trials in order without interrupted ones, and the running ones by number without trial `own`."""
        if study.study_name != self._study:
            self._study, self._finished = study.study_name, {}
        signs = tuple(-1.0 if direction == StudyDirection.MAXIMIZE else 1.0 for direction in study.directions)
        finished: list[StudyTrial] = []
        running: dict[int, StudyTrial] = {}
        for trial in study.get_trials(deepcopy=False):
            if trial.state == TrialState.RUNNING and trial.number != own:
                running[trial.number] = _running(trial)
            elif trial.state.is_finished() and not is_interrupted(trial):
                key = (trial.number, trial.datetime_start)
                known = self._finished.get(key)
                if known is None:
                    known = self._finished[key] = _finished(trial, signs)
                finished.append(known)
        return finished, running


def _running(trial: FrozenTrial) -> StudyTrial:
    distributions = trial.distributions
    return StudyTrial(
        {name: float(distributions[name].to_internal_repr(value)) for name, value in trial.params.items()}, distributions
    )


def _finished(trial: FrozenTrial, signs: tuple[float, ...]) -> StudyTrial:
    values: Sequence[float | None] = (math.inf,) * len(signs)
    if trial.state == TrialState.COMPLETE and trial.values and all(limit <= 0 for limit in trial.constraints.values()):
        values = [sign * value for sign, value in zip(signs, trial.values, strict=True)]
    reached = trial.intermediate_values.get(trial.last_step) if trial.last_step is not None else None
    pruned = trial.state == TrialState.PRUNED and reached is not None and math.isfinite(reached)
    if pruned and reached is not None:
        values = [signs[0] * reached]
    started = _running(trial)
    return StudyTrial(started.numbers, started.distributions, tuple(map(float, values)), pruned)  # type: ignore[arg-type]


def axes_in(trials: Sequence[StudyTrial]) -> Axes | None:
    """Return the parameters that vary in at least two trials, the most frequent ones first if there are many; None if none do.

    A parameter whose range changes has the latest one.
    """
    counts: Counter[str] = Counter()
    distributions: dict[str, BaseDistribution] = {}
    for trial in trials:
        counts.update(trial.distributions.keys())
        distributions.update(trial.distributions)
    fewest = min(2, len(trials))
    used = {name for name, count in counts.most_common(_MOST_AXES) if count >= fewest}
    names = [name for name in distributions if name in used and not distributions[name].single()]
    return axes_of(distributions, names) if names else None


def numbers_of(trials: Sequence[Mapping[str, float]], axes: Axes) -> Column:
    """Return the numbers of trials, NaN for parameters that they lack: (trials, axes)."""
    rows = [[numbers.get(axis.name, math.nan) for axis in axes.parts] for numbers in trials]
    return np.array(rows, float).reshape(len(trials), len(axes.parts))


def times_of(trials: Sequence[StudyTrial], seed: int) -> Column:
    """Return positive times in the order of the costs of finished trials, infinite for failed ones.

    A pruned trial is as bad as its last value, and at least as the median. Several objectives are weighted at random.
    """
    width = max((len(trial.costs) for trial in trials), default=1)
    costs = np.array([trial.costs for trial in trials], float).reshape(-1, width)
    pruned = np.array([trial.pruned for trial in trials], bool)
    complete = np.isfinite(costs).all(axis=1) & ~pruned
    if pruned.any() and complete.any():
        costs[pruned] = np.maximum(costs[pruned], np.median(costs[complete], axis=0))
    able = ~(costs == math.inf).any(axis=1)
    scaled = np.column_stack([_scaled(costs[:, i], able) for i in range(width)])
    if width > 1:
        weights = np.random.default_rng([seed, len(trials)]).dirichlet(np.ones(width))
        scaled = weighted_objectives(scaled, weights)[:, None]
    return np.where(able, np.exp(np.clip(scaled[:, 0], 0.0, _LARGEST_LOG)), np.inf)


def _scaled(costs: Column, able: Column) -> Column:
    """Return costs from 0, in multiples of the distance between the smallest one and the median.

    The smallest finite cost replaces minus infinity.
    """
    finite = costs[able & np.isfinite(costs)]
    if not len(finite):
        return np.zeros(len(costs))
    largest = float(np.abs(finite).max()) or 1.0
    known = np.where(able, np.maximum(costs, finite.min()), finite.min()) / largest
    low, middle, high = float(finite.min()) / largest, float(np.median(finite / largest)), float(finite.max()) / largest
    spread = max(middle - low if middle > low else high - low, 1e-100)
    return np.asarray((known - low) / spread)
