"""Storages by URL, and studies that know their space."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import optuna
import pytest
import sqlalchemy
from optuna.trial import TrialState

from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.slots import measured
from rocm_perf_lab.autotune.storage import GRACE_S, StorageError, beat, open_storage, open_study, release_stale
from tests.builders.sweeps import small_space

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:Heartbeat of storage")

SPACE = small_space()


@pytest.mark.parametrize("form", ["sqlite:///{}/deep/study.db", "journal:///{}/deep/study.log"])
def test_a_file_is_made_with_its_folder_and_found_again(form: str, tmp_path: Path) -> None:
    url = form.format(tmp_path)
    open_study(open_storage(url, folder=tmp_path), "s", SPACE, RegressionSampler(SPACE)).ask()

    again = open_study(open_storage(url, folder=tmp_path), "s", SPACE, RegressionSampler(SPACE))

    assert len(again.trials) == 1


def test_without_a_url_the_study_is_in_the_folder(tmp_path: Path) -> None:
    open_storage(None, folder=tmp_path)

    assert (tmp_path / "study.db").is_file()


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("postgresql://lab:secret@127.0.0.1:1/studies", "refused"),
        ("sqlite:////proc/none/study.db", "No such file"),
        ("journal:////proc/none/study.log", "No such file"),
        ("nonsense", "not the URL of a storage"),
        ("nonsense://host/name", "Can't load plugin"),
    ],
)
def test_a_storage_that_cannot_be_reached_is_one_clear_error(url: str, what: str, tmp_path: Path) -> None:
    if url.startswith("postgresql"):
        pytest.importorskip("psycopg")

    with pytest.raises(StorageError) as caught:
        open_storage(url, folder=tmp_path)

    assert what in caught.value.what
    assert "secret" not in str(caught.value)
    assert "autotune.storage" in str(caught.value)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"parameters": {"x": [1, 2], "y": [1, 2, 3], "order": ["a", "b"]}}, "x is [1, 2, 3, 4, 5, 6] in the study and [1, 2]"),
        ({"parameters": {"x": [1, 2, 3, 4, 5, 6], "y": [1, 2, 3]}}, "order is ['a', 'b'] in the study and absent here"),
        ({"fixed": {"z": 2}}, "z is absent in the study and 2 here"),
        ({"constraints": ["tile <= 12"]}, "28 configurations in the study and 32 here"),
        ({"constraints": ["tile <= 12", "tile != 3 or x != 3", "tile != 10"]}, "its constraints allow other configurations"),
    ],
)  # fmt: skip
def test_a_study_that_was_started_with_another_space_says_how_they_differ(
    more: dict[str, object], what: str, tmp_path: Path
) -> None:
    storage = open_storage(None, folder=tmp_path)
    open_study(storage, "s", SPACE, RegressionSampler(SPACE))
    other = small_space(**more)

    with pytest.raises(StorageError) as caught:
        open_study(storage, "s", other, RegressionSampler(other))

    assert what in caught.value.what
    assert "autotune.study" in str(caught.value)


def test_what_a_dead_sweep_was_measuring_is_free_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    dead = open_study(open_storage(url, folder=tmp_path), "s", SPACE, RegressionSampler(SPACE))
    alive = open_study(open_storage(url, folder=tmp_path), "s", SPACE, RegressionSampler(SPACE))
    trial, other = (study.ask(dict(SPACE.distributions())) for study in (dead, alive))
    beat(dead, [trial._trial_id])
    beat(alive, [other._trial_id])
    long_ago = datetime.now() - timedelta(seconds=GRACE_S + 3600 * 48)
    with sqlalchemy.create_engine(url).begin() as connection:
        connection.execute(
            sqlalchemy.text("update trial_heartbeats set heartbeat = :then where trial_id = :id"),
            {"then": long_ago, "id": trial._trial_id},
        )

    released = release_stale(alive)

    assert released == 1
    states = {t.number: (t.state, t.user_attrs.get("interrupted")) for t in alive.get_trials()}
    assert states == {0: (TrialState.FAIL, True), 1: (TrialState.RUNNING, None)}
    assert measured(alive) == 1


def test_a_journal_has_no_heartbeats_and_releases_nothing(tmp_path: Path) -> None:
    study = open_study(open_storage(f"journal:///{tmp_path}/j", folder=tmp_path), "s", SPACE, optuna.samplers.RandomSampler())
    trial = study.ask()

    beat(study, [trial._trial_id])

    assert release_stale(study) == 0


def test_processes_that_begin_a_storage_together_all_get_it(tmp_path: Path) -> None:
    begin = (
        "import sys, time; from pathlib import Path; import optuna; from rocm_perf_lab.autotune.storage import open_storage;"
        "time.sleep(max(0, float(sys.argv[2]) - time.time())); open_storage(sys.argv[1], folder=Path())"
    )
    together = str(time.time() + 4)
    words = [sys.executable, "-c", begin, f"sqlite:///{tmp_path / 'shared.db'}", together]

    processes = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(4)]

    assert [(process.communicate()[1], process.returncode) for process in processes] == [("", 0)] * 4
