"""Trials of a study, whatever its sampler: asked for, told with their result or the reason of their failure, read back."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.objective import Infeasible, Measurement, SpaceExhausted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import optuna
    from optuna.trial import FrozenTrial, Trial

    from rocm_perf_lab.autotune.space import Configuration, Space

_PATIENCE = 200
"""Proposals in a row that may break constraints before a sampler counts as used up."""
INTERRUPTED = "interrupted"
HEARTBEAT = "heartbeat"
REASON, STAGE, PHASE, DECISION, DETAILS = "reason", "stage", "phase", "decision", "details"


@dataclass(frozen=True)
class Asked:
    """A trial that has begun, and the configuration that it wants, with fixed and derived values."""

    trial: Trial
    configuration: Configuration


@dataclass(frozen=True)
class TrialRecord:
    """A trial that has come to its end, as plain data.

    Args:
        number: Of the trial.
        parameters: Without fixed and derived values.
        phase: `seed`, `prediction`, `confirmation`, or `sampler` for samplers without phases.
        runtime_ms: None where it failed.
        predicted_ms: What the model expected; None where nothing was predicted.
        decision: Why the sampler took it.
        reason, stage: Why and where it failed.
        details: Repeats, spread, resources.
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


def ask(study: optuna.Study, space: Space) -> Asked:
    """Begin a trial with a valid configuration that no other trial has.

    Raises:
        SpaceExhausted: Nothing is left that is worth measuring, or the sampler does not find it.
    """
    from rocm_perf_lab.autotune.claims import refuse

    if measured(study) >= len(space):  # a sampler is not even asked where every parameter has but one value
        raise SpaceExhausted(
            f"all {len(space)} configurations are measured", where=f"study {study.study_name}", hint="widen the space"
        )
    for _ in range(_PATIENCE):
        trial = study.ask()
        try:
            parameters = {name: trial.suggest_categorical(name, values) for name, values in space.values.items()}
        except BaseException:
            release(study, trial)
            raise
        if not refuse(study, trial, space, parameters):
            return Asked(trial, space.complete(parameters))
    raise SpaceExhausted(
        f"the sampler proposed {_PATIENCE} combinations in a row that the constraints exclude",
        where=f"study {study.study_name}",
        hint="take the lab's own sampler (autotune.sampler=null), or a smaller budget",
    )


def tell(study: optuna.Study, trial: Trial, result: Measurement | Infeasible) -> None:
    """End a trial: measured, or failed with its reason; a time that is not positive and finite is a failure.

    Who was silent for too long (a machine that slept) has lost the trial to the others: then its result is dropped.
    """
    from optuna.exceptions import UpdateFinishedTrialError

    with suppress(UpdateFinishedTrialError):
        _tell(study, trial, result)


def _tell(study: optuna.Study, trial: Trial, result: Measurement | Infeasible) -> None:
    from optuna.trial import TrialState

    if isinstance(result, Measurement) and not 0 < result.runtime_ms < math.inf:
        result = Infeasible(f"a time of {result.runtime_ms:g} ms is no time")
    if isinstance(result, Infeasible):
        trial.set_user_attr(REASON, result.reason)
        trial.set_user_attr(STAGE, result.stage)
        study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
        return
    if result.details:
        trial.set_user_attr(DETAILS, result.details)  # one attribute: each is a transaction of its own in a database
    study.tell(trial, result.runtime_ms, skip_if_finished=True)


def release(study: optuna.Study, trial: Trial, reason: str | None = None) -> None:
    """End a trial without a result; its configuration may be measured by another."""
    from optuna.exceptions import UpdateFinishedTrialError
    from optuna.trial import TrialState

    with suppress(UpdateFinishedTrialError):
        if reason is not None:
            trial.set_user_attr(REASON, reason)
        trial.set_user_attr(INTERRUPTED, True)
        study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)


def release_running(study: optuna.Study) -> int:
    """End the trials of a process that is gone; how many there were."""
    from optuna.trial import TrialState

    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    for trial in running:
        study._storage.set_trial_user_attr(trial._trial_id, INTERRUPTED, True)
        study.tell(trial.number, state=TrialState.FAIL)
    return len(running)


def measured(study: optuna.Study) -> int:
    """Configurations that were measured or are being measured; what the constraints exclude or nobody finished is neither."""
    from optuna.trial import TrialState

    states = (TrialState.COMPLETE, TrialState.FAIL, TrialState.RUNNING)
    return sum(1 for trial in study.get_trials(deepcopy=False, states=states) if INTERRUPTED not in trial.user_attrs)


def records(study: optuna.Study, space: Space) -> list[TrialRecord]:
    """The trials that measured a configuration or failed on it, in order."""
    return list(_records(study, space))


def _records(study: optuna.Study, space: Space) -> Iterator[TrialRecord]:
    from optuna.trial import TrialState

    for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.FAIL)):
        known = trial.user_attrs
        if known.get(INTERRUPTED) or space.index(trial.params) is None:
            continue
        yield record(trial)


def record(trial: FrozenTrial) -> TrialRecord:
    """One finished trial."""
    known = dict(trial.user_attrs)
    known |= known.pop(DETAILS, {})
    decision = known.pop(DECISION, {})
    for name in ("configuration", HEARTBEAT):
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
