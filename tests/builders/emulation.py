"""Kernels for tests of launches, in one source that is compiled once, and a bench to run them."""

from __future__ import annotations

import struct
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

import numpy as np

from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.sampling import SamplePolicy
from tests.builders.kernels import build_hip
from tests.builders.targets import target_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.checks import CheckKind
    from rocm_perf_lab.emulator.launching import LaunchResult
    from rocm_perf_lab.emulator.loader import LoadedCodeObject
    from rocm_perf_lab.emulator.memory import Allocation
    from rocm_perf_lab.toolchain.code_object import CodeObject

Dim3 = tuple[int, int, int]

SOURCE = r"""
#include <hip/hip_runtime.h>
__device__ int counter_of_groups = 40;
__constant__ int table[4] = {10, 20, 30, 40};
__device__ int* pointer_to_counter = &counter_of_groups;

extern "C" __global__ void ids(int* out) {
  int item = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  int group = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  out[group * blockDim.x * blockDim.y * blockDim.z + item] =
      group * 100000 + threadIdx.x + 100 * threadIdx.y + 1000 * threadIdx.z;
}
extern "C" __global__ void reduce(const int* x, int* out) {
  extern __shared__ int part[];
  part[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (int step = blockDim.x / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
extern "C" __global__ void early_exit(int* out) {
  __shared__ int value;
  if (threadIdx.x >= 64) return;
  if (threadIdx.x == 0) value = 5;
  __syncthreads();
  out[threadIdx.x] = value;
}
extern "C" __global__ void histogram(const int* x, int* bins) {
  atomicAdd(&bins[x[blockIdx.x * blockDim.x + threadIdx.x] & 7], 1);
}
extern "C" __global__ void float_sum(float* sum, float x) { atomicAdd(sum, x); }
extern "C" __global__ void tickets(int* counter, int* out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(counter, 1);
}
extern "C" __global__ void scratch(int* out, int index) {
  volatile int local[16];
  for (int i = 0; i < 16; i++) local[i] = i * 3 + threadIdx.x;
  out[threadIdx.x] = local[(index + threadIdx.x) & 15];
}
extern "C" __global__ void globals(int* out) {
  out[threadIdx.x] = table[threadIdx.x & 3];
  if (threadIdx.x == 0) *pointer_to_counter += 2;
}
extern "C" __global__ void unwritten_lds(int* out) {
  __shared__ int value[64];
  if (out == nullptr) value[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = ((volatile int*)value)[threadIdx.x];
}
extern "C" __global__ void store_at(int* out, long index) { out[index + threadIdx.x] = 1; }
extern "C" __global__ void lds_at(int* out, int index) {
  extern __shared__ int part[];
  part[index + threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = part[threadIdx.x];
}
extern "C" __global__ void spin(volatile int* flag) { while (*flag == 0) {} }
extern "C" __global__ void half_barrier(volatile int* flag) {
  if (threadIdx.x < 64) while (*flag == 0) {}
  __syncthreads();
}
extern "C" __global__ void wait_for_last_group(int* flag, int* out) {
  if (blockIdx.x == gridDim.x - 1) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
  while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) == 0) {}
  out[blockIdx.x] = blockIdx.x;
}
extern "C" __global__ void trap(int* out) {
  asm volatile("s_trap 2");
  out[threadIdx.x] = 1;
}
extern "C" __global__ void __launch_bounds__(128) bounded(int* out) { out[threadIdx.x] = 1; }
"""


class EmulatorBench:
    """Emulated GPU with the kernels above; a context manager."""

    def __init__(
        self,
        code_object: CodeObject,
        *,
        threads: int = 1,
        max_instructions: int = 10**7,
        sample: int = 0,
        checks: frozenset[CheckKind] = frozenset(),
    ) -> None:
        policy = SamplePolicy(sample) if sample else None
        target = target_of(code_object.architecture)
        self.machine = EmulatedGpu(target, max_instructions=max_instructions, threads=threads, sample=policy, checks=checks)
        self._code_object = code_object

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.machine.close()

    @cached_property
    def loaded(self) -> LoadedCodeObject:
        """Code object in device memory."""
        return self.machine.load(self._code_object)

    def buffer(self, content: NDArray[np.generic], name: str = "x") -> Allocation:
        """Return device memory with a content."""
        allocation = self.machine.allocate(name, content.nbytes)
        self.machine.write(allocation, content)
        return allocation

    def read(self, allocation: Allocation, dtype: type[np.generic] = np.int32) -> NDArray[np.generic]:
        """Return the content of device memory."""
        return np.frombuffer(self.machine.read(allocation), dtype=dtype)

    def launch(
        self,
        kernel: str,
        grid: int | Dim3,
        block: int | Dim3,
        *arguments: Allocation | int | bytes,
        lds: int = 0,
        remainder: Dim3 = (0, 0, 0),
        cooperative: bool = False,
    ) -> LaunchResult:
        """Run a kernel; a single number is a flat grid or block."""
        groups = (grid, 1, 1) if isinstance(grid, int) else grid
        items = (block, 1, 1) if isinstance(block, int) else block
        return self.machine.launch(
            self.loaded, kernel, groups, items, arguments, lds, remainder=remainder, cooperative=cooperative
        )


def emulation_code_object() -> CodeObject:
    """Return the kernels above, compiled."""
    with TemporaryDirectory() as directory:
        return build_hip(SOURCE, Path(directory)).code_object


def int32(value: int) -> bytes:
    """Encode an `int` argument."""
    return struct.pack("<i", value)


def int64(value: int) -> bytes:
    """Encode a `long` argument."""
    return struct.pack("<q", value)


def float32(value: float) -> bytes:
    """Encode a `float` argument."""
    return struct.pack("<f", value)
