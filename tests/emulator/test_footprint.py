"""Sampled lines that a launch accesses: which ones are recorded, and that the record does not depend on threads or addresses."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.core.geometry import Geometry
from rocm_perf_lab.emulator.execution import execute
from rocm_perf_lab.emulator.footprint import (
    ALLOCATION_MASK,
    ALLOCATION_SHIFT,
    LINE_BYTES,
    NEW_ALLOCATION,
    PRIVATE_ALLOCATION,
    FootprintRecorder,
    LineFootprint,
)
from rocm_perf_lab.emulator.kernarg import pack_kernarg
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.structures import AccessKind, AllocationEntry
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x
from tests.builders.waves import WaveBench

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rocm_perf_lab.toolchain.code_object import CodeObject

LANE = np.arange(64, dtype=np.uint64)
NOTHING, ZERO = ctypes.c_uint64(0), ctypes.c_int64(0)
VGPR64, B32, EVERY_LANE = 0, 4, 2**64 - 1
DATA, ADDRESS = 10, 2


class RecordingBench(WaveBench):
    """Wavefront 0 of workgroup 0 with a zeroed buffer of 1 MiB whose accessed lines are recorded."""

    def __init__(self, sampling: int = 1) -> None:
        super().__init__()
        self.buffer_x = self.buffer(np.zeros(1 << 20, dtype=np.uint8))
        self.recorder = FootprintRecorder(self.runtime, 1, 1, self.memory.registry(), sampling=sampling)
        self.machine.footprint = self.recorder.address(0)
        self.wave.recent_places[:] = [2**64 - 1] * 4

    def access(self, offsets: NDArray[np.uint64], *, mask: int = EVERY_LANE, dwords: int = 1, store: bool = False) -> None:
        """Access `dwords` dwords per active lane at byte offsets of the buffer, (64,)."""
        self.set_exec(mask)
        self.set_addresses(ADDRESS, np.uint64(self.buffer_x.address) + offsets)
        helper = "rpl_global_store" if store else "rpl_global_load"
        assert self.call(helper, DATA, ADDRESS, NOTHING, ZERO, VGPR64, B32, dwords) == 0

    def footprint(self) -> LineFootprint:
        """Return the record."""
        result = self.recorder.result()
        assert result is not None
        return result

    def __exit__(self, *arguments: object) -> None:
        self.recorder.__exit__()
        super().__exit__(*arguments)


def lines_of(footprint: LineFootprint) -> list[int]:
    return [int(place) & 0xFFFFFFFF for place in footprint.accesses["place"]]


def field(footprint: LineFootprint, shift: int, bits: int) -> list[int]:
    return [int(place) >> shift & (1 << bits) - 1 for place in footprint.accesses["place"]]


@pytest.mark.parametrize(
    ("begin", "numbers", "lines"),
    [(-4096, [1, 1], [32, 33]), (64 * 128, [NEW_ALLOCATION, NEW_ALLOCATION], [0, 1])],
    ids=["it was part of a larger one", "it is new"],
)
def test_allocations_are_numbered_as_at_the_start_of_a_kernel(begin: int, numbers: list[int], lines: list[int]) -> None:
    bench = RecordingBench()
    address = bench.buffer_x.address
    known = (AllocationEntry * 2)()
    known[0].begin, known[0].end = address - 8192, address - 4096
    known[1].begin, known[1].end = address + begin, address + (1 << 20)
    record = bench.recorder._records[0]
    record.known, record.known_count = ctypes.addressof(known), 2

    bench.access(LANE * np.uint64(4))

    footprint = bench.footprint()
    place = footprint.accesses["place"]
    assert (place >> np.uint64(ALLOCATION_SHIFT) & np.uint64(ALLOCATION_MASK)).tolist() == numbers
    assert (place & np.uint64(2**32 - 1)).tolist() == lines
    if begin > 0:
        end = max(sum(pair) for pair in footprint.allocations)
        assert footprint.span(NEW_ALLOCATION) == (end, 2 * LINE_BYTES)


def test_a_contiguous_load_accesses_each_line_once() -> None:
    with RecordingBench() as bench:
        bench.access(LANE * np.uint64(4) + np.uint64(1280))

        recorded = bench.footprint()

    assert lines_of(recorded) == [10, 11]
    assert field(recorded, 51, 2) == [AccessKind.LOAD, AccessKind.LOAD]
    assert recorded.accesses["time"].tolist() == [0, 0]
    assert recorded.memory_instructions.tolist() == [1]


def test_a_store_names_the_sectors_and_dwords_of_each_line() -> None:
    with RecordingBench() as bench:
        bench.access(LANE * np.uint64(4) + np.uint64(96), store=True)  # bytes 96 to 352
        bench.access(LANE * np.uint64(64), mask=0b111, store=True)  # bytes 0, 64 and 128

        recorded = bench.footprint()

    assert lines_of(recorded) == [0, 1, 2, 0, 1]
    assert field(recorded, 47, 4) == [0b1000, 0b1111, 0b0111, 0b0101, 0b0001]
    assert [count + 1 for count in field(recorded, 58, 5)] == [8, 32, 24, 2, 1]
    assert recorded.accesses["time"].tolist() == [0, 0, 0, 1, 1]


def test_a_wavefront_that_loads_a_line_again_soon_is_recorded_once() -> None:
    with RecordingBench() as bench:
        for _ in range(10):
            bench.access(np.zeros(64, dtype=np.uint64))
            bench.access(np.zeros(64, dtype=np.uint64) + np.uint64(4096))

        assert lines_of(bench.footprint()) == [0, 32]


@given(
    seed=st.integers(0, 2**32),
    span=st.sampled_from([256, 4096, 8000, 100_000, 1_000_000]),
    mask=st.integers(1, EVERY_LANE),
    dwords=st.integers(1, 4),
    sampling=st.sampled_from([1, 2, 8, 64]),
    store=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_exactly_the_accessed_lines_of_the_sample_are_recorded(
    seed: int, span: int, mask: int, dwords: int, sampling: int, store: bool
) -> None:
    offsets = np.random.default_rng(seed).integers(0, span, 64).astype(np.uint64)
    touched = {
        int(offset + byte) // LINE_BYTES
        for lane, offset in enumerate(offsets)
        if mask >> lane & 1
        for byte in (0, 4 * dwords - 1)
    }
    with RecordingBench(sampling) as bench, RecordingBench(sampling) as whole:
        bench.access(offsets, mask=mask, dwords=dwords, store=store)
        for first in range(0, 1 << 20, 64 * LINE_BYTES):
            whole.access(LANE * np.uint64(LINE_BYTES) + np.uint64(first))
        sample = set(lines_of(whole.footprint()))
        recorded = lines_of(bench.footprint())

    assert len(sample) == 8192 // sampling
    assert sorted(recorded) == sorted(touched & sample)


def test_every_group_of_lines_has_one_in_the_sample_and_positions_differ() -> None:
    with RecordingBench(32) as bench:
        for first in range(0, 1 << 20, 64 * LINE_BYTES):
            bench.access(LANE * np.uint64(LINE_BYTES) + np.uint64(first))
        lines = np.array(sorted(lines_of(bench.footprint())))

    assert (lines // 32).tolist() == list(range(256))
    assert np.bincount(lines % 32).tolist() == [8] * 32


# ---- launches ----

SOURCE = """
#include <hip/hip_runtime.h>
extern "C" __global__ void gather(const int* index, const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[index[i]];
}
"""
N, BLOCK = 1 << 17, 256


@pytest.fixture(scope="module")
def gather(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    return build_hip(SOURCE, tmp_path_factory.mktemp("gather")).code_object


def recorded(code_object: CodeObject, threads: int, other_buffers: int = 0) -> tuple[list[tuple[int, ...]], LineFootprint]:
    """Return the accesses as (buffer, line and other fields, workgroup, time), with the number of the buffer in the launch."""
    with EmulatedGpu(mi300x(), max_instructions=10**8, threads=threads) as machine:
        for number in range(other_buffers):
            machine.allocate(f"other {number}", 100)
        buffers = [machine.allocate(name, 4 * N) for name in ("index", "x", "out")]
        machine.write(buffers[0], np.random.default_rng(1).integers(0, N, N).astype(np.int32))
        loaded = machine.load(code_object)
        kernel, geometry = loaded.kernel("gather"), Geometry((N // BLOCK, 1, 1), (BLOCK, 1, 1), 0, (0, 0, 0))
        kernarg = pack_kernarg(kernel, [*(b.address for b in buffers), struct.pack("<i", N)], geometry)
        with machine.prepare(loaded, "gather", geometry, kernarg) as prepared:
            footprint = prepared.run(traced=False).footprint
            assert footprint is None
            dispatch = replace(prepared._dispatch, records_lines=True)
            footprint = execute(prepared._runtime, dispatch, prepared._registry).footprint
    assert footprint is not None
    names = {b.address: number for number, b in enumerate(buffers)}
    place = footprint.accesses["place"]
    allocation = (place >> np.uint64(ALLOCATION_SHIFT) & np.uint64(ALLOCATION_MASK)).astype(int)
    owner = [names.get(footprint.allocations[k][0], -1) for k in allocation]
    rest = place & ~(np.uint64(ALLOCATION_MASK) << np.uint64(ALLOCATION_SHIFT))
    rows = zip(owner, rest.tolist(), footprint.accesses["workgroup"].tolist(), footprint.accesses["time"].tolist(), strict=True)
    return list(rows), footprint


def test_the_record_of_a_launch_depends_neither_on_threads_nor_on_addresses(gather: CodeObject) -> None:
    one, first = recorded(gather, 1)
    two, second = recorded(gather, 2)
    elsewhere, third = recorded(gather, 1, other_buffers=5)

    assert len(one) > 1000
    assert one == two == elsewhere
    assert first.channel_windows.sum() > 1000
    assert np.array_equal(first.channel_windows, second.channel_windows)
    assert np.array_equal(first.memory_instructions, third.memory_instructions)


def test_a_launch_without_memory_accesses_has_an_empty_record() -> None:
    with RecordingBench() as bench:
        recorded = bench.footprint()

    assert len(recorded.accesses) == 0
    assert recorded.first.tolist() == [0, 0]


def test_too_many_records_are_thinned_equally_for_any_number_of_threads(
    gather: CodeObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    every, full = recorded(gather, 1)
    monkeypatch.setattr("rocm_perf_lab.emulator.footprint._RECORDS", 4000)
    one, thinned = recorded(gather, 1)
    two, _ = recorded(gather, 2)

    assert one == two
    assert 2000 <= len(one) <= 4000
    assert thinned.sampling > full.sampling
    assert set(one) < set(every)
    assert len(one) * thinned.sampling == pytest.approx(len(every) * full.sampling, rel=0.1)


def test_windows_count_lines_by_channel_and_loads_of_a_workgroup_once() -> None:
    with RecordingBench(64) as bench:
        for _ in range(2):
            bench.access(LANE * np.uint64(64))  # 32 lines, two in each of 16 channels
        bench.access(LANE % np.uint64(2) << np.uint64(19))  # lines 0 and 4096, which differ in bit 19, in channel 0
        for _ in range(6):
            bench.access(LANE * np.uint64(0), mask=1, store=True)

        windows = bench.footprint().channel_windows

    assert windows.shape == (1, 8, 16)
    assert windows[0, 0].tolist() == [2 + 1 + 5] + [2] * 15
    assert windows[0, 1].tolist() == [1] + [0] * 15


def test_scratch_is_recorded_interleaved_and_in_the_slot_of_the_workgroup() -> None:
    with RecordingBench() as bench:  # 64 bytes of scratch per lane, 32 lines of 128 bytes per wavefront
        bench.wave.waves_in_workgroup, bench.wave.wave_in_workgroup = 4, 1
        bench.row(ADDRESS)[:] = 8
        assert bench.call("rpl_scratch_store", DATA, ADDRESS, 0, 4, B32, 1) == 0  # offset 12 of each lane

        recorded = bench.footprint()

    assert lines_of(recorded) == [32 + 12 * 64 // 128, 32 + 12 * 64 // 128 + 1]
    assert field(recorded, ALLOCATION_SHIFT, 15) == [PRIVATE_ALLOCATION] * 2
    assert field(recorded, 47, 4) == [15, 15]


def test_scalar_loads_are_recorded_for_the_first_wavefront_of_a_workgroup() -> None:
    with RecordingBench() as bench:
        for wave in (0, 1):
            bench.wave.wave_in_workgroup = wave
            assert bench.call("rpl_scalar_load", 8, ctypes.c_uint64(bench.buffer_x.address + 256), 4) == 0

        recorded = bench.footprint()

    assert lines_of(recorded) == [2]
    assert field(recorded, 53, 1) == [1]
    assert recorded.memory_instructions.tolist() == [2]
