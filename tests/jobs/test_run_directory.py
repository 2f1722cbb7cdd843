"""A directory that an earlier run has used."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from rocm_perf_lab.jobs.run_directory import forget_results
from rocm_perf_lab.tracking.deferred import FAILURE, RECORD

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def used(directory: Path, *names: str) -> Path:
    for name in ("profile.json", "config.json", *names):
        (directory / name).write_text("{}")
    return directory


def test_results_are_removed_and_other_files_are_kept(tmp_path: Path) -> None:
    forget_results(used(tmp_path, "notes.md"), passes=True)

    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "notes.md"}


def test_a_directory_without_a_run_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / "att").mkdir()

    forget_results(tmp_path, passes=True)

    assert (tmp_path / "att").is_dir()


def test_files_are_kept_until_the_earlier_run_is_logged(tmp_path: Path) -> None:
    used(tmp_path, RECORD)
    there: list[bool] = []

    def log() -> None:
        there.append((tmp_path / "profile.json").exists())
        (tmp_path / RECORD).unlink()

    logging = threading.Timer(0.3, log)
    logging.start()
    forget_results(tmp_path, passes=True)
    logging.join()

    assert there == [True]
    assert not (tmp_path / "profile.json").exists()


def test_a_run_whose_logging_failed_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)

    forget_results(used(tmp_path, RECORD, FAILURE), passes=True)

    assert waits == []
    assert {path.name for path in tmp_path.iterdir()} == {"config.json"}
