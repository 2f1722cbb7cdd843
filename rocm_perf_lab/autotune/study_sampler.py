"""Sampler for any Optuna objective: integers, real numbers and categories that the objective suggests as it runs.

:class:`.RegressionSampler` searches a space that is known and finite. Here the parameters are those that all finished trials have
in common, and candidates are drawn anew for every trial; the model is the same.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import StudyDirection
from optuna.trial import TrialState

from rocm_perf_lab.autotune.blas import one_thread
from rocm_perf_lab.autotune.pool_models import PoolModels
from rocm_perf_lab.autotune.sampler import SamplerError, as_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from rocm_perf_lab.autotune.formula import Column

_SPREAD = 1500
"""Number of candidates drawn from the whole space."""
_NEAR = 100
"""Number of candidates around each of the best trials, at each of the distances."""
_BEST = 5
_DISTANCES = (0.2, 0.05, 0.01)
_CHANGED = 0.5
"""Probability that a parameter of a candidate differs from the trial next to it."""


class StudySampler(BaseSampler):
    """Sampler with Gaussian processes and expected improvement for `suggest_int`, `suggest_float` and `suggest_categorical`.

    Values may have any sign, and are minimised or maximised. Regions in which trials fail or are pruned are avoided. Running
    trials count with their predicted value, so that parallel trials differ.

    Args:
        seed: Equal seeds and values lead to equal trials.
        seeds: Number of trials that spread over the space before the first prediction.
    """

    def __init__(self, *, seed: int = 0, seeds: int = 8) -> None:
        self._seed = seed
        self._seeds = seeds
        self._independent = RandomSampler(seed=seed)
        self._common = IntersectionSearchSpace(include_pruned=True)
        self._models: dict[tuple[Axis, ...], PoolModels] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "_models": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def reseed_rng(self) -> None:
        """Keep the seed: draws depend on the number of the trial."""

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the parameters with more than one value that all finished trials have.

        Raises:
            SamplerError: The study has several objectives.
        """
        if len(study.directions) != 1:
            raise SamplerError(
                f"this sampler optimises one value, not {len(study.directions)}",
                where=f"study {study.study_name}",
                hint="use an Optuna sampler for several, such as optuna.samplers.NSGAIISampler",
            )
        found = self._common.calculate(study)
        return {name: distribution for name, distribution in found.items() if not distribution.single()}

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> dict[str, Any]:
        """Return the values of one trial for the common parameters."""
        if not search_space:
            return {}
        axes = tuple(Axis(name, distribution) for name, distribution in search_space.items())
        known = _Known.of(study, trial.number, axes)
        random = np.random.default_rng([self._seed, trial.number])
        with self._lock, one_thread():
            chosen = self._choose(axes, known, random)
        return {axis.name: axis.value(number) for axis, number in zip(axes, chosen.tolist(), strict=True)}

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution) -> Any:
        """Draw a parameter that not all trials have at random."""
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def _choose(self, axes: tuple[Axis, ...], known: _Known, random: np.random.Generator) -> Column:
        """Return the numbers of one trial."""
        best = known.finished[np.argsort(known.times, kind="stable")[:_BEST]]
        numbers = _candidates(axes, best, random)
        taken = np.vstack([known.finished, known.running])
        fresh = ~(numbers[:, None] == taken[None]).all(axis=2).any(axis=1)
        numbers = numbers[fresh] if fresh.any() else numbers
        points, taken = _encoded(axes, numbers), _encoded(axes, taken)
        if len(known.times) < max(2, self._seeds) or np.isfinite(known.times).sum() < 2:
            return np.asarray(numbers[np.argmax(((points[:, None] - taken[None]) ** 2).sum(axis=2).min(axis=1))])
        if axes not in self._models:
            self._models[axes] = PoolModels.of(points, self._seed)
        return np.asarray(numbers[np.argmax(self._models[axes].gain(known.times, taken, points).log_gain)])


@dataclass(frozen=True)
class Axis:
    """One parameter. Its values are numbers, the positions of the choices for a category."""

    name: str
    distribution: BaseDistribution

    def drawn(self, count: int, random: np.random.Generator) -> Column:
        """Return random numbers."""
        if isinstance(self.distribution, CategoricalDistribution):
            return random.integers(len(self.distribution.choices), size=count).astype(float)
        return self._at(random.random(count))

    def near(self, numbers: Column, distance: float, random: np.random.Generator) -> Column:
        """Return numbers at about this distance from others, which is relative to the range; of categories any number."""
        if isinstance(self.distribution, CategoricalDistribution):
            return self.drawn(len(numbers), random)
        steps = distance * random.standard_normal(len(numbers))
        moved = self._at(np.clip(self.columns(numbers)[:, 0] + steps, 0, 1))
        if isinstance(self.distribution, IntDistribution):
            one = numbers + np.copysign(self.distribution.step, steps)
            moved = np.where(moved == numbers, np.clip(one, self.distribution.low, self.distribution.high), moved)
        return moved

    def columns(self, numbers: Column) -> Column:
        """Return the inputs of the model, between 0 and 1: one column, or one for each choice."""
        distribution = self.distribution
        if isinstance(distribution, CategoricalDistribution):
            return np.asarray(numbers[:, None] == np.arange(len(distribution.choices))).astype(float)
        assert isinstance(distribution, FloatDistribution | IntDistribution)
        low, high = self._limits()
        return ((np.log(numbers) if distribution.log else numbers)[:, None] - low) / (high - low)

    def value(self, number: float) -> Any:
        """Return a number as the objective receives it."""
        if isinstance(self.distribution, CategoricalDistribution):
            return self.distribution.choices[int(number)]
        return int(number) if isinstance(self.distribution, IntDistribution) else number

    def number(self, value: Any) -> float:
        """Return the inverse of :meth:`value`."""
        return float(self.distribution.to_internal_repr(value))

    def _limits(self) -> tuple[float, float]:
        assert isinstance(self.distribution, FloatDistribution | IntDistribution)
        low, high = self.distribution.low, self.distribution.high
        return (float(np.log(low)), float(np.log(high))) if self.distribution.log else (low, high)

    def _at(self, positions: Column) -> Column:
        """Return the numbers at positions between 0 and 1."""
        distribution = self.distribution
        assert isinstance(distribution, FloatDistribution | IntDistribution)
        low, high = self._limits()
        numbers = low + positions * (high - low)
        numbers = np.exp(numbers) if distribution.log else numbers
        if distribution.step is not None:
            numbers = distribution.low + np.round((numbers - distribution.low) / distribution.step) * distribution.step
        return np.clip(numbers, distribution.low, distribution.high)


@dataclass(frozen=True)
class _Known:
    """Numbers (trials, axes) of the finished and of the running trials, and the times of the finished ones."""

    finished: Column
    running: Column
    times: Column

    @classmethod
    def of(cls, study: Study, own: int, axes: Sequence[Axis]) -> _Known:
        maximised = study.direction == StudyDirection.MAXIMIZE
        finished, running, values = [], [], []
        for trial in study.get_trials(deepcopy=False):
            if trial.number == own or not all(axis.name in trial.params for axis in axes):
                continue
            numbers = [axis.number(trial.params[axis.name]) for axis in axes]
            if trial.state == TrialState.RUNNING:
                running.append(numbers)
            elif trial.state.is_finished():
                finished.append(numbers)
                ran = trial.state == TrialState.COMPLETE and trial.values
                values.append((-trial.values[0] if maximised else trial.values[0]) if ran else np.inf)
        times = as_times(np.array(values, float), maximised=maximised)
        width = len(axes)
        return cls(np.array(finished, float).reshape(-1, width), np.array(running, float).reshape(-1, width), times)


def _candidates(axes: Sequence[Axis], best: Column, random: np.random.Generator) -> Column:
    """Return numbers (candidates, axes) from the whole space and around the best trials."""
    parts = [np.column_stack([axis.drawn(_SPREAD, random) for axis in axes])]
    for distance in _DISTANCES:
        around = np.repeat(best, _NEAR, axis=0)
        moved = np.column_stack([axis.near(around[:, column], distance, random) for column, axis in enumerate(axes)])
        changed = random.random(around.shape) < _CHANGED
        changed[np.arange(len(around)), random.integers(len(axes), size=len(around))] = True
        parts.append(np.where(changed, moved, around))
    return np.vstack(parts)


def _encoded(axes: Sequence[Axis], numbers: Column) -> Column:
    return np.hstack([axis.columns(numbers[:, column]) for column, axis in enumerate(axes)])
