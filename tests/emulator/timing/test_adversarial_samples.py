"""Kernels whose workgroups have unequal work: the estimate from a sample is near that from all workgroups, for any seed.

A rewrite cannot appear faster by idling workgroups and moving their work to others, whatever decides which ones idle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.device.emulated_time import estimate_launch
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.sampling import SamplePolicy
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.memory import Allocation
    from rocm_perf_lab.toolchain.code_object import CodeObject

SOURCE = r"""
#include <hip/hip_runtime.h>
#define K extern "C" __global__
__device__ float chain(float a, int steps) {
  float b = 1;
  for (int k = 0; k < steps; k++) { a = a * 1.0001f + b; b = b * 0.999f + a; }
  return a + b;
}
// steps[workgroup] rounds of arithmetic and rows[workgroup] loads.
K void given(const float* in, float* out, const int* steps, const int* rows) {
  float sum = chain(blockIdx.x, steps[blockIdx.x]);
  for (int k = 0; k < rows[blockIdx.x]; k++) sum += in[(blockIdx.x * 977 + threadIdx.x + k * 4096) % 65536];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
K void honest(const float* in, float* out, const int* steps, const int* rows) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = chain(blockIdx.x, steps[0]);
}
// Even workgroups idle, odd ones do the work of two.
K void by_parity(const float* in, float* out, const int* steps, const int* rows) {
  if (blockIdx.x % 2 == 0) return;
  for (int part = 0; part < 2; part++)
    out[(blockIdx.x - part) * blockDim.x + threadIdx.x] = chain(blockIdx.x - part, steps[0]);
}
// Every 16th workgroup idles; the last one does their work.
K void moved_to_last(const float* in, float* out, const int* steps, const int* rows) {
  if (blockIdx.x % 16 == 0 && blockIdx.x + 1 < gridDim.x) return;
  out[blockIdx.x * blockDim.x + threadIdx.x] = chain(blockIdx.x, steps[0]);
  if (blockIdx.x + 1 == gridDim.x)
    for (int other = 0; other < gridDim.x; other += 16) out[other * blockDim.x + threadIdx.x] = chain(other, steps[0]);
}
// Workgroups idle by a value of the data; the next one that does not does their work.
K void by_data(const float* in, float* out, const int* steps, const int* rows) {
  int first = blockIdx.x;
  if (in[first] < 0.5f) return;
  do {
    out[first * blockDim.x + threadIdx.x] = chain(first, steps[0]);
    first = (first + gridDim.x - 1) % gridDim.x;
  } while (in[first] < 0.5f);
}
"""
WORKGROUPS, BLOCK = 1024, 128
STEPS = 100
Work = Callable[["NDArray[np.int64]"], "NDArray[np.int64]"]


@pytest.fixture(scope="module")
def code_object(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    return build_hip(SOURCE, tmp_path_factory.mktemp("adversarial")).code_object


@dataclass
class Timer:
    """Estimates launches of the kernels above."""

    code_object: CodeObject

    def duration_ns(self, kernel: str, policy: SamplePolicy, steps: Work | None = None, rows: Work | None = None) -> int:
        """Return the emulated time of a launch; `steps` and `rows` map the numbers of workgroups to their work."""
        numbers = np.arange(WORKGROUPS)
        with EmulatedGpu(mi300x(), max_instructions=10**9, threads=1, sample=policy) as machine:
            buffers = [
                self._buffer(machine, np.random.default_rng(1).random(1 << 16).astype(np.float32)),
                self._buffer(machine, np.zeros(WORKGROUPS * BLOCK, np.float32)),
                self._buffer(machine, (steps(numbers) if steps else np.full(WORKGROUPS, STEPS)).astype(np.int32)),
                self._buffer(machine, (rows(numbers) if rows else np.zeros(WORKGROUPS)).astype(np.int32)),
            ]
            result = machine.launch(machine.load(self.code_object), kernel, (WORKGROUPS, 1, 1), (BLOCK, 1, 1), buffers)
            metadata = next(k for k in self.code_object.kernels if k.symbol == kernel)
            return estimate_launch(
                mi300x(), metadata, result, block=(BLOCK, 1, 1), dynamic_lds_bytes=0, buffers=buffers
            ).duration_ns

    @staticmethod
    def _buffer(machine: EmulatedGpu, content: NDArray[np.generic]) -> Allocation:
        allocation = machine.allocate("buffer", content.nbytes)
        machine.write(allocation, content)
        machine.memory.set_image(allocation, content)
        return allocation


@pytest.mark.parametrize("kernel", ["honest", "by_parity", "moved_to_last", "by_data"])
def test_the_estimate_of_a_kernel_that_idles_workgroups_is_that_of_all_of_them(kernel: str, code_object: CodeObject) -> None:
    timer = Timer(code_object)

    everything = timer.duration_ns(kernel, SamplePolicy(None))
    sampled = [timer.duration_ns(kernel, SamplePolicy(16, seed)) for seed in range(6)]

    assert sampled == pytest.approx([everything] * 6, rel=0.02)


@pytest.mark.parametrize("kernel", ["by_parity", "moved_to_last", "by_data"])
def test_idle_workgroups_gain_nothing(kernel: str, code_object: CodeObject) -> None:
    timer = Timer(code_object)

    for seed in range(4):
        policy = SamplePolicy(16, seed)
        assert timer.duration_ns(kernel, policy) > 1.2 * timer.duration_ns("honest", policy)


@pytest.mark.parametrize(
    ("steps", "rows", "tolerance"),
    [
        pytest.param(lambda n: np.where(n == 777, 20_000, 20), None, 0.01, id="one heavy workgroup"),
        pytest.param(lambda n: np.full(len(n), 50), lambda n: np.where(n == 333, 400, 1), 0.02, id="one with many loads"),
        pytest.param(lambda n: n * 37 % 16 * 32, None, 0.05, id="as many behaviours as traces"),
        pytest.param(lambda n: n * 37 % 64 * 8, None, 0.05, id="four times as many"),
    ],
)
def test_the_estimate_of_given_work_is_that_of_all_workgroups(
    steps: Work, rows: Work | None, tolerance: float, code_object: CodeObject
) -> None:
    timer = Timer(code_object)

    everything = timer.duration_ns("given", SamplePolicy(None), steps, rows)
    sampled = [timer.duration_ns("given", SamplePolicy(16, seed), steps, rows) for seed in range(6)]

    assert sampled == pytest.approx([everything] * 6, rel=tolerance)


def test_the_longest_workgroup_decides_if_all_run_at_once(code_object: CodeObject) -> None:
    timer = Timer(code_object)

    short = timer.duration_ns("given", SamplePolicy(16), lambda n: np.full(len(n), 500))
    mixed = timer.duration_ns("given", SamplePolicy(16), lambda n: np.where(n % 2, 500, 0))

    # Four workgroups of two wavefronts fill half of the eight places of the four SIMDs: arithmetic is not shared.
    assert mixed == pytest.approx(short, rel=0.05)
