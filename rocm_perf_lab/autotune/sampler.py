"""The search strategies as an Optuna sampler, with phases and decisions in the study: no configuration is measured twice."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.study import StudyDirection
from optuna.trial import TrialState

from rocm_perf_lab.autotune.blas import one_thread
from rocm_perf_lab.autotune.claims import ClaimingSampler, ClaimProposal
from rocm_perf_lab.autotune.classic import ClassicSearch
from rocm_perf_lab.autotune.lazy_search import LazySearch
from rocm_perf_lab.autotune.objective import SpaceExhausted
from rocm_perf_lab.autotune.search import GaussianSearch
from rocm_perf_lab.autotune.spaces.lazy_space import LazySpace
from rocm_perf_lab.autotune.spaces.shaped_space import ShapedSpace
from rocm_perf_lab.autotune.strategy import FROM_PRIOR, Observations
from rocm_perf_lab.autotune.trials import DECISION, LOST, PHASE, is_interrupted, record
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from rocm_perf_lab.autotune.claims import Key
    from rocm_perf_lab.autotune.goals import Goals
    from rocm_perf_lab.autotune.prior import Prior
    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.space import Configuration, Space
    from rocm_perf_lab.autotune.strategy import Assessment, Strategy

MODELS = ("gaussian_process", "classic")
_SPACE = "space"
_LARGEST_LOG = 700.0


class SamplerError(LabError):
    """Invalid settings of a sampler, or a study that it cannot serve."""


@dataclass(frozen=True)
class SearchReport:
    """Result of a search, as in the JSON output of the command."""

    search_space_size: int
    evaluated_configs: int
    infeasible_configs: int
    pruned_configs: int
    best_config: dict[str, Any] | None
    model: dict[str, Any]
    phases: dict[str, int]
    warning: str | None

    def as_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


class RegressionSampler(ClaimingSampler):
    """Sampler that seeds, predicts, prunes and confirms over the valid configurations of a space.

    Args:
        space: The search space.
        seed: Equal seeds and measurements lead to equal trials.
        model: `gaussian_process`, or `classic` for a polynomial of degree 2.
        seeds: Number of configurations measured before the first prediction; None: the default of the model.
        prior: Earlier results of this space (`gaussian_process` only).
        features: Further inputs of the model, one row per configuration, columns between 0 and 1.
        strategy: Search strategy in place of the one that the other arguments describe.
        slack: Factor by which a configuration must be slower than the best for the classic model to exclude it, for times with
            an error band.
        goals: Objectives other than the time, and limits.

    Raises:
        SamplerError: The model is unknown, the features have another length, or the classic model got a prior.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        model: str = MODELS[0],
        seeds: int | None = None,
        prior: Prior | None = None,
        features: Column | None = None,
        strategy: Strategy | None = None,
        slack: float = 1.0,
        goals: Goals | None = None,
    ) -> None:
        if model not in MODELS:
            raise SamplerError(f"unknown model {model!r}", where="autotune.model", hint=f"models: {', '.join(MODELS)}")
        if model == "classic" and prior is not None:
            raise SamplerError("the classic model does not use a prior", where="autotune.prior", hint=f"use model: {MODELS[0]}")
        if features is not None and features.shape[:1] != (len(space),):
            raise SamplerError(
                f"features of {len(features)} configurations for {len(space)}",
                where="autotune.features",
                hint="pass one row for every configuration of the space",
            )
        if isinstance(space, LazySpace) and (prior is not None or model == "classic"):
            user = "a prior" if prior is not None else "the classic model"
            raise SamplerError(
                f"about {len(space):.1e} configurations are too many for {user}",
                where="autotune.prior" if prior is not None else "autotune.model",
                hint="add constraints, or remove it",
            )
        super().__init__(space)
        self._fingerprint = space.fingerprint()
        self._strategy: Strategy
        if strategy is not None:
            self._strategy, model = strategy, type(strategy).__name__
        elif isinstance(space, LazySpace):
            self._strategy = LazySearch(space, seed=seed, **({} if seeds is None else {"seeds": seeds}))
        elif model == "classic":
            self._strategy = ClassicSearch(space, seed=seed, seeds=seeds, features=features, slack=slack)
        else:
            count: dict[str, int] = {} if seeds is None else {"seeds": seeds}
            self._strategy = GaussianSearch(space, seed=seed, prior=prior, features=features, **count)
        self._settings = {"model": model, "seed": seed, "prior": prior.source if prior else None, _SPACE: self._fingerprint}
        self.goals = goals
        self._seed = seed
        self._costs: dict[int, Column] = {}
        """Row -> values of the objectives to minimise, for the trials of the study."""
        self._known: dict[int, tuple[int | None, float | None]] = {}
        self._study: Study | None = None
        """Study that `_known` and the last check are about."""

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_study": None, "_known": {}}

    def propose(self, study: Study, number: int, refused: Collection[Key]) -> ClaimProposal:
        """Return the choice of the search strategy.

        Raises:
            SpaceExhausted: Nothing worth measuring is left.
            SamplerError: The study belongs to another space, or has several objectives.
        """
        self._check(study)
        rows = {self._space.index(self.parameters(key)) for key in refused}
        seen, _ = self._observe(study, number, {row for row in rows if row is not None})
        with one_thread():
            choice = self._strategy.choose(seen)
        if choice is None:
            raise SpaceExhausted(
                f"all {len(seen.rows)} configurations worth measuring are measured",
                where=f"study {study.study_name}",
                hint="lower the budget, or widen the space",
            )
        key = self._space.code_of(choice.row)
        return ClaimProposal(key, {PHASE: choice.phase, DECISION: choice.decision})

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution) -> Any:
        """Refuse a parameter that the space does not have.

        Raises:
            SamplerError: Always.
        """
        raise SamplerError(
            f"the space has no parameter {param_name!r} with these values",
            where=f"study {study.study_name}",
            hint=f"ask with space.distributions(); parameters: {', '.join(self._space.names)}",
        )

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Stop `study.optimize` when the space is exhausted."""
        super().after_trial(study, trial, state, values)
        if len(study.directions) != 1:
            return  # refused by propose
        seen, _ = self._observe(study, None, set())
        if len(seen.rows) + len(seen.pending) >= len(self._space):
            try:
                study.stop()
            except RuntimeError:
                return  # outside of study.optimize: the next ask raises SpaceExhausted

    def assess(self, study: Study) -> Assessment:
        """Return the quality of the model, its excluded configurations, and its view of the unmeasured ones.

        There is no such view if margins of the objective have no meaning: of several objectives, or of values of both signs.
        """
        seen, _ = self._observe(study, None, set())
        with self._lock, one_thread():
            found = self._strategy.assess(seen)
        return found if seen.ratios else replace(found, outlook=None)

    @property
    def knows_what_is_left(self) -> bool:
        """Return whether the search strategy may describe the unmeasured configurations: see :mod:`.remaining`."""
        return not isinstance(self._strategy, ClassicSearch | LazySearch)

    def report(self, study: Study) -> SearchReport:
        """Return the result of the search so far."""
        seen, phases = self._observe(study, None, set())
        with self._lock, one_thread():
            assessment = self._strategy.assess(seen)
        best: dict[str, Any] | None = None
        if seen.feasible.any():
            row = int(seen.rows[int(np.argmin(seen.times))])
            parameters: Configuration = self._space.complete(self._space.configuration(row))
            best = {"parameters": parameters, "runtime_ms": study.best_value}
        return SearchReport(
            len(self._space),
            len(seen.rows),
            int((~seen.feasible).sum()),
            assessment.pruned,
            best,
            {"name": assessment.name, "r2": assessment.r2, "residual_std": assessment.residual_std},
            dict(phases),
            assessment.warning,
        )

    def _check(self, study: Study) -> None:
        if self._study is study:
            return
        if len(study.directions) != 1:
            raise SamplerError(
                f"this sampler optimises one value, not {len(study.directions)}",
                where=f"study {study.study_name}",
                hint="use an Optuna sampler for several: autotune.sampler={_target_: optuna.samplers.NSGAIISampler}",
            )
        earlier = study.user_attrs.get("autotune", {}).get(_SPACE)
        if earlier is not None and earlier != self._fingerprint:
            raise SamplerError(
                "the study was started with another space",
                where=f"study {study.study_name}",
                hint="use the space that it was started with, or a new study",
            )
        study.set_user_attr("autotune", self._settings)
        self._study, self._known = study, {}

    def _observe(self, study: Study, own: int | None, refused: Collection[int]) -> tuple[Observations, Counter[str]]:
        """Return measurements and claims of all trials but `own`, and the number of trials of each phase.

        Rows in `refused` count as being measured.
        """
        rows: list[int] = []
        values: list[float] = []
        pending: set[int] = set(refused)
        proposed: set[int] = set()
        phases: Counter[str] = Counter()
        position: dict[int, int] = {}
        for trial in study.get_trials(deepcopy=False):
            if trial.number == own:
                continue
            row, value = self._result(trial, study)
            if row is None:
                continue
            if trial.user_attrs.get(DECISION, {}).get(FROM_PRIOR):
                proposed.add(row)
            if trial.state.is_finished():
                phases[trial.user_attrs.get(PHASE, "other")] += 1
            if value is None:
                pending.add(row)
            elif row in position:
                values[position[row]] = min(values[position[row]], value)
            else:
                position[row] = len(rows)
                rows.append(row)
                values.append(value)
        waiting, by_prior = (np.array(sorted(found), np.int64) for found in (pending - position.keys(), proposed))
        maximised, values_seen = self._maximised(study), np.array(values, float)
        times = as_times(values_seen, maximised=maximised)
        ratios = keeps_ratios(values_seen, maximised=maximised)
        first: Column | None = None
        if self.goals is not None and len(self.goals.goals) > 1:
            ratios, first = False, times
            none = np.full(len(self.goals.goals), np.inf)
            costs = [self._costs.get(row, none) if np.isfinite(value) else none for row, value in zip(rows, values, strict=True)]
            tasks = self._space.tasks[rows] if isinstance(self._space, ShapedSpace) else None
            times = self.goals.scores(np.array(costs).reshape(-1, len(none)), self._seed, tasks)
        return Observations(np.array(rows, np.int64), times, waiting, by_prior, ratios, first), phases

    def _maximised(self, study: Study) -> bool:
        if self.goals is not None:
            return self.goals.goals[0].maximise
        return study.direction == StudyDirection.MAXIMIZE

    def _result(self, trial: FrozenTrial, study: Study) -> tuple[int | None, float | None]:
        """Return the row of a trial (None without one) and its value to minimise: infinite if it failed, None while it runs."""
        known = self._known.get(trial.number) if self._study is study else None
        if known is not None:
            return known
        key = self.claim_of(trial)
        row = self._space.index(self.parameters(key)) if key is not None else None
        value: float | None = None
        if trial.state == TrialState.COMPLETE and trial.values:
            value = -trial.values[0] if study.direction == StudyDirection.MAXIMIZE else trial.values[0]
            if self.goals is not None and row is not None:
                (costs,) = self.goals.costs([self.goals.values(record(trial))])
                value = float(costs[0])
                self._costs[row] = costs
        elif trial.state in (TrialState.FAIL, TrialState.PRUNED):
            value = None if LOST in trial.user_attrs else math.inf
            row = None if is_interrupted(trial) else row
        if trial.state.is_finished() and self._study is study:
            self._known[trial.number] = (row, value)
        return row, value


def as_times(values: Column, *, maximised: bool = False) -> Column:
    """Return values to minimise as positive times in the same order, because search strategies model logarithms.

    Positive values stay as they are, and become their reciprocals if they were maximised (a throughput). If there are values of
    both signs, the logarithm of the result is linear in the values.

    Args:
        values: Values to minimise; infinite for failed configurations.
        maximised: The values are negated ones.
    """
    finite = values[np.isfinite(values)]
    if keeps_ratios(values, maximised=maximised):
        return np.where(np.isfinite(values), -1 / values, np.inf) if (finite < 0).any() else values
    spread = float(finite.std()) or 1.0
    logs = np.minimum((values - finite.min()) / spread, _LARGEST_LOG)
    return np.where(np.isfinite(values), np.exp(logs), np.inf)


def keeps_ratios(values: Column, *, maximised: bool = False) -> bool:
    """Return whether :func:`as_times` keeps ratios of values: they are all positive, as times or as a throughput."""
    finite = values[np.isfinite(values)]
    return bool((finite > 0).all() or (maximised and (finite < 0).all()))
