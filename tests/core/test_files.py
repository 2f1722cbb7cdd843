"""Files are written atomically, with the permissions of the umask; missing files are reported."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import require_existing, write_text
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rocpd import dispatch, recorded_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def _umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_umask")
def test_files_have_the_permissions_of_the_umask(tmp_path: Path) -> None:
    write_text(tmp_path / "profile.json", "{}")
    write_database(tmp_path / "x.db", recorded_run(load_target("mi300x"), [dispatch(0, 1)]))

    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {"profile.json": 0o640, "x.db": 0o640}


def test_a_file_with_a_long_name_is_written(tmp_path: Path) -> None:
    write_text(tmp_path / ("n" * 250), "whole")

    assert [path.read_text() for path in tmp_path.iterdir()] == ["whole"]


def test_a_missing_file_is_reported_with_similar_names(tmp_path: Path) -> None:
    for name in ("results.db", "other.db", "notes.txt"):
        (tmp_path / name).touch()

    with pytest.raises(LabError) as caught:
        require_existing(tmp_path / "resluts.db", "the database")

    assert caught.value.where == str(tmp_path / "resluts.db")
    assert caught.value.hint == f"did you mean {tmp_path / 'results.db'} or {tmp_path / 'other.db'}?"


def test_a_missing_directory_has_no_suggestion(tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        require_existing(tmp_path / "no" / "x.db", "the database")

    assert caught.value.hint == "check the path"
