"""Reads of uninitialised memory are defects only if a result of the launch depends on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.checks import parse_checks
from rocm_perf_lab.emulator.machine import EmulatedGpu
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.launching import LaunchResult
    from rocm_perf_lab.toolchain.code_object import CodeObject

SOURCE = r"""
#include <hip/hip_runtime.h>
#define K extern "C" __global__
K void of_lds(const float* x, float* y, int* other, int how) {
  __shared__ float tile[65];
  int t = threadIdx.x;
  tile[t] = x[t];
  __syncthreads();
  float next = ((volatile float*)tile)[t + 1];
  if (how == 0) y[t] = t < 63 ? next : 0.0f;
  if (how == 1) y[t] = next;
  if (how == 2) y[t] = next > 1e30f ? 1.0f : 0.0f;
  if (how == 3) y[t] = (__float_as_int(next) & 0x40000000) ? 1.0f : 0.0f;
  if (how == 4 && next != next) other[0] = 1;
}
K void of_pairs(const float* x, float* y, int* other, int how) {
  __shared__ int tile[66];
  int t = threadIdx.x;
  tile[t] = t;
  __syncthreads();
  volatile int* unused = tile + 64;
  y[t] = unused[0] == unused[1] ? 1.0f : x[t];
}
K void of_memory(const volatile float* x, float* y, int* other, int how) {
  int t = threadIdx.x;
  float next = x[t + 1];
  if (how == 0) y[t] = t < 63 ? next : 0.0f;
  if (how == 1) y[t] = next;
  if (how == 2) y[t] = 0.0f * (t < 63 ? 1.0f : next);
}
"""


@pytest.fixture(scope="module")
def code_object(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    return build_hip(SOURCE, tmp_path_factory.mktemp("unused")).code_object


def launch(code_object: CodeObject, kernel: str, how: int, checks: str = "all") -> tuple[LaunchResult, np.ndarray]:
    """Run one wavefront on 64 numbers, the buffer of which has a last one that is uninitialised."""
    with EmulatedGpu(mi300x(), max_instructions=10_000, checks=parse_checks(checks)) as gpu:
        loaded = gpu.load(code_object)
        x, y, other = (gpu.allocate(name, nbytes) for name, nbytes in (("x", 260), ("y", 256), ("other", 4)))
        gpu.write(x, np.arange(65, dtype=np.float32))
        gpu.memory.view(x)[256:] = 7
        gpu.forget_content(y)
        if kernel == "of_memory":
            gpu.forget_content(x)
            mask = gpu.memory.initialised(x)
            assert mask is not None
            mask[:64] = 15  # four bytes of each dword
        result = gpu.launch(loaded, kernel, (1, 1, 1), (64, 1, 1), [x, y, other, np.int32(how).tobytes()])
        assert np.frombuffer(gpu.read(x), np.uint8)[256:].tolist() == [7] * 4  # as before, whatever further runs did
        return result, np.frombuffer(gpu.read(y), np.float32)


@pytest.mark.parametrize("kernel", ["of_lds", "of_memory"])
def test_a_discarded_value_is_a_remark(code_object: CodeObject, kernel: str) -> None:
    result, y = launch(code_object, kernel, 0)

    assert y.tolist() == [*range(1, 64), 0]
    assert result.findings == ()
    (remark,) = result.remarks
    assert remark.check == kernel.removeprefix("of_") + "_uninitialised"
    assert remark.message.endswith("; the results do not depend on it")
    assert remark.lanes == (63,)


@pytest.mark.parametrize(
    ("kernel", "how"),
    [("of_lds", 1), ("of_lds", 2), ("of_lds", 3), ("of_lds", 4), ("of_memory", 1), ("of_memory", 2)],
    ids=["stored", "compared", "one bit", "decides a store elsewhere", "stored from memory", "zero times infinity or NaN"],
)
@pytest.mark.parametrize("checks", ["all", "lds_uninitialised,memory_uninitialised"])
def test_a_value_that_a_result_depends_on_is_a_defect(code_object: CodeObject, kernel: str, how: int, checks: str) -> None:
    result, _ = launch(code_object, kernel, how, checks)

    assert {finding.check for finding in result.findings} == {kernel.removeprefix("of_") + "_uninitialised"}


def test_values_that_are_only_compared_with_each_other_are_a_defect(code_object: CodeObject) -> None:
    result, _ = launch(code_object, "of_pairs", 0)

    assert {finding.check for finding in result.findings} == {"lds_uninitialised"}


@pytest.mark.parametrize("how", [1, 2])
def test_without_records_of_stores_all_results_count(code_object: CodeObject, how: int) -> None:
    result, _ = launch(code_object, "of_lds", how, "lds_uninitialised")

    assert [finding.check for finding in result.findings] == ["lds_uninitialised"]


def test_results_are_those_of_the_first_run(code_object: CodeObject) -> None:
    """Further runs have other content in LDS; the results and the counters are those without them."""
    checked, y = launch(code_object, "of_lds", 1)
    plain, plain_y = launch(code_object, "of_lds", 1, "none")

    assert y.view(np.uint32).tolist() == plain_y.view(np.uint32).tolist()
    assert checked.counters == plain.counters
