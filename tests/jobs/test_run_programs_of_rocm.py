"""Programs of ROCm without an installation: `rocm-perf run` finds them in the cached tree. Compilers may leave the GPU unused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.run.launch import prepare_launch
from rocm_perf_lab.jobs.run.summary import end_lines
from rocm_perf_lab.runtime.application import ApplicationResult
from rocm_perf_lab.runtime.guardian import ApplicationEnd
from rocm_perf_lab.runtime.rocm_root import COMPLETE_FILE, ROOT_VARIABLE
from rocm_perf_lab.target.catalog import load_target

if TYPE_CHECKING:
    from pathlib import Path

MI300X = load_target("mi300x")
PROGRAM = "program-of-the-tree"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the cached ROCm tree, with one program; it is not complete."""
    root = tmp_path / "root"
    (root / "usr/bin").mkdir(parents=True)
    program = root / "usr/bin" / PROGRAM
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv(ROOT_VARIABLE, str(root))
    return root


def test_a_program_that_only_the_complete_tree_has_runs_in_it(tree: Path) -> None:
    (tree / COMPLETE_FILE).touch()

    launch = prepare_launch((PROGRAM, "argument"), MI300X, "auto", None)

    assert (launch.root, launch.runtime, launch.command) == (tree, "rocm", (PROGRAM, "argument"))
    assert f"{PROGRAM} is not installed: using the ROCm directory tree in {tree}" in launch.notes[0]


def test_an_incomplete_tree_and_other_runtimes_are_not_used(tree: Path) -> None:
    with pytest.raises(LabError, match="is not on PATH"):
        prepare_launch((PROGRAM,), MI300X, "auto", None)
    (tree / COMPLETE_FILE).touch()
    with pytest.raises(LabError, match="is not on PATH"):
        prepare_launch((PROGRAM,), MI300X, "lab", None)


def test_programs_of_this_machine_come_first(tree: Path) -> None:
    (tree / COMPLETE_FILE).touch()
    (tree / "usr/bin/true").write_text("#!/bin/sh\n")

    assert prepare_launch(("true",), MI300X, "auto", None).root is None


@pytest.mark.parametrize(("program", "lines"), [("./app", 1), ("hipcc", 0), ("/opt/rocm/bin/amdclang++", 0)])
def test_an_unused_gpu_is_reported_except_of_compilers(program: str, lines: int) -> None:
    result = ApplicationResult(ApplicationEnd("exit", 0), loaded_driver=True, used_gpu=False)

    assert len(end_lines(result, program)) == lines


def test_a_crash_before_the_gpu_is_used_is_reported_as_such() -> None:
    result = ApplicationResult(ApplicationEnd("signal", 11), loaded_driver=True, used_gpu=False)

    (line,) = end_lines(result, "./app")

    assert line == "the application was terminated by signal 11, SIGSEGV (Segmentation fault) before it used the GPU"
