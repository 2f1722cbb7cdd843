"""Operands: inline constants and literals in every width, special sources, halves by op_sel, 16-bit results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rocm_perf_lab.emulator.structures import EXEC, M0, VCC
from tests.builders.opcodes import JUNK, Row, Snippets, assert_same, edge_floats, edge_integers
from tests.emulator.opcodes.test_float import fma

F16, F32, F64, U16, U32 = np.float16, np.float32, np.float64, np.uint16, np.uint32
INTEGERS = (0, 1, 37, 64, -1, -7, -16)
FLOATS = {"0.5": 0.5, "-0.5": -0.5, "1.0": 1.0, "-1.0": -1.0, "2.0": 2.0, "-2.0": -2.0, "4.0": 4.0, "-4.0": -4.0,
          "0.15915494": 0.15915494309189532}  # fmt: skip


def bits_of(value: float, dtype: Any) -> int:
    return int(np.array(value, dtype).view(f"u{np.dtype(dtype).itemsize}"))


WORDS = {
    **{f"v_mov_b32_e32 v20, {n}": n & 0xFFFFFFFF for n in INTEGERS},
    **{f"v_mov_b32_e32 v20, {text}": bits_of(value, F32) for text, value in FLOATS.items()},
    "v_mov_b32_e32 v20, 0x12345678": 0x12345678,
    "v_mov_b32_e32 v20, s4": 44, "v_mov_b32_e32 v20, vcc_hi": 5, "v_mov_b32_e32 v20, m0": 9,
    "v_mov_b32_e32 v20, exec_lo": 0xFFFFFFFF,
    "v_mov_b32_e32 v20, src_scc": 1, "v_mov_b32_e32 v20, src_vccz": 0, "v_mov_b32_e32 v20, src_execz": 0,
    "v_add_u16_e32 v20, 1.0, v0": 0x3C00, "v_add_u16_e32 v20, -3, v0": 0xFFFD, "v_add_u16_e32 v20, 0x1234, v0": 0x1234,
    **{f"v_max_f16_e64 v20, {text}, {text}": bits_of(value, F16) for text, value in FLOATS.items()},
    "v_max_f16_e32 v20, 0x4248, v0": 0x4248,
}  # fmt: skip
"""Text -> v20, with v0 = 0."""
PAIRS = {
    **{f"v_mov_b64_e32 v[20:21], {n}": n & (1 << 64) - 1 for n in INTEGERS},
    **{f"v_max_f64 v[20:21], {value!r}, {value!r}": bits_of(value, F64) for value in FLOATS.values()},
    "v_ceil_f64_e32 v[20:21], 0x40490000": bits_of(50.0, F64),
    "v_mov_b64_e32 v[20:21], s[4:5]": 45 << 32 | 44, "v_mov_b64_e32 v[20:21], exec": (1 << 64) - 1,
    "v_lshlrev_b64 v[20:21], 3, -1": (1 << 64) - 8,
}  # fmt: skip
SCALARS = {
    "s_mov_b64 s[20:21], 1.0": bits_of(1.0, F64), "s_mov_b64 s[20:21], -5": (1 << 64) - 5, "s_mov_b64 s[20:21], vcc": 5 << 32 | 3,
    "s_mov_b64 s[20:21], 0x76543210": 0x76543210, "s_ashr_i64 s[20:21], 0x80000000, 4": (1 << 64) - (1 << 27),
}  # fmt: skip


def mad(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


HALVES = {
    "fma_f16": ("f16", fma(F16)),
    "mad_u16": ("u16", mad),
    "min3_u16": ("u16", lambda a, b, c: np.minimum(np.minimum(a, b), c)),
}
SELECTIONS = [(0, 0, 0, 0), (1, 0, 1, 0), (0, 1, 0, 1), (1, 1, 1, 1)]
PACK = "v_pack_b32_f16 v20, v0, v2 op_sel:[1,0,0]"
CLEARING = (
    "v_add_f16_e32 v20, v0, v2",
    "v_mul_lo_u16_e32 v20, v0, v2",
    "v_cvt_f16_f32_e32 v20, v0",
    "v_mad_legacy_u16 v20, v0, v2, v0",
)
KEEPING = ("v_fma_f16 v20, v0, v2, v0", "v_mad_u16 v20, v0, v2, v0", "v_add_i16 v20, v0, v2", "v_med3_i16 v20, v0, v2, v0")


def half_text(name: str, selection: tuple[int, ...]) -> str:
    return f"v_{name} v20, v0, v2, v4 op_sel:[{','.join(map(str, selection))}]"


def texts() -> list[str]:
    """Return every instruction of this file."""
    halves = [half_text(name, selection) for name in HALVES for selection in SELECTIONS]
    return [*WORDS, *PAIRS, *SCALARS, *halves, PACK, *CLEARING, *KEEPING]


STATE = {4: 44, 5: 45, VCC: 3, VCC + 1: 5, M0: 9}


@pytest.mark.parametrize("text", WORDS)
def test_operands_of_up_to_32_bits(snippets: Snippets, text: str) -> None:
    assert snippets.run(text, {0: np.zeros(64, U32)}, STATE, scc=1).row(20)[0] == WORDS[text]


@pytest.mark.parametrize("text", PAIRS)
def test_vector_operands_of_64_bits(snippets: Snippets, text: str) -> None:
    assert snippets.run(text, {}, STATE).row(20, np.uint64)[0] == PAIRS[text]


@pytest.mark.parametrize("text", SCALARS)
def test_scalar_operands_of_64_bits(snippets: Snippets, text: str) -> None:
    assert snippets.run(text, {}, STATE).scalar(20, np.uint64)[0] == SCALARS[text]


def test_conditions_on_zero_masks(snippets: Snippets) -> None:
    assert snippets.run("v_mov_b32_e32 v20, src_vccz", {}, {VCC: 0, VCC + 1: 0}).row(20)[0] == 1
    assert snippets.run("v_mov_b32_e32 v20, exec_lo", {}, execute=1 << 32).scalar(EXEC, np.uint64)[0] == 1 << 32


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("name", HALVES)
def test_op_sel_selects_halves_of_sources_and_result(snippets: Snippets, name: str, selection: tuple[int, ...]) -> None:
    kind, oracle = HALVES[name]
    generator = np.random.default_rng(5)
    values = edge_floats(F16).view(U16) if kind == "f16" else edge_integers(16)
    columns = [generator.choice(values, (256, 2)).view(U32).ravel() for _ in range(3)]
    words = snippets.run(half_text(name, selection), {2 * i: c for i, c in enumerate(columns)}).row(20)

    dtype = F16 if kind == "f16" else U16
    sources = [(c >> U32(16 * s)).astype(U16).view(dtype) for c, s in zip(columns, selection, strict=False)]
    with np.errstate(all="ignore"):
        expected = oracle(*sources)
    place = selection[3]
    assert_same(name, (words >> U32(16 * place)).astype(U16).view(dtype), expected.astype(dtype), sources)
    assert ((words >> U32(16 * (1 - place)) & U32(0xFFFF)) == JUNK >> 16 * (1 - place) & 0xFFFF).all()


def test_a_pack_takes_either_half(snippets: Snippets) -> None:
    x, y = edge_integers(32), edge_integers(32, seed=4)

    assert_same(PACK, snippets.run(PACK, {0: x, 2: y}).row(20), x >> U32(16) | y << U32(16), [x, y])


@pytest.mark.parametrize(("text", "upper"), [*((t, 0) for t in CLEARING), *((t, JUNK >> 16) for t in KEEPING)])
def test_the_upper_half_of_a_result_is_cleared_by_old_opcodes_and_kept_by_new_ones(
    snippets: Snippets, text: str, upper: int
) -> None:
    assert (snippets.run(text, {0: edge_integers(32), 2: edge_integers(32)}).row(20) >> U32(16) == upper).all()


def test_a_row_names_its_registers() -> None:
    assert Row("v_mad_u64_u32", lambda: 0, "u32 u32 u64", "u64+m").text == "v_mad_u64_u32 v[20:21], vcc, v0, v2, v[4:5]"
