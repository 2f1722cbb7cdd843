"""Instructions that gfx950 adds, against NumPy and ml_dtypes; layouts are written from the side of the lane."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from rocm_perf_lab.emulator.isa.decode import decode_one
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.emulator.program import DEFAULT_MODE
from rocm_perf_lab.emulator.structures import LANES, FaultKind, WaveStatus
from tests.builders.opcodes import Row, Snippets, assemble, assert_same, check_integers, edge_floats, edge_integers, pairs
from tests.builders.waves import WaveBench
from tests.emulator.opcodes import test_matrices as matrices

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ARCHITECTURE = "gfx950"
TOWARD_ZERO = DEFAULT_MODE | 0xF
"""MODE with truncation of every float format."""
FP8, BF8, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16


def saturated(low: int, high: int) -> Callable[..., int]:
    def pair(a: int, b: int, shift: int) -> int:
        first, second = (min(max(x >> (shift & 31), low), high) & 0xFF for x in (a, b))
        return first | second << 8

    return pair


def looked_up(table: int) -> Callable[..., int]:
    """Return the function of three words whose bits index a table of eight bits."""

    def combine(*words: int) -> int:
        index = [sum((word >> bit & 1) << 2 - i for i, word in enumerate(words)) for bit in range(32)]
        return sum((table >> case & 1) << bit for bit, case in enumerate(index))

    return combine


INTEGERS = [
    Row("v_prng_b32", lambda x: x << 1 & 0xFFFFFFFF ^ (197 if x >> 31 else 0), "u32"),
    Row("v_ashr_pk_i8_i32", saturated(-128, 127), "i32 i32 u32", "u16"),
    Row("v_ashr_pk_u8_i32", saturated(0, 255), "i32 i32 u32", "u16"),
    *(Row("v_bitop3_b32", looked_up(table), "u32 u32 u32", after=f" bitop3:{table:#x}") for table in (0x96, 0xE4, 0x80, 0x01)),
]  # fmt: skip
DENSE = ["f32_16x16x32_f16", "f32_16x16x32_bf16", "f32_32x32x16_f16", "f32_32x32x16_bf16", "i32_16x16x64_i8", "i32_32x32x32_i8"]
SMALL = [f"f32_{shape}_{kinds}" for shape in ("16x16x32", "32x32x16") for kinds in matrices.SMALL]
CONVERSIONS = {
    "v_cvt_pk_f16_f32 v20, v0, v2": np.float16,
    "v_cvt_pk_bf16_f32 v20, v0, v2": BF16,
    "v_cvt_pk_fp8_f32 v20, v0, v2": FP8,
    "v_cvt_pk_bf8_f32 v20, v0, v2": BF8,
}
LOADED = {"v_cvt_f32_fp8_e32 v20, v0": FP8, "v_cvt_f32_bf8_e32 v20, v0": BF8, "v_cvt_f32_bf16_e32 v20, v0": BF16}
OTHERS = [
    "v_bitop3_b16 v20, v0, v2, v4 bitop3:0x1b", "v_cvt_f32_bf16_sdwa v20, v0 src0_sel:WORD_1",
    *(f"v_{name}3_f32 v20, v0, v2, v4" for name in ("minimum", "maximum")),
    *(f"v_pk_{name}3_f16 v20, v0, v2, v4" for name in ("minimum", "maximum")),
    "v_dot2_f32_bf16 v20, v0, v2, v4", "v_dot2c_f32_bf16 v20, v0, v2", "v_cvt_sr_fp8_f32 v20, v0, v2",
    "v_permlane16_swap_b32 v20, v0", "v_permlane32_swap_b32 v20, v0",
    *(f"ds_read_b64_tr_b{bits} v[20:21], v0 offset:64" for bits in (4, 8, 16)), "ds_read_b96_tr_b6 v[20:22], v0 offset:64",
    "global_load_lds_dwordx4 v[0:1], off",
    "global_load_lds_dwordx3 v[0:1], off offset:16",
    "buffer_load_dwordx4 v2, s[4:7], 0 offen lds", "buffer_atomic_pk_add_bf16 v0, off, s[4:7], 0",
]  # fmt: skip


@pytest.fixture(scope="module")
def snippets() -> Snippets:
    return Snippets(texts(), architecture=ARCHITECTURE)


def texts() -> list[str]:
    """Return the tested instructions."""
    dense = [matrices.dense_text(name, files) for name in DENSE for files in ("vvvv", "aaaa")]
    small = [matrices.dense_text(name) for name in SMALL]
    return [
        *(row.text for row in INTEGERS),
        *dense,
        *small,
        *CONVERSIONS,
        *LOADED,
        *OTHERS,
        *(p.text for p in NARROW),
        *(scaled_text(*c) for c in SCALED_CONVERSIONS),
    ]


@pytest.fixture(scope="module")
def truncating() -> Snippets:
    return Snippets(CONVERSIONS, mode=TOWARD_ZERO, architecture=ARCHITECTURE)


# ---- vector operations ----


@pytest.mark.parametrize("row", INTEGERS, ids=lambda row: row.name + row.after)
def test_integer_operations(snippets: Snippets, row: Row) -> None:
    check_integers(snippets, row)


def test_the_table_of_halves_keeps_the_other_half(snippets: Snippets) -> None:
    a, b, c = (edge_integers(16, seed=seed) for seed in range(3))
    outcome = snippets.run(
        "v_bitop3_b16 v20, v0, v2, v4 bitop3:0x1b", {0: a, 2: b, 4: c, 20: np.full(len(a), 0x12345678, np.uint32)}
    )

    expected = np.array([looked_up(0x1B)(*map(int, row)) & 0xFFFF for row in zip(a, b, c, strict=True)], np.uint16)
    assert_same("v_bitop3_b16", outcome.row(20, np.uint16), expected, [a, b, c])
    assert set(outcome.row(20)[: len(a)] >> 16) == {0x1234}


@pytest.mark.parametrize("text", CONVERSIONS)
@pytest.mark.parametrize("mode", ["snippets", "truncating"])
def test_pairs_are_rounded_to_nearest_even_in_any_mode(text: str, mode: str, request: pytest.FixtureRequest) -> None:
    small = np.concatenate([edge_floats(np.float16), edge_floats(np.float16, seed=9)]).astype(np.float32)
    near = (small[:, None] * np.array([1, 1 + 2**-11, 1 - 2**-12, 1 + 2**-9, 2**-10], np.float32)).ravel().astype(np.float32)
    values = np.concatenate([edge_floats(np.float32), near])
    others = np.roll(values, 1)
    kind = CONVERSIONS[text]
    outcome = request.getfixturevalue(mode).run(text, {0: values, 2: others, 20: np.zeros(len(values), np.uint32)})

    with np.errstate(all="ignore"):
        low, high = values.astype(kind), others.astype(kind)
    bits = 8 * np.dtype(kind).itemsize
    words = outcome.row(20)[: len(values)]
    for part, expected in ((words, low), (words >> bits, high)):
        actual = (part & ((1 << bits) - 1)).astype(f"u{bits // 8}").view(kind)
        wide, wanted = actual.astype(np.float32), expected.astype(np.float32)
        assert_same(text, wide, wanted, [values, others])


@pytest.mark.parametrize("text", LOADED)
def test_small_floats_are_widened_exactly(snippets: Snippets, text: str) -> None:
    kind = LOADED[text]
    bits = 8 * np.dtype(kind).itemsize
    codes = np.arange(1 << bits, dtype=f"u{bits // 8}")[:: max(1, (1 << bits) >> 12)]
    outcome = snippets.run(text, {0: codes})

    assert_same(text, outcome.row(20, np.float32), codes.view(kind).astype(np.float32), [codes])


def test_the_upper_half_is_widened_with_sdwa(snippets: Snippets) -> None:
    words = edge_integers(32)
    outcome = snippets.run("v_cvt_f32_bf16_sdwa v20, v0 src0_sel:WORD_1", {0: words})

    np.testing.assert_array_equal(outcome.row(20)[: len(words)], words & 0xFFFF0000)


def extreme(values: tuple[float, ...], *, smallest: bool) -> float:
    """Return the minimum or maximum of IEEE 754-2019."""
    if any(map(math.isnan, values)):
        return math.nan
    return (min if smallest else max)(values, key=lambda x: (x, math.copysign(1, x)))


@pytest.mark.parametrize("name", ["minimum", "maximum"])
@pytest.mark.parametrize("packed", [False, True])
def test_extremes_of_three_propagate_nan(snippets: Snippets, name: str, packed: bool) -> None:
    kind = np.float16 if packed else np.float32
    columns = pairs(*[edge_floats(kind, seed=seed) for seed in range(3)], limit=2048)
    text = f"v_pk_{name}3_f16 v20, v0, v2, v4" if packed else f"v_{name}3_f32 v20, v0, v2, v4"
    words = [c.view(np.uint16).astype(np.uint32) | np.uint32(0x3C000000) for c in columns] if packed else columns
    outcome = snippets.run(text, {2 * i: c for i, c in enumerate(words)})

    rows = zip(*[c.astype(np.float64) for c in columns], strict=True)
    expected = np.array([extreme(tuple(map(float, row)), smallest=name == "minimum") for row in rows]).astype(kind)
    assert_same(text, outcome.row(20, kind), expected, columns)
    if packed:
        assert set(outcome.row(20)[: len(expected)] >> 16) == {0x3C00}


@pytest.mark.parametrize("accumulates", [False, True])
def test_products_of_brain_floats(snippets: Snippets, accumulates: bool) -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.normal(0, 4, (256, 2)).astype(BF16) for _ in range(2))
    c = rng.normal(0, 4, 256).astype(np.float32)
    words = [np.ascontiguousarray(x).view(np.uint32)[:, 0] for x in (a, b)]
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    if accumulates:
        outcome = snippets.run("v_dot2c_f32_bf16 v20, v0, v2", {0: words[0], 2: words[1], 20: c})
        expected = (c + wide_a[:, 0] * wide_b[:, 0]) + wide_a[:, 1] * wide_b[:, 1]
    else:
        outcome = snippets.run("v_dot2_f32_bf16 v20, v0, v2, v4", {0: words[0], 2: words[1], 4: c})
        expected = wide_a[:, 0] * wide_b[:, 0] + wide_a[:, 1] * wide_b[:, 1] + c

    assert_same("v_dot2", outcome.row(20, np.float32), expected.astype(np.float32), [*words, c], ulps=1)


@pytest.mark.parametrize("rows", [16, 32])
def test_halves_of_rows_are_exchanged(snippets: Snippets, rows: int) -> None:
    first, second = np.arange(LANES, dtype=np.uint32), np.arange(100, 100 + LANES, dtype=np.uint32)
    outcome = snippets.run(f"v_permlane{rows}_swap_b32 v20, v0", {20: second, 0: first})

    upper = np.arange(LANES) // rows % 2 == 1
    expected_second = np.where(upper, np.roll(first, rows), second)  # odd rows of vdst receive the even rows of src0
    expected_first = np.where(upper, first, np.roll(second, -rows))
    np.testing.assert_array_equal(outcome.row(20), expected_second)
    np.testing.assert_array_equal(outcome.row(0), expected_first)


def test_an_exchange_with_inactive_lanes_is_refused(snippets: Snippets) -> None:
    with WaveBench() as bench:
        bench.set_exec(0xFFFF)
        assert bench.execute(snippets, "v_permlane32_swap_b32 v20, v0") == WaveStatus.FAULT
        assert bench.fault.kind == FaultKind.UNSUPPORTED


SCALED_TARGETS: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": BF16}
SCALED_SOURCES: dict[str, Any] = {"fp8": FP8, "bf8": BF8, "fp4": ml_dtypes.float4_e2m1fn}
SCALED_CONVERSIONS = [
    *((target, source, True, selected) for target in SCALED_TARGETS for source in SCALED_SOURCES
      for selected in ((0, 1) if source != "fp4" else (0, 1, 2, 3))),
    *((target, source, False, selected) for target in ("f32", "f16") for source in ("fp8", "bf8") for selected in range(4)),
]  # fmt: skip
"""Target, source, whether a pair is converted, and the selected word or byte."""


def scaled_text(target: str, source: str, packed: bool, selected: int) -> str:
    register = "v[20:21]" if target == "f32" and packed else "v20"
    name = f"v_cvt_scalef32_{'pk_' if packed else ''}{target}_{source}"
    return f"{name} {register}, v0, v2" + (f" op_sel:[{selected & 1},{selected >> 1},0]" if selected else "")


@pytest.mark.parametrize(("target", "source", "packed", "selected"), SCALED_CONVERSIONS)
def test_small_floats_are_widened_with_the_exponent_of_a_scale(
    snippets: Snippets, target: str, source: str, packed: bool, selected: int
) -> None:
    rng = np.random.default_rng(selected)
    words = np.concatenate(
        [np.arange(256, dtype=np.uint32) * np.uint32(0x01010101), rng.integers(0, 1 << 32, 768, dtype=np.uint32)]
    )
    exponents = rng.choice([0, 1, 100, 118, 126, 127, 128, 133, 200, 253, 254, 255], len(words)).astype(np.uint32)
    scales = exponents << np.uint32(23) | rng.integers(0, 1 << 23, len(words), dtype=np.uint32) | np.uint32(1)
    text = scaled_text(target, source, packed, selected)
    outcome = snippets.run(text, {0: words, 2: scales, 20: np.full(len(words), 0x12345678, np.uint32)})

    bits = 4 if source == "fp4" else 8
    first = 16 * selected if packed and bits == 8 else 8 * selected
    factor = np.where(exponents == 255, np.nan, 2.0 ** (exponents.astype(np.float64) - 127))
    for part in range(2 if packed else 1):
        codes = (words >> np.uint32(first + bits * part) & np.uint32((1 << bits) - 1)).astype(np.uint8)
        with np.errstate(all="ignore"):
            exact = codes.view(SCALED_SOURCES[source]).astype(np.float64) * factor
            expected = exact.astype(np.float32).astype(SCALED_TARGETS[target]).astype(np.float32)
        if target == "f32":
            actual = outcome.row(20 + part, np.float32)
        else:
            halves = (outcome.row(20) >> np.uint32(16 * part)).astype(np.uint16)
            actual = halves.view(SCALED_TARGETS[target]).astype(np.float32)
        assert_same(text, actual, expected, [words, scales])
    if target == "f16" and not packed:
        assert set(outcome.row(20)[: len(words)] >> 16) == {0x1234}


# ---- memory ----


@pytest.mark.parametrize("bits", [4, 6, 8, 16])
def test_transposing_loads_return_columns(snippets: Snippets, bits: int) -> None:
    """16 lanes read rows of a matrix with 16 columns, in pieces of 8 or 12 bytes; lane n of them receives column n."""
    piece_bytes, stride = (12, 16) if bits == 6 else (8, 8)
    rows = 8 * piece_bytes // bits
    matrix = np.random.default_rng(bits).integers(0, 1 << bits, (4, rows, 16))
    pieces = matrix.reshape(LANES, rows)
    with WaveBench() as bench:
        for lane, piece in enumerate(pieces):
            first = (64 + stride * lane) // 4
            bench.lds[first : first + piece_bytes // 4] = words_of(piece, bits)
        bench.row(0)[:] = stride * np.arange(LANES)
        target = "v[20:22]" if bits == 6 else "v[20:21]"
        text = f"ds_read_b{8 * piece_bytes}_tr_b{bits} {target}, v0 offset:64"
        assert bench.execute(snippets, text) == WaveStatus.BARRIER
        loaded = [[int(bench.row(20 + n)[lane]) for n in range(piece_bytes // 4)] for lane in range(LANES)]

    columns = matrix.transpose(0, 2, 1).reshape(LANES, rows)
    assert loaded == [words_of(column, bits) for column in columns]


def words_of(values: NDArray[Any], bits: int) -> list[int]:
    """Return fields of `bits` as 32-bit words, lowest first."""
    number = sum(int(value) << bits * i for i, value in enumerate(values))
    return [number >> 32 * n & 0xFFFFFFFF for n in range(len(values) * bits // 32)]


@pytest.mark.parametrize(
    ("text", "dwords"), [("global_load_lds_dwordx4 v[0:1], off", 4), ("global_load_lds_dwordx3 v[0:1], off offset:16", 3)]
)
def test_wide_loads_to_lds_are_16_bytes_apart(snippets: Snippets, text: str, dwords: int) -> None:
    content = np.arange(1, 1 + LANES * 8, dtype=np.uint32)
    with WaveBench(lds_bytes=8192) as bench:
        buffer = bench.buffer(content)
        bench.set_addresses(0, np.uint64(buffer.address) + np.arange(LANES, dtype=np.uint64) * np.uint64(16))
        bench.wave.sgpr[124] = 1024
        assert bench.execute(snippets, text) == WaveStatus.BARRIER
        stored = bench.lds.copy()

    skipped = 0 if dwords == 4 else 4  # dwords of the offset, which counts on both sides
    expected = content[skipped : skipped + 4 * LANES].reshape(LANES, 4).copy()
    expected[:, dwords:] = 0
    first = 1024 // 4 + skipped
    np.testing.assert_array_equal(stored[first : first + expected.size], expected.ravel())
    assert not stored[:first].any()
    assert not stored[first + expected.size :].any()


def test_m0_addresses_the_whole_lds(snippets: Snippets) -> None:
    with WaveBench(lds_bytes=163840) as bench:
        buffer = bench.buffer(np.arange(LANES * 4, dtype=np.uint32))
        resource = (buffer.address & 0xFFFFFFFF, buffer.address >> 32, buffer.nbytes, 0x00020000)
        for n, word in enumerate(resource):
            bench.wave.sgpr[4 + n] = word
        bench.row(2)[:] = np.arange(LANES) * 16
        bench.wave.sgpr[124] = 163840 - 1024
        assert bench.execute(snippets, "buffer_load_dwordx4 v2, s[4:7], 0 offen lds") == WaveStatus.BARRIER
        np.testing.assert_array_equal(bench.lds[-256:], np.arange(256))


def test_atomic_additions_of_pairs_through_a_buffer(snippets: Snippets) -> None:
    start = np.array([[1.5, -2]] * 1, BF16)
    with WaveBench() as bench:
        buffer = bench.buffer(start.view(np.uint32)[0])
        for n, word in enumerate((buffer.address & 0xFFFFFFFF, buffer.address >> 32, 4, 0x00020000)):
            bench.wave.sgpr[4 + n] = word
        bench.row(0)[:] = np.array([0.5, 0.25], BF16).view(np.uint32)[0]
        assert bench.execute(snippets, "buffer_atomic_pk_add_bf16 v0, off, s[4:7], 0") == WaveStatus.BARRIER
        result = bench.content(buffer, np.uint8).view(BF16)

    assert [float(x) for x in result] == [1.5 + 64 * 0.5, -2 + 64 * 0.25]


# ---- matrix products ----


@pytest.mark.parametrize("files", ["vvvv", "aaaa"])
@pytest.mark.parametrize("name", DENSE)
def test_products_of_twice_the_depth_are_exact_for_small_integers(snippets: Snippets, name: str, files: str) -> None:
    run = matrices.run_dense(snippets, name, matrices.dense_text(name, files), files)

    np.testing.assert_array_equal(run.d, (matrices.multiplied(run.a, run.b) + run.c).astype(run.shape.out))


@pytest.mark.parametrize("name", SMALL)
def test_products_of_bytes_use_the_formats_of_the_open_compute_project(
    snippets: Snippets, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(matrices.TYPES, "fp8", FP8)
    monkeypatch.setitem(matrices.TYPES, "bf8", BF8)
    run = matrices.run_dense(snippets, name, matrices.dense_text(name))

    np.testing.assert_array_equal(run.d, (matrices.multiplied(run.a, run.b) + run.c).astype(np.float32))


def test_an_instruction_before_a_narrow_product_is_not_part_of_it() -> None:
    product = NARROW[0].text
    for text in ("v_mov_b32_e32 v0, v1", "v_add3_u32 v0, v1, v2, v3", "global_load_dword v0, v[2:3], off"):
        code = assemble([text, product], ARCHITECTURE)
        first = decode_one(code, 0, instruction_set(ARCHITECTURE))
        second = decode_one(code[first.size :], first.size, instruction_set(ARCHITECTURE))
        assert first.text.startswith(text.split()[0])
        assert (first.size + second.size, second.mnemonic) == (len(code), "V_MFMA_F32_16X16X128_F8F6F4")


def test_sums_of_64_products_of_bytes_do_not_overflow(snippets: Snippets) -> None:
    name = "i32_16x16x64_i8"
    with WaveBench() as bench:
        for row in (matrices.A_ROW, matrices.B_ROW):
            matrices.put(bench, "v", row, np.full((LANES, 16), -128, np.int8))
        matrices.put(bench, "v", matrices.C_ROW, np.full((LANES, 4), 2**31 - 1, np.int32))
        bench.execute(snippets, matrices.dense_text(name))
        assert set(matrices.get(bench, "v", matrices.D_ROW, 4, np.int32).ravel()) == {2**31 - 1 + 64 * 128 * 128 - 2**32}


FORMATS = [FP8, BF8, ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn, ml_dtypes.float4_e2m1fn]
"""In the order of the codes of CBSZ and BLGP."""
BITS = [8, 8, 6, 6, 4]
ROWS_A, ROWS_B, ROW_C, ROW_D, ROW_SCALE = 0, 8, 32, 64, 20


class Narrow:
    """Product of 4 to 8-bit floats."""

    def __init__(self, edge: int, a: int, b: int, *, scaled: bool = False, bytes_: tuple[int, int] = (0, 0)) -> None:
        self.edge, self.depth, self.formats, self.scaled, self.bytes = edge, 2048 // edge, (a, b), scaled, bytes_
        words = [BITS[f] for f in self.formats]
        count = edge * edge // LANES
        operands = [
            f"v[{ROW_D}:{ROW_D + count - 1}]", f"v[{ROWS_A}:{ROWS_A + words[0] - 1}]", f"v[{ROWS_B}:{ROWS_B + words[1] - 1}]",
            f"v[{ROW_C}:{ROW_C + count - 1}]", *([f"v{ROW_SCALE}", f"v{ROW_SCALE + 1}"] if scaled else []),
        ]  # fmt: skip
        selected = [
            f"{name}:[{bytes_[0] >> shift & 1},{bytes_[1] >> shift & 1},0]" for name, shift in (("op_sel", 0), ("op_sel_hi", 1))
        ]
        self.text = " ".join([
            f"v_mfma_{'scale_' if scaled else ''}f32_{edge}x{edge}x{self.depth}_f8f6f4", ", ".join(operands),
            *(selected if scaled else []), f"cbsz:{a}", f"blgp:{b}",
        ])  # fmt: skip

    def place(self, which: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return row (or column) and k of element e of lane l."""
        lane, e = np.indices((LANES, 32))
        group = lane // self.edge
        k = 32 * group + e if BITS[self.formats[which]] < 8 else 16 * group + e % 16 + e // 16 * (self.depth // 2)
        return lane % self.edge, k


SCALED = [(0, 0), (4, 4), (0, 4), (2, 3), (1, 2)]
NARROW = [
    *(Narrow(edge, a, b) for edge in (16, 32) for a in range(5) for b in range(5)),
    *(Narrow(edge, a, b, scaled=True, bytes_=((a + 1) % 4, b % 4)) for edge in (16, 32) for a, b in SCALED),
]  # fmt: skip


def packed(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint32]:
    """Return (lanes, words) of (lanes, 32) codes."""
    words = np.zeros((LANES, bits), np.uint32)
    for lane, row in enumerate(codes):
        number = sum(int(code) << bits * e for e, code in enumerate(row))
        words[lane] = [number >> 32 * n & 0xFFFFFFFF for n in range(bits)]
    return words


@pytest.mark.parametrize("product", NARROW, ids=lambda product: product.text.partition(" ")[0] + str(product.formats))
def test_products_of_narrow_floats_with_block_exponents(snippets: Snippets, product: Narrow) -> None:
    rng = np.random.default_rng(sum(product.formats) + product.edge)
    operands = []
    with WaveBench() as bench:
        for which, first in ((0, ROWS_A), (1, ROWS_B)):
            kind = FORMATS[product.formats[which]]
            values = rng.choice([-3, -2, -1.5, -1, 0, 0.5, 1, 2, 3], (product.edge, product.depth)).astype(kind)
            operands.append(values.astype(np.float64))
            lanes = values[product.place(which)]
            matrices.put(bench, "v", first, packed(lanes.view(np.uint8), BITS[product.formats[which]]))
        c = rng.integers(-8, 9, (product.edge, product.edge)).astype(np.float32)
        _, i, j = matrices.Shape(np.float32, product.edge, product.depth, 1, ("fp8", "fp8")).result()
        matrices.put(bench, "v", ROW_C, c[i, j])
        if product.scaled:
            for which in (0, 1):
                exponents = rng.integers(124, 131, (product.edge, product.depth // 32)).astype(np.uint32)
                lane = np.arange(LANES)
                noise = rng.integers(0, 1 << 32, LANES, dtype=np.uint64).astype(np.uint32)
                shift = np.uint32(8 * product.bytes[which])
                word = noise & ~(np.uint32(0xFF) << shift) | exponents[lane % product.edge, lane // product.edge] << shift
                bench.row(ROW_SCALE + which)[:] = word
                operands[which] *= 2.0 ** np.repeat(exponents.astype(np.float64) - 127, 32, axis=1)
        assert bench.execute(snippets, product.text) == WaveStatus.BARRIER
        d = matrices.get(bench, "v", ROW_D, i.shape[1], np.float32)

    np.testing.assert_array_equal(d, (operands[0] @ operands[1].T + c)[i, j].astype(np.float32))
