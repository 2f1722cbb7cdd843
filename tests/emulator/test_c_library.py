"""C libraries in the cache: one compilation for processes that need it at once, and a new one after each change."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.emulator.build import RUNTIME_FLAGS
from rocm_perf_lab.emulator.c_library import CLibrary, RuntimeBuildError, build_library

if TYPE_CHECKING:
    from pathlib import Path

BUILD = """
import sys
from pathlib import Path
from rocm_perf_lab.emulator.c_library import CLibrary, build_library
from rocm_perf_lab.emulator.build import RUNTIME_FLAGS
directory = Path(sys.argv[1])
library = CLibrary("the test", (directory / "answer.c",), (), RUNTIME_FLAGS)
path = build_library(library, directory / "cache")
print(path, path.stat().st_mtime_ns)
"""


def library(directory: Path, text: str) -> CLibrary:
    (directory / "answer.c").write_text(text)
    return CLibrary("the test", (directory / "answer.c",), (), RUNTIME_FLAGS)


def test_processes_that_need_a_library_at_once_get_one_build(tmp_path: Path) -> None:
    library(tmp_path, "int answer(void) { return 42; }\n")
    command = [sys.executable, "-c", BUILD, str(tmp_path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]

    outputs = {process.communicate(timeout=120)[0] for process in processes}

    assert len(outputs) == 1
    path = outputs.pop().split()[0]
    assert ctypes.CDLL(path).answer() == 42


def test_changed_sources_headers_and_flags_are_built_again(tmp_path: Path) -> None:
    first = library(tmp_path, '#include "n.h"\nint answer(void) { return N + M; }\n')
    (tmp_path / "n.h").write_text("#define N 1\n")
    first = replace(first, headers=(tmp_path / "n.h",), flags=(*first.flags, "-DM=1"))
    before = build_library(first, tmp_path / "cache")
    other_flags = build_library(replace(first, flags=(*first.flags[:-1], "-DM=5")), tmp_path / "cache")
    (tmp_path / "n.h").write_text("#define N 10\n")
    other_header = build_library(first, tmp_path / "cache")

    assert [ctypes.CDLL(str(path)).answer() for path in (before, other_flags, other_header)] == [2, 6, 11]


def test_an_error_of_the_compiler_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RuntimeBuildError, match="the test does not compile") as error:
        build_library(library(tmp_path, "int answer(void) { return undeclared; }\n"), tmp_path / "cache")

    assert error.value.where is not None
    assert "undeclared" in error.value.where
