"""Grids that are not a multiple of the workgroup: the last workgroup of an axis is smaller.

Its work-items are numbered as in a workgroup of that size and packed into as few wavefronts as possible.
"""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.core.geometry import Geometry
from rocm_perf_lab.emulator.kernarg import hidden_values
from rocm_perf_lab.replay.messages import CheckRequest, ReplayRequest
from rocm_perf_lab.replay.reader import open_capture
from rocm_perf_lab.replay.session import ReplaySession
from tests.builders.captures import Scene
from tests.builders.emulation import EmulatorBench
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.code_object import CodeObject

POISON = 0xFFC0DEAD - 2**32
SOURCE = r"""
#include <hip/hip_runtime.h>
// For every work-item of the grid, in its linear order: its own workgroup's size and its number in it.
extern "C" __global__ void sizes(int* size, int* number, int nx, int ny) {
  int x = blockIdx.x * 4 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y, z = blockIdx.z * 2 + threadIdx.z;
  int item = (z * ny + y) * nx + x;
  size[item] = blockDim.x * blockDim.y * blockDim.z;
  number[item] = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
extern "C" __global__ void groups(int* out) {
  out[blockIdx.x] = gridDim.x * 1000000 + __builtin_popcountll(__ballot(1)) * 1000 + blockDim.x;
}
// The last workgroup of 256 has 100 work-items: two wavefronts have to meet at the barrier, not four.
extern "C" __global__ void block_sums(const int* x, int* sums) {
  __shared__ int part[256];
  part[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  if (threadIdx.x) return;
  int sum = 0;
  for (unsigned i = 0; i < blockDim.x; i++) sum += part[i];
  sums[blockIdx.x] = sum;
}
extern "C" __global__ void absent_lanes(int* out) {
  __shared__ int part[256];
  part[threadIdx.x] = 7;
  __syncthreads();
  if (threadIdx.x == 0) for (int i = 0; i < 256; i++) out[blockIdx.x * 256 + i] = ((volatile int*)part)[i];
}
"""


@pytest.fixture(scope="module")
def code() -> CodeObject:
    with TemporaryDirectory() as directory:
        return build_hip(SOURCE, Path(directory), flags=("-fno-offload-uniform-block",)).code_object


def test_a_grid_in_work_items_that_does_not_divide_has_a_remainder() -> None:
    geometry = Geometry.of_work_items((1000, 64, 3), (256, 16, 2))

    assert (geometry.grid, geometry.remainder, geometry.work_items) == ((4, 4, 2), (232, 0, 1), (1000, 64, 3))


def test_hidden_arguments_count_whole_workgroups_and_the_remainder() -> None:
    values = hidden_values(Geometry.of_work_items((1000, 64, 1), (256, 16, 1)))

    assert [values[f"hidden_block_count_{axis}"] for axis in "xyz"] == [3, 4, 1]
    assert [values[f"hidden_remainder_{axis}"] for axis in "xyz"] == [232, 0, 0]
    assert [values[f"hidden_group_size_{axis}"] for axis in "xyz"] == [256, 16, 1]


@pytest.mark.parametrize("work_items", [(7, 5, 3), (8, 4, 2), (1, 1, 1), (9, 4, 3)])
def test_every_work_item_of_the_grid_runs_once_and_knows_its_workgroup(
    code: CodeObject, work_items: tuple[int, int, int]
) -> None:
    block = (4, 4, 2)
    geometry = Geometry.of_work_items(work_items, block)
    nx, ny, nz = work_items
    with EmulatorBench(code) as bench:
        size, number = (bench.buffer(np.full(nx * ny * nz, -1, np.int32)) for _ in range(2))
        scalars = [n.to_bytes(4, "little") for n in (nx, ny)]
        result = bench.launch("sizes", geometry.grid, block, size, number, *scalars, remainder=geometry.remainder)

        z, y, x = np.indices((nz, ny, nx))
        widths = [np.where(i // b * b + b > n, n % b, b) for i, n, b in zip((x, y, z), work_items, block, strict=True)]
        inside = ((z % 2) * widths[1] + y % 4) * widths[0] + x % 4
        assert list(bench.read(size)) == list((widths[0] * widths[1] * widths[2]).ravel())
        assert list(bench.read(number)) == list(inside.ravel())
        assert result.counters["SQ_ITEMS"] == nx * ny * nz


def test_wavefronts_without_work_items_do_not_start_and_barriers_do_not_wait_for_them(code: CodeObject) -> None:
    x = np.arange(356, dtype=np.int32)
    with EmulatorBench(code) as bench:
        sums = bench.buffer(np.zeros(2, np.int32))
        result = bench.launch("block_sums", 2, 256, bench.buffer(x), sums, remainder=(100, 0, 0))

        assert list(bench.read(sums)) == [x[:256].sum(), x[256:].sum()]
    counters = result.counters
    assert [counters[f"SQ_WAVES{kind}"] for kind in ("", "_EQ_64", "_LT_64")] == [6, 5, 1]
    assert counters["SPI_CSN_NUM_THREADGROUPS"] == 2
    assert counters["SQ_ITEMS"] == 356


def test_lanes_of_the_last_wavefront_are_masked(code: CodeObject) -> None:
    with EmulatorBench(code) as bench:
        out = bench.buffer(np.zeros(512, np.int32))
        bench.launch("absent_lanes", 2, 256, out, remainder=(70, 0, 0))

        assert list(bench.read(out)) == [7] * (256 + 70) + [POISON] * 186


@pytest.mark.parametrize("threads", [1, 3])
def test_the_last_workgroup_is_the_partial_one_on_any_thread(code: CodeObject, threads: int) -> None:
    with EmulatorBench(code, threads=threads) as bench:
        out = bench.buffer(np.zeros(5, np.int32))
        bench.launch("groups", 5, 64, out, remainder=(3, 0, 0))

        assert list(bench.read(out)) == [5 * 10**6 + 64 * 1000 + 64] * 4 + [5 * 10**6 + 3 * 1000 + 3]


def test_a_dispatch_with_a_partial_workgroup_is_captured_and_replayed(code: CodeObject, tmp_path: Path) -> None:
    scene = Scene(code)
    x, sums = scene.buffer(np.arange(356, dtype=np.int32)), scene.buffer(np.zeros(2, np.int32), "sums")
    directory = scene.capture(tmp_path / "c", "block_sums", [x, sums], grid=2, block=256, remainder=100)
    capture = open_capture(directory)

    with ReplaySession(capture, device="emulator", target=mi300x(), threads=1) as running:
        outcome = running.run(ReplayRequest(iterations=2, check=CheckRequest(), read=((sums.address, 8),)))

    assert capture.dispatch.packet.grid_size == (356, 1, 1)
    assert outcome.verification is not None
    assert outcome.verification.passed
    assert np.frombuffer(b64decode(outcome.read[0]), np.int32).tolist() == [sum(range(256)), sum(range(256, 356))]
