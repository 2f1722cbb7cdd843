"""Trials whose process is ended from outside: repeated once, and never learned from."""

from __future__ import annotations

import signal as signal_numbers
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import optuna
import pytest

from rocm_perf_lab.autotune.ask_tell import search
from rocm_perf_lab.autotune.clocks import CommandFailed, CommandKilled, run_command
from rocm_perf_lab.autotune.objective import Measurement, Preempted, SearchBroken
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.slots import sweep
from rocm_perf_lab.autotune.spaces.space import all_combinations
from rocm_perf_lab.autotune.trials import records

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.slots import Task
    from rocm_perf_lab.autotune.spaces.space import Configuration

SPACE = all_combinations({"x": (1, 2, 3, 4), "y": (1, 2)})
TOLD = Counter[tuple[Any, ...]]


def study() -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.create_study(sampler=RegressionSampler(SPACE, seed=3))


def killing(times: int, told: TOLD) -> Any:
    """Return an objective that is killed that many times at x = 2, y = 1."""

    def objective(values: Configuration) -> Measurement | Preempted:
        key = int(values["x"]), int(values["y"])
        told[key] += 1
        return Preempted("killed by SIGKILL") if key == (2, 1) and told[key] <= times else Measurement(float(sum(key)))

    return objective


def test_a_killed_configuration_is_measured_again_and_counts_once() -> None:
    done, told = study(), TOLD()

    search(done, SPACE, killing(1, told), 8)

    assert told[2, 1] == 2
    assert len(told) == len(records(done, SPACE)) == 8
    assert all(trial.runtime_ms is not None for trial in records(done, SPACE))


def test_a_configuration_that_is_killed_twice_is_left_and_not_learned_from() -> None:
    done, told = study(), TOLD()

    search(done, SPACE, killing(2, told), 8)

    (lost,) = [trial for trial in records(done, SPACE) if trial.runtime_ms is None]
    assert told[2, 1] == 2
    assert "ended from outside twice" in (lost.reason or "")
    assert isinstance(done.sampler, RegressionSampler)
    seen, _ = done.sampler._observe(done, None, set())
    assert len(seen.rows) == 7
    assert seen.feasible.all()
    assert seen.pending.tolist() == [SPACE.index({"x": 2, "y": 1})]


def test_a_search_ends_if_everything_is_killed() -> None:
    with pytest.raises(SearchBroken, match="out of memory"):
        search(study(), SPACE, lambda _: Preempted("out of memory"), 8)


class TwoSlots:
    """Slots in this process, the first of which is killed by one configuration."""

    count = 2

    def __init__(self) -> None:
        self.ran: list[tuple[int, tuple[Any, ...]]] = []

    def start(self, task: Task) -> Future[Any]:
        key = int(task.configuration["x"]), int(task.configuration["y"])
        first = key not in [other for _, other in self.ran]
        self.ran.append((task.slot, key))
        future: Future[Any] = Future()
        future.set_result(Preempted("preempted") if key == (2, 1) and first else Measurement(float(sum(key))))
        return future

    def stop(self) -> None:
        """Do nothing: no trial is running."""


def test_a_sweep_repeats_it_on_another_slot() -> None:
    done, slots = study(), TwoSlots()

    sweep(done, SPACE, slots, budget=8)

    first, again = [slot for slot, key in slots.ran if key == (2, 1)]
    assert first != again
    assert len(slots.ran) == 9
    assert len(records(done, SPACE)) == 8


@pytest.mark.parametrize(("signal", "kind"), [(9, CommandKilled), (15, CommandKilled), (11, CommandFailed)])
def test_a_command_that_is_killed_did_not_fail_by_itself(signal: int, kind: type[Exception]) -> None:
    with pytest.raises(CommandFailed) as caught:
        run_command([sys.executable, "-c", f"import os; os.kill(os.getpid(), {signal})"], 60)

    assert type(caught.value) is kind


def test_a_command_that_another_process_stops_did_not_fail_by_itself() -> None:
    with pytest.raises(CommandKilled, match="stopped"):
        run_command([sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"], 1.0)


def test_wall_clock_time_is_exact() -> None:
    """Waiting with a timeout polls every 50 ms, so 0.13 s was 0.17 s."""
    assert min(run_command(["sleep", "0.13"], 60)[1] for _ in range(5)) < 0.145


SUSPENDED = """
import signal as signal_numbers
import subprocess
import sys
import time
from rocm_perf_lab.autotune.clocks import run_command
print("begun", flush=True)
print(run_command(["sleep", "1"], 60)[1])
"""


def test_a_command_is_timed_again_if_the_search_is_suspended() -> None:
    search_process = subprocess.Popen([sys.executable, "-c", SUSPENDED], stdout=subprocess.PIPE, text=True)
    assert search_process.stdout is not None and search_process.stdout.readline() == "begun\n"
    time.sleep(0.3)
    search_process.send_signal(signal_numbers.SIGSTOP)
    time.sleep(3)
    search_process.send_signal(signal_numbers.SIGCONT)

    assert float(search_process.communicate(timeout=60)[0]) < 2
