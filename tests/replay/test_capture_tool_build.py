"""Build of the capture tool: compilers, headers, CMake."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from rocm_perf_lab.replay import tool_build
from rocm_perf_lab.replay.tool_build import CppCompiler, ToolBuildError, build_tool, find_cpp_compiler
from rocm_perf_lab.toolchain.compilers import ToolSearch
from rocm_perf_lab.toolchain.hsa_headers import MissingHsaHeaders, find_hsa_headers

REPOSITORY = Path(__file__).parents[2]
EXPORTED = {"OnLoad", "OnUnload", "HSA_AMD_TOOL_PRIORITY"}


def exported(library: Path) -> set[str]:
    listing = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in listing.splitlines()}


def test_headers_of_rocm_come_first(tmp_path: Path) -> None:
    wheel = find_hsa_headers(ToolSearch(rocm=tmp_path / "nowhere"))
    shutil.copytree(wheel, tmp_path / "include" / "hsa")
    (tmp_path / "include" / "hip").mkdir()
    (tmp_path / "include" / "hip" / "hip_runtime.h").touch()

    assert find_hsa_headers(ToolSearch(rocm=tmp_path)) == tmp_path / "include" / "hsa"


def test_missing_headers_are_reported_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(MissingHsaHeaders, match="without HSA headers") as error:
        find_hsa_headers(ToolSearch(packages=(str(tmp_path),), rocm=tmp_path))

    assert "pip install" in str(error.value)


def test_a_missing_compiler_is_reported_with_a_hint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("rocm_perf_lab.replay.tool_build.util.find_spec", lambda _: None)

    with pytest.raises(ToolBuildError, match=r"without a C\+\+ compiler"):
        find_cpp_compiler()


def test_the_message_of_the_compiler_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failing = CppCompiler(("sh", "-c", "echo no such standard >&2; exit 1", "compiler"), "1")
    monkeypatch.setattr(tool_build, "find_cpp_compiler", lambda: failing)

    with pytest.raises(ToolBuildError, match="no such standard"):
        build_tool(cache=tmp_path)

    assert not list(tmp_path.rglob("*.so"))


def test_a_damaged_library_is_built_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tool_build, "_build", lambda *_: b"library")
    path = build_tool(cache=tmp_path)
    path.write_bytes(b"something else")

    assert build_tool(cache=tmp_path).read_bytes() == b"library"


def test_only_the_entry_points_are_exported_and_no_rocm_library_is_needed() -> None:
    library = build_tool()

    assert exported(library) == EXPORTED
    ctypes.CDLL(str(library))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
def test_cmake_builds_the_same_tool(tmp_path: Path) -> None:
    include = f"-DROCM_PERF_LAB_HSA_INCLUDE={find_hsa_headers()}"
    subprocess.run(["cmake", "-S", str(REPOSITORY), "-B", str(tmp_path), include], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", str(tmp_path), "-j2"], check=True, capture_output=True)

    assert exported(tmp_path / tool_build.LIBRARY) == EXPORTED
