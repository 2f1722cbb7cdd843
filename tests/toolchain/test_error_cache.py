"""Cached compiler errors: the compiler is not started again until one of its inputs changes."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.languages import triton_build
from rocm_perf_lab.languages.triton_build import TritonArgument, TritonRequest, compile_triton
from rocm_perf_lab.toolchain.build import CompileError, CompileRequest, compile_source
from rocm_perf_lab.toolchain.compilers import find_compiler
from tests.builders.kernels import write_source

if TYPE_CHECKING:
    from pathlib import Path

LARGE = """
#include <hip/hip_runtime.h>
#include "tile.h"
extern "C" __global__ void k(float* a) {
    __shared__ float s[TILE];
    s[threadIdx.x] = a[0];
    __syncthreads();
    a[0] = s[TILE - 1 - threadIdx.x];
}
"""
SUM = """import triton
import triton.language as tl


@triton.jit
def total(x_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr, tl.sum(tl.load(x_ptr + i), 0))
"""


class Compilers:
    """Counter of compiler starts, but for headers, which are precompiled once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started = 0
        run = subprocess.run

        def counted(*words: Any, **options: Any) -> Any:
            self.started += "-emit-pch" not in words[0]
            return run(*words, **options)

        monkeypatch.setattr(subprocess, "run", counted)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "tile.h").write_text("#define TILE 20000\n")
    return write_source(LARGE, tmp_path)


def refused(request: CompileRequest, cache_dir: Path, **options: Any) -> CompileError:
    with pytest.raises(CompileError) as caught:
        compile_source(request, cache_dir=cache_dir, **options)
    return caught.value


def test_a_cached_error_is_reported_without_a_compiler(source: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = find_compiler()
    compilers = Compilers(monkeypatch)

    first, second = (refused(CompileRequest(source), cache_dir, compiler=compiler) for _ in range(2))

    assert compilers.started == 1
    assert "local memory (80000) exceeds limit (65536)" in first.what
    assert (second.what, second.log, second.where, second.hint) == (first.what, first.log, first.where, first.hint)


def test_a_changed_header_is_compiled_again(source: Path, cache_dir: Path) -> None:
    refused(CompileRequest(source), cache_dir)

    (source.parent / "tile.h").write_text("#define TILE 256\n")

    assert compile_source(CompileRequest(source), cache_dir=cache_dir).code_object.kernels[0].lds_bytes == 1024


def test_another_version_of_the_compiler_compiles_again(source: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = find_compiler()
    refused(CompileRequest(source), cache_dir, compiler=compiler)
    compilers = Compilers(monkeypatch)

    refused(CompileRequest(source), cache_dir, compiler=replace(compiler, fingerprint="another"))

    assert compilers.started == 1


def test_a_header_that_is_added_later_is_used(source: Path, cache_dir: Path) -> None:
    (source.parent / "tile.h").unlink()
    refused(CompileRequest(source), cache_dir)

    (source.parent / "tile.h").write_text("#define TILE 256\n")

    assert compile_source(CompileRequest(source), cache_dir=cache_dir).code_object.kernels


def test_errors_of_the_machine_are_not_cached(source: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler, run = find_compiler(), subprocess.run

    def killed(*words: Any, **options: Any) -> Any:
        return subprocess.CompletedProcess(words[0], -9, "", "kernel.hip:1:1: error: half a message")

    monkeypatch.setattr(subprocess, "run", killed)
    assert "half a message" in refused(CompileRequest(source), cache_dir, compiler=compiler).what
    monkeypatch.setattr(subprocess, "run", run)

    assert "local memory" in refused(CompileRequest(source), cache_dir, compiler=compiler).what


def test_a_damaged_entry_is_ignored(source: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = find_compiler()
    refused(CompileRequest(source), cache_dir, compiler=compiler)
    (entry,) = (cache_dir / "refusals").iterdir()
    entry.write_bytes(entry.read_bytes()[:-3])
    compilers = Compilers(monkeypatch)

    refused(CompileRequest(source), cache_dir, compiler=compiler)

    assert compilers.started == 1


def test_errors_of_triton_are_cached_except_for_missing_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    kernel = tmp_path / "kernel.py"
    request = TritonRequest(
        source=kernel, entry="total", arguments=(TritonArgument("x_ptr", "buffer", "fp32", bytes=400),), constexprs={"BLOCK": 100}
    )
    triton_build._triton_version()
    compilers = Compilers(monkeypatch)

    said, started = [], []
    for text in (SUM, SUM, "import of_tomorrow\n" + SUM, "import of_tomorrow\n" + SUM):
        kernel.write_text(text)
        with pytest.raises(CompileError) as caught:
            compile_triton(request, cache_dir=tmp_path / "cache")
        said.append(str(caught.value))
        started.append(compilers.started)

    assert said[0] == said[1]
    assert "kernel.py:7" in said[0]
    assert started == [1, 1, 2, 3]
