"""The asynchronous loop over slots."""

from __future__ import annotations

import threading
import time
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any

import pytest
from optuna.storages import InMemoryStorage
from optuna.trial import TrialState

from hydra_plugins.rocm_perf_lab_plugins.sweeper import _time_limits
from rocm_perf_lab.autotune.cutoff import Cutoff, Cutoffs
from rocm_perf_lab.autotune.objective import Infeasible, Measurement, Preempted, SearchBroken, Unmeasured
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.slots import RepeatedTrials, sweep
from rocm_perf_lab.autotune.storage import open_study
from tests.builders.sweeps import ThreadSlots, proposed, small_space, time_of

if TYPE_CHECKING:
    from optuna import Study

    from rocm_perf_lab.autotune.slots import Task
    from rocm_perf_lab.autotune.spaces.space import Configuration
    from rocm_perf_lab.autotune.trials import TrialRecord

SPACE = small_space()


def new_study(storage: InMemoryStorage | None = None) -> Study:
    return open_study(storage or InMemoryStorage(), "study", SPACE, RegressionSampler(SPACE, seeds=4))


def test_every_configuration_is_measured_once_and_the_fastest_is_found() -> None:
    study = new_study()

    sweep(study, SPACE, ThreadSlots(3), budget=len(SPACE) + 10)

    assert len(study.trials) == len(SPACE) == 28
    assert len(set(proposed(study))) == 28
    assert (study.best_params, study.best_value) == ({"x": 3, "y": 2, "order": "a"}, 1.0)


def test_a_slow_trial_does_not_delay_others() -> None:
    study = new_study()
    others_done = threading.Event()
    first: list[Configuration] = []
    order: list[int] = []

    def measure(configuration: Configuration) -> Measurement:
        if not first:
            first.append(configuration)
        if configuration == first[0]:
            assert others_done.wait(timeout=300)
        return time_of(configuration)

    def finished(task: Task, trial: TrialRecord) -> bool:
        order.append(trial.number)
        if len(order) == 5:
            others_done.set()
        return False

    sweep(study, SPACE, ThreadSlots(2, measure), budget=6, finished=finished)

    assert order == [1, 2, 3, 4, 5, 0]


def test_a_slot_has_one_trial_at_a_time() -> None:
    slots = ThreadSlots(2)

    sweep(new_study(), SPACE, slots, budget=8)

    assert {task.slot for task in slots.begun} == {0, 1}
    assert slots.stopped


def test_a_failed_trial_has_its_reason() -> None:
    study = new_study()

    def measure(configuration: Configuration) -> Measurement | Infeasible:
        if configuration["x"] == 3:
            raise RuntimeError("the device is gone")
        if configuration["y"] == 2:
            return Infeasible("65 KiB of LDS", stage="resources")
        return time_of(configuration)

    sweep(study, SPACE, ThreadSlots(2, measure), budget=len(SPACE))

    raised = next(trial for trial in study.trials if trial.params["x"] == 3)
    infeasible = next(trial for trial in study.trials if trial.params["y"] == 2 and trial.params["x"] != 3)
    assert (raised.state, raised.values, raised.user_attrs["reason"]) == (
        TrialState.FAIL,
        None,
        "RuntimeError: the device is gone",
    )
    assert (infeasible.state, infeasible.values, infeasible.user_attrs["stage"]) == (TrialState.FAIL, None, "resources")
    assert study.best_value == 3.0


class EndableSlots(ThreadSlots):
    """Slots whose trials can be ended: the configuration with x = 6 hangs until then."""

    def __init__(self) -> None:
        super().__init__(2, self._or_hang)
        self._end = threading.Event()

    def end(self, task: Task) -> None:
        assert task.configuration["x"] == 6
        self._end.set()

    def _or_hang(self, configuration: Configuration) -> Measurement | Infeasible | Preempted:
        if configuration["x"] == 6:
            assert self._end.wait(timeout=300)
            self._end.clear()
            return Infeasible("killed")
        return time_of(configuration)


def test_a_trial_that_hangs_is_ended_at_a_multiple_of_the_fastest_one() -> None:
    study = new_study()

    sweep(study, SPACE, EndableSlots(), budget=len(SPACE), cutoffs=Cutoffs(Cutoff(10, at_least_s=0.5)))

    hung = next(trial for trial in study.trials if trial.params["x"] == 6)
    assert hung.state == TrialState.FAIL
    assert "not finished after" in hung.user_attrs["reason"]
    assert study.best_params == {"x": 3, "y": 2, "order": "a"}


class StoppedSlots(EndableSlots):
    """Slots whose hanging trial had been stopped from outside when it was ended, the first time."""

    def __init__(self) -> None:
        super().__init__()
        self._stopped = False

    def _or_hang(self, configuration: Configuration) -> Measurement | Infeasible | Preempted:
        if configuration["x"] == 6 and not self._stopped:
            super()._or_hang(configuration)
            self._stopped = True
            return Preempted("killed by SIGKILL")
        return time_of(configuration)


def test_a_trial_that_was_stopped_from_outside_is_not_slow() -> None:
    study = new_study()

    sweep(study, SPACE, StoppedSlots(), budget=len(SPACE), cutoffs=Cutoffs(Cutoff(10, at_least_s=0.5)))

    assert sum(trial.state == TrialState.COMPLETE for trial in study.trials) == len(SPACE)
    stopped = [trial for trial in study.trials if trial.state == TrialState.FAIL]
    assert stopped
    assert all("interrupted" in trial.user_attrs for trial in stopped)


def test_time_in_which_the_sweep_is_suspended_is_not_time_of_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    study, ended, waits = new_study(), threading.Event(), list[float]()

    class SuspendedSlots(ThreadSlots):
        def end(self, task: Task) -> None:
            ended.set()

    def suspended_wait(*arguments: Any, **options: Any) -> Any:
        if len(study.trials) == 3 and not waits:
            waits.append(3.0)
            time.sleep(3.0)
        return wait(*arguments, **options)

    def measure(configuration: Configuration) -> Measurement | Infeasible:
        if len(study.trials) == 3:
            ended.wait(3.5)
        return time_of(configuration)

    monkeypatch.setattr("rocm_perf_lab.autotune.slots.wait", suspended_wait)

    sweep(study, SPACE, SuspendedSlots(1, measure), budget=4, cutoffs=Cutoffs(Cutoff(10, at_least_s=2.0)))

    assert waits
    assert not ended.is_set()


def test_a_race_measures_configurations_again_in_the_first_slot_without_further_trials() -> None:
    study, slots, found = new_study(), ThreadSlots(2), []
    best = SPACE.complete({"x": 3, "y": 2, "order": "a"})

    sweep(study, SPACE, slots, budget=5, race=lambda again: found.extend([again.sample(best, 10), again.sample(best, 10)]))

    repeated = slots.begun[-2:]
    assert found == [[1.0], [1.0]]
    assert [(task.number, task.slot, task.phase, task.configuration) for task in repeated] == [
        (5, 0, "race", best),
        (6, 0, "race", best),
    ]
    assert len(study.trials) == 5
    assert slots.stopped


def test_a_run_of_the_race_that_hangs_is_ended() -> None:
    study, found = new_study(), []
    hangs = SPACE.complete({"x": 6, "y": 1, "order": "a"})
    cutoffs = Cutoffs(Cutoff(10, at_least_s=0.5))

    sweep(study, SPACE, EndableSlots(), budget=8, cutoffs=cutoffs, race=lambda again: found.append(again.sample(hangs, 10)))

    assert isinstance(found[0], Infeasible)
    assert "not finished after" in found[0].reason


def test_a_race_that_is_always_ended_from_outside_is_given_up() -> None:
    best = SPACE.complete({"x": 3, "y": 2, "order": "a"})
    slots = ThreadSlots(1)

    def race(again: RepeatedTrials) -> None:
        slots._measure = lambda _: Unmeasured("the store is gone")
        again.sample(best, 10)

    with pytest.raises(SearchBroken, match="the store is gone"):
        sweep(new_study(), SPACE, slots, budget=4, race=race)

    assert slots.stopped


def test_launches_of_a_trial_end_at_its_limit_unless_their_own_is_lower() -> None:
    emulator = {"_target_": "rocm_perf_lab.device.emulator.EmulatorDevice", "threads": 0}
    rocm = {"_target_": "rocm_perf_lab.device.rocm.RocmDevice", "timeout_s": 60}
    either = {"_target_": "rocm_perf_lab.device.choice.choose_device", "emulator": emulator, "rocm": rocm}

    assert list(_time_limits(emulator, "device", 30)) == ["device.time_limit_s"]
    assert list(_time_limits(either, "device", 30)) == ["device.emulator.time_limit_s", "device.rocm.timeout_s"]
    assert list(_time_limits(either, "device", 90)) == ["device.emulator.time_limit_s"]


def test_an_unmeasured_configuration_stays_free() -> None:
    study = new_study()
    refused = iter([True, True])

    def measure(configuration: Configuration) -> Measurement | Unmeasured:
        return Unmeasured("the store is locked") if next(refused, False) else time_of(configuration)

    sweep(study, SPACE, ThreadSlots(1, measure), budget=len(SPACE))

    assert len([trial for trial in study.trials if trial.state == TrialState.COMPLETE]) == len(SPACE)
    assert [trial.user_attrs["reason"] for trial in study.trials if trial.state == TrialState.FAIL] == ["the store is locked"] * 2


def test_repeated_unmeasured_trials_end_the_sweep() -> None:
    study = new_study()
    measured = iter(range(5))
    slots = ThreadSlots(2, lambda c: time_of(c) if next(measured, None) is not None else Unmeasured("the store is gone"))

    with pytest.raises(SearchBroken, match="the store is gone"):
        sweep(study, SPACE, slots, budget=len(SPACE))

    states = [trial.state for trial in study.trials]
    assert states.count(TrialState.COMPLETE) == 5
    assert 3 <= states.count(TrialState.FAIL) <= 4
    assert slots.stopped


def test_derived_values_reach_the_job() -> None:
    slots = ThreadSlots(1)

    sweep(new_study(), SPACE, slots, budget=3)

    assert all(task.configuration["tile"] == int(c["x"]) * int(c["y"]) for task in slots.begun for c in [task.configuration])


def test_the_budget_counts_earlier_trials() -> None:
    storage = InMemoryStorage()
    sweep(new_study(storage), SPACE, ThreadSlots(2), budget=7)

    again = new_study(storage)
    sweep(again, SPACE, ThreadSlots(2), budget=10)

    assert len(again.trials) == len(set(proposed(again))) == 10


def test_the_callback_may_end_the_sweep() -> None:
    study = new_study()

    sweep(study, SPACE, ThreadSlots(2), budget=20, finished=lambda task, trial: trial.number >= 3)

    assert 4 <= len(study.trials) <= 6
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETE}


def test_an_interrupt_keeps_finished_trials_and_releases_others() -> None:
    storage = InMemoryStorage()
    study = new_study(storage)
    go_on = threading.Event()

    def measure(configuration: Configuration) -> Measurement:
        if configuration["x"] == 6:
            go_on.wait(timeout=300)
        return time_of(configuration)

    def finished(task: Task, trial: TrialRecord) -> bool:
        if trial.number >= 5:
            threading.Timer(0.2, go_on.set).start()
            raise KeyboardInterrupt
        return False

    slots = ThreadSlots(3, measure)
    with pytest.raises(KeyboardInterrupt):
        sweep(study, SPACE, slots, budget=20, finished=finished)

    states = {trial.state for trial in study.trials}
    assert states <= {TrialState.COMPLETE, TrialState.FAIL}
    assert slots.stopped
    kept = [trial for trial in study.trials if trial.state == TrialState.COMPLETE]
    assert all(trial.user_attrs["interrupted"] for trial in study.trials if trial.state == TrialState.FAIL)
    assert len(kept) >= 4

    again = new_study(storage)
    sweep(again, SPACE, ThreadSlots(3), budget=len(SPACE))

    measured = [tuple(t.params.items()) for t in again.trials if t.state == TrialState.COMPLETE]
    assert len(measured) == len(set(measured)) == len(SPACE)
