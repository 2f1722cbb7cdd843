"""Checks of the emulator: each defect is found once per source line, and correct kernels have no findings."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.checks import _CELL_BYTES, CheckFinding, CheckKind, parse_checks
from rocm_perf_lab.emulator.launching import LaunchResult
from rocm_perf_lab.emulator.loader import LoadedCodeObject
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.memory import Allocation
from rocm_perf_lab.emulator.structures import ChecksRecord, FindingRecord
from rocm_perf_lab.toolchain.code_object import CodeObject
from rocm_perf_lab.toolchain.source_lines import line_table
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x

SOURCE = r"""
#include <hip/hip_runtime.h>
#define K extern "C" __global__
K void reverse(int* x, int barrier) {
  __shared__ int tile[256];
  int t = threadIdx.x;
  tile[t] = x[t];
  if (barrier) __syncthreads();
  x[t] = tile[255 - t];
}
K void two_phases(int* x) {
  __shared__ int tile[256];
  int t = threadIdx.x;
  for (int round = 0; round < 3; round++) {
    tile[t] = x[t] + round;
    __syncthreads();
    int other = tile[255 - t];
    __syncthreads();
    x[t] = other;
  }
}
K void flag(int* x, int how) {
  __shared__ int any;
  __shared__ short narrow[2];
  int t = threadIdx.x;
  if (how == 0 && x[t] > 10) any = 1;
  if (how == 1) any = t / 64;
  if (how == 2) any = 1;
  asm volatile("" ::: "memory");
  if (how == 2) any = t / 64 + 1;
  if (how == 3 && t >= 64) any = 1;
  asm volatile("" ::: "memory");
  if (how == 3 && t < 64) x[t] = any;
  if (how == 4) narrow[1] = 9;
  __syncthreads();
  x[t] = any + narrow[1];
}
K void flag_in_memory(int* x, int* flag, int step) { *flag = 7 + step * blockIdx.x; }
K void bytes_of_a_dword(unsigned char* x) {
  __shared__ unsigned char tile[256];
  tile[(threadIdx.x % 4) * 64 + threadIdx.x / 4] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[255 - threadIdx.x];
}
K void neighbours(int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i + 1 < n) x[i] = x[i + 1];
}
K void histogram(const int* x, int* bins, int n) {
  __shared__ int local[64];
  if (threadIdx.x < 64) local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[x[i] & 63], 1);
  __syncthreads();
  if (threadIdx.x < 64) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
K void plain_histogram(const int* x, int* bins) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  bins[x[i] & 63] += 1;
}
K void sum_lds(int* x, int before, int after) {
  __shared__ int total;
  if (threadIdx.x == 0) total = 0;  // cleared
  if (before) __syncthreads();
  atomicAdd(&total, x[threadIdx.x]);
  if (after) __syncthreads();
  x[threadIdx.x] = total;
}
K void sum_memory(int* total, int* x, int before, int after) {
  if (threadIdx.x == 0) *total = 0;
  if (before) __syncthreads();
  atomicAdd(total, 1);
  if (after) __syncthreads();
  x[threadIdx.x] = *total;
}
K void read_then_add(int* total, int* x, int writer, int barrier) {
  __shared__ int seen;
  if (threadIdx.x < 64) {
    if (threadIdx.x == 0) seen = *total;
    atomicAdd(total, 1);
  }
  if (barrier) __syncthreads();
  if ((int)threadIdx.x == writer) *total = 7;
  __syncthreads();
  x[threadIdx.x] = seen;
}
K void bytes_by_wavefronts(unsigned char* x) {
  __shared__ unsigned char tile[256];
  tile[(threadIdx.x % 64) * 4 + threadIdx.x / 64] = 1;
  unsigned char other = tile[(threadIdx.x % 64) * 4 + (threadIdx.x / 64 ^ 1)];
  x[threadIdx.x] = other;
}
K void last_block_sums(const int* x, int* partial, int* done, int* total, int fence) {
  __shared__ int last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = x[blockIdx.x];
    if (fence) __threadfence();
    last = atomicAdd(done, 1) == (int)gridDim.x - 1;
    if (fence) __threadfence();
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    int sum = 0;
    for (unsigned b = 0; b < gridDim.x; b++) sum += partial[b];
    *total = sum;
  }
}
K void packed_lds(int* x, int whole) {
  __shared__ __attribute__((aligned(8))) unsigned char bytes[64 * 9];
  int t = threadIdx.x;
  for (int i = whole ? 0 : 1; i < 9; i++) bytes[9 * t + i] = i;
  __syncthreads();
  unsigned long long value;
  asm volatile("ds_read_b64 %0, %1 offset:1\n s_waitcnt lgkmcnt(0)" : "=v"(value) : "v"(9 * t));
  if (whole) value += ((volatile unsigned char*)bytes)[9 * t];
  x[t] = value;
}
K void unset_lds(int* x) {
  __shared__ int tile[256];
  if (threadIdx.x < 128) tile[threadIdx.x] = 1;
  __syncthreads();
  x[threadIdx.x] = tile[threadIdx.x];
}
K void unset_memory(const int* x, int* y) {
  y[threadIdx.x] += x[threadIdx.x];
}
K void exchanges(const int* x, int* y, unsigned long long* wide, int* seen, int how) {
  int t = threadIdx.x;
  if (how == 0) atomicExch(&y[t], x[t]);
  if (how == 0) atomicExch(&wide[t], 5ull);
  if (how == 1) seen[t] = atomicExch(&y[t], x[t]);
  if (how == 2) atomicAdd(&y[t], x[t]);
  if (how == 3) atomicCAS(&y[t], 0, x[t]);
  if (how == 4) atomicExch(&y[t % 2], x[t]);
  if (how == 4) y[t % 2] = 3;
}
K void two_barriers(int* x) {
  __shared__ int tile[128];
  tile[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x < 64) {
    __syncthreads();
    x[threadIdx.x] = tile[127 - threadIdx.x];
  } else {
    __syncthreads();
    x[threadIdx.x] = 2 * tile[127 - threadIdx.x];
  }
}
K void misaligned(char* x) {
  int* p = (int*)(x + 1) + threadIdx.x;
  asm volatile("global_store_dword %0, %1, off" ::"v"(p), "v"(7) : "memory");
}
K void misaligned_scalar(unsigned* x) {
  unsigned value;
  asm volatile("s_load_dword %0, %1, 0x5" : "=s"(value) : "s"(x) : "memory");
  asm volatile("s_waitcnt lgkmcnt(0)" : "+s"(value));
  if (threadIdx.x == 0) x[0] = value;
}
K void flag_wait(int* flag, int* data, int* out) {
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) {
      data[0] = 42;
      __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
    }
  } else if (threadIdx.x == 0) {
    while (!__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT)) __builtin_amdgcn_s_sleep(1);
    out[blockIdx.x] = data[0];
  }
}
"""


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(SOURCE.splitlines(), start=1) if text in line)


@dataclass
class Bench:
    machine: EmulatedGpu
    loaded: LoadedCodeObject
    code_object: CodeObject

    def buffer(self, name: str, content: np.ndarray[tuple[int], np.dtype[np.generic]], *, unset: bool = False) -> Allocation:
        allocation = self.machine.allocate(name, content.nbytes)
        self.machine.write(allocation, content)
        if unset:
            self.machine.forget_content(allocation)
        return allocation

    def ints(self, name: str, count: int = 256, *, unset: bool = False) -> Allocation:
        return self.buffer(name, np.arange(count, dtype=np.int32), unset=unset)

    def findings(self, kernel: str, grid: int, block: int, *arguments: Allocation | bytes) -> tuple[CheckFinding, ...]:
        return self.launch(kernel, grid, block, *arguments).findings

    def launch(self, kernel: str, grid: int, block: int, *arguments: Allocation | bytes) -> LaunchResult:
        def source_line(address: int) -> str | None:
            found = line_table(self.code_object)(address)
            return f"{found.file}:{found.line}" if found else None

        return self.machine.launch(self.loaded, kernel, (grid, 1, 1), (block, 1, 1), arguments, source_line=source_line)


def number(value: int) -> bytes:
    return value.to_bytes(4, "little", signed=True)


@pytest.fixture(scope="module")
def code_object(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    return build_hip(SOURCE, tmp_path_factory.mktemp("checks")).code_object


@pytest.fixture
def bench(code_object: CodeObject) -> Iterator[Bench]:
    with EmulatedGpu(mi300x(), max_instructions=10**7, threads=2, checks=frozenset(CheckKind)) as machine:
        yield Bench(machine, machine.load(code_object), code_object)


def test_the_structures_are_those_of_the_runtime() -> None:
    sizes = (ctypes.c_uint64 * 8)()
    load_runtime().library.rpl_layout(sizes)

    assert list(sizes)[5:] == [_CELL_BYTES, ctypes.sizeof(FindingRecord), ctypes.sizeof(ChecksRecord)]


def test_a_missing_barrier_is_a_race_on_lds_named_with_both_lines(bench: Bench) -> None:
    (found,) = bench.findings("reverse", 1, 256, bench.ints("x"), number(0))

    assert found.check == "lds_races"
    assert {found.source, found.message.partition(" at ")[2].partition(" by ")[0]} == {
        f"kernel.hip:{line_of('x[t] = tile[255 - t];')}",
        f"kernel.hip:{line_of('tile[t] = x[t];')}",
    }
    assert len(found.lanes) == 64


@pytest.mark.parametrize("how", [0, 4])
def test_equal_values_stored_without_synchronisation_are_a_remark(bench: Bench, how: int) -> None:
    launch = bench.launch("flag", 1, 256, bench.ints("x"), number(how))

    assert "lds_races" not in {finding.check for finding in launch.findings}
    assert {remark.check for remark in launch.remarks} == {"same_value"}
    assert "one value is stored at LDS offset" in launch.remarks[0].message


@pytest.mark.parametrize(("how", "why"), [(1, "other values"), (2, "other values later"), (3, "one of them only loads")])
def test_unsynchronised_stores_race_if(bench: Bench, how: int, why: str) -> None:
    assert "lds_races" in {finding.check for finding in bench.findings("flag", 1, 256, bench.ints("x"), number(how))}, why


@pytest.mark.parametrize(("step", "findings", "remarks"), [(0, set(), {"same_value"}), (1, {"memory_races"}, set())])
def test_a_flag_in_memory_is_a_race_only_with_other_values(
    bench: Bench, step: int, findings: set[str], remarks: set[str]
) -> None:
    launch = bench.launch("flag_in_memory", 4, 1, bench.ints("x"), bench.ints("flag", 1), number(step))

    assert {finding.check for finding in launch.findings} == findings
    assert {remark.check for remark in launch.remarks} == remarks
    for remark in launch.remarks:
        assert "byte 0 of buffer 'flag'" in remark.message


@pytest.mark.parametrize("kernel", ["two_phases", "bytes_of_a_dword"])
def test_barriers_order_what_wavefronts_do(bench: Bench, kernel: str) -> None:
    x = bench.buffer("x", np.arange(256, dtype=np.uint8)) if kernel == "bytes_of_a_dword" else bench.ints("x")

    assert bench.findings(kernel, 1, 256, x) == ()


def test_with_its_barrier_the_kernel_is_clean(bench: Bench) -> None:
    assert bench.findings("reverse", 1, 256, bench.ints("x"), number(1)) == ()


def test_neighbouring_wavefronts_race_on_global_memory(bench: Bench) -> None:
    found = bench.findings("neighbours", 2, 128, bench.ints("x"), number(256))

    assert {f.check for f in found} == {"memory_races"}
    assert "of buffer 'x'" in found[0].message
    assert found[0].source == f"kernel.hip:{line_of('x[i] = x[i + 1]')}"


def test_one_wavefront_does_not_race_with_itself(bench: Bench) -> None:
    assert bench.findings("neighbours", 1, 64, bench.ints("x"), number(64)) == ()


def test_atomics_do_not_race_with_each_other(bench: Bench) -> None:
    bins = bench.buffer("bins", np.zeros(64, np.int32))

    assert bench.findings("histogram", 4, 256, bench.ints("x", 4096), bins, number(4096)) == ()


def test_the_same_without_atomics_races(bench: Bench) -> None:
    bins = bench.buffer("bins", np.zeros(64, np.int32))

    found = bench.findings("plain_histogram", 4, 256, bench.ints("x", 1024), bins)

    assert "memory_races" in {f.check for f in found}
    assert all("'bins'" in f.message for f in found)


@pytest.mark.parametrize("kernel", ["sum_lds", "sum_memory"])
@pytest.mark.parametrize(
    ("before", "after"), [(1, 1), (0, 1), (1, 0)], ids=["both barriers", "store before atomics", "loads behind atomics"]
)
def test_an_atomic_does_not_hide_plain_accesses_around_it(bench: Bench, kernel: str, before: int, after: int) -> None:
    """Wavefront 0 stores and adds at once; additions of others may come in between."""
    total = [] if kernel == "sum_lds" else [bench.buffer("total", np.zeros(1, np.int32))]

    found = bench.findings(kernel, 1, 256, *total, bench.ints("x"), number(before), number(after))

    races = {"lds_races" if kernel == "sum_lds" else "memory_races"}
    assert {f.check for f in found} == (set() if before and after else races)


def test_an_atomic_that_races_with_a_store_is_reported_with_both_lines(bench: Bench) -> None:
    found = bench.findings("sum_lds", 1, 128, bench.ints("x"), number(0), number(1))

    lines = {f"kernel.hip:{line_of('// cleared')}", f"kernel.hip:{line_of('atomicAdd(&total, x[threadIdx.x]);')}"}
    assert {found[0].source, found[0].message.partition(" at ")[2].partition(" by ")[0]} == lines


@pytest.mark.parametrize(
    ("writer", "barrier", "expected"),
    [(0, 0, set()), (64, 1, set()), (64, 0, {"memory_races"})],
    ids=["the wavefront that read", "another behind a barrier", "another"],
)
def test_an_atomic_does_not_hide_a_load_before_it(bench: Bench, writer: int, barrier: int, expected: set[str]) -> None:
    total = bench.buffer("total", np.zeros(1, np.int32))

    found = bench.findings("read_then_add", 1, 128, total, bench.ints("x"), number(writer), number(barrier))

    assert {f.check for f in found} == expected


def test_stores_to_bytes_of_one_dword_race_with_loads_of_them(bench: Bench) -> None:
    found = bench.findings("bytes_by_wavefronts", 1, 256, bench.buffer("x", np.zeros(256, np.uint8)))

    assert "lds_races" in {f.check for f in found}


@pytest.mark.parametrize(("fence", "expected"), [(1, set()), (0, {"memory_races"})])
def test_fences_order_workgroups(bench: Bench, fence: int, expected: set[str]) -> None:
    partial, zero = bench.ints("partial", 8, unset=True), np.zeros(1, np.int32)
    done, total = bench.buffer("done", zero), bench.buffer("total", zero)

    found = bench.findings("last_block_sums", 8, 64, bench.ints("x"), partial, done, total, number(fence))

    assert {f.check for f in found} == expected


def test_release_and_acquire_order_a_flag_and_its_data(bench: Bench) -> None:
    flag = bench.buffer("flag", np.zeros(1, np.int32))

    assert bench.findings("flag_wait", 3, 64, flag, bench.ints("data", 1, unset=True), bench.ints("out", 3)) == ()


def test_uninitialised_lds(bench: Bench) -> None:
    (found,) = bench.findings("unset_lds", 1, 256, bench.ints("x"))

    assert found.check == "lds_uninitialised"
    assert found.source == f"kernel.hip:{line_of('x[threadIdx.x] = tile[threadIdx.x];')}"
    assert found.wave == 2  # the first wavefront past the 128 work-items that write


def test_uninitialised_memory(bench: Bench) -> None:
    (found,) = bench.findings("unset_memory", 1, 64, bench.ints("x"), bench.ints("y", unset=True))

    assert found.check == "memory_uninitialised"
    assert "byte 0 of buffer 'y'" in found.message


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (0, set()),
        (1, {"memory_uninitialised"}),
        (2, {"memory_uninitialised"}),
        (3, {"memory_uninitialised"}),
        (4, {"memory_races"}),
    ],
    ids=["unused result", "used result", "sum", "comparison", "race with a store"],
)
def test_an_exchange_without_result_only_writes(bench: Bench, how: int, expected: set[str]) -> None:
    y, wide = bench.ints("y", unset=True), bench.buffer("wide", np.zeros(256, np.uint64), unset=True)

    found = bench.findings("exchanges", 1, 128, bench.ints("x"), y, wide, bench.ints("seen"), number(how))

    assert {f.check for f in found} == expected


def test_memory_that_an_exchange_wrote_is_initialised(bench: Bench) -> None:
    x, y, wide = bench.ints("x"), bench.ints("y", unset=True), bench.buffer("wide", np.zeros(64, np.uint64), unset=True)
    bench.findings("exchanges", 1, 64, x, y, wide, bench.ints("seen"), number(0))

    assert bench.findings("unset_memory", 1, 64, x, y) == ()


@pytest.mark.parametrize("whole", [0, 1])
def test_a_misaligned_lds_access_reads_only_its_bytes(bench: Bench, whole: int) -> None:
    assert bench.findings("packed_lds", 1, 64, bench.ints("x"), number(whole)) == ()


def test_memory_that_an_earlier_launch_wrote_is_initialised(bench: Bench) -> None:
    x, y = bench.ints("x"), bench.ints("y", unset=True)
    bench.findings("reverse", 1, 256, y, number(1))

    assert bench.findings("unset_memory", 1, 64, x, y) == ()


def test_wavefronts_at_different_barriers(bench: Bench) -> None:
    found = bench.findings("two_barriers", 1, 128, bench.ints("x"))

    assert {f.check for f in found} == {"barriers"}
    assert "different barriers" in found[0].message


def test_vector_accesses_work_at_any_address(bench: Bench) -> None:
    x = bench.buffer("x", np.zeros(1024, np.uint8))

    found = bench.findings("misaligned", 1, 64, x)

    assert not found
    assert bench.machine.read(x)[:9] == bytes([0, 7, 0, 0, 0, 7, 0, 0, 0])


def test_a_misaligned_scalar_load_returns_another_dword(bench: Bench) -> None:
    x = bench.buffer("x", np.arange(8, dtype=np.uint32))

    found = bench.findings("misaligned_scalar", 1, 64, x)

    assert [f.check for f in found] == ["alignment"]
    assert "misaligned load of 4 bytes at byte 5 of buffer 'x'" in found[0].message
    assert np.frombuffer(bench.machine.read(x), np.uint32)[0] == 1


def test_each_problem_is_reported_once(bench: Bench) -> None:
    assert len(bench.findings("unset_lds", 50, 256, bench.ints("x"))) <= 2  # itself, and the race of 50 groups on x


def test_no_check_runs_by_default(code_object: CodeObject) -> None:
    with EmulatedGpu(mi300x(), max_instructions=10**6) as machine:
        bench = Bench(machine, machine.load(code_object), code_object)

        assert bench.findings("reverse", 1, 256, bench.ints("x"), number(0)) == ()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("none", set()),
        ("all", set(CheckKind)),
        ("barriers, alignment", {CheckKind.BARRIERS, CheckKind.ALIGNMENT}),
        (["lds_races"], {CheckKind.LDS_RACES}),
    ],
)
def test_checks_by_name(words: str | list[str], expected: set[CheckKind]) -> None:
    assert parse_checks(words) == expected


def test_an_unknown_check_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LabError, match="unknown check 'race'") as caught:
        parse_checks("race")

    assert "lds_races" in str(caught.value.hint)
