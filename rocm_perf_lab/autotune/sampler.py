"""The search strategies as an Optuna sampler: phases and decisions are stored in the study, and nothing is measured twice."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.study import StudyDirection
from optuna.trial import TrialState

from rocm_perf_lab.autotune.blas import one_thread
from rocm_perf_lab.autotune.claims import ClaimingSampler, ClaimProposal
from rocm_perf_lab.autotune.classic import ClassicSearch
from rocm_perf_lab.autotune.objective import SpaceExhausted
from rocm_perf_lab.autotune.search import GaussianSearch
from rocm_perf_lab.autotune.strategy import FROM_PRIOR, Observations
from rocm_perf_lab.autotune.trials import DECISION, PHASE, is_interrupted
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from rocm_perf_lab.autotune.claims import Key
    from rocm_perf_lab.autotune.formula import Column
    from rocm_perf_lab.autotune.prior import Prior
    from rocm_perf_lab.autotune.space import Configuration, Space
    from rocm_perf_lab.autotune.strategy import Strategy

MODELS = ("gaussian_process", "classic")
_SPACE = "space"


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
        slack: Factor by which a configuration must be slower than the best to be ruled out, for times with an error band.

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
        super().__init__(space)
        self._fingerprint = space.fingerprint()
        self._strategy: Strategy
        if strategy is not None:
            self._strategy, model = strategy, type(strategy).__name__
        elif model == "classic":
            self._strategy = ClassicSearch(space, seed=seed, seeds=seeds, features=features, slack=slack)
        else:
            count: dict[str, int] = {} if seeds is None else {"seeds": seeds}
            self._strategy = GaussianSearch(space, seed=seed, prior=prior, features=features, slack=slack, **count)
        self._settings = {"model": model, "seed": seed, "prior": prior.source if prior else None, _SPACE: self._fingerprint}
        self._known: dict[int, tuple[int | None, float | None]] = {}
        self._study: Study | None = None
        """Study that `_known` and the last check are about."""

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_study": None, "_known": {}}

    def propose(self, study: Study, number: int, refused: Collection[Key]) -> ClaimProposal:
        """Return the choice of the search strategy.

        Raises:
            SpaceExhausted: Nothing worth measuring is left.
            SamplerError: The study belongs to another space, or maximises.
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
        key = tuple(self._space.codes[choice.row].tolist())
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
        seen, _ = self._observe(study, None, set())
        if len(seen.rows) + len(seen.pending) >= len(self._space):
            try:
                study.stop()
            except RuntimeError:
                return  # outside of study.optimize: the next ask raises SpaceExhausted

    def pruned_rows(self, study: Study) -> Column:
        """Return the rows of configurations that the model rules out without measuring them."""
        seen, _ = self._observe(study, None, set())
        with self._lock:
            return self._strategy.assess(seen).pruned_rows

    def report(self, study: Study) -> SearchReport:
        """Return the result of the search so far."""
        seen, phases = self._observe(study, None, set())
        with self._lock, one_thread():
            assessment = self._strategy.assess(seen)
        best: dict[str, Any] | None = None
        if seen.feasible.any():
            row = int(seen.rows[int(np.argmin(seen.times))])
            parameters: Configuration = self._space.complete(self._space.configuration(row))
            best = {"parameters": parameters, "runtime_ms": float(seen.times.min())}
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
        if study.directions != [StudyDirection.MINIMIZE]:
            raise SamplerError("this sampler minimises one time", where=f"study {study.study_name}", hint="direction: minimize")
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
        times: list[float] = []
        pending: set[int] = set(refused)
        proposed: set[int] = set()
        phases: Counter[str] = Counter()
        position: dict[int, int] = {}
        for trial in study.get_trials(deepcopy=False):
            if trial.number == own:
                continue
            row, time = self._result(trial, study)
            if row is None:
                continue
            if trial.user_attrs.get(DECISION, {}).get(FROM_PRIOR):
                proposed.add(row)
            if trial.state.is_finished():
                phases[trial.user_attrs.get(PHASE, "other")] += 1
            if time is None:
                pending.add(row)
            elif row in position:
                times[position[row]] = min(times[position[row]], time)
            else:
                position[row] = len(rows)
                rows.append(row)
                times.append(time)
        waiting, by_prior = (np.array(sorted(found), np.int64) for found in (pending - position.keys(), proposed))
        return Observations(np.array(rows, np.int64), np.array(times, float), waiting, by_prior), phases

    def _result(self, trial: FrozenTrial, study: Study) -> tuple[int | None, float | None]:
        """Return the row of a trial (None without one) and its time: infinite if it failed, None while it runs."""
        known = self._known.get(trial.number) if self._study is study else None
        if known is not None:
            return known
        key = self.claim_of(trial)
        row = self._space.index(self.parameters(key)) if key is not None else None
        time: float | None = None
        if trial.state == TrialState.COMPLETE and trial.values:
            time = trial.values[0] if trial.values[0] > 0 else math.inf
        elif trial.state in (TrialState.FAIL, TrialState.PRUNED):
            time = math.inf
            row = None if is_interrupted(trial) else row
        if trial.state.is_finished() and self._study is study:
            self._known[trial.number] = (row, time)
        return row, time
