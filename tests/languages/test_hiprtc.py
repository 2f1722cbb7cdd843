"""The language hiprtc: sources without includes compile and run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.languages.hiprtc import HiprtcLanguage
from rocm_perf_lab.toolchain.build import BuildResult, CompileError, CompileRequest, compile_source
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.syntax import read_syntax
from tests.builders.emulation import EmulatorBench
from tests.builders.kernels import write_source
from tests.builders.targets import mi300x
from tests.builders.triton_kernels import experiment, launch_of

SOURCES = Path(__file__).parents[1] / "toolchain" / "sources" / "hiprtc"
GUARDED = """
#ifndef __HIPCC_RTC__
#include <no_such_header_for_hiprtc.h>
#endif
template <typename T> __device__ T twice(T x) { return x + x; }
extern "C" __global__ void k(float* x, int64_t n) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(n <= 64);
  if (i < n) x[i] = twice(x[i]) + __hip_internal::is_same<uint8_t, unsigned char>::value + float(__float2half(0.5f));
}
"""


def compiled(source: Path) -> BuildResult:
    return compile_source(CompileRequest(source, language="hiprtc"), compiler=find_compiler(("pip",)))


def test_the_experiment_is_correct(tmp_path: Path) -> None:
    launch = launch_of(experiment("saxpy_hiprtc", {"n": 1000}))
    x, y = (value.data.view(np.float32) for value in launch.arguments if isinstance(value, BufferValue))
    expected = 2.5 * x.astype(np.float64) + y

    run = EmulatorDevice(target=mi300x()).run(launch, database=tmp_path / "run.db", runs=1, counters=())

    np.testing.assert_array_equal(run.outputs["y"], expected.astype(np.float32))


def test_types_and_functions_are_built_in(tmp_path: Path) -> None:
    build = compiled(write_source(GUARDED, tmp_path))
    with EmulatorBench(build.code_object) as bench:
        x = bench.buffer(np.arange(64, dtype=np.float32))
        bench.launch("k", 1, 64, x, 60)
        got = bench.read(x, np.float32)

    np.testing.assert_array_equal(got, np.where(np.arange(64) < 60, 2 * np.arange(64) + 1.5, np.arange(64)))
    assert build.notes == ()


def test_the_language_of_the_compiler_call_is_hiprtc(tmp_path: Path) -> None:
    request = HiprtcLanguage().syntax_request(experiment("saxpy_hiprtc", {}), tmp_path / "saxpy.hip", architecture="gfx942")

    assert request.language == "hiprtc"


@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        ("types", {"kernel"}),
        ("shim", {"bias_relu"}),
        ("tmpl", {"void kernels::vec<_Float16, 2>(_Float16 const*, _Float16*, unsigned long)",
                  "void kernels::vec<float, 4>(float const*, float*, unsigned long)"}),
    ],
)  # fmt: skip
def test_sources_of_runtime_compilation_compile(name: str, kernels: set[str]) -> None:
    build = compiled(SOURCES / f"{name}.hip")

    assert {kernel.name for kernel in build.code_object.kernels} == kernels


def test_a_missing_header_is_an_error_although_it_may_be_for_host_code(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"kernel.hip:1:10: 'mpi\.h' file not found"):
        compiled(write_source("#include <mpi.h>\n" + GUARDED, tmp_path))


def test_an_error_names_the_line_of_the_source(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"kernel.hip:2:3: use of undeclared identifier 'y'"):
        compiled(write_source('extern "C" __global__ void k(float* x) {\n  y[0] = 1;\n}\n', tmp_path))


def test_the_syntax_tree_has_the_kernel(tmp_path: Path) -> None:
    request = CompileRequest(write_source(GUARDED, tmp_path), language="hiprtc")

    tree = read_syntax(request, compiler=find_compiler(("pip",)))

    assert [node.name for node in tree.walk() if "CUDAGlobalAttr" in node.attributes()] == ["k"]
