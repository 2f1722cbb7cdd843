"""Checks on RDNA2 in wavefronts of 32 and 64 lanes: each defect is found at its source line, correct kernels have no findings."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.checks import CheckKind
from rocm_perf_lab.emulator.faults import LdsFault, MemoryFault, ScratchFault
from rocm_perf_lab.toolchain.source_lines import line_table
from tests.builders.emulation import EmulatorBench, int32
from tests.builders.kernels import build_hip
from tests.builders.rdna2 import ARCHITECTURE

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.launching import LaunchResult
    from rocm_perf_lab.toolchain.code_object import CodeObject

SOURCE = r"""
#include <hip/hip_runtime.h>
#define KERNEL(name) extern "C" __global__ void name(int* x, int* y, int n)

KERNEL(reverse) {
  __shared__ int tile[256];
  int t = threadIdx.x;
  tile[t] = x[t];  // store
  if (n) __syncthreads();
  y[t] = tile[255 - t];  // load
}
KERNEL(tree) {
  __shared__ int part[256];
  int t = threadIdx.x;
  part[t] = x[t];
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (t < step) part[t] += part[t + step];
    __syncthreads();
  }
  if (t == 0) atomicAdd(y, part[0]);
}
KERNEL(neighbours) {
  x[threadIdx.x] = threadIdx.x;
  if (n) __syncthreads();
  y[threadIdx.x] = x[threadIdx.x ^ 64];
}
KERNEL(groups) {
  if (blockIdx.x == 0) x[threadIdx.x] = 3;
  else y[threadIdx.x] = x[threadIdx.x];  // memory_races
}
KERNEL(skipped_by_lanes) {
  __shared__ int tile[256];
  tile[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x < n) __builtin_amdgcn_s_barrier();  // barriers
  y[threadIdx.x] = tile[threadIdx.x];
}
KERNEL(unset_lds) {
  __shared__ int tile[256];
  if ((int)threadIdx.x < n) tile[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x];  // lds_uninitialised
}
KERNEL(unset_memory) {
  y[threadIdx.x] = x[threadIdx.x] + 1;  // memory_uninitialised
}
KERNEL(misaligned) {
  unsigned value;
  asm volatile("s_load_dword %0, %1, 0x5" : "=s"(value) : "s"(x) : "memory");  // alignment
  asm volatile("s_waitcnt lgkmcnt(0)" : "+s"(value));
  if (threadIdx.x == 0) y[0] = value;
}
KERNEL(outside) {
  y[threadIdx.x + n] = 1;  // MemoryFault
}
KERNEL(outside_of_lds) {
  extern __shared__ int part[];
  part[threadIdx.x + n] = 1;  // LdsFault
  __syncthreads();
  y[threadIdx.x] = part[threadIdx.x];
}
KERNEL(outside_of_scratch) {
  volatile int local[16];
  for (int i = 0; i < 16; i++) local[i] = i;
  y[threadIdx.x] = local[threadIdx.x % 16 + n];  // ScratchFault
}
KERNEL(misaligned_atomic) {
  asm volatile("global_atomic_add %0, %1, off" ::"v"((char*)y + 2), "v"(7) : "memory");  // MemoryFault of an atomic
}
"""
MODES = {32: (), 64: ("-mwavefrontsize64",)}
DEFECTS = {
    "groups": (2, 256, 0, "memory_races"),
    "skipped_by_lanes": (1, 256, 20, "barriers"),
    "unset_lds": (1, 256, 128, "lds_uninitialised"),
    "unset_memory": (1, 256, 0, "memory_uninitialised"),
    "misaligned": (1, 64, 0, "alignment"),
}
"""Kernel -> workgroups, work-items, last argument, finding."""
CORRECT = {
    "reverse": (1, 256, 1),
    "tree": (3, 256, 0),
    "neighbours": (1, 256, 1),
    "skipped_by_lanes": (1, 256, 128),
    "unset_lds": (1, 256, 256),
    "outside": (1, 256, 0),
    "outside_of_lds": (1, 256, 0),
    "outside_of_scratch": (1, 256, 0),
}
FAULTS = {
    "outside": (3, MemoryFault, "MemoryFault", 253),
    "outside_of_lds": (3, LdsFault, "LdsFault", 253),
    "outside_of_scratch": (1 << 16, ScratchFault, "ScratchFault", 0),
    "misaligned_atomic": (0, MemoryFault, "MemoryFault of", 0),
}
"""Kernel -> last argument, error, its mark in the source, first work-item."""


def line_of(mark: str, kernel: str) -> str:
    """Return the place of the mark in a kernel."""
    body = SOURCE.index(f"KERNEL({kernel})")
    return f"kernel.hip:{SOURCE.count(chr(10), 0, SOURCE.index(f'// {mark}', body)) + 1}"


@cache
def compiled(wave_size: int) -> CodeObject:
    with TemporaryDirectory() as directory:
        return build_hip(SOURCE, Path(directory), architecture=ARCHITECTURE, flags=MODES[wave_size]).code_object


def launched(wave_size: int, kernel: str, groups: int, items: int, last: int) -> LaunchResult:
    code_object = compiled(wave_size)

    def source_line(address: int) -> str | None:
        found = line_table(code_object)(address)
        return f"{found.file}:{found.line}" if found else None

    with EmulatorBench(code_object, checks=frozenset(CheckKind)) as bench:
        x, y = (bench.buffer(np.arange(256, dtype=np.int32), name) for name in "xy")
        if kernel == "unset_memory":
            bench.machine.forget_content(x)
        lds = 1024 if kernel == "outside_of_lds" else 0
        arguments = (x, y, int32(last))
        return bench.machine.launch(bench.loaded, kernel, (groups, 1, 1), (items, 1, 1), arguments, lds, source_line=source_line)


@pytest.mark.parametrize("wave_size", MODES)
@pytest.mark.parametrize("kernel", DEFECTS)
def test_a_defect_is_found_at_its_line(kernel: str, wave_size: int) -> None:
    groups, items, last, check = DEFECTS[kernel]

    findings = launched(wave_size, kernel, groups, items, last).findings

    assert {(f.check, f.source) for f in findings} == {(check, line_of(check, kernel))}


@pytest.mark.parametrize("wave_size", MODES)
@pytest.mark.parametrize("kernel", CORRECT)
def test_a_correct_kernel_has_no_finding(kernel: str, wave_size: int) -> None:
    result = launched(wave_size, kernel, *CORRECT[kernel])

    assert (*result.findings, *result.remarks) == ()


@pytest.mark.parametrize("wave_size", MODES)
def test_a_race_on_lds_is_found_at_both_lines(wave_size: int) -> None:
    (found,) = launched(wave_size, "reverse", 1, 256, 0).findings

    assert (found.check, len(found.lanes)) == ("lds_races", wave_size)
    other = found.message.partition(" at ")[2].partition(" by ")[0]
    assert {found.source, other} == {line_of("store", "reverse"), line_of("load", "reverse")}


@pytest.mark.parametrize("wave_size", MODES)
def test_a_race_in_a_workgroup_may_be_one_of_atomics(wave_size: int) -> None:
    result = launched(wave_size, "neighbours", 1, 256, 0)

    assert result.findings == ()
    assert {remark.check for remark in result.remarks} == {"possible_races"}


def test_the_lanes_that_skip_a_barrier_are_those_of_their_wavefront() -> None:
    for wave_size in MODES:
        (found,) = launched(wave_size, "skipped_by_lanes", 1, 256, 20).findings

        assert (found.wave, found.lanes) == (0, tuple(range(20, wave_size)))


@pytest.mark.parametrize("wave_size", MODES)
def test_an_uninitialised_read_names_the_first_wavefront(wave_size: int) -> None:
    (found,) = launched(wave_size, "unset_lds", 1, 256, 128).findings

    assert found.wave == 128 // wave_size
    assert len(found.lanes) == wave_size


@pytest.mark.parametrize("wave_size", MODES)
@pytest.mark.parametrize("kernel", FAULTS)
def test_an_access_outside_names_its_line_wavefront_and_lanes(kernel: str, wave_size: int) -> None:
    last, error, mark, first = FAULTS[kernel]

    with pytest.raises(error) as caught:
        launched(wave_size, kernel, 1, 256, last)

    message = str(caught.value)
    assert line_of(mark, kernel) in message
    assert f"wavefront {first // wave_size}" in message
    lanes = range(first % wave_size, wave_size)
    assert f"lanes {', '.join(map(str, lanes[:8]))}" in message
