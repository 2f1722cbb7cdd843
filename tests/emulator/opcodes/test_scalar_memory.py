"""Scalar stores and atomics: one access of the whole wavefront."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.structures import WaveStatus
from tests.builders.opcodes import Snippets
from tests.builders.waves import WaveBench

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

ATOMICS = {
    "swap": (5, 9, 9),
    "add": (5, 9, 14),
    "sub": (5, 9, 0xFFFFFFFC),
    "smin": (5, 0xFFFFFFF0, 0xFFFFFFF0),
    "umin": (5, 0xFFFFFFF0, 5),
    "smax": (5, 0xFFFFFFF0, 5),
    "umax": (5, 0xFFFFFFF0, 0xFFFFFFF0),
    "and": (12, 10, 8),
    "or": (12, 10, 14),
    "xor": (12, 10, 6),
    "inc": (5, 5, 0),
    "dec": (0, 7, 7),
}
"""Memory before, data, memory after."""
STORES = {
    "s_store_dword s8, s[2:3], 0x8": {2: 1},
    "s_store_dwordx2 s[8:9], s[2:3], -4": {-1: 1, 0: 2},
    "s_store_dwordx4 s[8:11], s[2:3], s6 offset:4": {3: 1, 4: 2, 5: 3, 6: 4},
    "s_buffer_store_dwordx2 s[8:9], s[4:7], 0xc": {3: 1, 4: 2},
    "s_buffer_store_dwordx4 s[8:11], s[4:7], 0x18": {6: 1, 7: 2},
}
"""Changed dwords from the middle of a buffer; the buffer resource ends after eight."""
SWAPS = ["s_atomic_cmpswap s[8:9], s[2:3], 0x4 glc", "s_atomic_cmpswap_x2 s[8:11], s[2:3], 0x8 glc"]
WIDE = "s_atomic_add_x2 s[8:9], s[2:3], 0x0 glc"
OUTSIDE = "s_buffer_atomic_add s8, s[4:7], 0x20 glc"
INSIDE = "s_buffer_atomic_add s8, s[4:7], 0x1c glc"
SILENT = "s_atomic_add s8, s[2:3], 0x0"
MIDDLE = 16


def atomic(name: str) -> str:
    return f"s_atomic_{name} s8, s[2:3], 0x0 glc"


@pytest.fixture(scope="module")
def snippets() -> Snippets:
    return Snippets(
        [*map(atomic, ATOMICS), *STORES, *SWAPS, WIDE, OUTSIDE, INSIDE, SILENT, "s_dcache_wb", "s_dcache_discard s[2:3], 0x0"]
    )


@pytest.fixture
def bench() -> Iterator[WaveBench]:
    with WaveBench() as opened:
        yield opened


def run(
    bench: WaveBench, snippets: Snippets, text: str, memory: NDArray[np.uint32], *data: int, offset: int = 0
) -> tuple[NDArray[np.uint32], list[int]]:
    """Return memory and s8 to s11 afterwards; s[2:3] points to the middle, s[4:7] is a resource of eight dwords there."""
    buffer = bench.buffer(memory)
    address = buffer.address + 4 * MIDDLE + offset
    bench.wave.sgpr[2], bench.wave.sgpr[3] = address & 0xFFFFFFFF, address >> 32
    if "s[4:7]" in text:
        bench.wave.sgpr[4], bench.wave.sgpr[5], bench.wave.sgpr[6] = address & 0xFFFFFFFF, address >> 32, 32
    else:
        bench.wave.sgpr[6] = 8
    for i, value in enumerate(data):
        bench.wave.sgpr[8 + i] = value
    bench.execute(snippets, text)
    return np.asarray(bench.content(buffer, np.uint32)), list(bench.wave.sgpr[8:12])


@pytest.mark.parametrize("text", STORES)
def test_a_store(bench: WaveBench, snippets: Snippets, text: str) -> None:
    expected = np.full(32, 77, np.uint32)
    for place, value in STORES[text].items():
        expected[MIDDLE + place] = value

    memory, _ = run(bench, snippets, text, np.full(32, 77, np.uint32), 1, 2, 3, 4)

    assert np.array_equal(memory, expected)


@pytest.mark.parametrize("name", ATOMICS)
def test_an_atomic_returns_the_old_value(bench: WaveBench, snippets: Snippets, name: str) -> None:
    before, data, after = ATOMICS[name]

    memory, (returned, *_) = run(bench, snippets, atomic(name), np.full(32, before, np.uint32), data)

    assert (memory[MIDDLE], returned) == (after, before)
    assert memory[MIDDLE + 1] == before


@pytest.mark.parametrize("expected", [True, False])
def test_compare_and_swap(bench: WaveBench, snippets: Snippets, expected: bool) -> None:
    memory, (returned, *_) = run(bench, snippets, SWAPS[0], np.full(32, 5, np.uint32), 9, 5 if expected else 6)

    assert (memory[MIDDLE + 1], returned) == (9 if expected else 5, 5)


def test_wide_atomics(bench: WaveBench, snippets: Snippets) -> None:
    ones = np.full(32, 0xFFFFFFFF, np.uint32)

    memory, returned = run(bench, snippets, WIDE, ones, 2, 0)
    swapped, _ = run(bench, snippets, SWAPS[1], ones, 3, 4, 0xFFFFFFFF, 0xFFFFFFFF)

    assert list(memory[MIDDLE : MIDDLE + 2]) == [1, 0] and returned[:2] == [0xFFFFFFFF, 0xFFFFFFFF]
    assert list(swapped[MIDDLE + 2 : MIDDLE + 4]) == [3, 4]


def test_an_atomic_without_glc_leaves_its_register(bench: WaveBench, snippets: Snippets) -> None:
    memory, (left, *_) = run(bench, snippets, SILENT, np.full(32, 5, np.uint32), 9)

    assert (memory[MIDDLE], left) == (14, 9)


def test_a_buffer_atomic_past_the_end_returns_zero(bench: WaveBench, snippets: Snippets) -> None:
    memory, (outside, *_) = run(bench, snippets, OUTSIDE, np.full(32, 5, np.uint32), 9)
    last, (inside, *_) = run(bench, snippets, INSIDE, np.full(32, 5, np.uint32), 9)

    assert (memory == 5).all() and outside == 0
    assert last[MIDDLE + 7] == 14 and inside == 5


@pytest.mark.parametrize(
    ("text", "offset"), [(atomic("add"), 2), (atomic("add"), 1 << 40), ("s_store_dword s8, s[2:3], 0x8", 1 << 40)]
)
def test_misaligned_atomics_and_wild_addresses_are_faults(bench: WaveBench, snippets: Snippets, text: str, offset: int) -> None:
    run(bench, snippets, text, np.zeros(32, np.uint32), 1, offset=offset)

    assert bench.wave.status == WaveStatus.FAULT
    assert bench.fault.width_bytes == 4


def test_cache_control_changes_nothing(bench: WaveBench, snippets: Snippets) -> None:
    memory, _ = run(bench, snippets, "s_dcache_discard s[2:3], 0x0", np.full(32, 5, np.uint32))

    assert (memory == 5).all()
