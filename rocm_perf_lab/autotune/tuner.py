"""One search from its first trial to its result: budget, end, and what is known when it has ended.

Knows neither kernels nor commands nor where a study is kept; an objective measures, a study holds the trials.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.ask_tell import search
from rocm_perf_lab.autotune.objective import Infeasible, Repeatable
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.trials import measured, record, records, release_running
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.statistics.racing import race

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import optuna
    from optuna.trial import FrozenTrial

    from rocm_perf_lab.autotune.objective import Objective
    from rocm_perf_lab.autotune.space import Space
    from rocm_perf_lab.autotune.trials import TrialRecord

_CONFIRMED = 8
"""Trials from which the model expects nothing, since the best was found; after them a search without a budget ends."""
_RACE = "race"
_HOPELESS = 50
"""Trials that all fail, before one has run, after which a search gives up."""

USED_UP = "the budget is used up"
EXHAUSTED = "nothing is left that is worth measuring"
SETTLED = "the model expects no improvement"
INTERRUPT = "interrupted"


class NoFeasibleTrial(LabError):
    """No configuration that was tried could be measured."""


@dataclass(frozen=True)
class Tuned:
    """What a search has found.

    Args:
        trials: Those that measured a configuration or failed on it.
        best: The fastest; None where nothing ran.
        pruned_rows: Configurations of the space that the model rules out, without measuring them.
        model: Name, cross-validated R² and standard deviation of the residuals; None for other samplers.
        warning: `low_model_confidence`, or None.
        stop_reason: Why it ended.
        importances: Parameter -> share of the variation of times; empty where there are too few trials.
        race: How configurations that were too close to call were decided; None where there was nothing to decide.
    """

    space_size: int
    trials: tuple[TrialRecord, ...]
    best: TrialRecord | None
    pruned_rows: tuple[int, ...]
    model: dict[str, Any] | None
    warning: str | None
    stop_reason: str
    importances: dict[str, float] = field(default_factory=dict)
    race: dict[str, Any] | None = None

    @property
    def pruned(self) -> int:
        """How many configurations the model rules out."""
        return len(self.pruned_rows)

    @property
    def failures(self) -> tuple[TrialRecord, ...]:
        """Trials whose configuration cannot run, or computes something wrong."""
        return tuple(trial for trial in self.trials if trial.runtime_ms is None)

    @property
    def phases(self) -> dict[str, int]:
        """Phase -> its number of trials."""
        return dict(Counter(trial.phase for trial in self.trials))


@dataclass
class Tuner:
    """Searches a space.

    Args:
        study: With its sampler.
        space: What is searched.
        objective: Measures one configuration.
        budget: Configurations in all, those of earlier runs of the study included; None: all that are worth it.
        told: Called with every trial that has ended.
        max_races: Further rounds for configurations that are too close to call.
        exclusive: Nobody else uses the study: what is still running in it belongs to a process that is gone.
    """

    study: optuna.Study
    space: Space
    objective: Objective
    budget: int | None = None
    told: Callable[[TrialRecord], None] = lambda _: None
    max_races: int = 0
    exclusive: bool = True
    stop_reason: str = EXHAUSTED

    def run(self) -> None:
        """Search until the budget is used up, or nothing is left that is worth measuring.

        Raises:
            NoFeasibleTrial: Every configuration failed.
        """
        if self.exclusive:
            release_running(self.study)
        known = records(self.study, self.space)
        left = (self.budget if self.budget is not None else len(self.space)) - len(known)
        end = End(self.budget is None, known)

        def told(trial: FrozenTrial) -> bool:
            latest = record(trial)
            self.told(latest)
            return end.reached(latest) or self._used_up()

        self.stop_reason = INTERRUPT
        search(self.study, self.space, self.objective, left, told=told)
        self.stop_reason = EXHAUSTED
        if end.settled:
            self.stop_reason = SETTLED
        elif self._used_up():
            self.stop_reason = USED_UP
        require_a_result(self.study, self.space)
        if isinstance(self.objective, Repeatable) and not self.objective.deterministic:
            self._race(self.objective)

    def _used_up(self) -> bool:
        """Others may share the study: what they measure counts as well."""
        return self.budget is not None and measured(self.study) >= self.budget

    def _race(self, objective: Repeatable) -> None:
        """Decide between the fastest, and keep how in the study: what a trial was told cannot change any more."""
        ran = {trial.number: trial for trial in records(self.study, self.space) if trial.details.get("times_ms")}

        def sample(number: int) -> Sequence[float] | None:
            trial = ran[number]
            times = objective.sample(self.space.complete(trial.parameters), trial.details["runs"])
            return None if isinstance(times, Infeasible) else times

        times = {number: trial.details["times_ms"] for number, trial in ran.items()}
        found = race(times, sample, max_rounds=self.max_races)
        self.study.set_user_attr(_RACE, found.as_json() if found is not None else None)

    def result(self) -> Tuned:
        """What has been found so far; also after an interrupt."""
        return outcome(self.study, self.space, self.stop_reason)


def outcome(study: optuna.Study, space: Space, stop_reason: str) -> Tuned:
    """What a study has found so far."""
    trials = tuple(records(study, space))
    ran = [trial for trial in trials if trial.runtime_ms is not None]
    best = min(ran, key=lambda trial: trial.runtime_ms or 0.0, default=None)
    decided = study.user_attrs.get(_RACE)
    if decided is not None:
        winner = decided["standings"][0]
        raced = next(trial for trial in ran if trial.number == winner["trial"])
        best = replace(raced, runtime_ms=winner["median_ms"])
    rows: tuple[int, ...] = ()
    model, warning = None, None
    if isinstance(study.sampler, RegressionSampler):
        report = study.sampler.report(study)
        rows = tuple(study.sampler.pruned_rows(study).tolist())
        model, warning = report.model, report.warning
    return Tuned(len(space), trials, best, rows, model, warning, stop_reason, importances(study, len(ran)), decided)


def require_a_result(study: optuna.Study, space: Space) -> None:
    """Refuse a study in which nothing ran.

    Raises:
        NoFeasibleTrial: With the commonest reasons.
    """
    trials = records(study, space)
    if any(trial.runtime_ms is not None for trial in trials):
        return
    reasons = Counter(trial.reason or "" for trial in trials).most_common(3)
    listed = "\n".join(f"  {count} x {reason}" for reason, count in reasons)
    raise NoFeasibleTrial(
        f"all {len(trials)} configurations that were tried failed:\n{listed}",
        where=space.where,
        hint="run one configuration by hand; the space, the kernel or the command is wrong",
    )


class End:
    """When a search ends before its budget does."""

    def __init__(self, unlimited: bool, known: list[TrialRecord]) -> None:
        self._unlimited = unlimited
        self._confirmed = self._failed = 0
        self._best_ms = math.inf
        for trial in known:
            self.reached(trial)

    @property
    def settled(self) -> bool:
        """Whether the model has nothing more to gain."""
        return self._unlimited and self._confirmed >= _CONFIRMED

    def reached(self, trial: TrialRecord) -> bool:
        """Whether a trial was the last."""
        self._failed += trial.runtime_ms is None
        if trial.runtime_ms is not None and trial.runtime_ms < self._best_ms:
            self._best_ms = trial.runtime_ms
            self._confirmed = 0
        elif trial.phase == "confirmation" and "expected_improvement" in trial.decision:
            self._confirmed += 1
        return self.settled or (self._best_ms == math.inf and self._failed >= _HOPELESS)


def importances(study: optuna.Study, ran: int) -> dict[str, float]:
    """How much each parameter decides (`optuna.importance`), largest first; empty below ten trials or for equal times."""
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    values = [trial.value for trial in study.get_trials(deepcopy=False) if trial.values]
    if ran < 10 or len(set(values)) < 2:
        return {}
    return dict(get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()))
