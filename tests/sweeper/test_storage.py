"""Storages by URL, and studies that record their space."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.storage import StorageError, open_storage, open_study
from tests.builders.sweeps import small_space

if TYPE_CHECKING:
    from pathlib import Path

SPACE = small_space()


@pytest.mark.parametrize("form", ["sqlite:///{}/deep/study.db", "journal:///{}/deep/study.log"])
def test_a_database_file_is_created_with_its_directory(form: str, tmp_path: Path) -> None:
    url = form.format(tmp_path)
    open_study(open_storage(url, directory=tmp_path), "s", SPACE, RegressionSampler(SPACE)).ask()

    again = open_study(open_storage(url, directory=tmp_path), "s", SPACE, RegressionSampler(SPACE))

    assert len(again.trials) == 1


def test_without_a_url_the_study_is_in_the_directory(tmp_path: Path) -> None:
    open_storage(None, directory=tmp_path)

    assert (tmp_path / "study.db").is_file()


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("postgresql://lab:secret@127.0.0.1:1/studies", "refused"),
        ("sqlite:////proc/none/study.db", "No such file"),
        ("journal:////proc/none/study.log", "No such file"),
        ("nonsense", "invalid storage URL"),
        ("nonsense://host/name", "Can't load plugin"),
    ],
)
def test_an_unreachable_storage_is_one_error(url: str, what: str, tmp_path: Path) -> None:
    if url.startswith("postgresql"):
        pytest.importorskip("psycopg")

    with pytest.raises(StorageError) as caught:
        open_storage(url, directory=tmp_path)

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
def test_a_study_of_another_space_is_refused_with_the_differences(more: dict[str, object], what: str, tmp_path: Path) -> None:
    storage = open_storage(None, directory=tmp_path)
    open_study(storage, "s", SPACE, RegressionSampler(SPACE))
    other = small_space(**more)

    with pytest.raises(StorageError) as caught:
        open_study(storage, "s", other, RegressionSampler(other))

    assert what in caught.value.what
    assert "autotune.study" in str(caught.value)


@pytest.mark.slow
def test_concurrent_processes_create_one_storage(tmp_path: Path) -> None:
    begin = (
        "import sys, time; from pathlib import Path; import optuna; from rocm_perf_lab.autotune.storage import open_storage;"
        "time.sleep(max(0, float(sys.argv[2]) - time.time())); open_storage(sys.argv[1], directory=Path())"
    )
    together = str(time.time() + 4)
    words = [sys.executable, "-c", begin, f"sqlite:///{tmp_path / 'shared.db'}", together]

    processes = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(4)]

    assert [(process.communicate()[1], process.returncode) for process in processes] == [("", 0)] * 4
