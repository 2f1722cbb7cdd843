"""An application is checked before it starts: its file, its GPU code, its libraries and the HIP runtime that it loads."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.run.launch import prepare_launch
from rocm_perf_lab.runtime.executable import read_executable
from rocm_perf_lab.runtime.rocm_root import COMPLETE_FILE, ROOT_VARIABLE
from rocm_perf_lab.target.catalog import load_target
from tests.builders.linked_programs import LinkedProgram

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.jobs.run.launch import ApplicationLaunch, RuntimeName

MI300X = load_target("mi300x")
_ARM = 183


@pytest.fixture(autouse=True)
def no_rocm_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the place of the cached ROCm tree, which is empty."""
    root = tmp_path / "root"
    root.mkdir()
    monkeypatch.setenv(ROOT_VARIABLE, str(root))
    return root


def launched(path: Path, runtime: RuntimeName = "auto") -> ApplicationLaunch:
    return prepare_launch((str(path), "argument"), MI300X, runtime, None)


def refusal(path: Path, runtime: RuntimeName = "auto") -> LabError:
    with pytest.raises(LabError) as error:
        launched(path, runtime)
    return error.value


def executable_text(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def test_a_text_without_interpreter_is_no_program(tmp_path: Path) -> None:
    error = refusal(executable_text(tmp_path / "notes", b"echo hello\n"))

    assert "the file is not a program" in error.what
    assert "bash" in (error.hint or "")


def test_a_script_may_load_any_library(tmp_path: Path) -> None:
    assert read_executable(executable_text(tmp_path / "script", b"#!/bin/sh\nexit 0\n")).kind == "script"


def test_a_program_for_another_processor_names_it(tmp_path: Path) -> None:
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HH", 3, _ARM)

    assert "the program is for aarch64" in refusal(executable_text(tmp_path / "app", header.ljust(64, b"\0"))).what


def test_a_truncated_program_is_refused(tmp_path: Path) -> None:
    whole = LinkedProgram(tmp_path, needed=()).link()
    part = executable_text(tmp_path / "part", whole.read_bytes()[: whole.stat().st_size // 4])

    assert refusal(part).what == "the program is truncated"


def test_gpu_code_for_other_architectures_names_them_and_a_fitting_target(tmp_path: Path) -> None:
    error = refusal(LinkedProgram(tmp_path, architectures=("gfx1100", "gfx90a")).link())

    assert error.what == "the program has code for gfx1100, gfx90a, the emulated GPU is gfx942 (AMD Instinct MI300X)"
    assert "--offload-arch=gfx942" in (error.hint or "")
    assert "mi250x" in (error.hint or "")


@pytest.mark.parametrize("architecture", ["gfx942", "gfx9-4-generic", "amdgcnspirv"])
def test_gpu_code_that_the_target_executes_is_accepted(architecture: str, tmp_path: Path) -> None:
    program = LinkedProgram(tmp_path, architectures=("gfx90a", architecture)).link()

    assert launched(program).command == (str(program), "argument")


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    error = refusal(LinkedProgram(tmp_path, needed=("libfoo.so.3", "librocblas.so.4")).link())

    assert error.what == "the shared libraries were not found: libfoo.so.3, librocblas.so.4"


def test_libraries_of_a_program_in_the_current_directory_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = LinkedProgram(tmp_path, needed=("libfoo.so.3",)).link()
    monkeypatch.chdir(tmp_path)

    with pytest.raises(LabError, match=r"the shared library was not found: libfoo\.so\.3"):
        prepare_launch((f"./{program.name}",), MI300X, "auto", None)


def test_a_library_of_the_cached_rocm_tree_leads_to_that_tree_with_one_line(tmp_path: Path, no_rocm_tree: Path) -> None:
    program = LinkedProgram(tmp_path, needed=("librocblas.so.4",)).link()
    directory = no_rocm_tree / "usr" / "lib" / "x86_64-linux-gnu"
    directory.mkdir(parents=True)
    (directory / "librocblas.so.4").touch()
    (no_rocm_tree / COMPLETE_FILE).touch()

    launch = launched(program)

    assert (launch.runtime, launch.root) == ("rocm", no_rocm_tree)
    assert launch.notes == (
        f"librocblas.so.4 is not installed: using the ROCm directory tree in {no_rocm_tree} (as with --root)",
    )
    assert "was not found: librocblas.so.4" in refusal(program, "lab").what


def test_a_newer_hip_than_the_runtime_has_names_both_versions(tmp_path: Path) -> None:
    error = refusal(LinkedProgram(tmp_path, needed=("libamdhip64.so.8",)).link())

    assert error.what == "the program needs libamdhip64.so.8, the HIP runtime of ROCm 8"
    assert "ROCm 5 to 7" in (error.hint or "")


@pytest.mark.parametrize("version", [5, 6, 7])
def test_programs_of_rocm_5_to_7_find_the_runtime_of_rocm_perf_lab(version: int, tmp_path: Path) -> None:
    program = LinkedProgram(tmp_path, needed=(f"libamdhip64.so.{version}",)).link()

    launch = launched(program, "lab")

    loaded = read_executable(program).libraries({**os.environ, **launch.variables})
    assert loaded.missing == ()
    assert f"libamdhip64.so.{version}" in loaded.found
    assert launch.runtime == "lab"


def test_a_missing_program_inside_a_rocm_tree_is_one_error(tmp_path: Path, no_rocm_tree: Path) -> None:
    (no_rocm_tree / "usr").mkdir()

    for name in ("missing", "./missing", "/usr/bin/missing"):
        with pytest.raises(LabError, match=f"program {name} does not exist"):
            prepare_launch((name,), MI300X, "auto", no_rocm_tree)
