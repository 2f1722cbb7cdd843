"""Heartbeats: trials of dead processes are released, in every kind of storage."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
from optuna.trial import TrialState

from rocm_perf_lab.autotune import heartbeats
from rocm_perf_lab.autotune.ask_tell import search
from rocm_perf_lab.autotune.heartbeats import GRACE_S, Heartbeats
from rocm_perf_lab.autotune.objective import Measurement
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.storage import open_storage, open_study
from rocm_perf_lab.autotune.trials import HEARTBEAT, PROCESS, is_interrupted, measured, record, release, tell
from tests.builders.sweeps import proposed, small_space, time_of

if TYPE_CHECKING:
    from pathlib import Path

    from optuna import Study

    from rocm_perf_lab.autotune.spaces.space import Configuration

SPACE = small_space()
FORMS = ["sqlite:///{}/study.db", "journal:///{}/study.log"]


def opened(form: str, directory: Path) -> Study:
    return open_study(open_storage(form.format(directory), directory=directory), "s", SPACE, RegressionSampler(SPACE))


@pytest.mark.parametrize("form", FORMS)
def test_the_trial_of_a_dead_process_is_released(form: str, tmp_path: Path) -> None:
    dead, alive = opened(form, tmp_path), opened(form, tmp_path)
    trial, other = (study.ask(dict(SPACE.distributions())) for study in (dead, alive))
    Heartbeats(dead).begin(trial)
    with Heartbeats(alive) as hearts:
        hearts.begin(other)
        assert hearts.release_dead() == 0

        trial.set_user_attr(HEARTBEAT, round(time.time()) - GRACE_S - 1)

        assert hearts.release_dead() == 1
    states = {t.number: (t.state, is_interrupted(t)) for t in alive.get_trials()}
    assert states == {0: (TrialState.FAIL, True), 1: (TrialState.RUNNING, False)}
    assert measured(alive) == 1


@pytest.mark.parametrize("form", FORMS)
def test_a_trial_without_a_heartbeat_is_released_after_the_grace_period(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = opened(form, tmp_path)
    study.ask(dict(SPACE.distributions()))
    hearts = Heartbeats(study)
    now = time.monotonic()

    released = []
    for later in (0, GRACE_S - 1, GRACE_S + 1):
        monkeypatch.setattr(time, "monotonic", partial(float, now + later))
        released.append(hearts.release_dead())

    assert released == [0, 0, 1]


def test_heartbeats_continue_during_a_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "INTERVAL_S", 0.05)
    study = opened(FORMS[1], tmp_path)
    trial = study.ask(dict(SPACE.distributions()))
    with Heartbeats(study) as hearts:
        hearts.begin(trial)
        trial.set_user_attr(HEARTBEAT, 0)
        deadline = time.monotonic() + 120
        while study.get_trials()[0].user_attrs[HEARTBEAT] == 0 and time.monotonic() < deadline:
            time.sleep(0.02)

    assert abs(study.get_trials()[0].user_attrs[HEARTBEAT] - time.time()) < 200


def test_the_process_of_a_trial_on_another_machine_may_be_alive(tmp_path: Path) -> None:
    study = opened(FORMS[0], tmp_path)
    for process in (["elsewhere", 2**30, "1"], [None, 2**30, None]):
        trial = study.ask(dict(SPACE.distributions()))
        Heartbeats(study).begin(trial)
        trial.set_user_attr(PROCESS, process)

    assert Heartbeats(study).release_dead() == 0


@pytest.mark.parametrize("form", FORMS)
def test_the_result_of_a_released_trial_is_dropped(form: str, tmp_path: Path) -> None:
    slept, other = opened(form, tmp_path), opened(form, tmp_path)
    trials = [slept.ask(dict(SPACE.distributions())) for _ in range(2)]
    for trial in trials:
        trial.set_user_attr(HEARTBEAT, 0)
    assert Heartbeats(other).release_dead() == 2

    tell(slept, trials[0], Measurement(1.0, {"runs": 1}))
    release(slept, trials[1])

    assert [trial.state for trial in slept.get_trials()] == [TrialState.FAIL] * 2
    assert measured(slept) == 0


def test_a_heartbeat_is_not_a_detail_of_a_trial(tmp_path: Path) -> None:
    study = opened(FORMS[0], tmp_path)

    search(study, SPACE, time_of, 1)

    assert HEARTBEAT in study.get_trials()[0].user_attrs
    assert HEARTBEAT not in record(study.get_trials()[0]).details


KILLED = """
import os, signal, sys
from pathlib import Path
from rocm_perf_lab.autotune.ask_tell import search
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.storage import open_storage, open_study
from tests.builders.sweeps import small_space
space = small_space()
study = open_study(open_storage(sys.argv[1], directory=Path()), "s", space, RegressionSampler(space))
search(study, space, lambda configuration: os.kill(os.getpid(), signal.SIGKILL), 1)
"""


@pytest.mark.parametrize("form", FORMS)
def test_a_search_repeats_the_trial_of_a_killed_process_at_once(form: str, tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, form.format(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    study = opened(form, tmp_path)
    in_hand = study.get_trials()[0]
    assert in_hand.state == TrialState.RUNNING
    ran: list[Configuration] = []

    def objective(configuration: Configuration) -> Measurement:
        ran.append(configuration)
        return time_of(configuration)

    search(study, SPACE, objective, len(SPACE))

    assert len(ran) == len(SPACE) == measured(study)
    assert len(set(proposed(study))) == len(SPACE)
