"""Ask and tell over slots: whenever one is free the sampler is asked, so that a slow trial holds nobody up.

Where a trial runs (this process, a worker, a cluster) is the business of :class:`Slots`. Nothing here knows Hydra.
"""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rocm_perf_lab.autotune.ask_tell import ask
from rocm_perf_lab.autotune.heartbeats import INTERVAL_S, Heartbeats
from rocm_perf_lab.autotune.objective import Infeasible, Measurement, SearchBroken, SpaceExhausted, Unmeasured
from rocm_perf_lab.autotune.storage import StorageError, storage_errors
from rocm_perf_lab.autotune.trials import PHASE, measured, record, release, tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna import Study
    from optuna.trial import Trial

    from rocm_perf_lab.autotune.ask_tell import AskedTrial
    from rocm_perf_lab.autotune.space import Configuration, Space
    from rocm_perf_lab.autotune.trials import TrialRecord

Result = Measurement | Infeasible | Unmeasured
_UNMEASURED_IN_A_ROW = 3
"""Trials after which what prevents their measurement counts as here to stay."""


@dataclass(frozen=True)
class Task:
    """One trial on its way to a slot: its number in the study, its configuration, the phase of the search."""

    number: int
    slot: int
    configuration: Configuration
    phase: str = "sampler"


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


def sweep(
    study: Study,
    space: Space,
    slots: Slots,
    *,
    budget: int,
    finished: Callable[[Task, TrialRecord], bool] = lambda task, trial: False,
) -> None:
    """Measure until the study has `budget` configurations, those of earlier and of other sweeps included.

    Whatever ends it early (an interrupt, a storage that is gone), what was measured is kept and what was being measured
    becomes a failed trial with the attribute `interrupted`, whose configuration is free again.

    Args:
        finished: Told of every trial that has ended; True begins no further one.

    Raises:
        StorageError: The storage fails.
        SearchBroken: Nothing can be measured any more.
    """
    running: dict[Future[Result], _Running] = {}
    free = list(range(slots.count))[::-1]
    ended = False
    unmeasured = 0
    try:
        with storage_errors(f"study {study.study_name}"), Heartbeats(study) as hearts:
            while True:
                hearts.release_dead()
                while free and not ended and (asked := _ask(study, space, budget)) is not None:
                    one = _Running(asked.trial, Task(asked.trial.number, free.pop(), asked.configuration, _phase(asked.trial)))
                    hearts.begin(asked.trial)
                    try:
                        running[slots.start(one.task)] = one
                    except BaseException:
                        release(study, asked.trial)
                        raise
                if not running:
                    return
                done, _ = wait(running, timeout=INTERVAL_S, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=lambda future: running[future].task.number):
                    one = running.pop(future)
                    hearts.end(one.trial)
                    free.append(one.task.slot)
                    result = _result_of(future)
                    ended |= finished(one.task, _tell(study, one, result))
                    unmeasured = unmeasured + 1 if isinstance(result, Unmeasured) else 0
                    if isinstance(result, Unmeasured) and unmeasured >= _UNMEASURED_IN_A_ROW:
                        where = f"study {study.study_name}"
                        raise SearchBroken(result.reason, where=where, hint="fix that, and sweep the same study again")
    finally:
        _give_up(study, running)
        slots.stop()


@dataclass(frozen=True)
class _Running:
    trial: Trial
    task: Task
    since: float = field(default_factory=time.monotonic)


def _ask(study: Study, space: Space, budget: int) -> AskedTrial | None:
    """The next trial to measure; None where the budget or the space is used up."""
    if measured(study) >= min(budget, len(space)):
        return None
    try:
        return ask(study, space)
    except SpaceExhausted:
        return None


def _phase(trial: Trial) -> str:
    return str(trial.user_attrs.get(PHASE, "sampler"))


def _result_of(future: Future[Result]) -> Result:
    error = future.exception()
    return Infeasible(f"{type(error).__name__}: {error}".strip(": ")) if error is not None else future.result()


def _tell(study: Study, ended: _Running, result: Result) -> TrialRecord:
    from optuna.exceptions import UpdateFinishedTrialError

    with suppress(UpdateFinishedTrialError):  # see tell
        ended.trial.set_user_attr("seconds", round(time.monotonic() - ended.since, 3))
    if isinstance(result, Unmeasured):
        return record(release(study, ended.trial, result.reason))
    return record(tell(study, ended.trial, result))


def _give_up(study: Study, running: dict[Future[Result], _Running]) -> None:
    """What had come to its end in the meantime is kept, the rest is released."""
    for future, one in running.items():
        with suppress(StorageError), storage_errors(f"study {study.study_name}"):
            if future.done() and not future.cancelled():
                _tell(study, one, _result_of(future))
            else:
                release(study, one.trial)
