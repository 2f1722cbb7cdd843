"""Ask and tell over slots: whenever one is free the sampler is asked, so that a slow trial holds nobody up.

Where a trial runs (this process, a worker, a cluster) is the business of :class:`Slots`. Nothing here knows Hydra.
"""

from __future__ import annotations

import time
import warnings
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rocm_perf_lab.autotune.claims import REFUSED, refuse
from rocm_perf_lab.autotune.objective import Infeasible, Measurement, SpaceExhausted
from rocm_perf_lab.autotune.storage import HEARTBEAT_S, INTERRUPTED, StorageError, beat, release_stale, storage_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna import Study
    from optuna.trial import Trial

    from rocm_perf_lab.autotune.space import Configuration, Space

Result = Measurement | Infeasible


@dataclass(frozen=True)
class Task:
    """One trial on its way to a slot: its number in the study, its configuration, and what the sampler says of it."""

    number: int
    slot: int
    configuration: Configuration
    notes: dict[str, Any] = field(default_factory=dict)


class Slots(Protocol):
    """Places where trials run."""

    @property
    def count(self) -> int:
        """How many run at the same time."""
        ...

    def start(self, task: Task) -> Future[Result]:
        """Begin; an exception in the future is a trial that failed for the reason that it states."""
        ...

    def stop(self) -> None:
        """End what still runs, and give the places back."""
        ...


@dataclass(frozen=True)
class Finished:
    """One trial that came to its end, for who shows progress."""

    task: Task
    result: Result
    seconds: float


def sweep(
    study: Study,
    space: Space,
    slots: Slots,
    *,
    budget: int,
    started: Callable[[Task], None] = lambda task: None,
    finished: Callable[[Finished], None] = lambda finished: None,
) -> None:
    """Measure until the study has `budget` configurations, those of earlier and of other sweeps included.

    Whatever ends it early (an interrupt, a storage that is gone), what was measured is kept and what was being measured
    becomes a failed trial with the attribute `interrupted`, whose configuration is free again.

    Raises:
        StorageError: The storage fails.
    """
    running: dict[Future[Result], _Running] = {}
    free = list(range(slots.count))[::-1]
    beaten = time.monotonic()
    try:
        with storage_errors(f"study {study.study_name}"):
            release_stale(study)
            while True:
                while free and (trial := _ask(study, space, budget)) is not None:
                    task = _task(trial, space, free.pop())
                    begun = _Running(trial, task, time.monotonic())
                    beat(study, [trial._trial_id])
                    started(task)
                    running[slots.start(task)] = begun
                if not running:
                    return
                done, _ = wait(running, timeout=HEARTBEAT_S, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=lambda one: running[one].task.number):
                    ended = running.pop(future)
                    free.append(ended.task.slot)
                    finished(_tell(study, ended, future))
                if time.monotonic() - beaten >= HEARTBEAT_S:
                    beat(study, [one.trial._trial_id for one in running.values()])
                    release_stale(study)
                    beaten = time.monotonic()
    finally:
        _give_up(study, running)
        slots.stop()


@dataclass(frozen=True)
class _Running:
    trial: Trial
    task: Task
    since: float


def measured(study: Study) -> int:
    """Configurations that were measured or are being measured; what the constraints exclude or nobody finished is neither."""
    return sum(1 for trial in study.get_trials(deepcopy=False) if not trial.user_attrs.keys() & {INTERRUPTED, REFUSED})


def _ask(study: Study, space: Space, budget: int) -> Trial | None:
    """The next trial to measure; None where the budget or the space is used up."""
    while measured(study) < min(budget, len(space)):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Heartbeat of storage", category=UserWarning)  # the loop above sends them
            trial = study.ask()
        try:
            parameters = {name: trial.suggest_categorical(name, values) for name, values in space.values.items()}
        except BaseException as error:
            _release(study, trial, "nothing was left to measure" if isinstance(error, SpaceExhausted) else repr(error))
            if isinstance(error, SpaceExhausted):
                return None
            raise
        if not refuse(study, trial, space, parameters):
            return trial
    return None


def _task(trial: Trial, space: Space, slot: int) -> Task:
    notes = {name: trial.user_attrs[name] for name in ("phase", "decision") if name in trial.user_attrs}
    return Task(trial.number, slot, space.complete(trial.params), notes)


def _tell(study: Study, ended: _Running, future: Future[Result]) -> Finished:
    from optuna.trial import TrialState

    seconds = time.monotonic() - ended.since
    error = future.exception()
    result = Infeasible(_reason(error)) if error is not None else future.result()
    trial = ended.trial
    trial.set_user_attr("seconds", round(seconds, 3))
    if isinstance(result, Measurement):
        for name, value in result.details.items():
            trial.set_user_attr(name, value)
        study.tell(trial, result.runtime_ms)
    else:
        trial.set_user_attr("reason", result.reason)
        study.tell(trial, state=TrialState.FAIL)
    return Finished(ended.task, result, seconds)


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".strip(": ")


def _give_up(study: Study, running: dict[Future[Result], _Running]) -> None:
    """What had come to its end in the meantime is kept, the rest is released."""
    for future, one in running.items():
        with suppress(StorageError), storage_errors(f"study {study.study_name}"):
            if future.done() and not future.cancelled():
                _tell(study, one, future)
            else:
                _release(study, one.trial, "interrupted")


def _release(study: Study, trial: Trial, reason: str) -> None:
    from optuna.trial import TrialState

    trial.set_user_attr(INTERRUPTED, True)
    trial.set_user_attr("reason", reason)
    study.tell(trial, state=TrialState.FAIL)
