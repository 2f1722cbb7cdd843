"""Packed operations and dot products: halves chosen by op_sel and op_sel_hi, each with its own sign, and clamp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.builders.opcodes import Snippets, assert_same, edge_floats, edge_integers, pairs
from tests.emulator.opcodes.test_float import clamp, fma, high, low

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

U16, I16, U32, F16, F32 = np.uint16, np.int16, np.uint32, np.float16, np.float32
I64 = np.int64
Halves = Any


@dataclass(frozen=True)
class Packed:
    """`oracle` computes one half of the result from one half of each source."""

    name: str
    oracle: Callable[..., Any]
    dtype: Any
    sources: int = 2


@dataclass(frozen=True)
class Modifiers:
    """Selection and negation of the halves of each source for the low and the high half of the result."""

    op_sel: tuple[int, int, int] = (0, 0, 0)
    op_sel_hi: tuple[int, int, int] = (1, 1, 1)
    neg_lo: tuple[int, int, int] = (0, 0, 0)
    neg_hi: tuple[int, int, int] = (0, 0, 0)
    clamp: bool = False

    def text(self, sources: int) -> str:
        fields = (("op_sel", 0), ("op_sel_hi", 1), ("neg_lo", 0), ("neg_hi", 0))
        shown = [(name, getattr(self, name)[:sources]) for name, usual in fields if set(getattr(self, name)) != {usual}]
        return "".join(f" {name}:[{','.join(map(str, bits))}]" for name, bits in shown) + " clamp" * self.clamp


def shift(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: function(b, a.astype(U16) & U16(15))


def bounded(function: Callable[..., Any], dtype: Any) -> Callable[..., Any]:
    """Compute in wider integers and saturate."""
    limits = np.iinfo(dtype)
    return lambda *v: np.clip(function(*(x.astype(I64) for x in v)), limits.min, limits.max).astype(dtype)


INTEGER = [
    *(
        Packed(f"v_pk_{name}_{kind}16", function, dtype, sources)
        for kind, dtype in (("u", U16), ("i", I16))
        for name, function, sources in (
            ("add", lambda a, b: a + b, 2),
            ("sub", lambda a, b: a - b, 2),
            ("min", np.minimum, 2),
            ("max", np.maximum, 2),
            ("mad", lambda a, b, c: a * b + c, 3),
        )
    ),
    Packed("v_pk_mul_lo_u16", lambda a, b: a * b, U16),
    Packed("v_pk_lshlrev_b16", shift(np.left_shift), U16),
    Packed("v_pk_lshrrev_b16", shift(np.right_shift), U16),
    Packed("v_pk_ashrrev_i16", shift(lambda x, n: np.right_shift(x, n.astype(I16))), I16),
]
FLOAT = [
    Packed("v_pk_add_f16", lambda a, b: a + b, F16),
    Packed("v_pk_mul_f16", lambda a, b: a * b, F16),
    Packed("v_pk_min_f16", low, F16),
    Packed("v_pk_max_f16", high, F16),
    Packed("v_pk_fma_f16", fma(F16), F16, 3),
]
FLOAT32 = [
    Packed("v_pk_add_f32", lambda a, b: a + b, F32),
    Packed("v_pk_mul_f32", lambda a, b: a * b, F32),
    Packed("v_pk_fma_f32", fma(F32), F32, 3),
]
MIXES = [
    Modifiers(),
    Modifiers(op_sel=(1, 0, 1), op_sel_hi=(0, 1, 0)),
    Modifiers(op_sel=(1, 1, 0), op_sel_hi=(1, 0, 0)),
]
SIGNS = [
    Modifiers(neg_lo=(1, 0, 1), neg_hi=(0, 1, 1)),
    Modifiers(op_sel=(0, 1, 1), neg_hi=(1, 1, 0), clamp=True),
    Modifiers(clamp=True),
]
CLAMPS = ("add", "sub", "mad")


def case_list() -> list[tuple[Packed, Modifiers]]:
    cases = [(p, m) for p in (*INTEGER, *FLOAT, *FLOAT32) for m in MIXES]
    cases += [(p, m) for p in (*FLOAT, *FLOAT32) for m in SIGNS]
    return cases + [(p, Modifiers(clamp=True)) for p in INTEGER if p.name.split("_")[2] in CLAMPS]


CASES = case_list()


def text_of(packed: Packed, modifiers: Modifiers) -> str:
    wide = packed.dtype is F32
    registers = [f"v[{r}:{r + 1}]" if wide else f"v{r}" for r in (20, 0, 2, 4)[: packed.sources + 1]]
    return f"{packed.name} {', '.join(registers)}{modifiers.text(packed.sources)}"


DOTS: dict[str, tuple[int, str]] = {
    "v_dot2_i32_i16": (16, "i"), "v_dot2_u32_u16": (16, "u"), "v_dot4_i32_i8": (8, "i"), "v_dot4_u32_u8": (8, "u"),
    "v_dot8_i32_i4": (4, "i"), "v_dot8_u32_u4": (4, "u"),
}  # fmt: skip
ACCUMULATING = {"v_dot2c_i32_i16": (16, "i"), "v_dot4c_i32_i8": (8, "i"), "v_dot8c_i32_i4": (4, "i")}
DOT_F16 = ["v_dot2_f32_f16 v20, v0, v2, v4", "v_dot2_f32_f16 v20, v0, v2, v4 neg_lo:[1,0,0] neg_hi:[0,1,0]"]
DOT_F16_ACCUMULATING = "v_dot2c_f32_f16_e32 v4, v0, v2"
MIX = {
    "v_fma_mix_f32 v20, v0, v2, v4": lambda a, b, c: fma(F32)(a.view(F32), b.view(F32), c.view(F32)),
    "v_fma_mix_f32 v20, v0, -v2, |v4| op_sel:[1,0,0] op_sel_hi:[1,1,0]":
        lambda a, b, c: fma(F32)(half(a, 1), -half(b, 0), np.abs(c.view(F32))),
    "v_fma_mix_f32 v20, v0, v2, v4 op_sel_hi:[1,0,1] clamp": lambda a, b, c: clamp(fma(F32)(half(a, 0), b.view(F32), half(c, 0))),
    "v_fma_mix_f32 v20, v0, 1.0, v4 op_sel_hi:[1,1,0]": lambda a, b, c: fma(F32)(half(a, 0), np.ones(len(a), F32), c.view(F32)),
}  # fmt: skip
MIX_CLAMPED = "v_fma_mixhi_f16 v20, v0, v2, v4 op_sel_hi:[1,1,1] clamp"
MIX_HALVES = ["v_fma_mixlo_f16 v20, v0, v2, v4 op_sel_hi:[1,1,1]", "v_fma_mixhi_f16 v20, v0, v2, v4 op_sel_hi:[1,1,1]"]
FMAC = "v_pk_fmac_f16_e32 v4, v0, v2"
MOVES = ["v_pk_mov_b32 v[20:21], v[0:1], v[2:3]", "v_pk_mov_b32 v[20:21], v[0:1], v[2:3] op_sel:[1,0]",
         "v_pk_mov_b32 v[20:21], v[0:1], v[2:3] op_sel:[0,1]"]  # fmt: skip


def half(words: Any, index: int) -> NDArray[np.float32]:
    halves: NDArray[np.float16] = (words >> U32(16 * index)).astype(U16).view(F16)
    return halves.astype(F32)


def texts() -> list[str]:
    """Return every instruction of this file."""
    return [
        *(text_of(*case) for case in CASES),
        *(f"{name} v20, v0, v2, v4{c}" for name in DOTS for c in ("", " clamp")),
        *(f"{name}_e32 v4, v0, v2" for name in ACCUMULATING),
        *DOT_F16, DOT_F16_ACCUMULATING, *MIX, *MIX_HALVES, MIX_CLAMPED, FMAC, *MOVES,
    ]  # fmt: skip


def words_for(dtype: Any, seed: int) -> NDArray[np.uint32]:
    """Return pairs of halves with edge values."""
    values = edge_floats(F16, seed=seed).view(U16) if dtype is F16 else edge_integers(16, seed=seed)
    generator = np.random.default_rng(seed)
    return generator.choice(values, 512).astype(U32) | generator.choice(values, 512).astype(U32) << U32(16)


@pytest.mark.parametrize(("packed", "modifiers"), CASES, ids=lambda v: v.name if isinstance(v, Packed) else v.text(3))
def test_each_half_is_computed_from_the_selected_halves(snippets: Snippets, packed: Packed, modifiers: Modifiers) -> None:
    if packed.dtype is F32:
        generator = np.random.default_rng(7)
        floats = [generator.choice(edge_floats(F32, seed=i), (512, 2)) for i in range(packed.sources)]
        columns: list[NDArray[Any]] = [pair.view(np.uint64).ravel() for pair in floats]
        parts = [[(c >> np.uint64(32 * i)).astype(U32).view(F32) for i in (0, 1)] for c in columns]
    else:
        columns = [words_for(packed.dtype, i) for i in range(packed.sources)]
        parts = [[(c >> U32(16 * i)).astype(U16).view(packed.dtype) for i in (0, 1)] for c in columns]
    outcome = snippets.run(text_of(packed, modifiers), {2 * i: c for i, c in enumerate(columns)})

    oracle = packed.oracle
    if modifiers.clamp:
        plain = packed.oracle
        oracle = (lambda *v: clamp(plain(*v))) if packed.dtype in (F16, F32) else bounded(packed.oracle, packed.dtype)
    for position, (select, negate) in enumerate(((modifiers.op_sel, modifiers.neg_lo), (modifiers.op_sel_hi, modifiers.neg_hi))):
        operands = [-p[select[i]] if negate[i] else p[select[i]] for i, p in enumerate(parts)]
        with np.errstate(all="ignore"):
            expected = oracle(*operands).astype(packed.dtype)
        if packed.dtype is F32:
            actual = outcome.row(20 + position, F32)
        else:
            actual = (outcome.row(20) >> U32(16 * position)).astype(U16).view(packed.dtype)
        assert_same(f"{text_of(packed, modifiers)}, half {position}", actual, expected, operands)


def dot(a: int, b: int, c: int, bits: int, kind: str) -> int:
    def part(word: int, i: int) -> int:
        value = word >> bits * i & (1 << bits) - 1
        return value - (1 << bits) if kind == "i" and value >> bits - 1 else value

    c = c - (1 << 32) if kind == "i" and c >> 31 else c
    return c + sum(part(a, i) * part(b, i) for i in range(32 // bits))


@pytest.mark.parametrize("bounds", ["", " clamp"])
@pytest.mark.parametrize("name", DOTS)
def test_integer_dot_products_add_to_the_third_source(snippets: Snippets, name: str, bounds: str) -> None:
    bits, kind = DOTS[name]
    a, b, c = pairs(edge_integers(32), edge_integers(32, seed=2), edge_integers(32, seed=3), limit=1024)
    outcome = snippets.run(f"{name} v20, v0, v2, v4{bounds}", {0: a, 2: b, 4: c})

    low_bound, high_bound = (0, 0xFFFFFFFF) if kind == "u" else (-(1 << 31), (1 << 31) - 1)
    exact = [dot(int(x), int(y), int(z), bits, kind) for x, y, z in zip(a, b, c, strict=True)]
    wanted = [max(low_bound, min(high_bound, n)) if bounds else n for n in exact]
    assert_same(name, outcome.row(20), np.array([n & 0xFFFFFFFF for n in wanted], U32), [a, b, c])


@pytest.mark.parametrize("name", ACCUMULATING)
def test_accumulating_dot_products_add_to_their_destination(snippets: Snippets, name: str) -> None:
    bits, kind = ACCUMULATING[name]
    a, b, c = pairs(edge_integers(32), edge_integers(32, seed=2), edge_integers(32, seed=3), limit=1024)
    outcome = snippets.run(f"{name}_e32 v4, v0, v2", {0: a, 2: b, 4: c})

    wanted = [dot(int(x), int(y), int(z), bits, kind) & 0xFFFFFFFF for x, y, z in zip(a, b, c, strict=True)]
    assert_same(name, outcome.row(4), np.array(wanted, U32), [a, b, c])


@pytest.mark.parametrize(("text", "target"), [(DOT_F16[0], 20), (DOT_F16[1], 20), (DOT_F16_ACCUMULATING, 4)])
def test_the_float_dot_product_adds_exact_products_in_order(snippets: Snippets, text: str, target: int) -> None:
    a, b = words_for(F16, 1), words_for(F16, 2)
    c = np.random.default_rng(1).choice(edge_floats(F32), 512)
    outcome = snippets.run(text, {0: a, 2: b, 4: c})

    signs = (-1, -1) if "neg" in text else (1, 1)
    with np.errstate(all="ignore"):
        expected = c + F32(signs[0]) * half(a, 0) * half(b, 0) + F32(signs[1]) * half(a, 1) * half(b, 1)
    assert_same(text, outcome.row(target, F32), expected, [a, b, c])


@pytest.mark.parametrize("text", MIX)
def test_mixed_fma_takes_each_source_as_float_or_half(snippets: Snippets, text: str) -> None:
    columns = [words_for(F16, i) for i in range(3)]
    outcome = snippets.run(text, {2 * i: c for i, c in enumerate(columns)})

    with np.errstate(all="ignore"):
        assert_same(text, outcome.row(20, F32), MIX[text](*columns), columns)


@pytest.mark.parametrize(("text", "index"), list(zip(MIX_HALVES, (0, 1), strict=True)))
def test_mixed_fma_to_half_keeps_the_other_half(snippets: Snippets, text: str, index: int) -> None:
    columns = [words_for(F16, i) for i in range(3)]
    outcome = snippets.run(text, {2 * i: c for i, c in enumerate(columns)})

    with np.errstate(all="ignore"):
        expected = fma(F32)(*(half(c, 0) for c in columns)).astype(F16)
    words = outcome.row(20)
    assert_same(text, (words >> U32(16 * index)).astype(U16).view(F16), expected, columns)
    assert ((words >> U32(16 * (1 - index)) & U32(0xFFFF)) == (0xDEAD if index == 0 else 0xBEEF)).all()


def test_a_clamp_of_mixed_fma_is_of_the_half_that_is_written(snippets: Snippets) -> None:
    columns = [words_for(F16, i) for i in range(3)]
    words = snippets.run(MIX_CLAMPED, {2 * i: c for i, c in enumerate(columns)}).row(20)

    with np.errstate(all="ignore"):
        expected = clamp(fma(F32)(*(half(c, 0) for c in columns)).astype(F16))
    assert_same(MIX_CLAMPED, (words >> U32(16)).astype(U16).view(F16), expected, columns)
    assert ((words & U32(0xFFFF)) == 0xBEEF).all()


def test_packed_fmac_adds_to_its_destination(snippets: Snippets) -> None:
    a, b, c = (words_for(F16, i) for i in range(3))
    words = snippets.run(FMAC, {0: a, 2: b, 4: c}).row(4)

    for i in (0, 1):
        parts = [(x >> U32(16 * i)).astype(U16).view(F16) for x in (a, b, c)]
        assert_same(FMAC, (words >> U32(16 * i)).astype(U16).view(F16), fma(F16)(*parts), parts)


@pytest.mark.parametrize(("text", "chosen"), list(zip(MOVES, ((0, 0), (1, 0), (0, 1)), strict=True)))
def test_packed_move_selects_one_word_of_each_source(snippets: Snippets, text: str, chosen: tuple[int, int]) -> None:
    a, b = edge_integers(64), edge_integers(64, seed=4)
    outcome = snippets.run(text, {0: a, 2: b})

    for i, (source, word) in enumerate(zip((a, b), chosen, strict=True)):
        assert_same(text, outcome.row(20 + i), (source >> np.uint64(32 * word)).astype(U32), [a, b])
