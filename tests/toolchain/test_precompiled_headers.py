"""Precompiled headers change the time of a compilation, and nothing else."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.languages.hip import HipLanguage
from rocm_perf_lab.toolchain import device_code
from rocm_perf_lab.toolchain.compile_request import CompileRequest
from rocm_perf_lab.toolchain.compiler_run import CompileError
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.device_code import compile_device_code, device_command
from rocm_perf_lab.toolchain.precompiled_headers import precompiled_header

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.toolchain.build_cache import CachedBuild

HEAD = "// A kernel.\n#include <cstdint>\n#include <hip/hip_runtime.h>\n#include <hip/hip_fp16.h>\n"
KERNELS = {
    "macros": HEAD + '#include "own.h"\nextern "C" __global__ void k(float* x) { x[threadIdx.x] *= FACTOR * SIZE; }\n',
    "templates": HEAD
    + "template <int N> __global__ void k(__half* x) { for (int i = 0; i < N; ++i) x[i] = __hadd(x[i], x[i]); }\n"
    "template __global__ void k<SIZE>(__half*);\n",
    "device library": HEAD + "#include <cassert>\n"
    '__global__ void k(double* x) { x[threadIdx.x] = sin(x[0]); printf("%g", x[0]); assert(x[1] > SIZE); }\n',
    "warnings": HEAD + "#warning slow\n__global__ void k(int* x) { int unused; *x = SIZE; }\n",
}


def request_of(directory: Path, text: str, **options: object) -> CompileRequest:
    (directory / "own.h").write_text("#define FACTOR 3\n")
    (directory / "k.hip").write_text(text)
    given = {"defines": {"SIZE": 7}, "flags": ("-Wall",), **options}
    return CompileRequest(directory / "k.hip", **given)  # type: ignore[arg-type]


def built(request: CompileRequest, cache: Path) -> CachedBuild:
    found = compile_device_code(request, find_compiler(), cache)
    return replace(found, dependencies=tuple(sorted(found.dependencies)))


def header_of(request: CompileRequest, cache: Path) -> Path | None:
    compiler = find_compiler()
    return precompiled_header(request, device_command(request, compiler, cache), compiler, cache)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cache that keeps the precompiled headers of this module."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("text", KERNELS.values(), ids=KERNELS)
def test_code_dependencies_and_diagnostics_are_those_of_a_plain_compilation(
    text: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of(tmp_path, text, include_dirs=(tmp_path,))
    assert header_of(request, cache) is not None
    fast = built(request, cache)
    monkeypatch.setattr(device_code, "precompiled_header", lambda *_: None)

    assert built(request, cache) == fast


def test_errors_are_those_of_a_plain_compilation(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_of(tmp_path, HEAD + "__global__ void k(float* x) { x[0] = hipSuccess + missing; }\n")
    with pytest.raises(CompileError, match="undeclared identifier 'missing'") as fast:
        built(request, cache)
    monkeypatch.setattr(device_code, "precompiled_header", lambda *_: None)
    with pytest.raises(CompileError) as plain:
        built(request, cache)

    assert (fast.value.what, fast.value.where, fast.value.log) == (plain.value.what, plain.value.where, plain.value.log)


def test_sources_with_the_same_system_headers_share_one_file(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first = request_of(tmp_path, KERNELS["macros"])
    second = request_of(
        tmp_path / "other", KERNELS["templates"], defines={"SIZE": 9, "FACTOR": 2}, flags=("-Wall", "-mllvm", "-x=1")
    )

    assert header_of(first, cache) == header_of(second, cache)


@pytest.mark.parametrize(
    "options",
    [
        {"text": "#define __HIP_NO_HALF_OPERATORS__ 1\n" + KERNELS["macros"]},
        {"text": "__global__ void k() {}\n"},
        {"defines": {"SIZE": 7, "hipSuccess": 1}},
        {"flags": ("-Wall", "-Dwarpsize=2", "-DhipError_t=int")},
        {"flags": ("-Wall", "-include", "own.h")},
        {"flags": ("-Wall", "-isystem/opt/headers")},
        {"language": "hiprtc"},
    ],
    ids=["macro before", "no header", "macro of the headers", "macro in the flags", "forced include", "directory", "hiprtc"],
)
def test_what_may_change_the_headers_prevents_it(options: dict[str, object], cache: Path, tmp_path: Path) -> None:
    text = str(options.pop("text", KERNELS["macros"]))

    assert header_of(request_of(tmp_path, text, **options), cache) is None


def test_kernels_with_directories_of_headers_share_it(cache: Path, tmp_path: Path) -> None:
    plain = header_of(request_of(tmp_path, KERNELS["macros"]), cache)

    assert plain is not None
    assert header_of(request_of(tmp_path, KERNELS["macros"], include_dirs=(tmp_path, tmp_path / "none")), cache) == plain


@pytest.mark.parametrize("name", ["cstdint", "hip/amd_detail/amd_hip_runtime.h", "bits/alltypes.h"])
def test_a_directory_with_a_header_of_the_same_name_prevents_it(name: str, cache: Path, tmp_path: Path) -> None:
    (tmp_path / "own" / name).parent.mkdir(parents=True)
    (tmp_path / "own" / name).write_text("")

    assert header_of(request_of(tmp_path, KERNELS["macros"], include_dirs=(tmp_path / "own",)), cache) is None


def test_a_described_kernel_uses_it(cache: Path, tmp_path: Path) -> None:
    request_of(tmp_path, KERNELS["templates"])
    description = {"name": "k", "source": "k.hip", "entry": "k", "arguments": [], "grid": [1], "block": [64]}
    kernel = KernelDescription.model_validate({**description, "directory": tmp_path})

    request = HipLanguage().syntax_request(kernel, tmp_path / "k.hip", architecture="gfx942")

    assert request.include_dirs == (tmp_path,)
    assert header_of(request, cache) is not None


@pytest.mark.parametrize("damage", ["other bytes", "headers installed again"])
def test_an_outdated_file_is_created_again(damage: str, cache: Path, tmp_path: Path) -> None:
    request = request_of(tmp_path, KERNELS["macros"])
    expected, header = built(request, cache), header_of(request, cache)
    assert header is not None
    if damage == "other bytes":
        header.write_bytes(b"no precompiled header")
    else:
        os.utime(header.with_suffix(".h"), (1, 1))

    assert built(request, cache) == expected
    assert header_of(request, cache) == header
    assert header.stat().st_size > 1_000_000
    assert built(request, cache) == expected
