"""Functions of the C runtime, each called on one wavefront."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.emulator.build import build_runtime, load_runtime
from rocm_perf_lab.emulator.structures import FaultKind, FaultRecord, LaunchRecord, MachineState, MemoryCounters, WaveState
from tests.builders.waves import WaveBench

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

LANE = np.arange(64, dtype=np.uint32)
NOTHING, ZERO = ctypes.c_uint64(0), ctypes.c_int64(0)
U8, I8, U16, I16, B32, LOW_HALF, HIGH_HALF = 0, 1, 2, 3, 4, 8, 16
VGPR64, SGPR_PLUS_VGPR32, FLAT = 0, 1, 2
ADD, CMPSWAP, FADD, PK_ADD_BF16, INC, DEC = 2, 1, 13, 18, 11, 12
F16, BF16, F32, F64, I8_ELEMENT, XF32, FP8, BF8 = range(8)


@pytest.fixture
def bench() -> Iterator[WaveBench]:
    with WaveBench() as made:
        yield made


def test_structures_have_the_compiled_size() -> None:
    sizes = (ctypes.c_uint64 * 8)()  # the last three are those of the checks, compared with their own mirrors

    load_runtime().library.rpl_layout(sizes)

    mirrors = (WaveState, MachineState, LaunchRecord, FaultRecord, MemoryCounters)
    assert [ctypes.sizeof(mirror) for mirror in mirrors] == list(sizes)[: len(mirrors)]


def test_every_helper_has_an_address() -> None:
    helpers = load_runtime().helpers

    assert {"rpl_global_load", "rpl_mfma", "rpl_swizzle", "rpl_trace_block", "rpl_illegal"} <= helpers.keys()
    assert all(address > 0 for address in helpers.values())


def test_a_corrupted_library_is_built_again(tmp_path: Path) -> None:
    path = build_runtime(tmp_path)
    built = path.read_bytes()
    path.write_bytes(b"no library")

    again = build_runtime(tmp_path)

    assert again == path
    assert again.read_bytes()[:4] == built[:4] == b"\x7fELF"


# ---- device memory ----


@given(dwords=st.integers(1, 4), stride=st.integers(4, 9), mask=st.integers(0, 2**64 - 1), full=st.booleans())
@settings(max_examples=30, deadline=None)
def test_loads_return_each_active_lane_its_dwords(dwords: int, stride: int, mask: int, full: bool) -> None:
    mask = 2**64 - 1 if full else mask
    words = np.arange(64 * stride, dtype=np.uint32) * 3
    with WaveBench() as bench:
        x = bench.buffer(words)
        bench.set_addresses(2, np.uint64(x.address) + 4 * stride * LANE.astype(np.uint64))
        bench.set_exec(mask)

        assert bench.call("rpl_global_load", 10, 2, NOTHING, ZERO, VGPR64, B32, dwords) == 0

        active = np.array([mask >> lane & 1 for lane in range(64)], dtype=bool)
        for k in range(dwords):
            assert np.array_equal(bench.row(10 + k), np.where(active, words[stride * LANE + k], 0))


@pytest.mark.parametrize("dwords", [1, 2, 3, 4])
def test_contiguous_accesses_of_a_full_wavefront_keep_memory_order(bench: WaveBench, dwords: int) -> None:
    words = np.arange(64 * dwords, dtype=np.uint32)
    source, target = bench.buffer(words), bench.buffer(np.zeros_like(words), "y")
    bench.row(1)[:] = 4 * dwords * LANE

    bench.call("rpl_global_load", 10, 1, ctypes.c_uint64(source.address), ZERO, SGPR_PLUS_VGPR32, B32, dwords)
    bench.call("rpl_global_store", 10, 1, ctypes.c_uint64(target.address), ZERO, SGPR_PLUS_VGPR32, B32, dwords)

    assert np.array_equal(bench.row(10 + dwords - 1), dwords * LANE + dwords - 1)
    assert np.array_equal(bench.content(target, np.uint32), words)
    assert bench.machine.counters.load_bytes == bench.machine.counters.store_bytes == 256 * dwords


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (U8, 0xFE),
        (I8, 0xFFFFFFFE),
        (U16, 0x80FE),
        (I16, 0xFFFF80FE),
        (U16 | LOW_HALF, 0xAAAA80FE),
        (U16 | HIGH_HALF, 0x80FEBBBB),
        (I8 | HIGH_HALF, 0xFFFEBBBB),
    ],
)
def test_narrow_loads_extend_or_merge(bench: WaveBench, kind: int, expected: int) -> None:
    x = bench.buffer(np.array([0x123480FE], dtype=np.uint32))
    bench.set_addresses(2, np.full(64, x.address, dtype=np.uint64))
    bench.row(10)[:] = 0xAAAABBBB

    bench.call("rpl_global_load", 10, 2, NOTHING, ZERO, VGPR64, kind, 1)

    assert bench.row(10)[5] == expected


def test_an_atomic_add_without_return_counts_every_active_lane(bench: WaveBench) -> None:
    x = bench.buffer(np.zeros(1, dtype=np.uint32))
    bench.set_addresses(2, np.full(64, x.address, dtype=np.uint64))
    bench.row(4)[:] = 1
    bench.set_exec(0xFF)

    bench.call("rpl_global_atomic", 10, 4, 2, NOTHING, ZERO, VGPR64, ADD, 0, 0)

    assert bench.content(x, np.uint32)[0] == 8


def test_an_atomic_with_return_returns_the_old_values_in_lane_order(bench: WaveBench) -> None:
    x = bench.buffer(np.zeros(1, dtype=np.float32))
    bench.set_addresses(2, np.full(64, x.address, dtype=np.uint64))
    bench.row(4)[:] = np.ones(64, dtype=np.float32).view(np.uint32)

    bench.call("rpl_global_atomic", 10, 4, 2, NOTHING, ZERO, VGPR64, FADD, 0, 1)

    assert np.array_equal(bench.row(10).view(np.float32), np.arange(64))


def test_compare_and_swap_takes_the_comparand_from_the_second_register_pair(bench: WaveBench) -> None:
    x = bench.buffer(np.array([5], dtype=np.uint64))
    bench.set_addresses(2, np.full(64, x.address, dtype=np.uint64))
    bench.row(4)[:], bench.row(5)[:], bench.row(6)[:], bench.row(7)[:] = 9, 1, 5, 0
    bench.set_exec(1)

    bench.call("rpl_global_atomic", 10, 4, 2, NOTHING, ZERO, VGPR64, CMPSWAP, 1, 1)

    assert bench.content(x, np.uint64)[0] == (1 << 32) + 9
    assert bench.row(10)[0] == 5


@pytest.mark.parametrize(("op", "memory", "data", "expected"), [(INC, 3, 3, 0), (INC, 2, 3, 3), (DEC, 0, 7, 7), (DEC, 9, 7, 7)])
def test_wrapping_counters_wrap(bench: WaveBench, op: int, memory: int, data: int, expected: int) -> None:
    x = bench.buffer(np.array([memory], dtype=np.uint32))
    bench.set_addresses(2, np.full(64, x.address, dtype=np.uint64))
    bench.row(4)[:] = data
    bench.set_exec(1)

    bench.call("rpl_global_atomic", 10, 4, 2, NOTHING, ZERO, VGPR64, op, 0, 0)

    assert bench.content(x, np.uint32)[0] == expected


def test_packed_bf16_adds_round_to_nearest_even(bench: WaveBench) -> None:
    a = np.array([1.0, 256.0], dtype=ml_dtypes.bfloat16)
    b = np.array([2.0**-9, 1.0], dtype=ml_dtypes.bfloat16)  # both are below half a unit, or a tie to even
    x = bench.buffer(a.view(np.uint32))
    bench.set_addresses(2, np.full(64, x.address, dtype=np.uint64))
    bench.row(4)[:] = b.view(np.uint32)[0]
    bench.set_exec(1)

    bench.call("rpl_global_atomic", 10, 4, 2, NOTHING, ZERO, VGPR64, PK_ADD_BF16, 0, 0)

    expected = (a.astype(np.float32) + b.astype(np.float32)).astype(ml_dtypes.bfloat16)
    assert np.array_equal(bench.content(x, np.uint16), expected.view(np.uint16))


def test_flat_addresses_reach_lds_and_scratch_through_their_apertures(bench: WaveBench) -> None:
    bench.lds[3] = 33
    addresses = np.full(64, 0x7FFF0000_0000000C, dtype=np.uint64)
    addresses[1::2] = 0x7FFE0000_00000008
    bench.set_addresses(2, addresses)
    bench.row(4)[:] = 44
    bench.set_exec(2)
    bench.call("rpl_scratch_store", 4, -1, 0, 8, B32, 1)
    bench.set_exec(3)

    assert bench.call("rpl_global_load", 10, 2, NOTHING, ZERO, FLAT, B32, 1) == 0

    assert list(bench.row(10)[:2]) == [33, 44]


# ---- scratch and buffers ----


def test_scratch_is_private_to_each_lane(bench: WaveBench) -> None:
    bench.row(4)[:] = LANE

    bench.call("rpl_scratch_store", 4, -1, 16, 4, B32, 1)
    bench.call("rpl_scratch_load", 10, -1, 20, 0, B32, 1)

    assert np.array_equal(bench.row(10), LANE)


def test_scratch_beyond_a_work_item_is_a_fault(bench: WaveBench) -> None:
    assert bench.call("rpl_scratch_load", 10, -1, 0, 64, B32, 1) == 1
    assert bench.fault.kind == FaultKind.SCRATCH


def set_resource(bench: WaveBench, address: int, num_records: int, stride: int = 0) -> None:
    bench.wave.sgpr[4:8] = [address & 0xFFFFFFFF, address >> 32 | stride << 16, num_records, 0x27000]


def test_buffer_loads_beyond_num_records_return_zero(bench: WaveBench) -> None:
    x = bench.buffer(np.arange(1, 65, dtype=np.uint32))
    set_resource(bench, x.address, num_records=4 * 10)
    bench.row(1)[:] = 4 * LANE

    assert bench.call("rpl_buffer_load", 10, 4, -1, 1, 0, 0, B32, 2) == 0

    assert np.array_equal(bench.row(10), np.where(LANE < 10, LANE + 1, 0))
    assert np.array_equal(bench.row(11), np.where(LANE < 9, LANE + 2, 0))


def test_buffer_stores_beyond_num_records_are_dropped(bench: WaveBench) -> None:
    x = bench.buffer(np.zeros(64, dtype=np.uint32))
    set_resource(bench, x.address, num_records=8)
    bench.row(1)[:] = 4 * LANE
    bench.row(4)[:] = 5

    assert bench.call("rpl_buffer_store", 4, 4, -1, 1, 0, 0, B32, 1) == 0

    assert list(bench.content(x, np.uint32)[:3]) == [5, 5, 0]


def test_a_buffer_resource_larger_than_its_memory_faults(bench: WaveBench) -> None:
    x = bench.buffer(np.zeros(4, dtype=np.uint32))
    set_resource(bench, x.address, num_records=0x7FFFFFFE)
    bench.row(1)[:] = 4 * LANE

    assert bench.call("rpl_buffer_load", 10, 4, -1, 1, 0, 0, B32, 1) == 1
    assert bench.fault.kind == FaultKind.MEMORY
    assert bench.fault.lanes == (2**64 - 1) & ~0xF


def test_scalar_loads_fill_consecutive_sgprs(bench: WaveBench) -> None:
    x = bench.buffer(np.arange(16, dtype=np.uint32))

    assert bench.call("rpl_scalar_load", 20, ctypes.c_uint64(x.address + 8), 4) == 0

    assert bench.wave.sgpr[20:24] == [2, 3, 4, 5]


# ---- LDS ----


def test_lds_stores_are_seen_by_two_address_loads(bench: WaveBench) -> None:
    bench.row(1)[:] = 4 * LANE
    bench.row(4)[:] = LANE * 7

    bench.call("rpl_lds_store", 4, 1, 0, B32, 1)
    bench.row(1)[:] = 0
    bench.call("rpl_lds_load2", 10, 1, 8, 20, 1)

    assert (bench.row(10)[0], bench.row(11)[0]) == (14, 35)


@pytest.mark.parametrize(
    ("stride_bytes", "dwords", "active", "conflicts"),
    [
        (4, 1, 2, 0),  # 32 lanes a cycle
        (0, 1, 2, 0),  # broadcast
        (8, 1, 4, 2),  # two-way: lanes 0 and 16 in one bank
        (128, 1, 64, 62),  # all lanes of a pass in one bank
        (8, 2, 4, 0),
        (16, 4, 8, 0),
        (32, 4, 16, 8),
    ],
)
def test_bank_conflicts_cost_cycles(stride_bytes: int, dwords: int, active: int, conflicts: int) -> None:
    with WaveBench(lds_bytes=16384) as large:
        large.row(1)[:] = stride_bytes * LANE

        large.call("rpl_lds_load", 10, 1, 0, B32, dwords)

        counters = large.machine.counters
        assert (counters.lds_active_cycles, counters.lds_conflict_cycles) == (active, conflicts)


def test_lds_out_of_range_is_a_fault_that_names_the_lanes(bench: WaveBench) -> None:
    bench.row(1)[:] = 4 * LANE
    bench.row(1)[3] = 4094

    assert bench.call("rpl_lds_load", 10, 1, 0, B32, 1) == 1

    assert (bench.fault.kind, bench.fault.lanes, bench.fault.addresses[3]) == (FaultKind.LDS, 1 << 3, 4094)
    assert bench.fault.detail == 4096


def test_lds_atomics_return_old_values(bench: WaveBench) -> None:
    bench.row(1)[:] = 0
    bench.row(4)[:] = 2

    bench.call("rpl_lds_atomic", 10, 4, -1, 1, 0, ADD, 0, 1)

    assert np.array_equal(bench.row(10), 2 * LANE)
    assert bench.lds[0] == 128


# ---- lane permutations ----


def test_bpermute_pulls_and_permute_pushes(bench: WaveBench) -> None:
    bench.row(1)[:] = 4 * ((LANE + 1) % 64)
    bench.row(4)[:] = LANE

    bench.call("rpl_bpermute", 10, 1, 4, 0, 64)
    bench.call("rpl_permute", 11, 1, 4, 0, 64)

    assert np.array_equal(bench.row(10), (LANE + 1) % 64)
    assert np.array_equal(bench.row(11), (LANE - 1) % 64)


def test_bpermute_reads_zero_from_inactive_lanes(bench: WaveBench) -> None:
    bench.row(1)[:] = 4 * 40
    bench.row(4)[:] = 9
    bench.set_exec(1)

    bench.call("rpl_bpermute", 10, 1, 4, 0, 64)

    assert bench.row(10)[0] == 0


@pytest.mark.parametrize(
    ("offset", "source"),
    [
        (0x041F, lambda lane: lane ^ 1),  # swap neighbours
        (0x401F, lambda lane: lane ^ 16),
        (0x8000 | 0b00_01_10_11, lambda lane: lane ^ 3),  # reverse each quad
        (0xC000 | 1 << 5, lambda lane: lane & 32 | (lane + 1) & 31),  # rotate
    ],
)
def test_swizzles_follow_their_pattern(bench: WaveBench, offset: int, source: object) -> None:
    bench.row(4)[:] = LANE

    assert bench.call("rpl_swizzle", 10, 4, offset) == 0

    assert callable(source)
    assert np.array_equal(bench.row(10), source(LANE))


# ---- matrix core ----


def element_type(element: int) -> np.dtype[Any]:
    kinds: dict[int, Any] = {
        F16: np.float16,
        BF16: ml_dtypes.bfloat16,
        F32: np.float32,
        F64: np.float64,
        I8_ELEMENT: np.int8,
        XF32: np.float32,
        FP8: ml_dtypes.float8_e4m3fnuz,
        BF8: ml_dtypes.float8_e5m2fnuz,
    }
    dtype: np.dtype[Any] = np.dtype(kinds[element])
    return dtype


def put_operand(bench: WaveBench, row: int, matrices: NDArray[np.generic], blocks: int) -> None:
    """(blocks, edge, k) with the element (b, i, k) in lane i + edge * (b + blocks * (k // E)), place k % E."""
    _, edge, depth = matrices.shape
    per_lane = edge * depth * blocks // 64
    lanes = np.zeros((64, per_lane), dtype=matrices.dtype)
    for b, i, k in np.ndindex(blocks, edge, depth):
        lanes[i + edge * (b + blocks * (k // per_lane)), k % per_lane] = matrices[b, i, k]
    words = lanes.view(np.uint32)
    for n in range(words.shape[1]):
        bench.row(row + n)[:] = words[:, n]


SHAPES = [
    (32, 8, 1, F16), (16, 16, 1, F16), (32, 4, 2, F16), (16, 4, 4, F16), (4, 4, 16, F16),
    (32, 8, 1, BF16), (16, 16, 1, BF16), (32, 2, 1, F32), (16, 4, 1, F32), (32, 1, 2, F32), (16, 1, 4, F32),
    (4, 1, 16, F32), (16, 8, 1, XF32), (32, 4, 1, XF32), (16, 32, 1, I8_ELEMENT), (32, 16, 1, I8_ELEMENT),
    (4, 4, 16, I8_ELEMENT), (16, 32, 1, FP8), (32, 16, 1, BF8),
]  # fmt: skip


@pytest.mark.parametrize(("edge", "depth", "blocks", "element"), SHAPES)
def test_mfma_multiplies_small_integers_exactly(bench: WaveBench, edge: int, depth: int, blocks: int, element: int) -> None:
    rng = np.random.default_rng(edge + depth)
    a = rng.integers(-4, 5, (blocks, edge, depth)).astype(element_type(element))
    b = rng.integers(-4, 5, (blocks, edge, depth)).astype(element_type(element))  # [block][j][k]
    put_operand(bench, 0, a, blocks)
    put_operand(bench, 16, b, blocks)
    one = 1 if element == I8_ELEMENT else int(np.float32(1).view(np.uint32))

    c = ctypes.c_uint64(one)
    status = bench.call("rpl_mfma", 64, 0, 16, -1, c, edge, edge, depth, blocks, element, element, F32, 0, 0, 0)

    assert status == 0
    expected = np.einsum("bik,bjk->bij", a.astype(np.float64), b.astype(np.float64)) + 1
    for block, i, j in np.ndindex(blocks, edge, edge):
        group = i // 4 + block * edge // 4  # rows of four: see the layout in runtime/mfma.c
        value = bench.row(64 + 4 * (group // (64 // edge)) + i % 4)[j + edge * (group % (64 // edge))]
        number = value.view(np.int32) if element == I8_ELEMENT else value.view(np.float32)
        assert number == expected[block, i, j]


@pytest.mark.parametrize(("edge", "blocks"), [(16, 1), (4, 4)])
def test_mfma_f64_multiplies_with_its_own_layout(bench: WaveBench, edge: int, blocks: int) -> None:
    rng = np.random.default_rng(edge)
    a, b = rng.standard_normal((2, blocks, edge, 4))
    put_operand(bench, 0, a, blocks)
    put_operand(bench, 16, b, blocks)

    bench.call("rpl_mfma", 64, 0, 16, -1, NOTHING, edge, edge, 4, blocks, F64, F64, F64, 0, 0, 0)

    expected = np.einsum("bik,bjk->bij", a, b)
    groups = 64 // (edge * blocks)
    for block, i, j in np.ndindex(blocks, edge, edge):
        lane, pair = j + edge * (block + blocks * (i % groups)), i // groups
        words = np.array([bench.row(64 + 2 * pair)[lane], bench.row(65 + 2 * pair)[lane]], dtype=np.uint32)
        assert words.view(np.float64)[0] == pytest.approx(expected[block, i, j], rel=1e-14, abs=1e-14)


def test_mfma_in_a_form_that_is_not_modelled_is_refused(bench: WaveBench) -> None:
    broadcast_over_four_blocks = 2

    status = bench.call("rpl_mfma", 64, 0, 16, -1, NOTHING, 32, 32, 1, 2, F32, F32, F32, broadcast_over_four_blocks, 0, 0)

    assert (status, bench.fault.kind) == (1, FaultKind.UNSUPPORTED)
