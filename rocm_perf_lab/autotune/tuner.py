"""A complete search: budget, stopping condition, race, and result.

Independent of kernels, commands and storages: the objective measures, and the study stores the trials.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.ask_tell import search
from rocm_perf_lab.autotune.objective import Infeasible, Repeatable
from rocm_perf_lab.autotune.remaining import FEWEST, MARGINS
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.trials import measured, record, records, release_running
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.statistics.racing import race

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import optuna
    from optuna.trial import FrozenTrial

    from rocm_perf_lab.autotune.goals import FrontMember, Goals
    from rocm_perf_lab.autotune.objective import Objective
    from rocm_perf_lab.autotune.spaces.space import Space
    from rocm_perf_lab.autotune.trials import TrialRecord
    from rocm_perf_lab.statistics.error_bands import RatioBand
    from rocm_perf_lab.statistics.racing import RaceResult

_CONFIRMED = 8
"""Number of trials without expected improvement since the best, after which a search without a budget ends."""
_RACE = "race"
RACE_SAMPLES = 32
"""Number of measurements that a race may always have; if there are more trials, it may have as many as these."""
_HOPELESS = 50
"""Number of failed trials, before any has run, after which a search ends."""

USED_UP = "the budget is used up"
EXHAUSTED = "no configuration worth measuring is left"
SETTLED = "the model expects no improvement"
INTERRUPT = "interrupted"


class NoFeasibleTrial(LabError):
    """All tried configurations failed."""


@dataclass(frozen=True)
class TuningResult:
    """Result of a search.

    Args:
        space_size: Number of configurations of the space.
        trials: Trials that measured a configuration or failed on it.
        best: The fastest trial; None if all failed.
        pruned_rows: Rows that the classic model excluded without measuring them.
        remaining: Margin -> probability that a configuration faster by that share of the best time is left; empty without a model
            that describes it, and for too few trials.
        model: Name, cross-validated R² and standard deviation of the residuals; None for other samplers.
        warning: `low_model_confidence`, or None.
        stop_reason: Why the search ended.
        importances: Parameter -> share of the variation of times; empty for too few trials.
        race: Result of the race between configurations with nearly equal times, or None.
        band: Error band of the ratio of two emulated times; None for measured ones.
        front: Trials that no other beats in all objectives, if others than the time are given; the best one first.
        objectives: Expressions of the values of `front`.
        tied: Other trials whose emulated time is inside the error band around the best, fastest first.
        beyond_limits: Numbers of the trials that ran and exceed a limit.
        size_text: Number of configurations as text, marked if it is an estimate.
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
    band: RatioBand | None = None
    tied: tuple[TrialRecord, ...] = ()
    remaining: dict[float, float] = field(default_factory=dict)
    front: tuple[FrontMember, ...] = ()
    beyond_limits: frozenset[int] = frozenset()
    size_text: str = ""
    objectives: tuple[str, ...] = ()

    @property
    def pruned(self) -> int:
        """Number of configurations that the classic model excluded."""
        return len(self.pruned_rows)

    @property
    def failures(self) -> tuple[TrialRecord, ...]:
        """Trials whose configuration failed, or returned wrong results."""
        return tuple(trial for trial in self.trials if trial.runtime_ms is None)

    @property
    def phases(self) -> dict[str, int]:
        """Phase -> number of trials."""
        return dict(Counter(trial.phase for trial in self.trials))


@dataclass
class Tuner:
    """Search of a space for its fastest configuration.

    Args:
        study: Study with its sampler.
        space: The search space.
        objective: Measures one configuration.
        budget: Number of configurations, including those of earlier runs; None: all that are worth measuring.
        told: Called with every finished trial.
        max_races: Largest number of further rounds for configurations with nearly equal times.
        exclusive: Whether no other process uses the study, so that running trials belong to a process that has ended.
        stop_reason: Why the search ended; set by :meth:`run`.
        band: Returns the error band of the ratio of two emulated times, or None if times are measured.
        stop_when: Probability of something better at which the search ends, or None.
    """

    study: optuna.Study
    space: Space
    objective: Objective
    budget: int | None = None
    told: Callable[[TrialRecord], None] = lambda _: None
    max_races: int = 0
    exclusive: bool = True
    stop_reason: str = EXHAUSTED
    band: Callable[[], RatioBand | None] = lambda: None
    stop_when: Improbable | None = None

    def run(self) -> None:
        """Search until the budget is used up, or no configuration worth measuring is left.

        Raises:
            NoFeasibleTrial: Every configuration failed.
        """
        if self.exclusive:
            release_running(self.study)
        forget_race(self.study)
        known = records(self.study, self.space)
        left = (self.budget if self.budget is not None else len(self.space)) - len(known)
        end = StoppingCondition(self.budget is None, known)
        improbable = ""

        def told(trial: FrozenTrial) -> bool:
            nonlocal improbable
            latest = _predicting_times(record(trial), goals_of(self.study))
            self.told(latest)
            if self.stop_when is not None and self.stop_when.reached(self.study):
                improbable = str(self.stop_when)
            return end.reached(latest) or self._used_up() or bool(improbable)

        self.stop_reason = INTERRUPT
        search(self.study, self.space, self.objective, left, told=told)
        self.stop_reason = EXHAUSTED
        if improbable:
            self.stop_reason = improbable
        elif end.settled:
            self.stop_reason = SETTLED
        elif self._used_up():
            self.stop_reason = USED_UP
        require_a_result(self.study, self.space)
        if isinstance(self.objective, Repeatable) and not self.objective.deterministic:
            store_race(self.study, self.space, self.objective, self.max_races)

    def _used_up(self) -> bool:
        """Return whether the budget is used up, counting trials of other processes."""
        return self.budget is not None and measured(self.study) >= self.budget

    def result(self) -> TuningResult:
        """Return the result so far, also after an interrupt."""
        return outcome(self.study, self.space, self.stop_reason, self.band())


def store_race(study: optuna.Study, space: Space, objective: Repeatable, max_rounds: int) -> None:
    """Race the fastest trials, and store the result in the study: values of finished trials cannot change."""
    found = race_of(within_limits(records(study, space), goals_of(study)), space, objective, max_rounds)
    study.set_user_attr(_RACE, found.as_json() if found is not None else None)


def forget_race(study: optuna.Study) -> None:
    """Remove the race of an earlier search, whose winner is not compared with the trials that follow."""
    if study.user_attrs.get(_RACE) is not None:
        study.set_user_attr(_RACE, None)


def race_of(trials: Iterable[TrialRecord], space: Space, objective: Repeatable, max_rounds: int) -> RaceResult | None:
    """Race the fastest of some trials, or return None if one is clearly the fastest."""
    ran = {trial.number: trial for trial in trials if trial.details.get("times_ms")}

    def sample(number: int) -> Sequence[float] | None:
        trial = ran[number]
        times = objective.sample(space.complete(trial.parameters), trial.details["runs"])
        return None if isinstance(times, Infeasible) else times

    times = {number: trial.details["times_ms"] for number, trial in ran.items()}
    return race(times, sample, max_rounds=max_rounds, max_samples=max(len(times), RACE_SAMPLES))


@dataclass(frozen=True)
class Improbable:
    """Condition that ends a search: a configuration faster by a margin is improbable.

    Args:
        better_than: The margin, as a share of the best time.
        probability: Largest probability that such a configuration is left.
    """

    better_than: float
    probability: float

    def reached(self, study: optuna.Study) -> bool:
        """Return whether the model of the study's sampler says so; False for samplers without such a model.

        Probabilities are calibrated from twelve evaluations on.
        """
        if not isinstance(study.sampler, RegressionSampler) or measured(study) < FEWEST:
            return False
        outlook = study.sampler.assess(study).outlook
        return outlook is not None and outlook.probability(self.better_than) <= self.probability

    def __str__(self) -> str:
        probability, margin = (f"{100 * share:.3g}%" for share in (1 - self.probability, self.better_than))
        return f"with {probability} probability nothing is more than {margin} better"


CHOICE = "the smallest emulated time; of equal times, the first trial"
"""Criterion that selects the best of indistinguishable configurations."""


def outcome(study: optuna.Study, space: Space, stop_reason: str, band: RatioBand | None = None) -> TuningResult:
    """Return the result of a study so far.

    Args:
        study: Study with its sampler.
        space: The search space.
        stop_reason: Why the search ended.
        band: Error band of the ratio of two emulated times; None if times are measured.
    """
    goals = goals_of(study)
    trials = tuple(_predicting_times(trial, goals) for trial in records(study, space))
    ran = within_limits(trials, goals)
    best = min(ran, key=_time_and_number, default=None)
    decided = study.user_attrs.get(_RACE)
    if decided is not None:
        winner = decided["standings"][0]
        raced = next(trial for trial in ran if trial.number == winner["trial"])
        best = replace(raced, runtime_ms=winner["median_ms"])
    front = goals.front(trials) if goals is not None else ()
    if goals is not None and not goals.is_time:
        best, band = (front[0].trial if front else None), None
    rows: tuple[int, ...] = ()
    remaining: dict[float, float] = {}
    model, warning = None, None
    if isinstance(study.sampler, RegressionSampler):
        assessed = study.sampler.assess(study)
        rows = tuple(assessed.pruned_rows.tolist())
        model = {"name": assessed.name, "r2": assessed.r2, "residual_std": assessed.residual_std}
        warning = assessed.warning
        outlook = assessed.outlook
        if outlook is not None and (outlook.evaluated >= FEWEST or not outlook.unmeasured):
            remaining = {margin: outlook.probability(margin) for margin in MARGINS}
    tied = tied_trials(ran, best, band) if band is not None and best is not None else ()
    measured_trials = {trial.number for trial in trials if trial.runtime_ms is not None}
    beyond = frozenset(measured_trials - {trial.number for trial in ran})
    shares = importances(study, len(measured_trials))
    metrics = tuple(goal.metric for goal in goals.goals) if goals is not None else ()
    facts = (shares, decided, band, tied, remaining, front, beyond, space.size_text, metrics)
    return TuningResult(len(space), trials, best, rows, model, warning, stop_reason, *facts)


def goals_of(study: optuna.Study) -> Goals | None:
    """Return the objectives and limits of a study's sampler, or None for the time alone."""
    return study.sampler.goals if isinstance(study.sampler, RegressionSampler) else None


def _predicting_times(trial: TrialRecord, goals: Goals | None) -> TrialRecord:
    """Return a trial without its prediction, if that is of another objective than the time."""
    return trial if goals is None or goals.is_time else replace(trial, predicted_ms=None)


def within_limits(trials: Iterable[TrialRecord], goals: Goals | None) -> list[TrialRecord]:
    """Return the trials that ran and exceed no limit."""
    ran = [trial for trial in trials if trial.runtime_ms is not None]
    return ran if goals is None else [trial for trial in ran if goals.values(trial) is not None]


def tied_trials(ran: Sequence[TrialRecord], best: TrialRecord, band: RatioBand) -> tuple[TrialRecord, ...]:
    """Return the other trials that an error band does not distinguish from the best, fastest first."""
    others = (trial for trial in ran if trial.number != best.number)
    return tuple(
        sorted((t for t in others if not band.distinguishes(t.runtime_ms or 0.0, best.runtime_ms or 0.0)), key=_time_and_number)
    )


def _time_and_number(trial: TrialRecord) -> tuple[float, int]:
    return trial.runtime_ms or 0.0, trial.number


def beyond_limits(trials: int, where: Path) -> NoFeasibleTrial:
    """Return the error of a search whose configurations fail or exceed the limits; `where` is the file of its trials."""
    return NoFeasibleTrial(f"all {trials} configurations fail or exceed the limits", where="autotune.limits", hint=f"see {where}")


def require_a_result(study: optuna.Study, space: Space) -> None:
    """Check that a trial of the study ran.

    Raises:
        NoFeasibleTrial: All trials failed; the message lists the most frequent reasons.
    """
    trials = records(study, space)
    if any(trial.runtime_ms is not None for trial in trials):
        return
    reasons = Counter(trial.reason or "" for trial in trials).most_common(3)
    listed = "\n".join(f"  {count} x {reason}" for reason, count in reasons)
    raise NoFeasibleTrial(
        f"all {len(trials)} configurations that were tried failed:\n{listed}",
        where=space.where,
        hint="run one configuration by hand, and check the space, the kernel or the command",
    )


class StoppingCondition:
    """Condition that ends a search before its budget is used up."""

    def __init__(self, unlimited: bool, known: list[TrialRecord]) -> None:
        self._unlimited = unlimited
        self._confirmed = self._failed = 0
        self._best_ms = math.inf
        for trial in known:
            self.reached(trial)

    @property
    def settled(self) -> bool:
        """True if the model expects no further improvement."""
        return self._unlimited and self._confirmed >= _CONFIRMED

    def reached(self, trial: TrialRecord) -> bool:
        """Add a finished trial, and return whether it was the last."""
        self._failed += trial.runtime_ms is None
        if trial.runtime_ms is not None and trial.runtime_ms < self._best_ms:
            self._best_ms = trial.runtime_ms
            self._confirmed = 0
        elif trial.phase == "confirmation" and "expected_improvement" in trial.decision:
            self._confirmed += 1
        return self.settled or (self._best_ms == math.inf and self._failed >= _HOPELESS)


def importances(study: optuna.Study, ran: int) -> dict[str, float]:
    """Return the importance of each parameter, largest first; empty for fewer than ten trials or equal times."""
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    values = [trial.value for trial in study.get_trials(deepcopy=False) if trial.values]
    if ran < 10 or len(set(values)) < 2:
        return {}
    return dict(get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()))
