"""Buffer resources: swizzled addresses, range checks, typed accesses, and loads straight into LDS, against NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.emulator.structures import LANES, M0, FaultKind, WaveStatus
from tests.builders.opcodes import JUNK, Snippets
from tests.builders.waves import WaveBench

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

LANE = np.arange(LANES, dtype=np.uint32)
RSRC, OFFSET_SGPR = 4, 8
DATA, ADDRESS, OFFSETS = 10, 4, 5
WORDS = np.arange(4096, dtype=np.uint32) * 7 + 1
LDS_LOADS = {
    "global_load_lds_dword v[2:3], off offset:16": "dword", "global_load_lds_ubyte v[2:3], off offset:16": "ubyte",
    "global_load_lds_sbyte v[2:3], off offset:16": "sbyte", "global_load_lds_ushort v[2:3], off offset:16": "ushort",
    "global_load_lds_sshort v[2:3], off offset:16": "sshort", "global_load_lds_dword v6, s[10:11] offset:16": "dword",
    "buffer_load_dword v4, s[4:7], 0 offen offset:16 lds": "dword",
    "buffer_load_ubyte v4, s[4:7], 0 offen offset:16 lds": "ubyte",
    "buffer_load_sbyte v4, s[4:7], 0 offen offset:16 lds": "sbyte",
    "buffer_load_ushort v4, s[4:7], 0 offen offset:16 lds": "ushort",
    "buffer_load_sshort v4, s[4:7], 0 offen offset:16 lds": "sshort",
    "buffer_load_format_x v4, s[4:7], 0 offen offset:16 lds": "dword",
}  # fmt: skip
KINDS: dict[str, Any] = {"dword": np.uint32, "ubyte": np.uint8, "sbyte": np.int8, "ushort": np.uint16, "sshort": np.int16}
SCRATCH_LDS = "scratch_load_lds_dword v4, off offset:4"
PLAIN = ["buffer_load_dword v10, v4, s[4:7], s8 idxen", "buffer_load_dword v10, v[4:5], s[4:7], s8 idxen offen offset:4",
         "buffer_load_dword v10, v5, s[4:7], s8 offen", "buffer_load_dwordx2 v[10:11], v5, s[4:7], s8 offen",
         "buffer_load_dword v10, off, s[4:7], 0 offset:8", "buffer_store_dword v10, v[4:5], s[4:7], s8 idxen offen",
         "buffer_atomic_add v10, v4, s[4:7], 0 idxen sc0"]  # fmt: skip
D_8, D_16, D_8_8, D_32, D_16_16, D_8888, D_32_32, D_16x4, D_32x3, D_32x4 = 1, 2, 3, 4, 5, 10, 11, 12, 13, 14
UNORM, SNORM, USCALED, SSCALED, UINT, SINT, FLOAT = 0, 1, 2, 3, 4, 5, 7
SHAPES = {D_8: (8, 1), D_16: (16, 1), D_8_8: (8, 2), D_32: (32, 1), D_16_16: (16, 2), D_8888: (8, 4), D_32_32: (32, 2),
          D_16x4: (16, 4), D_32x3: (32, 3), D_32x4: (32, 4)}  # fmt: skip
FORMATS = [(d, n) for d, (bits, _) in SHAPES.items() for n in (UNORM, SNORM, USCALED, SSCALED, UINT, SINT, FLOAT)
           if (bits < 32 or n in (UINT, SINT, FLOAT)) and not (bits == 8 and n == FLOAT)]  # fmt: skip
CHANNELS = {"x": "v10", "xy": "v[10:11]", "xyz": "v[10:12]", "xyzw": "v[10:13]"}
HALVES = {"x": "v10", "xy": "v10", "xyz": "v[10:11]", "xyzw": "v[10:11]"}
R, G, B, A = 4, 5, 6, 7


def typed(kind: str, channels: str, form: tuple[int, int] | None = None, d16: str = "") -> str:
    registers = (HALVES if d16 else CHANNELS)[channels]
    letter = "t" if form else ""
    suffix = f" format:{form[0] | form[1] << 4}" if form else ""
    return f"{letter}buffer_{kind}_format_{d16}{channels} {registers}, v4, s[4:7], 0{suffix} idxen"


@pytest.fixture(scope="module")
def snippets() -> Snippets:
    return Snippets([
        *LDS_LOADS, SCRATCH_LDS, *PLAIN,
        *(typed(kind, c, d16=d) for kind in ("load", "store") for c in CHANNELS for d in ("", "d16_")),
        *(typed(kind, "xyzw", form, d) for kind in ("load", "store") for form in FORMATS for d in ("", "d16_")),
        *(typed("load", c, (D_32_32, FLOAT)) for c in CHANNELS),
        "buffer_load_format_d16_hi_x v10, v4, s[4:7], 0 idxen", "buffer_store_format_d16_hi_x v10, v4, s[4:7], 0 idxen",
    ])  # fmt: skip


@pytest.fixture
def bench() -> Iterator[WaveBench]:
    with WaveBench() as made:
        yield made


def set_resource(
    bench: WaveBench, address: int, records: int, stride: int = 0, *, swizzle: int = 0, add_tid: int = 0,
    data: int = D_32, number: int = UINT, select: tuple[int, int, int, int] = (R, G, B, A),
) -> None:  # fmt: skip
    """`swizzle` is the index stride, 8 to 64, or 0."""
    word3 = sum(s << 3 * n for n, s in enumerate(select)) | number << 12 | data << 15 | add_tid << 23
    word3 |= {0: 0, 8: 0, 16: 1, 32: 2, 64: 3}[swizzle] << 21
    words = [address & 0xFFFFFFFF, address >> 32 | stride << 16 | bool(swizzle) << 31, records, word3]
    bench.wave.sgpr[RSRC : RSRC + 4] = words


# ---- addresses ----


def swizzled(index: NDArray[Any], offset: NDArray[Any] | int, stride: int, group: int) -> NDArray[Any]:
    """Interleave records in groups of `group`: the first dword of each, then the second of each, and so on."""
    result: NDArray[Any] = (index // group * stride + offset // 4 * 4) * group + index % group * 4 + offset % 4
    return result


@pytest.mark.parametrize("group", [8, 16, 32, 64])
def test_swizzled_records_are_interleaved(bench: WaveBench, snippets: Snippets, group: int) -> None:
    x = bench.buffer(WORDS)
    set_resource(bench, x.address, records=200, stride=16, swizzle=group)
    index = (LANE * 37 % 101).astype(np.uint32)
    bench.row(ADDRESS)[:], bench.row(OFFSETS)[:], bench.wave.sgpr[OFFSET_SGPR] = index, LANE % 3 * 4, 32

    assert bench.execute(snippets, PLAIN[1]) == WaveStatus.BARRIER

    place = 32 + swizzled(index, LANE % 3 * 4 + 4, 16, group)
    assert np.array_equal(bench.row(DATA), WORDS[place // 4])


def test_swizzled_stores_and_loads_agree(bench: WaveBench, snippets: Snippets) -> None:
    x = bench.buffer(np.zeros(1024, np.uint32))
    set_resource(bench, x.address, records=64, stride=8, swizzle=16)
    bench.row(ADDRESS)[:], bench.row(OFFSETS)[:], bench.row(DATA)[:] = LANE, 4, LANE + 100

    bench.execute(snippets, PLAIN[5])

    assert np.array_equal(bench.content(x, np.uint32)[swizzled(LANE, 4, 8, 16) // 4], LANE + 100)


def test_the_lane_may_be_added_to_the_index(bench: WaveBench, snippets: Snippets) -> None:
    x = bench.buffer(WORDS)
    set_resource(bench, x.address, records=0, stride=12, add_tid=1, data=0)

    bench.execute(snippets, PLAIN[4])

    assert np.array_equal(bench.row(DATA), WORDS[3 * LANE + 2])  # without an index no range is checked


def test_a_stride_of_18_bits_with_add_tid(bench: WaveBench, snippets: Snippets) -> None:
    x = bench.buffer(np.arange(1 << 19, dtype=np.uint32))
    set_resource(bench, x.address, records=0, stride=4, add_tid=1, data=1)  # 1 << 14 from the field of the data format

    bench.execute(snippets, PLAIN[4])

    assert np.array_equal(bench.row(DATA), LANE * ((1 << 14) + 4) // 4 + 2)


def test_records_are_checked_by_index_and_raw_buffers_by_byte(bench: WaveBench, snippets: Snippets) -> None:
    x = bench.buffer(WORDS)
    bench.row(ADDRESS)[:], bench.row(OFFSETS)[:], bench.wave.sgpr[OFFSET_SGPR] = LANE, 4 * LANE, 400

    set_resource(bench, x.address, records=10, stride=8)
    bench.execute(snippets, PLAIN[0])
    assert np.array_equal(bench.row(DATA), np.where(LANE < 10, WORDS[100 + 2 * LANE], 0))

    set_resource(bench, x.address, records=400 + 42)
    bench.execute(snippets, PLAIN[3])
    assert np.array_equal(bench.row(DATA), np.where(LANE < 10, WORDS[100 + LANE], 0))  # soffset counts
    assert np.array_equal(bench.row(DATA + 1), np.where(LANE < 9, WORDS[101 + LANE], 0))


def test_atomics_out_of_range_change_nothing(bench: WaveBench, snippets: Snippets) -> None:
    x = bench.buffer(np.zeros(64, np.uint32))
    set_resource(bench, x.address, records=5, stride=4)
    bench.row(ADDRESS)[:], bench.row(DATA)[:] = LANE, 3

    bench.execute(snippets, PLAIN[6])

    assert list(bench.content(x, np.uint32)[:7]) == [3] * 5 + [0] * 2


# ---- typed accesses ----


def components(data: int, number: int, raw: NDArray[np.uint8]) -> NDArray[Any]:
    """Return the numbers in the bytes of records, (records, components)."""
    bits, count = SHAPES[data]
    if number == FLOAT:
        return raw.view(f"f{bits // 8}").reshape(-1, count)
    signed = number in (SNORM, SSCALED, SINT)
    values = raw.view(f"{'i' if signed else 'u'}{bits // 8}").reshape(-1, count)
    if number in (UINT, SINT):
        return values
    if number in (USCALED, SSCALED):
        return values.astype(np.float32)
    largest = (1 << bits - (number == SNORM)) - 1
    return np.maximum(values / np.float64(largest), -1).astype(np.float32)


def loaded(numbers: NDArray[Any], number: int, *, d16: bool) -> NDArray[np.uint32]:
    """Return the register content for a number."""
    if number in (UINT, SINT):
        return numbers.astype(np.int64).astype(np.uint32) & np.uint32(0xFFFF if d16 else 0xFFFFFFFF)
    with np.errstate(over="ignore"):
        return numbers.astype(np.float16).view(np.uint16).astype(np.uint32) if d16 else numbers.astype(np.float32).view(np.uint32)


def records(data: int, number: int, seed: int = 0) -> NDArray[np.uint8]:
    bits, count = SHAPES[data]
    rng = np.random.default_rng(seed)
    if number == FLOAT:
        return rng.normal(0, 50, LANES * count).astype(f"f{bits // 8}").view(np.uint8)
    return rng.integers(0, 256, LANES * count * bits // 8).astype(np.uint8)


@pytest.mark.parametrize("d16", ["", "d16_"])
@pytest.mark.parametrize(("data", "number"), FORMATS)
def test_typed_loads_convert(bench: WaveBench, snippets: Snippets, data: int, number: int, d16: str) -> None:
    raw, (bits, count) = records(data, number), SHAPES[data]
    x = bench.buffer(raw)
    set_resource(bench, x.address, records=LANES, stride=bits * count // 8)
    bench.row(ADDRESS)[:] = LANE

    bench.execute(snippets, typed("load", "xyzw", (data, number), d16))

    expected = loaded(components(data, number, raw), number, d16=bool(d16))
    for c in range(4):
        word = bench.row(DATA + c // 2) >> np.uint32(16 * (c % 2)) & np.uint32(0xFFFF) if d16 else bench.row(DATA + c)
        assert np.array_equal(word, expected[:, c] if c < count else np.zeros(LANES)), f"component {c}"


@pytest.mark.parametrize("d16", ["", "d16_"])
@pytest.mark.parametrize(("data", "number"), FORMATS)
def test_typed_stores_write_back_what_typed_loads_read(
    bench: WaveBench, snippets: Snippets, data: int, number: int, d16: str
) -> None:
    raw, (bits, count) = records(data, number, 1), SHAPES[data]
    if d16 and number not in (UINT, SINT) and bits > 8 and (bits, number) != (16, FLOAT):
        raw[:] = 0  # a half does not hold all of these numbers
    if d16 and bits == 32 and number in (UINT, SINT):
        raw.view(np.uint32)[:] %= 0x8000
    x, y = bench.buffer(raw), bench.buffer(np.zeros_like(raw), "y")
    bench.row(ADDRESS)[:] = LANE

    for target, kind in ((x, "load"), (y, "store")):
        set_resource(bench, target.address, records=LANES, stride=bits * count // 8)
        assert bench.execute(snippets, typed(kind, "xyzw", (data, number), d16)) == WaveStatus.BARRIER

    seen = components(data, number, bench.content(y, np.uint8).view(np.uint8))
    assert np.array_equal(seen, components(data, number, raw.view(np.uint8)))


def test_numbers_too_large_for_the_format_become_its_largest(bench: WaveBench, snippets: Snippets) -> None:
    x = bench.buffer(np.zeros(64 * 4, np.uint8))
    values = np.array([-2, -1, -0.5, 0, 0.5, 1, 2, np.nan], np.float32)
    bench.row(ADDRESS)[:] = LANE
    for row in range(4):
        bench.row(DATA + row)[:] = np.resize(values, LANES).view(np.uint32)

    set_resource(bench, x.address, records=LANES, stride=4)
    bench.execute(snippets, typed("store", "xyzw", (D_8888, SNORM)))
    assert list(bench.content(x, np.int8)[:32:4]) == [-127, -127, -64, 0, 64, 127, 127, 0]

    bench.execute(snippets, typed("store", "xyzw", (D_8888, UNORM)))
    assert list(bench.content(x, np.uint8)[:32:4]) == [0, 0, 0, 0, 128, 255, 255, 0]


def test_a_resource_selects_channels_and_constants(bench: WaveBench, snippets: Snippets) -> None:
    values = np.arange(2 * LANES, dtype=np.float32)
    x = bench.buffer(values)
    set_resource(bench, x.address, records=60, stride=8, data=D_32_32, number=FLOAT, select=(G, R, 0, 1))
    bench.row(ADDRESS)[:] = LANE

    bench.execute(snippets, typed("load", "xyzw"))

    rows = [bench.row(DATA + c).view(np.float32) for c in range(4)]
    inside = LANE < 60
    assert np.array_equal(rows[0], np.where(inside, values[1::2], 0))
    assert np.array_equal(rows[1], np.where(inside, values[::2], 0))
    assert (set(rows[2]), set(rows[3])) == ({0.0}, {1.0})


def test_the_upper_half_alone_is_loaded_and_stored(bench: WaveBench, snippets: Snippets) -> None:
    halves = np.linspace(-3, 3, LANES).astype(np.float16)
    x, y = bench.buffer(halves), bench.buffer(np.zeros_like(halves), "y")
    bench.row(ADDRESS)[:], bench.row(DATA)[:] = LANE, JUNK
    set_resource(bench, x.address, records=LANES, stride=2, data=D_16, number=FLOAT)
    bench.execute(snippets, "buffer_load_format_d16_hi_x v10, v4, s[4:7], 0 idxen")
    assert np.array_equal(bench.row(DATA), halves.view(np.uint16).astype(np.uint32) << np.uint32(16))  # the lower half is cleared

    set_resource(bench, y.address, records=LANES, stride=2, data=D_16, number=FLOAT)
    bench.execute(snippets, "buffer_store_format_d16_hi_x v10, v4, s[4:7], 0 idxen")
    assert np.array_equal(bench.content(y, np.float16), halves)


def test_an_unbound_resource_reads_as_zero(bench: WaveBench, snippets: Snippets) -> None:
    set_resource(bench, 0, records=0, data=0, number=0, select=(R, G, B, A))
    bench.row(ADDRESS)[:], bench.row(DATA)[:] = LANE, JUNK

    assert bench.execute(snippets, typed("load", "x")) == WaveStatus.BARRIER
    assert bench.execute(snippets, typed("store", "x")) == WaveStatus.BARRIER
    assert set(bench.row(DATA)) == {0}


# ---- loads into LDS ----


@pytest.mark.parametrize("text", LDS_LOADS)
def test_a_load_into_lds_puts_one_dword_for_each_active_lane(bench: WaveBench, snippets: Snippets, text: str) -> None:
    kind = KINDS[LDS_LOADS[text]]
    content = np.random.default_rng(5).integers(0, 256, 1024).astype(np.uint8)
    x = bench.buffer(content)
    place = (LANE * 13 % 64 * 8).astype(np.uint64)
    bench.set_addresses(2, np.uint64(x.address) + place)
    bench.row(ADDRESS)[:] = bench.row(6)[:] = place.astype(np.uint32)
    bench.wave.sgpr[10:12] = [x.address & 0xFFFFFFFF, x.address >> 32]
    set_resource(bench, x.address, records=400, select=(R, 0, 0, 0))
    bench.wave.sgpr[M0] = 0x12340000 | 256  # only the lower half counts
    bench.set_exec(0xFFFFFFFF_0000FFF0)
    bench.lds[:] = 77

    assert bench.execute(snippets, text) == WaveStatus.BARRIER

    read = np.array([content[p + 16 : p + 20].view(kind)[0] for p in place.astype(int)]).astype(np.int64).astype(np.uint32)
    if text.startswith("buffer"):
        read = np.where(place + np.uint64(16 + np.dtype(kind).itemsize) <= 400, read, 0).astype(np.uint32)
    active = np.array([0xFFFFFFFF_0000FFF0 >> n & 1 for n in range(LANES)], bool)
    expected = np.full_like(bench.lds, 77)
    expected[(256 + 16) // 4 : (256 + 16) // 4 + LANES][active] = read[active]
    assert np.array_equal(bench.lds, expected)


def test_scratch_is_loaded_into_lds(bench: WaveBench, snippets: Snippets) -> None:
    bench.row(ADDRESS)[:], bench.wave.sgpr[M0] = 8, 0
    per_lane = np.ctypeslib.as_array(bench.scratch).view(np.uint32).reshape(LANES, -1)
    per_lane[:] = np.arange(per_lane.size, dtype=np.uint32).reshape(per_lane.shape)

    assert bench.execute(snippets, SCRATCH_LDS) == WaveStatus.BARRIER

    assert np.array_equal(bench.lds[1 : 1 + LANES], per_lane[:, 3])


def test_a_load_beyond_the_lds_is_a_fault(bench: WaveBench, snippets: Snippets) -> None:
    x = bench.buffer(WORDS)
    bench.set_addresses(2, np.full(LANES, x.address, np.uint64))
    bench.wave.sgpr[M0] = 4096 - 64

    assert bench.execute(snippets, next(iter(LDS_LOADS))) == WaveStatus.FAULT
    assert (bench.fault.kind, bench.fault.lanes) == (FaultKind.LDS, (1 << 64) - (1 << 12))
