"""Asynchronous ask-and-tell loop over slots: whenever a slot is free, the next trial starts there.

:class:`Slots` runs trials in this process, in worker processes, or on a cluster. Independent of Hydra.
"""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rocm_perf_lab.autotune.ask_tell import MOST_PREEMPTED, ask
from rocm_perf_lab.autotune.heartbeats import INTERVAL_S, Heartbeats
from rocm_perf_lab.autotune.objective import Infeasible, Measurement, Preempted, SearchBroken, SpaceExhausted, Unmeasured
from rocm_perf_lab.autotune.storage import StorageError, storage_errors
from rocm_perf_lab.autotune.trials import PHASE, measured, preempted, record, release, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from optuna import Study
    from optuna.trial import Trial

    from rocm_perf_lab.autotune.ask_tell import AskedTrial
    from rocm_perf_lab.autotune.cutoff import Cutoffs
    from rocm_perf_lab.autotune.spaces.space import Configuration, Space
    from rocm_perf_lab.autotune.trials import TrialRecord

Result = Measurement | Infeasible | Unmeasured | Preempted
_LATER_S = 0.1
_SLICE_S = 1.0
_SUSPENDED_S = 2.0
"""Delay of a wait of `_SLICE_S` from which this process counts as suspended meanwhile."""
_UNMEASURED_IN_A_ROW = 3
"""Number of consecutive unmeasured trials that ends the sweep."""
RACE = "race"
"""Phase of a task that measures the configuration of a finished trial again."""
_RACE_TRIES = 3
"""Number of times that a run of the race may be ended from outside before the race is given up."""


@dataclass(frozen=True)
class Task:
    """Trial for a slot: its number in the study, its configuration, the phase of the search, and its limit of wall-clock time."""

    number: int
    slot: int
    configuration: Configuration
    phase: str = "sampler"
    limit_s: float | None = None


class Slots(Protocol):
    """Interface of the places where trials run."""

    @property
    def count(self) -> int:
        """Number of concurrent trials."""
        ...

    def start(self, task: Task) -> Future[Result]:
        """Begin a trial. An exception in the future is the reason for its failure."""
        ...

    def stop(self) -> None:
        """End running trials, and free the slots."""
        ...


@runtime_checkable
class EndingSlots(Protocol):
    """Interface of slots that can end one running trial."""

    def end(self, task: Task) -> None:
        """End a trial; its future gets any result."""
        ...


def sweep(
    study: Study,
    space: Space,
    slots: Slots,
    *,
    budget: int,
    finished: Callable[[Task, TrialRecord], bool] = lambda task, trial: False,
    cutoffs: Cutoffs | None = None,
    race: Callable[[RepeatedTrials], None] = lambda again: None,
) -> None:
    """Measure until the study has `budget` configurations, including those of earlier and concurrent sweeps.

    If the sweep ends early (an interrupt, an unreachable storage), finished trials are kept. Running trials fail with the
    attribute `interrupted`, which frees their configurations.

    Args:
        study: Study with its sampler.
        space: The search space.
        slots: Slots that run the trials.
        budget: Number of configurations.
        finished: Called with every finished trial; returning True starts no further trial.
        cutoffs: Limits of a trial's wall-clock time relative to the fastest one of its shape; None: unlimited.
        race: Called after the last trial, with an objective that measures configurations again.

    Raises:
        StorageError: The storage fails.
        SearchBroken: Three trials in a row could not be measured, for a reason other than their configurations.
    """
    loop = _Loop(study, space, slots, budget, finished, _Limit(cutoffs, slots))
    try:
        with storage_errors(f"study {study.study_name}"), Heartbeats(study) as heartbeats:
            loop.run(heartbeats)
        race(RepeatedTrials(slots, loop.limit, len(study.get_trials(deepcopy=False))))
    finally:
        loop.give_up()
        slots.stop()


@dataclass
class _Loop:
    """Trials of a sweep: which of them run, and which slots are free."""

    study: Study
    space: Space
    slots: Slots
    budget: int
    finished: Callable[[Task, TrialRecord], bool]
    limit: _Limit
    running: dict[Future[Result], _Running] = field(default_factory=dict)
    ended: bool = False
    unmeasured: int = 0
    killed: int = 0

    def __post_init__(self) -> None:
        """Begin with all slots free."""
        self.free = list(range(self.slots.count))[::-1]

    def run(self, heartbeats: Heartbeats) -> None:
        """Run trials until none is left.

        Raises:
            SearchBroken: Several trials in a row could not be measured, for a reason other than their configurations.
        """
        while True:
            heartbeats.release_dead()
            while self.free and not self.ended and (asked := _ask(self.study, self.space, self.budget)) is not None:
                self._begin(asked, heartbeats)
            if not self.running:
                return
            done = self._ended_within(self.limit.next_look_s(self.running.values()))
            self.limit.end_slow(one for future, one in self.running.items() if future not in done)
            for future in sorted(done, key=lambda future: self.running[future].task.number):
                self._end(future, heartbeats)

    def _ended_within(self, seconds: float) -> set[Future[Result]]:
        """Return the trials that have ended, after some seconds at the latest.

        Time in which this process was suspended (Ctrl-Z, a laptop) is not time of a trial.
        """
        limit = time.monotonic() + seconds
        while True:
            before = time.monotonic()
            done, _ = wait(self.running, timeout=max(0.0, min(limit - before, _SLICE_S)), return_when=FIRST_COMPLETED)
            now = time.monotonic()
            if (lost_s := now - before - _SLICE_S) > _SUSPENDED_S:
                self.running = {future: replace(one, since=one.since + lost_s) for future, one in self.running.items()}
                limit += lost_s
            if done or now >= limit:
                return done

    def _begin(self, asked: AskedTrial, heartbeats: Heartbeats) -> None:
        place, limit_s = self.free.pop(), self.limit.of(asked.configuration)
        task = Task(asked.trial.number, place, asked.configuration, _phase(asked.trial), limit_s)
        one = _Running(asked.trial, task)
        heartbeats.begin(asked.trial)
        try:
            self.running[self.slots.start(task)] = one
        except BaseException:
            release(self.study, asked.trial)
            raise

    def _end(self, future: Future[Result], heartbeats: Heartbeats) -> None:
        one = self.running.pop(future)
        heartbeats.end(one.trial)
        result = self.limit.checked(one, _result_of(future))
        # The configuration of a killed process is next: on another slot, if there is one.
        self.free.insert(0 if isinstance(result, Preempted) else len(self.free), one.task.slot)
        self.ended |= self.finished(one.task, _tell(self.study, one, result))
        self.killed = self.killed + 1 if isinstance(result, Preempted) else 0
        self.unmeasured = self.unmeasured + 1 if isinstance(result, Unmeasured) else 0
        broken = self.unmeasured >= _UNMEASURED_IN_A_ROW or self.killed >= MOST_PREEMPTED
        if broken and isinstance(result, Unmeasured | Preempted):
            where = f"study {self.study.study_name}"
            raise SearchBroken(result.reason, where=where, hint="fix this, then start the same sweep again")

    def give_up(self) -> None:
        """Record trials that have finished in the meantime, and release the others."""
        for future, one in self.running.items():
            with suppress(StorageError), storage_errors(f"study {self.study.study_name}"):
                if future.done() and not future.cancelled():
                    _tell(self.study, one, _result_of(future))
                else:
                    release(self.study, one.trial)


class RepeatedTrials:
    """Objective that measures configurations again, one after the other in the first slot: on the same GPU, if slots have GPUs.

    Args:
        slots: Slots that run the trials.
        limit: Limit of wall-clock time.
        first: Number of the first run.
    """

    deterministic = False

    def __init__(self, slots: Slots, limit: _Limit, first: int) -> None:
        self._slots, self._limit, self._next = slots, limit, first

    def sample(self, configuration: Configuration, runs: int) -> Sequence[float] | Infeasible:
        """Return further times of a configuration in ms. The job determines their number, not `runs`.

        Raises:
            SearchBroken: The runs cannot be measured, for a reason other than the configuration.
        """
        reason = ""
        for _ in range(_RACE_TRIES):
            result = self._run(configuration)
            if isinstance(result, Measurement):
                return [float(time_ms) for time_ms in result.details.get("times_ms") or (result.runtime_ms,)]
            if isinstance(result, Infeasible):
                return result
            reason = result.reason
        raise SearchBroken(reason, where="the race of the fastest configurations")

    def _run(self, configuration: Configuration) -> Result:
        task = Task(self._next, 0, configuration, RACE, self._limit.of(configuration))
        self._next += 1
        future = self._slots.start(task)
        ending = self._slots if isinstance(self._slots, EndingSlots) else None
        done, _ = wait([future], timeout=task.limit_s if ending is not None else None)
        if not done and ending is not None:
            ending.end(task)
            wait([future])
            return too_slow(task.limit_s or 0.0)
        return _result_of(future)


@dataclass(frozen=True)
class _Running:
    trial: Trial
    task: Task
    since: float = field(default_factory=time.monotonic)


class _Limit:
    """Limit of the wall-clock time of running trials."""

    def __init__(self, cutoffs: Cutoffs | None, slots: Slots) -> None:
        self._cutoffs = cutoffs
        self._slots = slots if isinstance(slots, EndingSlots) else None
        self._ended: dict[int, float] = {}
        """Number of a trial -> the limit in seconds at which it was ended."""

    def of(self, configuration: Configuration) -> float | None:
        """Return the present limit of a configuration in seconds; None: unlimited."""
        return self._cutoffs.of(configuration).limit_s if self._cutoffs is not None else None

    def next_look_s(self, running: Iterable[_Running]) -> float:
        """Return after how many seconds the first running trial may reach the limit, at most the interval of heartbeats."""
        left = [seconds for one in running if (seconds := self._left_s(one)) is not None]
        return min([INTERVAL_S, *(max(seconds, 0.0) + _LATER_S for seconds in left)])

    def _left_s(self, one: _Running) -> float | None:
        """Return the seconds until a trial reaches its limit; None if it is unlimited or ended."""
        limit_s = self.of(one.task.configuration)
        if limit_s is None or self._slots is None or one.task.number in self._ended:
            return None
        return one.since + limit_s - time.monotonic()

    def end_slow(self, running: Iterable[_Running]) -> None:
        """End the trials that have reached the limit."""
        for one in running:
            left_s = self._left_s(one)
            if self._slots is not None and left_s is not None and left_s <= 0:
                self._ended[one.task.number] = self.of(one.task.configuration) or 0.0
                self._slots.end(one.task)

    def checked(self, one: _Running, result: Result) -> Result:
        """Return the result of a trial, a failure if it was ended; the fastest trial decides about the limit."""
        limit_s = self._ended.pop(one.task.number, None)
        if limit_s is not None and not isinstance(result, Measurement | Preempted):
            return too_slow(limit_s)
        if self._cutoffs is not None and isinstance(result, Measurement):
            self._cutoffs.of(one.task.configuration).took(time.monotonic() - one.since, result.runtime_ms)
        return result


def too_slow(limit_s: float) -> Infeasible:
    """Return the failure of a trial that was ended at its limit."""
    return Infeasible(f"not finished after {limit_s:.0f} s, the limit relative to the best trial (autotune.cutoff)")


def _ask(study: Study, space: Space, budget: int) -> AskedTrial | None:
    """Return the next trial, or None if the budget or the space is exhausted."""
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

    with suppress(UpdateFinishedTrialError):  # released meanwhile; see tell
        ended.trial.set_user_attr("seconds", round(time.monotonic() - ended.since, 3))
    if isinstance(result, Unmeasured):
        return record(release(study, ended.trial, result.reason))
    if isinstance(result, Preempted):
        return record(preempted(study, ended.trial, result.reason))
    return record(tell(study, ended.trial, result))
