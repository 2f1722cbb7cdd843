"""Trials of a study: their user attributes, how they end, and their results as plain data."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.objective import Infeasible, Measurement

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial, Trial

    from rocm_perf_lab.autotune.spaces.space import Space

INTERRUPTED = "interrupted"
HEARTBEAT = "heartbeat"
PROCESS = "process"
"""Machine, number and start time of the process that measures a trial."""
REASON, STAGE, PHASE, DECISION, DETAILS = "reason", "stage", "phase", "decision", "details"
KILLED, LOST = "killed", "lost"
"""A trial was ended from outside for the first time, or again."""
CLAIM = "claim"
"""Index of the claimed value of each parameter; see :mod:`.claims`."""
_INTERNAL = (CLAIM, HEARTBEAT, PROCESS, "configuration")
"""User attributes that are not details; `configuration` is from studies of earlier versions."""


@dataclass(frozen=True)
class TrialRecord:
    """Finished trial as plain data.

    Args:
        number: Number of the trial.
        parameters: Values without fixed and derived ones.
        phase: `seed`, `prediction`, `confirmation`, or `sampler` for samplers without phases.
        runtime_ms: None if the trial failed.
        predicted_ms: Time predicted by the model, or None.
        decision: Why the sampler proposed it.
        reason, stage: Why and in which stage it failed.
        details: Repetitions, spread, resources.
    """

    number: int
    parameters: dict[str, Any]
    phase: str
    runtime_ms: float | None
    predicted_ms: float | None
    decision: dict[str, Any]
    reason: str | None
    stage: str | None
    details: dict[str, Any]


def is_interrupted(trial: FrozenTrial) -> bool:
    """Return whether a trial ended without a result, so that its configuration may be measured again.

    A trial of :mod:`.ask_tell` ends with a value or a reason. One that failed without a reason was released by another process
    (:mod:`.heartbeats`), which cannot write user attributes of a trial that it did not ask for.
    """
    from optuna.trial import TrialState

    known = trial.user_attrs
    if INTERRUPTED in known:
        return True
    asked_here = HEARTBEAT in known or CLAIM in known or not trial.params
    return trial.state == TrialState.FAIL and REASON not in known and asked_here


def tell(study: optuna.Study, trial: Trial, result: Measurement | Infeasible) -> FrozenTrial:
    """End a trial with its measurement, or as failed with its reason; return the finished trial.

    A time that is not positive and finite is a failure. If the trial was released in the meantime (the machine slept), its result
    is dropped.
    """
    from optuna.exceptions import UpdateFinishedTrialError

    with suppress(UpdateFinishedTrialError):
        return _tell(study, trial, result)
    return trial_by_number(study, trial.number)


def _tell(study: optuna.Study, trial: Trial, result: Measurement | Infeasible) -> FrozenTrial:
    from optuna.trial import TrialState

    if isinstance(result, Measurement) and not 0 < result.runtime_ms < math.inf:
        result = Infeasible(f"a time of {result.runtime_ms:g} ms is not valid")
    if isinstance(result, Infeasible):
        trial.set_user_attr(REASON, result.reason)
        trial.set_user_attr(STAGE, result.stage)
        return study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
    if result.details:
        trial.set_user_attr(DETAILS, result.details)  # one attribute: in a database, each is a transaction
    return study.tell(trial, result.runtime_ms, skip_if_finished=True)


def trial_by_number(study: optuna.Study, number: int) -> FrozenTrial:
    """Return the trial of that number."""
    return next(trial for trial in study.get_trials(deepcopy=False) if trial.number == number)


def release(study: optuna.Study, trial: Trial, reason: str | None = None) -> FrozenTrial:
    """End a trial without a result, so that its configuration may be measured by another; return the finished trial."""
    from optuna.exceptions import UpdateFinishedTrialError
    from optuna.trial import TrialState

    with suppress(UpdateFinishedTrialError):
        if reason is not None:
            trial.set_user_attr(REASON, reason)
        trial.set_user_attr(INTERRUPTED, True)
        return study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
    return trial_by_number(study, trial.number)


def preempted(study: optuna.Study, trial: Trial, reason: str) -> FrozenTrial:
    """End a trial whose process was ended from outside; return the finished trial.

    The first time, its configuration is enqueued, so that it is the next one to be measured. The second time it is not measured
    again; the model does not learn from it.
    """
    from optuna.trial import TrialState

    parameters = trial_by_number(study, trial.number).params
    others = study.get_trials(deepcopy=False, states=(TrialState.FAIL,))
    if any(other.params == parameters and KILLED in other.user_attrs for other in others):
        trial.set_user_attr(LOST, True)
        return tell(study, trial, Infeasible(f"ended from outside twice: {reason}"))
    trial.set_user_attr(KILLED, reason)
    finished = release(study, trial, reason)
    study.enqueue_trial(parameters)
    return finished


def release_running(study: optuna.Study) -> int:
    """Fail the running trials of a process that has ended; return their number."""
    from optuna.trial import TrialState

    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    for trial in running:
        study.tell(trial.number, state=TrialState.FAIL)
    return len(running)


def measured(study: optuna.Study) -> int:
    """Return how many configurations were measured or are being measured, without excluded and interrupted ones."""
    from optuna.trial import TrialState

    states = (TrialState.COMPLETE, TrialState.FAIL, TrialState.RUNNING)
    return sum(1 for trial in study.get_trials(deepcopy=False, states=states) if not is_interrupted(trial))


def records(study: optuna.Study, space: Space) -> list[TrialRecord]:
    """Return the trials that measured a configuration or failed on it, in order."""
    from optuna.trial import TrialState

    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.FAIL))
    return [record(trial) for trial in trials if not is_interrupted(trial) and space.index(trial.params) is not None]


def record(trial: FrozenTrial) -> TrialRecord:
    """Return a finished trial as plain data."""
    known = dict(trial.user_attrs)
    known |= known.pop(DETAILS, {})
    decision = known.pop(DECISION, {})
    for name in _INTERNAL:
        known.pop(name, None)
    reason = known.pop(REASON, None)
    failed = trial.values is None
    return TrialRecord(
        trial.number,
        dict(trial.params),
        known.pop(PHASE, "sampler"),
        None if failed else trial.values[0],
        decision.get("predicted_ms"),
        decision,
        (reason or "the trial ended without a reason") if failed else None,
        known.pop(STAGE, "run") if failed else None,
        known,
    )
