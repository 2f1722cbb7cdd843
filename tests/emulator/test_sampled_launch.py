"""Sampled launches: exact counts of workgroups, traces of a second run, and memory that a second run does not change."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
import pytest

from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.memory import PAGE_BYTES
from rocm_perf_lab.emulator.sampling import SamplePolicy
from tests.builders.emulation import int32
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.launching import LaunchResult
    from rocm_perf_lab.emulator.loader import LoadedCodeObject
    from rocm_perf_lab.emulator.memory import Allocation
    from rocm_perf_lab.toolchain.code_object import CodeObject

SOURCE = r"""
#include <hip/hip_runtime.h>
__device__ int launches = 40;

extern "C" __global__ void loops(int* x, const int* length) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, n = length[blockIdx.x];
  for (int k = 0; k < n; k++) x[i] = x[i] * 3 + 1;
}
extern "C" __global__ void staged(const int* x, int* y) {
  __shared__ int part[128];
  part[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
  __syncthreads();
  y[blockIdx.x * 128 + threadIdx.x] = part[127 - threadIdx.x];
}
extern "C" __global__ void countdown(int* left) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  while (left[i] > 0) left[i]--;
  if (i == 0) launches++;
}
extern "C" __global__ void tickets(int* counter, int* out) {
  __shared__ int tile;
  if (threadIdx.x == 0) tile = atomicAdd(counter, 1);
  __syncthreads();
  out[tile * blockDim.x + threadIdx.x] = tile;
}
extern "C" __global__ void queue(int* next, int* taken, int tiles) {
  __shared__ int tile;
  int mine = 0;
  for (;;) {
    if (threadIdx.x == 0) tile = atomicAdd(next, 1);
    __syncthreads();
    int last = tile >= tiles;
    __syncthreads();
    if (last) break;
    mine++;
  }
  if (threadIdx.x == 0) taken[blockIdx.x] = mine;
}
extern "C" __global__ void look_back(int* flag, int* out) {
  if (blockIdx.x > 0) while (__hip_atomic_load(&flag[blockIdx.x - 1], __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) == 0) {}
  out[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x;
  __hip_atomic_store(&flag[blockIdx.x], 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
}
"""


@pytest.fixture(scope="module")
def code_object(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    return build_hip(SOURCE, tmp_path_factory.mktemp("sampled")).code_object


class Bench:
    """Emulated GPU with the kernels above and a sample policy; a context manager."""

    def __init__(self, code_object: CodeObject, policy: SamplePolicy | None, threads: int = 2, *, images: bool = False) -> None:
        self._images = images
        self._code_object = code_object
        self.machine = EmulatedGpu(mi300x(), max_instructions=10**8, threads=threads, sample=policy)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.machine.close()

    @cached_property
    def loaded(self) -> LoadedCodeObject:
        """Code object in device memory."""
        return self.machine.load(self._code_object)

    def buffer(self, values: NDArray[np.int32]) -> Allocation:
        """Return device memory with a content."""
        allocation = self.machine.allocate("buffer", values.nbytes)
        self.machine.write(allocation, values)
        if self._images:
            self.machine.memory.set_image(allocation, values)
        return allocation

    def ints(self, allocation: Allocation) -> NDArray[np.int32]:
        """Return the content of device memory."""
        return np.frombuffer(self.machine.read(allocation), np.int32)

    def run(self, kernel: str, grid: int, block: int, *arguments: Allocation | bytes, cooperative: bool = False) -> LaunchResult:
        """Launch a kernel on a flat grid."""
        return self.machine.launch(self.loaded, kernel, (grid, 1, 1), (block, 1, 1), arguments, cooperative=cooperative)


def traces_by_workgroup(result: LaunchResult) -> dict[int, list[list[int]]]:
    assert result.sample is not None
    return {
        workgroup: [words.tolist() for words in waves]
        for workgroup, waves in zip(result.sample.chosen, result.traces, strict=True)
    }


def test_every_workgroup_has_exact_counts(code_object: CodeObject) -> None:
    lengths = np.array([0, 2, 5, 2], np.int32)
    with Bench(code_object, None) as bench:
        x = bench.buffer(np.zeros(4 * 128, np.int32))
        result = bench.run("loops", 4, 128, x, bench.buffer(lengths))

    counts = result.workgroup_counts
    assert counts["waves"].tolist() == [2, 2, 2, 2]
    # Two wavefronts store 64 dwords in each iteration; the compiler may keep x[i] in a register, but then stores it once.
    stored = counts["store_bytes"] // (128 * 4)
    assert stored.tolist() in ([0, 2, 5, 2], [0, 1, 1, 1])
    assert counts["instructions"][1] == counts["instructions"][3] < counts["instructions"][2]
    assert counts["instructions"].sum() == result.counters["SQ_INSTS"]


def test_counts_of_interleaved_workgroups_are_separate_and_do_not_depend_on_threads(code_object: CodeObject) -> None:
    found = []
    for threads in (1, 2):
        with Bench(code_object, None, threads) as bench:
            x, y = bench.buffer(np.zeros(32 * 128, np.int32)), bench.buffer(np.zeros(32 * 128, np.int32))
            found.append(bench.run("staged", 32, 128, x, y).workgroup_counts)

    assert np.array_equal(found[0], found[1])
    assert set(found[0]["load_bytes"].tolist()) == set(found[0]["store_bytes"].tolist()) == {512}
    assert set(found[0]["span_bytes"].tolist()) == {1024}  # contiguous loads and stores
    assert len(set(found[0]["address_sum"].tolist())) == 32


LAUNCHES: dict[str, Callable[[Bench], LaunchResult]] = {
    "loops": lambda bench: bench.run(
        "loops", 96, 64, bench.buffer(np.arange(96 * 64, dtype=np.int32)), bench.buffer(np.arange(96, dtype=np.int32) % 7)
    ),
    "countdown": lambda bench: bench.run("countdown", 96, 64, bench.buffer(np.arange(96 * 64, dtype=np.int32) // 64 % 9)),
    "tickets": lambda bench: bench.run(
        "tickets", 64, 64, bench.buffer(np.zeros(1, np.int32)), bench.buffer(np.zeros(64 * 64, np.int32))
    ),
    "look_back": lambda bench: bench.run(
        "look_back", 48, 64, bench.buffer(np.zeros(48, np.int32)), bench.buffer(np.zeros(48 * 64, np.int32))
    ),
}
"""Workgroups that change their own input, and workgroups that depend on others: a queue, and a wait for the one before."""


@pytest.mark.parametrize("name", LAUNCHES)
@pytest.mark.parametrize(("seed", "images"), [(1, False), (2, True)])
def test_traces_of_a_second_run_are_those_of_the_launch(code_object: CodeObject, name: str, seed: int, images: bool) -> None:
    with Bench(code_object, SamplePolicy(None), threads=1) as bench:
        every = traces_by_workgroup(LAUNCHES[name](bench))
    with Bench(code_object, SamplePolicy(8, seed), threads=1, images=images) as bench:
        some = traces_by_workgroup(LAUNCHES[name](bench))

    assert 2 <= len(some) <= 8 < len(every)
    assert some == {workgroup: every[workgroup] for workgroup in some}


@pytest.mark.parametrize("images", [False, True])
@pytest.mark.parametrize("name", LAUNCHES)
def test_memory_is_that_of_one_run(code_object: CodeObject, name: str, images: bool) -> None:
    contents = []
    for policy in (None, SamplePolicy(8, 3)):
        with Bench(code_object, policy, images=images) as bench:
            LAUNCHES[name](bench)
            live = [a for a in bench.machine.memory.allocations if a.name == "buffer"]
            contents.append([bench.machine.read(a) for a in live] + [bench.loaded.device_global("launches").tobytes()])

    assert contents[0] == contents[1]
    assert contents[0][-1] == int32(41 if name == "countdown" else 40)


def test_the_image_of_a_buffer_is_valid_for_one_launch(code_object: CodeObject) -> None:
    start = np.arange(96 * 64, dtype=np.int32) // 64 % 9
    with Bench(code_object, SamplePolicy(8, 3), images=True) as bench:
        x, lengths = bench.buffer(start), bench.buffer(np.ones(96, np.int32))
        for _ in range(2):
            bench.run("loops", 96, 64, x, lengths)

        assert np.array_equal(bench.ints(x), (start * 3 + 1) * 3 + 1)


def test_pages_tracked_for_a_replay_are_those_of_one_run(code_object: CodeObject) -> None:
    image = np.arange(96 * 64, dtype=np.int32) // 64 % 9
    with Bench(code_object, SamplePolicy(8, 3)) as bench:
        x = bench.buffer(image)
        pages = bench.machine.memory.track_writes(x.address, 6 * PAGE_BYTES)

        bench.run("countdown", 96, 64, x)
        after = bench.ints(x).copy()
        restored = pages.restore(image.view(np.uint8))

        assert not after.any()
        assert restored == 6  # 96 workgroups of 256 bytes
        assert np.array_equal(bench.ints(x), image)


def test_workgroups_that_take_tiles_from_a_queue_receive_similar_numbers(code_object: CodeObject) -> None:
    with Bench(code_object, None) as bench:
        taken = bench.buffer(np.zeros(48, np.int32))
        bench.run("queue", 48, 128, bench.buffer(np.zeros(1, np.int32)), taken, int32(48 * 500))

        tiles = bench.ints(taken)
        assert tiles.sum() == 48 * 500
        assert 400 < tiles.min() <= tiles.max() < 600


def test_a_rare_heavy_workgroup_is_traced_for_every_seed(code_object: CodeObject) -> None:
    lengths = np.ones(1000, np.int32)
    lengths[617] = 500
    for seed in range(12):
        with Bench(code_object, SamplePolicy(8, seed)) as bench:
            x = bench.buffer(np.zeros(1000 * 64, np.int32))
            result = bench.run("loops", 1000, 64, x, bench.buffer(lengths))

        assert result.sample is not None
        chosen, representatives = np.array(result.sample.chosen), result.sample.representatives
        assert 617 in chosen
        assert (chosen[representatives] == 617).sum() == 1
        instructions = result.workgroup_counts["instructions"].astype(float)
        assert np.array_equal(result.sample.scale * instructions[chosen[representatives]], instructions)


def test_the_seed_decides_the_choice_and_is_in_the_result(code_object: CodeObject) -> None:
    def chosen(seed: int) -> tuple[tuple[int, ...], int | None]:
        with Bench(code_object, SamplePolicy(8, seed)) as bench:
            x, y = bench.buffer(np.zeros(512 * 128, np.int32)), bench.buffer(np.zeros(512 * 128, np.int32))
            result = bench.run("staged", 512, 128, x, y)
            assert result.sample is not None
            return result.sample.chosen, result.sample_seed

    assert chosen(3) == chosen(3)
    assert chosen(3)[1] == 3
    assert len({chosen(n)[0] for n in range(6)}) == 6


def test_an_untraced_launch_has_no_sample(code_object: CodeObject) -> None:
    with Bench(code_object, None) as bench:
        x, y = bench.buffer(np.zeros(128, np.int32)), bench.buffer(np.zeros(128, np.int32))
        result = bench.run("staged", 1, 128, x, y)

    assert (result.sample, result.sample_seed, result.traces) == (None, None, [])
