"""Guard on the code object, with kernels that share device functions with the rewritten one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.guards_code import SameCodeObject
from rocm_perf_lab.optimize.inspection import CandidateSource, Inspection
from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.toolchain.build import CompileRequest
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.toolchain.syntax import read_syntax
from tests.builders.candidates import the_compiler
from tests.builders.kernels import build_hip, write_source

if TYPE_CHECKING:
    from pathlib import Path

TWO_KERNELS = """#include <hip/hip_runtime.h>
__constant__ float table[4] = {{1.0f, 2.0f, 3.0f, 4.0f}};
__device__ float changed(float x, int i) {{ return {shared} * table[i & 3]; }}
{more}
extern "C" __global__ void rewritten(float* a) {{ a[threadIdx.x] = {own}; }}
extern "C" __global__ void neighbour(float* a) {{ a[threadIdx.x] = changed(a[threadIdx.x], threadIdx.x) + 1.0f; }}
"""


def candidate(
    directory: Path, *, shared: str = "x", more: str = "", own: str = "changed(a[threadIdx.x], threadIdx.x)"
) -> CandidateSource:
    directory.mkdir()
    text = TWO_KERNELS.format(shared=shared, more=more, own=own)
    code_object = build_hip(text, directory).code_object
    syntax = read_syntax(CompileRequest(write_source(text, directory)), compiler=the_compiler())
    inspection = Inspection(syntax, code_object, frozenset(), 64, "")
    return CandidateSource(parse_source(text.encode(), "rewritten"), find_kernel(code_object, "rewritten"), 8.0, inspection)


def test_a_device_function_that_another_kernel_calls_may_not_change(tmp_path: Path) -> None:
    before, after = candidate(tmp_path / "before"), candidate(tmp_path / "after", shared="(x * 0.5f)")

    result = SameCodeObject().check(before, after)

    assert not result.passed
    assert result.detail.startswith("changes neighbour as well: do not change device functions that other kernels call")


def test_a_new_device_function_does_not_change_other_kernels(tmp_path: Path) -> None:
    longer = "__device__ float own(float x, int i) { return i % 7 == 3 ? sqrtf(x) : changed(x, i); }"
    before, after = (
        candidate(tmp_path / "before"),
        candidate(tmp_path / "after", more=longer, own="own(a[threadIdx.x], threadIdx.x)"),
    )

    assert SameCodeObject().check(before, after).passed


TWO_INSTANTIATIONS = """#include <hip/hip_runtime.h>
template <typename T> __global__ void scaled(T* a) {{ a[threadIdx.x] *= T({factor}); }}
template __global__ void scaled<float>(float*);
template __global__ void scaled<double>(double*);
"""


def test_a_template_with_another_instance_is_rejected_with_a_hint(tmp_path: Path) -> None:
    both = []
    for factor in (2, 3):
        directory = tmp_path / str(factor)
        directory.mkdir()
        text = TWO_INSTANTIATIONS.format(factor=factor)
        code_object = build_hip(text, directory).code_object
        syntax = read_syntax(CompileRequest(write_source(text, directory)), compiler=the_compiler())
        kernel = find_kernel(code_object, "scaled<float>")
        unit = parse_source(text.encode(), "scaled<float>")
        both.append(CandidateSource(unit, kernel, 8.0, Inspection(syntax, code_object, frozenset(), 64, "")))

    result = SameCodeObject().check(*both)

    assert not result.passed
    assert "changes void scaled<double>(double*) as well: it is an instance of the same template" in result.detail
    assert "a source that instantiates this kernel only" in result.detail
