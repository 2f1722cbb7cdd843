"""Sub-dword addressing: every source part with and without sign, every destination part, and the unused part."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.builders.opcodes import JUNK, Snippets, assert_same, edge_floats, edge_integers, pairs
from tests.emulator.opcodes.test_float import clamp

if TYPE_CHECKING:
    from numpy.typing import NDArray

PARTS = {"BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8), "WORD_0": (0, 16), "WORD_1": (16, 16),
         "DWORD": (0, 32)}  # fmt: skip
UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")
U32, F16, F32 = np.uint32, np.float16, np.float32

SOURCES = [
    (f"v_add_u32_sdwa v20, {'sext(v0)' if sext else 'v0'}, v2 dst_sel:DWORD src0_sel:{a} src1_sel:{b}", a, b, sext)
    for (a, b), sext in itertools.product(itertools.product(PARTS, PARTS), (False, True))
]
DESTINATIONS = [
    (f"v_xor_b32_sdwa v20, v0, v2 dst_sel:{part} dst_unused:{rest} src0_sel:DWORD src1_sel:DWORD", part, rest)
    for part, rest in itertools.product(PARTS, UNUSED)
]
HALVES = {
    "v_add_f16_sdwa v20, v0, v2 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:WORD_0":
        lambda a, b: a[1] + b[0],
    "v_mul_f16_sdwa v20, -v0, |v2| dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0 src1_sel:WORD_1":
        lambda a, b: -a[0] * np.abs(b[1]),
    "v_max_f16_sdwa v20, v0, v0 clamp dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:WORD_1":
        lambda a, b: clamp(a[1]),
}  # fmt: skip
FLOATS = {
    "v_add_f32_sdwa v20, v0, -v2 dst_sel:DWORD src0_sel:DWORD src1_sel:DWORD": lambda a, b: a - b,
    "v_mul_f32_sdwa v20, |v0|, v2 clamp dst_sel:DWORD src0_sel:DWORD src1_sel:DWORD": lambda a, b: clamp(np.abs(a) * b),
    "v_cvt_f32_u32_sdwa v20, v0 dst_sel:DWORD src0_sel:WORD_1": lambda a, b: (a.view(U32) >> U32(16)).astype(F32),
    "v_cvt_f32_i32_sdwa v20, sext(v0) dst_sel:DWORD src0_sel:BYTE_1":
        lambda a, b: (a.view(U32) >> U32(8)).astype(np.int8).astype(F32),
}  # fmt: skip
SCALAR = "v_lshlrev_b32_sdwa v20, s4, v0 dst_sel:DWORD src0_sel:DWORD src1_sel:BYTE_2"
COMPARE_VCC = "v_cmp_gt_u32_sdwa vcc, v0, v2 src0_sel:BYTE_0 src1_sel:WORD_1"
COMPARE_SGPR = "v_cmp_lt_i32_sdwa s[10:11], sext(v0), sext(v2) src0_sel:BYTE_0 src1_sel:BYTE_3"
CARRY = "v_add_co_u32_sdwa v20, vcc, v0, v2 dst_sel:DWORD src0_sel:DWORD src1_sel:WORD_0"
CARRY_IN = "v_addc_co_u32_sdwa v20, vcc, v0, v2, vcc dst_sel:DWORD src0_sel:DWORD src1_sel:BYTE_1"


def texts() -> list[str]:
    """Return every instruction of this file."""
    rows = [*(str(row[0]) for row in SOURCES), *(row[0] for row in DESTINATIONS)]
    return [*rows, *HALVES, *FLOATS, SCALAR, COMPARE_VCC, COMPARE_SGPR, CARRY, CARRY_IN]


def part_of(words: Any, name: str, *, signed: bool = False) -> NDArray[np.uint32]:
    first, width = PARTS[name]
    part: NDArray[np.uint32] = words >> U32(first) & U32((1 << width) - 1)
    if not signed:
        return part
    signed_part: NDArray[np.int32] = (part << U32(32 - width)).view(np.int32) >> (32 - width)
    return signed_part.view(U32)


@pytest.mark.parametrize(("text", "a", "b", "sext"), SOURCES, ids=[f"{r[1]}-{r[2]}-{r[3]}" for r in SOURCES])
def test_a_source_is_the_selected_part(snippets: Snippets, text: str, a: str, b: str, sext: bool) -> None:
    x, y = pairs(edge_integers(32), edge_integers(32, seed=2), limit=512)
    expected = part_of(x, a, signed=sext) + part_of(y, b)

    assert_same(text, snippets.run(text, {0: x, 2: y}).row(20), expected, [x, y])


@pytest.mark.parametrize(("text", "part", "rest"), DESTINATIONS, ids=[f"{r[1]}-{r[2]}" for r in DESTINATIONS])
def test_a_result_goes_to_the_selected_part(snippets: Snippets, text: str, part: str, rest: str) -> None:
    x, y = pairs(edge_integers(32), edge_integers(32, seed=2), limit=512)
    first, width = PARTS[part]
    mask = (1 << width) - 1 << first
    placed = ((x ^ y) << U32(first)) & U32(mask)
    if rest == "UNUSED_PRESERVE":
        placed |= U32(JUNK & ~mask & 0xFFFFFFFF)
    elif rest == "UNUSED_SEXT":
        negative = (placed >> U32(first + width - 1)).astype(bool)
        above = 0xFFFFFFFF & ~((1 << first + width) - 1)
        placed = np.where(negative, placed | U32(above), placed)

    assert_same(text, snippets.run(text, {0: x, 2: y}).row(20), placed, [x, y])


@pytest.mark.parametrize("text", HALVES)
def test_half_floats_are_read_from_and_written_to_either_half(snippets: Snippets, text: str) -> None:
    generator = np.random.default_rng(3)
    x, y = (generator.choice(edge_floats(F16), (512, 2)).view(U32).ravel() for _ in range(2))
    words = snippets.run(text, {0: x, 2: y}).row(20)

    halves = [[(v >> U32(16 * i)).astype(np.uint16).view(F16) for i in (0, 1)] for v in (x, y)]
    with np.errstate(all="ignore"):
        assert_same(text, (words >> U32(16)).astype(np.uint16).view(F16), HALVES[text](*halves), [x, y])
    assert ((words & U32(0xFFFF)) == JUNK & 0xFFFF).all()


@pytest.mark.parametrize("text", FLOATS)
def test_float_modifiers_and_conversions(snippets: Snippets, text: str) -> None:
    x, y = pairs(edge_floats(F32), edge_floats(F32), limit=1024)
    with np.errstate(all="ignore"):
        assert_same(text, snippets.run(text, {0: x, 2: y}).row(20, F32), FLOATS[text](x, y), [x, y])


def test_a_source_may_be_a_scalar_register(snippets: Snippets) -> None:
    x = edge_integers(32)

    assert_same(SCALAR, snippets.run(SCALAR, {0: x}, {4: 5}).row(20), part_of(x, "BYTE_2") << U32(5), [x])


def test_comparisons_and_carries(snippets: Snippets) -> None:
    x, y = (c[:512] for c in pairs(edge_integers(32), edge_integers(32, seed=2), limit=512))
    carry = 0x5A5A_0FF0_C33C_9669
    bit = np.array([carry >> n % 64 & 1 for n in range(512)], U32)
    added = x.astype(np.uint64) + part_of(y, "WORD_0")
    with_carry = x.astype(np.uint64) + part_of(y, "BYTE_1") + bit

    assert np.array_equal(snippets.run(COMPARE_VCC, {0: x, 2: y}).mask(), part_of(x, "BYTE_0") > part_of(y, "WORD_1"))
    signed = [part_of(v, n, signed=True).view(np.int32) for v, n in ((x, "BYTE_0"), (y, "BYTE_3"))]
    assert np.array_equal(snippets.run(COMPARE_SGPR, {0: x, 2: y}).mask(10), signed[0] < signed[1])
    for text, total in ((CARRY, added), (CARRY_IN, with_carry)):
        outcome = snippets.run(text, {0: x, 2: y}, {106: carry, 107: carry >> 32})
        assert_same(text, outcome.row(20), total.astype(U32), [x, y])
        assert np.array_equal(outcome.mask(), total >> np.uint64(32) != 0)
