"""Barriers under the checks: wavefronts and lanes that return early are correct, lanes that skip a barrier are not.

`x` has 256 elements, and every kernel runs one workgroup of 256 work-items (four wavefronts), unless a test says otherwise.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.checks import CheckKind
from rocm_perf_lab.emulator.launching import LaunchResult
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.toolchain.code_object import CodeObject
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.memory import Allocation

SOURCE = r"""
#include <hip/hip_runtime.h>
#define K extern "C" __global__
#define LANE (threadIdx.x % 64)
#define WAVE (threadIdx.x / 64)
// Work-items from n on return before the barrier: whole wavefronts and, in the last one, single lanes.
K void early_return(int* x, int n) {
  __shared__ int tile[256];
  int t = threadIdx.x;
  if (t >= n) return;
  tile[t] = x[t];
  __syncthreads();
  x[t] = tile[n - 1 - t];
}
// The same program: the compiler removes what would make the other lanes active again.
K void guarded(int* x, int n) {
  __shared__ int tile[256];
  int t = threadIdx.x;
  if (t < n) {
    tile[t] = x[t];
    __syncthreads();
    x[t] = tile[n - 1 - t];
  }
}
K void stencil(const int* x, int* y, int n) {
  __shared__ int tile[258];
  int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x + 1;
  if (i >= n) return;
  tile[t] = x[i];
  if (t == 1) tile[0] = i ? x[i - 1] : 0;
  if (t == (int)blockDim.x || i == n - 1) tile[t + 1] = i + 1 < n ? x[i + 1] : 0;
  __syncthreads();
  y[i] = tile[t - 1] + tile[t] + tile[t + 1];
}
// The halo comes from wavefronts that return before the barrier.
K void halo_of_ended(int* x) {
  __shared__ int tile[256];
  int t = threadIdx.x;
  tile[t] = x[t];
  if (t >= 128) return;
  __syncthreads();
  x[t] = tile[t + 128];
}
// As above, but the others read without a barrier.
K void race_with_ended(int* x, int barriers) {
  __shared__ int tile[256];
  int t = threadIdx.x;
  if (t >= 128) { tile[t] = x[t]; return; }
  for (int k = 0; k < barriers; k++) __syncthreads();
  x[t] = tile[t + 128];
}
// Wavefront w leaves after w + 1 rounds.
K void rounds_by_wavefront(int* x, int missing) {
  __shared__ int tile[256];
  int t = threadIdx.x;
  for (int round = 0; round <= (int)WAVE; round++) {
    tile[t] = x[t] + round;
    __syncthreads();
    x[t] += tile[t | 192];
    if (round != missing) __syncthreads();
  }
}
K void nested_returns(int* x, int n, int m) {
  __shared__ int tile[256];
  int t = threadIdx.x;
  if (t >= n) return;
  tile[t] = x[t];
  __syncthreads();
  if (t < m) {
    int other = tile[m - 1 - t];
    if (other < 0) return;
    __syncthreads();
    tile[t] = other + 1;
    __syncthreads();
    x[t] = tile[m - 1 - t];
  }
}
K void returns_after_work(int* x) {
  int t = threadIdx.x;
  if (t % 2) {
    x[t] = 7;
    return;
  }
  __shared__ int tile[256];
  tile[t] = x[t];
  __syncthreads();
  x[t] = tile[254 - t];
}
K void skipped_by_lanes(int* x, int n) {
  int t = threadIdx.x;
  if (t < n) __syncthreads();
  x[t] = t;
}
K void skipped_by_odd_lanes(int* x) {
  __shared__ int tile[256];
  int t = threadIdx.x;
  if (LANE % 2 == 0) {
    tile[t] = x[t];
    __syncthreads();
    x[t] = tile[254 - t];
  }
  atomicAdd(&x[t], 1);
}
K void both_branches(int* x) {
  int t = threadIdx.x;
  if (x[t] % 2) {
    x[t] += 1;
    __syncthreads();
    x[t] += 2;
  } else {
    x[t] += 3;
    __syncthreads();
    x[t] += 4;
  }
}
K void rounds_by_lane(int* x) {
  int t = threadIdx.x, rounds = x[t] % 4;
  for (int round = 0; round < rounds; round++) {
    x[t] += round;
    __syncthreads();
  }
  x[t] = rounds;
}
K void skipped_then_barrier(int* x) {
  int t = threadIdx.x;
  if (LANE < 32) __syncthreads();
  __syncthreads();
}
"""


@pytest.fixture(scope="module")
def code_object(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    return build_hip(SOURCE, tmp_path_factory.mktemp("barriers")).code_object


@pytest.fixture
def machine() -> Iterator[EmulatedGpu]:
    with EmulatedGpu(mi300x(), max_instructions=10**6, checks=frozenset(CheckKind)) as machine:
        yield machine


def run(
    machine: EmulatedGpu, code_object: CodeObject, kernel: str, *numbers: int, block: int = 256
) -> tuple[LaunchResult, np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """Launch one workgroup on `x` = 0, 1, ... and return its result and the final content of `x`."""
    x = machine.allocate("x", 1024)
    machine.write(x, np.arange(256, dtype=np.int32))
    values: list[Allocation | bytes] = [x, *(number.to_bytes(4, "little", signed=True) for number in numbers)]
    result = machine.launch(machine.load(code_object), kernel, (1, 1, 1), (block, 1, 1), values)
    return result, np.frombuffer(machine.read(x), np.int32)


@pytest.mark.parametrize("n", [256, 192, 200, 130, 64, 63, 1])
@pytest.mark.parametrize("kernel", ["early_return", "guarded"])
def test_work_items_that_do_nothing_behind_a_barrier_do_not_miss_it(
    machine: EmulatedGpu, code_object: CodeObject, kernel: str, n: int
) -> None:
    result, x = run(machine, code_object, kernel, n)

    assert result.findings == ()
    assert x.tolist() == [*range(n - 1, -1, -1), *range(n, 256)]


@pytest.mark.parametrize("block", [250, 100, 65, 33])
def test_lanes_that_a_partial_wavefront_lacks_do_not_skip_a_barrier(
    machine: EmulatedGpu, code_object: CodeObject, block: int
) -> None:
    result, x = run(machine, code_object, "early_return", block, block=block)

    assert result.findings == ()
    assert x[:block].tolist() == list(range(block - 1, -1, -1))


@pytest.mark.parametrize("n", [1000, 1024, 770, 5])
def test_a_stencil_whose_tail_returns_is_clean(machine: EmulatedGpu, code_object: CodeObject, n: int) -> None:
    x, y = machine.allocate("x", 4096), machine.allocate("y", 4096)
    content = np.arange(1, 1025, dtype=np.int32)
    machine.write(x, content)

    values: list[Allocation | bytes] = [x, y, n.to_bytes(4, "little")]
    result = machine.launch(machine.load(code_object), "stencil", (4, 1, 1), (256, 1, 1), values)

    padded = np.concatenate([[0], content[:n], [0]])
    assert result.findings == ()
    assert np.frombuffer(machine.read(y), np.int32)[:n].tolist() == (padded[:-2] + padded[1:-1] + padded[2:]).tolist()


def test_the_end_of_a_wavefront_orders_its_stores_before_the_barriers_of_the_others(
    machine: EmulatedGpu, code_object: CodeObject
) -> None:
    result, x = run(machine, code_object, "halo_of_ended")

    assert result.findings == ()
    assert x[:128].tolist() == list(range(128, 256))


@pytest.mark.parametrize(("barriers", "expected"), [(0, {"lds_races"}), (1, set()), (2, set())])
def test_without_a_barrier_an_ended_wavefront_races(
    machine: EmulatedGpu, code_object: CodeObject, barriers: int, expected: set[str]
) -> None:
    result, _ = run(machine, code_object, "race_with_ended", barriers)

    assert {f.check for f in result.findings} - {"lds_uninitialised"} == expected


def test_wavefronts_may_leave_a_loop_with_barriers_at_different_times(machine: EmulatedGpu, code_object: CodeObject) -> None:
    result, x = run(machine, code_object, "rounds_by_wavefront", -1)

    lane3 = [x[64 * wave + 3] for wave in range(4)]
    # Wavefront 3 (element 195) doubles itself plus its round each time: 390, 781, 1564, 3131. The others add its tile.
    assert lane3 == [3 + 195, 67 + 195 + 391, 131 + 195 + 391 + 783, 3131]
    assert result.findings == ()


def test_a_race_among_the_remaining_wavefronts_is_found(machine: EmulatedGpu, code_object: CodeObject) -> None:
    result, _ = run(machine, code_object, "rounds_by_wavefront", 1)  # no barrier between rounds 1 and 2: wavefronts 2 and 3

    assert {f.check for f in result.findings} == {"lds_races"}


@pytest.mark.parametrize(("n", "m"), [(256, 256), (200, 100), (200, 64), (129, 1), (64, 0)])
def test_nested_early_returns_are_clean(machine: EmulatedGpu, code_object: CodeObject, n: int, m: int) -> None:
    result, x = run(machine, code_object, "nested_returns", n, m)

    assert result.findings == ()
    assert x[:m].tolist() == [t + 1 for t in range(m)]


def test_lanes_that_work_after_the_barrier_before_they_return_have_skipped_it(
    machine: EmulatedGpu, code_object: CodeObject
) -> None:
    # The compiler puts the branch of the odd lanes after that of the even ones, so they are alive at the barrier.
    (found,) = run(machine, code_object, "returns_after_work")[0].findings

    assert found.lanes == tuple(range(1, 64, 2))
    assert "later execute `global_store_dword" in found.message


def test_lanes_that_skip_a_barrier_and_go_on_are_reported_with_both_places(machine: EmulatedGpu, code_object: CodeObject) -> None:
    (found,) = run(machine, code_object, "skipped_by_lanes", 100)[0].findings

    assert found.check == "barriers"
    assert found.instruction.startswith("s_barrier")
    assert found.lanes == tuple(range(36, 64))
    assert "wavefront 1 of workgroup (0, 0, 0) skip this barrier and later execute `global_store_dword" in found.message


@pytest.mark.parametrize("n", [64, 128, 256])
def test_a_branch_around_a_barrier_for_whole_wavefronts_is_no_divergence(
    machine: EmulatedGpu, code_object: CodeObject, n: int
) -> None:
    result, x = run(machine, code_object, "skipped_by_lanes", n)

    assert result.findings == ()
    assert x.tolist() == list(range(256))


@pytest.mark.parametrize("kernel", ["skipped_by_odd_lanes", "both_branches", "rounds_by_lane"])
def test_lanes_in_another_branch_or_another_round_are_reported(
    machine: EmulatedGpu, code_object: CodeObject, kernel: str
) -> None:
    result, _ = run(machine, code_object, kernel)

    assert any("skip this barrier" in f.message for f in result.findings if f.check == "barriers")


def test_lanes_that_skip_one_barrier_and_reach_the_next_are_reported(machine: EmulatedGpu, code_object: CodeObject) -> None:
    (found,) = run(machine, code_object, "skipped_then_barrier")[0].findings

    assert found.message.endswith("skip this barrier and reach a later one")
    assert found.lanes == tuple(range(32, 64))
