"""Races in memory on gfx90a, whose stores do not show whether they are atomic, and on the architectures that mark them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.emulator.checks import CheckKind, limits_of_checks
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from tests.builders.emulation import EmulatorBench
from tests.builders.kernels import build_hip
from tests.builders.targets import target_of

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.launching import LaunchResult
    from rocm_perf_lab.toolchain.code_object import CodeObject

SOURCE = r"""
#include <hip/hip_runtime.h>
#define AGENT __HIP_MEMORY_SCOPE_AGENT
#define GROUP __HIP_MEMORY_SCOPE_WORKGROUP
typedef int int4x __attribute__((ext_vector_type(4)));
#define KERNEL(name) extern "C" __global__ void name(int* flag, int* data, int* out)

KERNEL(hand_over) {  // the second workgroup waits for the first
  if (blockIdx.x == 0) {
    data[threadIdx.x] = threadIdx.x;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, AGENT);
  } else {
    while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, AGENT) == 0) {}
    out[threadIdx.x] = data[threadIdx.x];
  }
}
KERNEL(last_group) {  // the last workgroup adds the results of all
  data[blockIdx.x * 64 + threadIdx.x] = 1;
  __threadfence();
  __shared__ int ticket;
  __syncthreads();
  if (threadIdx.x == 0) ticket = atomicAdd(flag, 1);
  __syncthreads();
  if (ticket != gridDim.x - 1) return;
  __threadfence();
  int sum = 0;
  for (int group = 0; group < gridDim.x; group++) sum += data[group * 64 + threadIdx.x];
  out[threadIdx.x] = sum;
}
KERNEL(without_acquire) {  // polls without order: the data may not have arrived
  if (blockIdx.x == 0) {
    data[threadIdx.x] = threadIdx.x;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, AGENT);
  } else {
    while (__hip_atomic_load(flag, __ATOMIC_RELAXED, AGENT) == 0) {}
    out[threadIdx.x] = data[threadIdx.x];
  }
}
KERNEL(reads_of_neighbours) {  // a workgroup reads what the other one stores
  if (blockIdx.x == 0) data[threadIdx.x] = 3;
  else out[threadIdx.x] = data[threadIdx.x];
}
KERNEL(relaxed_stores) {  // several workgroups store atomically to one place
  __hip_atomic_store(data, (int)blockIdx.x, __ATOMIC_RELAXED, AGENT);
}
KERNEL(plain_stores) { data[0] = blockIdx.x; }
KERNEL(wide_stores) { ((int4x*)data)[threadIdx.x] = (int)blockIdx.x + (int4x){0, 1, 2, 3}; }
KERNEL(nontemporal_stores) { __builtin_nontemporal_store((int)blockIdx.x, data); }
KERNEL(group_flag) {  // wavefronts of a workgroup meet at an atomic flag in memory
  if (threadIdx.x < 64) {
    __hip_atomic_store(data, 1, __ATOMIC_RELAXED, GROUP);
  } else {
    while (__hip_atomic_load(data, __ATOMIC_RELAXED, GROUP) == 0) {}
  }
}
KERNEL(missing_barrier) {  // a wavefront reads what another one stores
  data[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = data[threadIdx.x ^ 64];
}
KERNEL(with_barrier) {
  data[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = data[threadIdx.x ^ 64];
}
KERNEL(same_flag) { if (threadIdx.x % 64 == 0) *data = 7; }
KERNEL(store_and_add) {  // a plain store among atomics
  if (blockIdx.x == 0) *data = 5;
  else atomicAdd(data, 1);
}
KERNEL(polled_store) {  // a store, which may be atomic, and an atomic load
  if (blockIdx.x == 0) *(volatile int*)data = 5;
  else out[threadIdx.x] = __hip_atomic_load(data, __ATOMIC_RELAXED, AGENT);
}
KERNEL(exchange_loops) {  // float maxima are loops of compare-and-swaps, which start with a plain load, here a scalar one
  atomicMax((float*)&data[blockIdx.x & 1], (float)threadIdx.x);
}
KERNEL(vector_exchange_loops) { atomicMax((float*)&data[threadIdx.x & 1], (float)threadIdx.x); }
KERNEL(tile) {
  __shared__ int part[256];
  part[threadIdx.x] = data[threadIdx.x];
  data[threadIdx.x] = part[255 - threadIdx.x];
}
"""
RACE, POSSIBLE, SAME = {"memory_races"}, {"possible_races"}, {"same_value"}
NOTHING: set[str] = set()
CASES = {
    "hand_over": (2, 64, NOTHING, NOTHING),
    "last_group": (4, 64, NOTHING, NOTHING),
    "without_acquire": (2, 64, RACE, RACE),
    "reads_of_neighbours": (2, 64, RACE, RACE),
    "relaxed_stores": (3, 64, NOTHING, POSSIBLE),
    "plain_stores": (3, 64, RACE, POSSIBLE),
    "wide_stores": (2, 64, RACE, RACE),
    "nontemporal_stores": (2, 64, RACE, RACE),
    "group_flag": (1, 128, NOTHING, POSSIBLE),
    "missing_barrier": (1, 128, RACE, POSSIBLE),
    "with_barrier": (1, 128, NOTHING, NOTHING),
    "same_flag": (2, 64, SAME, SAME),
    "store_and_add": (2, 64, RACE, NOTHING),
    "polled_store": (2, 64, NOTHING, NOTHING),
    "exchange_loops": (4, 64, POSSIBLE, POSSIBLE),
    "vector_exchange_loops": (4, 64, POSSIBLE, POSSIBLE),
    "tile": (1, 256, {"lds_races"}, {"lds_races"}),
}
"""Kernel -> workgroups, work-items, and what is found if atomic stores are marked and if they are not."""


@cache
def compiled(architecture: str) -> CodeObject:
    with TemporaryDirectory() as directory:
        return build_hip(SOURCE, Path(directory), architecture=architecture).code_object


def launched(architecture: str, kernel: str, groups: int, items: int) -> LaunchResult:
    with EmulatorBench(compiled(architecture), checks=frozenset(CheckKind)) as bench:
        buffers = [bench.buffer(np.zeros(n, np.int32)) for n in (1, 512, 512)]
        return bench.launch(kernel, groups, items, *buffers)


@pytest.mark.parametrize("kernel", CASES)
@pytest.mark.parametrize("architecture", ["gfx90a", "gfx950"])
def test_what_is_certain_is_a_finding_and_what_may_be_atomic_a_remark(architecture: str, kernel: str) -> None:
    groups, items, marked, unmarked = CASES[kernel]

    result = launched(architecture, kernel, groups, items)

    expected = unmarked if architecture == "gfx90a" else marked
    assert {f.check for f in (*result.findings, *result.remarks)} == expected
    assert {f.check for f in result.findings} == expected - POSSIBLE - SAME


def test_a_possible_race_names_both_accesses_and_the_condition() -> None:
    (remark,) = launched("gfx90a", "missing_barrier", 1, 128).remarks

    assert "unless both are atomic" in remark.message
    assert "global_load_dword" in remark.instruction
    assert "and `global_store_dword" in remark.message


def test_the_limits_are_stated_once_if_races_in_memory_are_checked() -> None:
    gfx90a, races = instruction_set("gfx90a"), frozenset({CheckKind.MEMORY_RACES})

    assert "does not mark atomic stores" in (limits_of_checks(gfx90a, races) or "")
    assert limits_of_checks(gfx90a, frozenset({CheckKind.LDS_RACES})) is None
    assert limits_of_checks(instruction_set("gfx942"), frozenset(CheckKind)) is None
    EmulatorDevice(target=target_of("gfx90a"), check="barriers,memory_races")
