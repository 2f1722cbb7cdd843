"""The libraries of the first application on a computer are built at the same time, and only then."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.run import first_build as module
from rocm_perf_lab.jobs.run.first_build import build_at_once, first_build

if TYPE_CHECKING:
    from pathlib import Path

_LONGEST_WAIT_S = 30


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the parts that were built, in an empty cache; no compiler runs."""
    monkeypatch.setenv("ROCM_PERF_LAB_CACHE", str(tmp_path))
    names: list[str] = []
    for name in ("build_hip_runtime", "build_driver", "_build_cpp_library"):
        monkeypatch.setattr(module, name, lambda name=name: names.append(name))
    return names


def test_an_empty_cache_gets_all_parts_and_of_a_compiled_program_no_cpp_library(built: list[str]) -> None:
    first_build(of_program=False)
    assert sorted(built) == ["build_driver", "build_hip_runtime"]

    built.clear()
    first_build(of_program=True)
    assert sorted(built) == ["_build_cpp_library", "build_driver", "build_hip_runtime"]


def test_only_missing_parts_are_built(built: list[str], tmp_path: Path) -> None:
    (tmp_path / "driver").mkdir()
    first_build(of_program=True)
    assert sorted(built) == ["_build_cpp_library", "build_hip_runtime"]


def test_a_single_missing_part_is_left_to_the_place_that_needs_it(built: list[str], tmp_path: Path) -> None:
    (tmp_path / "driver").mkdir()
    (tmp_path / "hip").mkdir()
    first_build(of_program=True)
    assert built == []


def test_builds_run_at_the_same_time() -> None:
    all_started = threading.Barrier(3)

    build_at_once([lambda: all_started.wait(_LONGEST_WAIT_S)] * 3)

    assert not all_started.broken


def test_an_error_of_one_build_is_raised_when_the_others_have_ended() -> None:
    ended = []

    def fails() -> None:
        raise LabError("no compiler", where="here", hint="install one")

    with pytest.raises(LabError, match="no compiler"):
        build_at_once([fails, lambda: ended.append("other")])

    assert ended == ["other"]
