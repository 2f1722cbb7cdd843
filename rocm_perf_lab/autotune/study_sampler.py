"""Sampler for any Optuna objective: integers, real numbers and categories that the objective suggests as it runs.

:class:`.RegressionSampler` searches a space that is known and finite. Here the parameters are those that trials have had, and
candidates are drawn anew for every trial; the model is the same. If trials have different parameters, a candidate has those of
the most similar trial.
"""

from __future__ import annotations

import threading
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.samplers import BaseSampler

from rocm_perf_lab.autotune.blas import one_thread
from rocm_perf_lab.autotune.pool_models import PoolModels
from rocm_perf_lab.autotune.search import log_expected_improvement
from rocm_perf_lab.autotune.study_axes import Axes, Axis, are_among
from rocm_perf_lab.autotune.study_trials import StudyReader, StudyTrial, axes_in, numbers_of, times_of
from rocm_perf_lab.autotune.surrogate import TUNED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, TrialState

    from rocm_perf_lab.autotune.pool_models import PoolGain
    from rocm_perf_lab.autotune.spaces.formula import Column

_SPREAD = 1500
"""Number of candidates drawn from the whole space."""
_SEED_CANDIDATES = 40
"""Number of candidates for a trial that only spreads over the space; with many, all are at its edges."""
_NEAR = 100
"""Number of candidates around each of the best trials, at each of the distances."""
_BEST = 5
_DISTANCES = (0.2, 0.05, 0.01)
_REFINED = ((0.05, 60), (0.015, 60), (0.004, 60))
"""Distance and number of candidates around each of the best candidates, in turn."""
_TUNING_COST = 600_000
"""Largest product of squared measurements and inputs for tuning hyperparameters, which bounds the time of a trial."""
_FEWEST_TUNED = 25
_MOST_SIMILAR = 200
"""Number of trials among which the most similar one is sought."""


class StudySampler(BaseSampler):
    """Sampler with Gaussian processes and expected improvement for `suggest_int`, `suggest_float` and `suggest_categorical`.

    Values may have any sign, and are minimised or maximised; several objectives are weighted anew for every trial. Regions in
    which trials fail or violate constraints (`trial.set_constraint`) are avoided. Pruned trials count with their last value.
    Running trials count with their predicted value, so that parallel trials differ.

    Args:
        seed: Equal seeds and values lead to equal trials.
        seeds: Number of trials that spread over the space before the first prediction.
        constraints_func: Returns the constraints of a finished trial, above 0 if violated, as for Optuna's samplers.
    """

    def __init__(
        self, *, seed: int = 0, seeds: int = 8, constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None
    ) -> None:
        self._seed = seed
        self._seeds = seeds
        self._constraints = constraints_func
        self._reader = StudyReader()
        self._models: dict[tuple[tuple[str, ...], int, bool], PoolModels] = {}
        self._chosen: dict[tuple[str, int], dict[str, float]] = {}
        """Study and number of a trial -> numbers that may not be stored yet."""
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "_models": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def reseed_rng(self) -> None:
        """Keep the seed: draws depend on the number of the trial."""

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the parameters with more than one value that earlier trials have."""
        with self._lock:
            finished, running = self._reader.read(study, trial.number)
        axes = axes_in(finished or list(running.values()))
        return {axis.name: axis.distribution for axis in axes.parts} if axes is not None else {}

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> dict[str, Any]:
        """Return the values of one trial."""
        if not search_space:
            return {}
        axes = Axes(tuple(Axis(name, distribution) for name, distribution in search_space.items()))
        random = np.random.default_rng([self._seed, trial.number])
        with self._lock, one_thread():
            finished, running = self._reader.read(study, trial.number)
            others = [{**self._chosen.get((study.study_name, number), {}), **one.numbers} for number, one in running.items()]
            fixed = _fixed(trial, axes)
            numbers = self._choose(axes, finished, numbers_of(others, axes), fixed, random).tolist()
            self._chosen[study.study_name, trial.number] = {a.name: n for a, n in zip(axes.parts, numbers, strict=True)}
        return {axis.name: axis.value(number) for axis, number in zip(axes.parts, numbers, strict=True)}

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution) -> Any:
        """Draw a parameter that no earlier trial has, or not with this range, at random."""
        random = np.random.default_rng([self._seed, trial.number, zlib.crc32(param_name.encode())])
        axis = Axis(param_name, param_distribution)
        return axis.value(axis.drawn(1, random).tolist()[0])

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Store the constraints of a trial."""
        self._chosen.pop((study.study_name, trial.number), None)
        if self._constraints is not None:
            from optuna.samplers._base import _process_constraints_after_trial

            _process_constraints_after_trial(self._constraints, study, trial, state)

    def _choose(
        self, axes: Axes, finished: list[StudyTrial], running: Column, fixed: Column, random: np.random.Generator
    ) -> Column:
        """Return the numbers of one trial, without absent ones.

        Args:
            axes: The parameters.
            finished: All finished trials.
            running: Numbers of the running trials (trials, axes).
            fixed: Numbers that are set, NaN for the others (axes).
            random: Source of the candidates.
        """
        known, times = numbers_of([trial.numbers for trial in finished], axes), times_of(finished, self._seed)
        has_any = ~np.isnan(known).all(axis=1)
        known, times = known[has_any], times[has_any]
        best = known[np.argsort(times, kind="stable")]
        similar = np.vstack([best[: _MOST_SIMILAR // 2], known[-_MOST_SIMILAR // 2 :]])
        pool = _Pool(axes, similar if len(similar) else running, np.vstack([known, running]), fixed, random)
        if len(times) < max(2, self._seeds) or not np.isfinite(times).any():
            numbers, candidates = pool.fresh_or_all(axes.drawn(_SEED_CANDIDATES, random))
            points, taken = axes.columns(candidates), axes.columns(pool.taken)
            if not len(taken):
                return np.asarray(numbers[0])
            return np.asarray(numbers[np.argmax(((points[:, None] - taken[None]) ** 2).sum(axis=2).min(axis=1))])
        around = [axes.near(axes.filled(np.repeat(best[:_BEST], _NEAR, axis=0), random), d, random) for d in _DISTANCES]
        numbers, candidates = pool.fresh_or_all(np.vstack([axes.drawn(_SPREAD, random), *around]))
        fails = not np.isfinite(times).all()
        counts_as_slow = fails and len(times) % 2 == 1 and bool(np.isfinite(times).mean() >= 0.25)
        if counts_as_slow:
            times, fails = np.minimum(times, times[np.isfinite(times)].max()), False
        models = self._models_of(axes, candidates, counts_as_slow=counts_as_slow)
        taken = axes.columns(pool.taken)
        found = models.gain(times, taken, axes.columns(candidates))
        gains = found.log_gain
        for distance, count in _REFINED:
            top = numbers[np.argsort(-gains, kind="stable")[:_BEST]]
            more, candidates = pool.fresh(axes.near(np.repeat(top, count, axis=0), distance, random))
            if not len(more):
                break
            gains = np.concatenate([gains, _gain(models, found, axes.columns(candidates), fails=fails)])
            numbers = np.vstack([numbers, more])
        return np.asarray(numbers[np.argmax(gains)])

    def _models_of(self, axes: Axes, candidates: Column, *, counts_as_slow: bool) -> PoolModels:
        points = axes.columns(candidates)
        key = (tuple(axis.name for axis in axes.parts), points.shape[1], counts_as_slow)
        if key not in self._models:
            tuned = int(np.clip((_TUNING_COST / points.shape[1]) ** 0.5, _FEWEST_TUNED, TUNED))
            self._models = {**dict(list(self._models.items())[-3:]), key: PoolModels.of(points, self._seed, tuned=tuned)}
        return self._models[key]


class _Pool:
    """Candidates of one trial: their numbers, and the same without parameters that they do not use."""

    def __init__(self, axes: Axes, similar: Column, taken: Column, fixed: Column, random: np.random.Generator) -> None:
        self.taken = taken
        self._axes, self._similar, self._fixed, self._random = axes, similar, fixed, random

    def fresh(self, numbers: Column) -> tuple[Column, Column]:
        """Return the candidates that are not taken."""
        numbers, candidates = self._used(numbers)
        new = ~are_among(candidates, self.taken)
        return numbers[new], candidates[new]

    def fresh_or_all(self, numbers: Column) -> tuple[Column, Column]:
        """Return the candidates that are not taken, or all if all are."""
        fresh = self.fresh(numbers)
        return fresh if len(fresh[0]) else self._used(numbers)

    def _used(self, numbers: Column) -> tuple[Column, Column]:
        numbers = np.where(np.isnan(self._fixed), numbers, self._fixed)
        return numbers, self._axes.without_unused(numbers, self._similar) if len(self._similar) else numbers


def _fixed(trial: FrozenTrial, axes: Axes) -> Column:
    """Return the numbers of the parameters that were enqueued, NaN for the others."""
    known = trial.system_attrs.get("fixed_params", {})
    found = np.full(len(axes.parts), np.nan)
    for place, axis in enumerate(axes.parts):
        with suppress(ValueError, TypeError):  # not a value of this parameter, which Optuna reports
            found[place] = axis.number(known[axis.name]) if axis.name in known else np.nan
    return found


def _gain(models: PoolModels, found: PoolGain, points: Column, *, fails: bool) -> Column:
    """Return the logarithm of the expected improvement of further candidates, as :meth:`.PoolModels.gain`."""
    predicted = models.times.model.predict(points.astype(np.float32))
    gain = log_expected_improvement(predicted.mean, predicted.deviation, float(found.targets.values.min()))
    if fails:
        models.feasibility.replace_inputs(points)
        gain = gain + models.feasibility.log_probability(np.arange(len(points)))
    return gain
