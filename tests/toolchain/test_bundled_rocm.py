"""ROCm directory: complete, created once and atomically."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.toolchain.bundled_rocm import RocmRootError, ensure_rocm_root
from rocm_perf_lab.toolchain.compilers import find_compiler

if TYPE_CHECKING:
    from pathlib import Path


def make_root(cache_dir: Path, clang: tuple[str, ...] | None = None) -> Path:
    pip = find_compiler(("pip",))
    assert pip.bundled_rocm is not None
    return ensure_rocm_root(pip.bundled_rocm, clang or pip.command, pip.linker, cache_dir)


def test_it_contains_the_files_that_clang_needs(tmp_path: Path) -> None:
    root = make_root(tmp_path)

    assert (root / "include" / "hip" / "hip_runtime.h").is_file()
    assert (root / "share" / "hip" / "version").read_text().startswith("HIP_VERSION_MAJOR=7\n")
    bitcode = {path.name for path in (root / "amdgcn" / "bitcode").iterdir()}
    assert {
        "ocml.bc",
        "ockl.bc",
        "oclc_isa_version_942.bc",
        "oclc_abi_version_600.bc",
        "oclc_daz_opt_off.bc",
    } <= bitcode
    assert (root / "amdgcn" / "bitcode" / "oclc_daz_opt_on.bc").read_bytes()[:4] == b"BC\xc0\xde"


def test_concurrent_first_uses_create_one_directory(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        roots = set(pool.map(lambda _: make_root(tmp_path), range(4)))

    assert [path.name for path in (tmp_path / "rocm").iterdir()] == [path.name for path in roots]


def test_another_wheel_version_gets_its_own_directory(tmp_path: Path) -> None:
    pip = find_compiler(("pip",))
    assert pip.bundled_rocm is not None
    other = replace(pip.bundled_rocm, version="0.0.1")

    assert ensure_rocm_root(other, pip.command, pip.linker, tmp_path) != make_root(tmp_path)


def test_a_compiler_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(RocmRootError):
        make_root(tmp_path, clang=("false",))

    assert list((tmp_path / "rocm").iterdir()) == []
