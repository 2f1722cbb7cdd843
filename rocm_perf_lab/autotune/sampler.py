"""The searches as an Optuna sampler: phases and decisions are in the study, and nothing is measured twice.

Several workers may share one study. Each writes the configuration that it wants into its trial, then looks whether
somebody else holds the same; whoever sees that takes another. Of two that want the same at least one sees the other.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.samplers import BaseSampler
from optuna.study import StudyDirection
from optuna.trial import TrialState

from rocm_perf_lab.autotune.blas import one_thread
from rocm_perf_lab.autotune.classic import ClassicSearch
from rocm_perf_lab.autotune.objective import SpaceExhausted
from rocm_perf_lab.autotune.search import GaussianSearch
from rocm_perf_lab.autotune.strategy import FROM_PRIOR, Observations
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from rocm_perf_lab.autotune.formula import Column
    from rocm_perf_lab.autotune.prior import Prior
    from rocm_perf_lab.autotune.space import Configuration, Space
    from rocm_perf_lab.autotune.strategy import Choice, Strategy

MODELS = ("gaussian_process", "classic")
_ROW = "configuration"
_SPACE = "space"


class SamplerError(LabError):
    """A study that this sampler cannot serve."""


@dataclass(frozen=True)
class Report:
    """The result of a search, as the JSON of the command states it."""

    search_space_size: int
    evaluated_configs: int
    infeasible_configs: int
    pruned_configs: int
    best_config: dict[str, Any] | None
    model: dict[str, Any]
    phases: dict[str, int]
    warning: str | None

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


class RegressionSampler(BaseSampler):
    """Seeds, predicts, prunes and confirms over the valid configurations of a space.

    Args:
        space: What to search.
        seed: Equal seeds and measurements give equal trials.
        model: `gaussian_process`, or `classic` for the polynomial of degree 2.
        seeds: Configurations that are measured before anything is predicted; None: the model's own number.
        prior: Earlier results of this space (`gaussian_process` only).
        features: What else is known of every configuration before anything runs, one row each, columns between 0 and 1.

    Raises:
        SamplerError: An unknown model, features of another length, or a prior for the classic one.
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
    ) -> None:
        if model not in MODELS:
            raise SamplerError(f"unknown model {model!r}", where="autotune.model", hint=f"models: {', '.join(MODELS)}")
        if model == "classic" and prior is not None:
            raise SamplerError("the classic model takes no prior", where="autotune.prior", hint=f"use model: {MODELS[0]}")
        if features is not None and features.shape[:1] != (len(space),):
            raise SamplerError(
                f"features of {len(features)} configurations for {len(space)}",
                where="autotune.features",
                hint="give one row for every configuration of the space",
            )
        self._space = space
        self._distributions: dict[str, BaseDistribution] = dict(space.distributions())
        self._fingerprint = space.fingerprint()
        self._strategy: Strategy
        if model == "classic":
            self._strategy = ClassicSearch(space, seed=seed, seeds=seeds, features=features)
        else:
            count = {} if seeds is None else {"seeds": seeds}
            self._strategy = GaussianSearch(space, seed=seed, prior=prior, features=features, **count)
        self._settings = {"model": model, "seed": seed, "prior": prior.source if prior else None, _SPACE: self._fingerprint}
        self._known: dict[int, tuple[int | None, float | None]] = {}
        self._study_id: int | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All parameters at once: they are not independent."""
        return self._distributions

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> dict[str, Any]:
        """The next configuration.

        Raises:
            SpaceExhausted: Nothing is left that is worth measuring.
            SamplerError: The study belongs to another space, or maximises.
        """
        self._check(study)
        refused: set[int] = set()
        while True:
            seen, _ = self._observe(study, trial.number, refused)
            with self._lock, one_thread():
                choice = self._strategy.choose(seen)
            if choice is None:
                raise SpaceExhausted(
                    f"all {len(seen.rows)} configurations that are worth measuring are measured",
                    where=f"study {study.study_name}",
                    hint="lower the budget, or widen the space",
                )
            study._storage.set_trial_user_attr(trial._trial_id, _ROW, choice.row)
            others = self._observe(study, trial.number, set())[0]
            if choice.row not in others.pending and choice.row not in others.rows:
                self._explain(study, trial, choice)
                return self._space.configuration(choice.row)
            refused.add(choice.row)

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution) -> Any:
        """A parameter that the space does not have cannot be sampled.

        Raises:
            SamplerError: Always.
        """
        raise SamplerError(
            f"the space has no parameter {param_name!r} with these values",
            where=f"study {study.study_name}",
            hint=f"ask with space.distributions(); parameters: {', '.join(self._space.names)}",
        )

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Stop `study.optimize` where the space is used up."""
        seen, _ = self._observe(study, None, set())
        if len(seen.rows) + len(seen.pending) >= len(self._space):
            try:
                study.stop()
            except RuntimeError:
                return  # asked and told by hand: the next ask says that nothing is left

    def pruned_rows(self, study: Study) -> Column:
        """Configurations that the model rules out without having measured them."""
        seen, _ = self._observe(study, None, set())
        with self._lock:
            return self._strategy.assess(seen).pruned_rows

    def report(self, study: Study) -> Report:
        """What the search has found so far."""
        seen, phases = self._observe(study, None, set())
        with self._lock, one_thread():
            assessment = self._strategy.assess(seen)
        best: dict[str, Any] | None = None
        if seen.feasible.any():
            row = int(seen.rows[int(np.argmin(seen.times))])
            parameters: Configuration = self._space.complete(self._space.configuration(row))
            best = {"parameters": parameters, "runtime_ms": float(seen.times.min())}
        return Report(
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
        if self._study_id == study._study_id:
            return
        if study.directions != [StudyDirection.MINIMIZE]:
            raise SamplerError("this sampler minimises one time", where=f"study {study.study_name}", hint="direction: minimize")
        earlier = study.user_attrs.get("autotune", {}).get(_SPACE)
        if earlier is not None and earlier != self._fingerprint:
            raise SamplerError(
                "the study was started with another space",
                where=f"study {study.study_name}",
                hint="take the space that it was started with, or a new study",
            )
        study.set_user_attr("autotune", self._settings)
        self._study_id, self._known = study._study_id, {}

    def _explain(self, study: Study, trial: FrozenTrial, choice: Choice) -> None:
        for name, value in {"phase": choice.phase, "decision": choice.decision}.items():
            study._storage.set_trial_user_attr(trial._trial_id, name, value)

    def _observe(self, study: Study, own: int | None, refused: set[int]) -> tuple[Observations, Counter[str]]:
        """Measurements and claims of all trials but our own; `refused` counts as being measured."""
        rows: list[int] = []
        times: list[float] = []
        pending: set[int] = set(refused)
        proposed: set[int] = set()
        phases: Counter[str] = Counter()
        placed: dict[int, int] = {}
        for trial in study.get_trials(deepcopy=False):
            if trial.number == own:
                continue
            row, time = self._result(trial)
            if row is None:
                continue
            if trial.user_attrs.get("decision", {}).get(FROM_PRIOR):
                proposed.add(row)
            if trial.state.is_finished():
                phases[trial.user_attrs.get("phase", "other")] += 1
            if time is None:
                pending.add(row)
            elif row in placed:
                times[placed[row]] = min(times[placed[row]], time)
            else:
                placed[row] = len(rows)
                rows.append(row)
                times.append(time)
        waiting, by_prior = (np.array(sorted(found), np.int64) for found in (pending - placed.keys(), proposed))
        return Observations(np.array(rows, np.int64), np.array(times, float), waiting, by_prior), phases

    def _result(self, trial: FrozenTrial) -> tuple[int | None, float | None]:
        """The configuration of a trial, if it is one of ours, and its time: infinite where it cannot run, None while it runs."""
        known = self._known.get(trial.number)
        if known is not None:
            return known
        row = trial.user_attrs.get(_ROW)
        parameters = trial.params or trial.system_attrs.get("fixed_params", {})
        if parameters.keys() >= self._distributions.keys():  # while a trial starts, it has some of them only
            row = self._space.index(parameters)
        time: float | None = None
        if trial.state == TrialState.COMPLETE and trial.values:
            time = trial.values[0] if trial.values[0] > 0 else math.inf
        elif trial.state == TrialState.FAIL:
            if trial.user_attrs.get("interrupted"):
                row = None
            time = math.inf
        elif trial.state == TrialState.PRUNED:
            time = math.inf
        if trial.state.is_finished():
            self._known[trial.number] = (row, time)
        return row, time
