"""Every matrix instruction of every emulated architecture against the bit-exact model, on ordinary and adversarial operands."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.emulator.coverage import UNSUPPORTED, opcodes
from rocm_perf_lab.emulator.program import DEFAULT_MODE
from rocm_perf_lab.emulator.structures import LANES, WaveStatus
from tests.builders import matrix_model as model
from tests.builders.opcodes import Snippets
from tests.builders.waves import WaveBench
from tests.emulator.architectures import test_cdna2, test_cdna4
from tests.emulator.opcodes import test_matrices as matrices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

A_ROW, B_ROW, C_ROW, D_ROW, INDEX_ROW, SCALE_ROW = 0, 16, 32, 64, 96, 97
WIDE_SPARSE = [
    *(f"f32_{shape}_{kind}" for shape in ("16x16x64", "32x32x32") for kind in ("f16", "bf16")),
    *(f"f32_{shape}_{kinds}" for shape in ("16x16x128", "32x32x64") for kinds in matrices.SMALL),
    "i32_16x16x128_i8", "i32_32x32x64_i8",
]  # fmt: skip
FP16_OVERFLOW = DEFAULT_MODE | 1 << 23
FLUSHES_F32 = DEFAULT_MODE & ~0x30
ROWS_JUDGED = 3
"""Rows of each operand that are compared, beside the whole of one."""


@dataclass(frozen=True)
class Instruction:
    """Matrix instruction: shape, formats of A and B, and the way of its sums."""

    architecture: str
    name: str
    text: str
    edge: int
    depth: int
    blocks: int
    kinds: tuple[str, str]
    out: str
    sparse: bool = False

    @property
    def group(self) -> int:
        """Products that are added at a time."""
        kind = self.kinds[0]
        depth = self.depth // 2 if self.sparse else self.depth
        if self.architecture == "gfx90a":
            return 2 if kind == "bf16" and "1k" not in self.name else 4
        return min(depth, {"xf32": 4, "f16": 8, "bf16": 8}.get(kind, 16))


def instructions(architecture: str) -> list[Instruction]:
    """Return the matrix instructions of an architecture without those of 4 to 8 bits with scales."""
    if architecture == "gfx90a":
        names = {name: (test_cdna2.text_of(name), test_cdna2.DENSE[name]) for name in test_cdna2.DENSE}
        common = [n for n in matrices.DENSE if re.search(r"_(f32|f16)$|i32_(32x32x4|16x16x4|4x4x4)_", n)]
        old = {re.sub(r"_(?:\d+b_)?([a-z]+\d+)$", r"\1", n): n for n in common}  # f32_4x4x1_16b_f32 is f32_4x4x1f32
        others = {name: ("v_mfma_" + name, like) for name, like in old.items()}
        return [of_shape(architecture, name, text, like) for name, (text, like) in {**others, **names}.items()]
    dense = [n for n in matrices.DENSE if architecture == "gfx942" or "xf32" not in n]
    sparse = list(matrices.SPARSE)
    if architecture == "gfx950":
        dense += test_cdna4.DENSE
        sparse += WIDE_SPARSE
    return [
        *(of_shape(architecture, n, "v_mfma_" + n, n) for n in dense),
        *(of_shape(architecture, n, "v_smfmac_" + n, n, sparse=True) for n in sparse),
    ]


def of_shape(architecture: str, name: str, text: str, like: str, *, sparse: bool = False) -> Instruction:
    shape = matrices.Shape.of(like)
    kinds = [k + "_fnuz" if architecture == "gfx942" and k in ("fp8", "bf8") else k for k in shape.kinds]
    mnemonic = text.partition(" ")[0]
    count = shape.edge * shape.depth * shape.blocks // LANES
    out = like.partition("_")[0]
    bits_a, bits_b = (1 if k == "i8" else model.FORMATS.get(k, model.FORMATS["f32"]).bits // 8 for k in kinds)
    d = span(D_ROW, matrices_size(shape, out))
    operands = [
        d,
        span(A_ROW, count * bits_a // (2 if sparse else 1)),
        span(B_ROW, count * bits_b),
        f"v{INDEX_ROW}" if sparse else span(C_ROW, matrices_size(shape, out)),
    ]
    text = f"{mnemonic} {', '.join(operands)}"
    return Instruction(architecture, name, text, shape.edge, shape.depth, shape.blocks, (kinds[0], kinds[1]), out, sparse)


def matrices_size(shape: matrices.Shape, out: str) -> int:
    """Return the bytes of C or D per lane."""
    return shape.edge * shape.edge * shape.blocks // LANES * (8 if out == "f64" else 4)


def span(first: int, size: int) -> str:
    words = max(1, size // 4)
    return f"v{first}" if words == 1 else f"v[{first}:{first + words - 1}]"


def texts(architecture: str = "gfx950") -> list[str]:
    """Return the tested instructions of an architecture."""
    return [i.text for i in instructions(architecture)]


ALL = [i for architecture in ("gfx90a", "gfx942", "gfx950") for i in instructions(architecture)]


@pytest.fixture(scope="module")
def snippets() -> dict[str, Snippets]:
    return {one: Snippets(texts(one), architecture=one) for one in ("gfx90a", "gfx942", "gfx950")}


# ---- operands ----


def codes(rng: np.random.Generator, kind: str, shape: tuple[int, ...], style: str) -> NDArray[np.uint64]:
    """Return codes of a format: `ordinary` numbers of moderate size, with zeros, or `any` codes with many edges."""
    if kind == "i8":
        edges = rng.choice([0x80, 0x7F, 0x81, 0, 1, 0xFF], shape)
        drawn = rng.integers(0, 256, shape)
        return np.where(rng.random(shape) < (0.1 if style == "ordinary" else 0.7), edges, drawn).astype(np.uint64)
    form = model.FORMATS["f32" if kind == "xf32" else kind]
    if style == "ordinary":
        spread = min(form.bias - 1, 12)
        exponents = form.bias + rng.integers(-spread, spread + 1, shape)
        drawn = exponents << form.mantissa | rng.integers(0, 1 << form.mantissa, shape)
        drawn |= rng.integers(0, 2, shape) << form.bits - 1
        drawn = np.where(rng.random(shape) < 0.05, 0, drawn)
    else:
        drawn = rng.integers(0, 1 << min(form.bits, 63), shape) | rng.integers(0, 2, shape) << form.bits - 1
        drawn = np.where(rng.random(shape) < 0.3, rng.choice(edges_of(form), shape), drawn)
    return drawn.astype(np.uint64) & np.uint64((1 << form.bits) - 1)


def edges_of(form: model.Format) -> NDArray[np.int64]:
    """Return zeros, denormals, the ends of the normal range and, rarely, special values."""
    sign, one = 1 << form.bits - 1, form.bias << form.mantissa
    lowest, highest = 1 << form.mantissa, (1 << form.bits - 1) - 1
    finite = highest - (1 << form.mantissa) if form.has_infinities else highest - len(form.nans)
    magnitudes = [0, 1, lowest - 1, lowest, lowest + 1, one, one + 1, finite, finite - 1, one - lowest]
    return np.array(magnitudes * 6 + [m | sign for m in magnitudes] * 6 + [highest, finite + 1], np.uint64).astype(np.int64)


def cancelling(rng: np.random.Generator, operand: NDArray[np.uint64], kind: str) -> NDArray[np.uint64]:
    """Return (blocks, rows, K) of A with the second of each pair along K the negated first, in some rows."""
    if kind == "i8":
        return operand
    bits = model.FORMATS["f32" if kind == "xf32" else kind].bits
    result = operand.copy()
    chosen = rng.random(operand.shape[1]) < 0.4
    paired = result[:, :, 0 : operand.shape[2] // 2 * 2 : 2] ^ np.uint64(1 << bits - 1)
    result[:, chosen, 1::2] = paired[:, chosen]
    return result


def repeating(rng: np.random.Generator, operand: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return (blocks, columns, K) with equal pairs along K in some columns."""
    result = operand.copy()
    chosen = rng.random(operand.shape[1]) < 0.4
    result[:, chosen, 1::2] = result[:, chosen, 0 : operand.shape[2] // 2 * 2 : 2]
    return result


def values_of(operand: NDArray[np.uint64], kind: str) -> NDArray[np.float64]:
    def value(code: int) -> float:
        number = model.decode(code, kind)
        if number.special:
            return 0.0
        return float(number.signed) * 2.0**number.power if number.size else 0.0

    numbers: NDArray[np.float64] = np.vectorize(value, otypes=[np.float64])(operand)
    return numbers


def addends(rng: np.random.Generator, instruction: Instruction, dot: NDArray[np.float64], style: str) -> NDArray[np.uint64]:
    """Return codes of C: of any size, or close to the negated sum of products."""
    shape = dot.shape
    if instruction.out == "i32":
        edges = rng.choice([2**31 - 1, 2**31, 0, 1, 2**32 - 1], shape)
        return np.where(rng.random(shape) < 0.5, edges, rng.integers(0, 1 << 32, shape)).astype(np.uint64)
    dtype, unsigned = (np.float64, np.uint64) if instruction.out == "f64" else (np.float32, np.uint32)
    with np.errstate(all="ignore"):
        near = (-dot * rng.choice([1, 1 + 2.0**-22, 0.5, 2.0**-20, 2.0**20, 1 - 2.0**-12], shape)).astype(dtype)
    close = near.view(unsigned).astype(np.uint64)
    drawn = codes(rng, instruction.out, shape, style)
    picked: NDArray[np.uint64] = np.where(rng.random(shape) < 0.6, close, drawn)
    return picked


# ---- execution ----


def lane_places(instruction: Instruction, kind: str, *, is_b: bool) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return block, row (or column) and k of each element of each lane: (lanes, elements)."""
    stored = instruction.depth // 2 if instruction.sparse and not is_b else instruction.depth
    per_lane = instruction.edge * stored * instruction.blocks // LANES
    lane, e = np.indices((LANES, per_lane))
    group = lane // (instruction.edge * instruction.blocks)
    size = per_lane * (1 if kind == "i8" else model.FORMATS["f32" if kind == "xf32" else kind].bits // 8)
    run = per_lane // 2 if is_b and instruction.sparse and size == 32 else per_lane  # CDNA4 ISA, tables "Matrix B layout"
    k = run * group + e % run + e // run * (stored // (per_lane // run))
    return lane // instruction.edge % instruction.blocks, lane % instruction.edge, k


def put(bench: WaveBench, row: int, lanes: NDArray[np.uint64], bits: int) -> None:
    """Set registers from codes, (lanes, elements)."""
    packed = np.ascontiguousarray(lanes.astype(f"u{bits // 8}")).view(np.uint32)
    for n in range(packed.shape[1]):
        bench.row(row + n)[:] = packed[:, n]


def bits_of(kind: str) -> int:
    return 8 if kind == "i8" else 32 if kind in ("xf32", "i32") else model.FORMATS[kind].bits


@dataclass
class Operands:
    """Codes: A (blocks, rows, K), B (blocks, columns, K), C (blocks, rows, columns); k of A's elements, (rows, K or K / 2)."""

    a: NDArray[np.uint64]
    b: NDArray[np.uint64]
    c: NDArray[np.uint64]
    kept: NDArray[np.int64]


def operands_of(instruction: Instruction, style: str, seed: int) -> Operands:
    rng = np.random.default_rng(seed)
    edge, blocks, depth = instruction.edge, instruction.blocks, instruction.depth
    stored = depth // 2 if instruction.sparse else depth
    a = cancelling(rng, codes(rng, instruction.kinds[0], (blocks, edge, stored), style), instruction.kinds[0])
    b = repeating(rng, codes(rng, instruction.kinds[1], (blocks, edge, depth), style))
    kept = np.tile(np.arange(stored), (edge, 1))
    if instruction.sparse:
        pairs = np.sort(np.argsort(rng.random((edge, depth // 4, 4)), axis=2)[:, :, :2], axis=2)
        kept = (pairs + 4 * np.arange(depth // 4)[:, None]).reshape(edge, stored)
    if instruction.kinds[0] == "i8":
        dot = np.zeros((blocks, edge, edge))
    else:
        wide = values_of(a, instruction.kinds[0]), values_of(b, instruction.kinds[1])
        chosen = wide[1][:, :, kept]  # (blocks, columns, rows, stored)
        with np.errstate(all="ignore"):
            dot = np.einsum("bik,bjik->bij", wide[0], chosen)
    return Operands(a, b, addends(rng, instruction, dot, style), kept)


def executed(snippets: Snippets, instruction: Instruction, operands: Operands) -> NDArray[np.uint64]:
    """Return the codes of D."""
    out = np.float64 if instruction.out == "f64" else np.float32
    places = matrices.Shape(out, instruction.edge, 0, instruction.blocks, ("", "")).result()
    bits = 64 if instruction.out == "f64" else 32
    with WaveBench() as bench:
        for which, (row, codes_) in enumerate(((A_ROW, operands.a), (B_ROW, operands.b))):
            kind = instruction.kinds[which]
            put(bench, row, codes_[lane_places(instruction, kind, is_b=bool(which))], bits_of(kind))
        put(bench, D_ROW if instruction.sparse else C_ROW, operands.c[places], bits)
        if instruction.sparse:
            _, line, k = lane_places(instruction, instruction.kinds[0], is_b=False)
            selected = operands.kept[line, k].astype(np.uint64) % np.uint64(4)
            bench.row(INDEX_ROW)[:] = (selected << 2 * np.arange(selected.shape[1], dtype=np.uint64)).sum(axis=1)
        assert bench.execute(snippets, instruction.text) == WaveStatus.BARRIER
        lanes = np.stack([bench.row(D_ROW + n) for n in range(places[0].shape[1] * bits // 32)], axis=1)
    d = np.zeros_like(operands.c)
    d[places] = np.ascontiguousarray(lanes).view(f"u{bits // 8}").astype(np.uint64)
    return d


# ---- judgement ----


def judged(instruction: Instruction, rng: np.random.Generator) -> Iterator[tuple[int, int, int]]:
    """Return the elements of D to compare: some rows of some blocks, and one element of every row."""
    edge = instruction.edge
    for block in {0, int(rng.integers(instruction.blocks))}:
        for row in {int(r) for r in rng.integers(0, edge, ROWS_JUDGED)}:
            yield from ((block, row, column) for column in range(edge))
        yield from ((block, row, int(rng.integers(edge))) for row in range(edge))


def modelled(instruction: Instruction, operands: Operands, place: tuple[int, int, int], *, clamps: bool = False) -> int:
    block, row, column = place
    a_codes = [int(x) for x in operands.a[block, row]]
    b_codes = [int(operands.b[block, column, k]) for k in operands.kept[row]]
    c = int(operands.c[place])
    if instruction.out == "i32":
        total = signed(c, 32) + sum(signed(x, 8) * signed(y, 8) for x, y in zip(a_codes, b_codes, strict=True))
        return (min(max(total, -(2**31)), 2**31 - 1) if clamps else total) & 0xFFFFFFFF
    kinds = instruction.kinds
    a, b = ([model.decode(code, kind) for code in side] for side, kind in ((a_codes, kinds[0]), (b_codes, kinds[1])))
    if kinds[0] in ("f32", "f64"):
        return model.fused(a, b, c, kinds[0])
    if instruction.architecture == "gfx90a":
        return model.flushed(a, b, c, kinds[0], instruction.group)
    return model.aligned(a, b, c, instruction.group, halves=kinds[0].startswith(("fp8", "bf8")))


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


def assert_equal(name: str, actual: int, expected: int, place: object, out: str = "f32") -> None:
    if out != "i32":
        actual_number, expected_number = (model.decode(code, out) for code in (actual, expected))
        if actual_number.special == expected_number.special == model.NAN:
            return
    assert actual == expected, f"{name} at {place}: {actual:#x}, expected {expected:#x}"


@pytest.mark.parametrize("style", ["ordinary", "any"])
@pytest.mark.parametrize("instruction", ALL, ids=lambda i: f"{i.architecture}-{i.name}")
def test_results_are_those_of_the_model(snippets: dict[str, Snippets], instruction: Instruction, style: str) -> None:
    seed = ALL.index(instruction)
    operands = operands_of(instruction, style, seed)
    d = executed(snippets[instruction.architecture], instruction, operands)

    for place in judged(instruction, np.random.default_rng(seed)):
        assert_equal(instruction.name, int(d[place]), modelled(instruction, operands, place), place, instruction.out)


NEGATED = [i for i in ALL if i.out == "f64" and i.architecture != "gfx90a"]
BROADCAST = [(i, cbsz, blgp) for i in ALL for cbsz, blgp in ((2, 3), (1, 5))
             if i.architecture == "gfx942" and i.blocks >= 4 and i.kinds[0] in ("f32", "f16", "bf16", "i8")]  # fmt: skip
CLAMPED = [i for i in ALL if i.sparse and i.kinds[0] in ("i8", "bf16", "bf8") and i.architecture in ("gfx942", "gfx950")]
FLUSHING = [i for i in ALL if i.kinds[0] in ("f32", "f16") and not i.sparse and i.edge == 16]


@pytest.mark.parametrize("instruction", NEGATED, ids=lambda i: f"{i.architecture}-{i.name}")
def test_double_operands_are_negated_before_the_product(instruction: Instruction) -> None:
    texts = {n: instruction.text + f" neg:[{n & 1},{n >> 1 & 1},{n >> 2}]" for n in (1, 2, 5, 7)}
    snippets = Snippets(texts.values(), architecture=instruction.architecture)
    operands = operands_of(instruction, "any", 7)
    for negated, text in texts.items():
        d = executed(snippets, replace(instruction, text=text), operands)
        flipped = [x ^ np.uint64((negated >> n & 1) << 63) for n, x in enumerate((operands.a, operands.b, operands.c))]
        changed = Operands(flipped[0], flipped[1], flipped[2], operands.kept)
        for place in judged(instruction, np.random.default_rng(negated)):
            assert_equal(text, int(d[place]), modelled(instruction, changed, place), place, "f64")


@pytest.mark.parametrize(("instruction", "cbsz", "blgp"), BROADCAST, ids=lambda x: getattr(x, "name", str(x)))
def test_broadcast_blocks_and_lanes_are_added_as_others(instruction: Instruction, cbsz: int, blgp: int) -> None:
    """CDNA3 ISA, "Broadcasting values": A comes from one block of 2^CBSZ, B from permuted lanes."""
    text = f"{instruction.text} cbsz:{cbsz} abid:1 blgp:{blgp}"
    snippets = Snippets([text], architecture=instruction.architecture)
    operands = operands_of(instruction, "any", cbsz)
    d = executed(snippets, replace(instruction, text=text), operands)

    block = np.arange(instruction.blocks)
    a = operands.a[block // (1 << cbsz) * (1 << cbsz) + 1]
    places = lane_places(instruction, instruction.kinds[1], is_b=True)
    lane = np.arange(LANES)
    source = (lane + 16) % LANES if blgp == 3 else 16 + lane % 16
    b = np.zeros_like(operands.b)
    b[places] = operands.b[places][source]
    changed = Operands(a, b, operands.c, operands.kept)
    for place in judged(instruction, np.random.default_rng(blgp)):
        assert_equal(text, int(d[place]), modelled(instruction, changed, place), place, instruction.out)


@pytest.mark.parametrize("instruction", CLAMPED, ids=lambda i: f"{i.architecture}-{i.name}")
def test_sparse_results_are_limited_by_fp16_overflow_on_gfx950(instruction: Instruction) -> None:
    snippets = Snippets([instruction.text], architecture=instruction.architecture, mode=FP16_OVERFLOW)
    operands = operands_of(instruction, "any", 11)
    d = executed(snippets, instruction, operands)

    clamps, is_limited = instruction.architecture == "gfx950", 0
    for place in judged(instruction, np.random.default_rng(1)):
        expected = modelled(instruction, operands, place, clamps=clamps)
        if (
            clamps
            and instruction.out == "f32"
            and expected & 0x7FFFFFFF == 0x7F800000
            and has_no_infinity(instruction, operands, place)
        ):
            expected -= 1
            is_limited += 1
        assert_equal(instruction.name, int(d[place]), expected, place, instruction.out)
    assert is_limited or not clamps or instruction.kinds[0] != "bf16"


def has_no_infinity(instruction: Instruction, operands: Operands, place: tuple[int, int, int]) -> bool:
    block, row, column = place
    a = [model.decode(int(x), instruction.kinds[0]) for x in operands.a[block, row]]
    b = [model.decode(int(operands.b[block, column, k]), instruction.kinds[1]) for k in operands.kept[row]]
    return not any(x.special for x in (*a, *b, model.decode(int(operands.c[place]), "f32")))


@pytest.mark.parametrize("instruction", FLUSHING, ids=lambda i: f"{i.architecture}-{i.name}")
def test_mode_flushes_float32_factors_but_neither_halves_nor_addends(instruction: Instruction) -> None:
    snippets = Snippets([instruction.text], architecture=instruction.architecture, mode=FLUSHES_F32)
    operands = operands_of(instruction, "any", 5)
    d = executed(snippets, instruction, operands)

    if instruction.kinds[0] == "f32":
        flushed = [np.where(x & np.uint64(0x7F800000) == 0, x & np.uint64(0x80000000), x) for x in (operands.a, operands.b)]
        operands = replace(operands, a=flushed[0], b=flushed[1])
    for place in judged(instruction, np.random.default_rng(2)):
        assert_equal(instruction.name, int(d[place]), modelled(instruction, operands, place), place)


def test_every_matrix_opcode_is_judged() -> None:
    tested = {(i.architecture, i.text.partition(" ")[0]) for i in ALL}
    assert len([i for i in ALL if i.architecture == "gfx90a"]) == len(
        [o for o in opcodes("gfx90a") if o.how != UNSUPPORTED and "MFMA" in o.mnemonic]
    )
    for architecture in ("gfx942", "gfx950"):
        supported = {o.mnemonic.lower() for o in opcodes(architecture) if o.how != UNSUPPORTED and "MFMA" in o.mnemonic}
        supported |= {o.mnemonic.lower() for o in opcodes(architecture) if o.how != UNSUPPORTED and "SMFMAC" in o.mnemonic}
        missing = {name for name in supported if (architecture, name) not in tested and not name.endswith("f8f6f4")}
        assert missing == set()
