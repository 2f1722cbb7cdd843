"""Every matrix opcode of gfx942 on one wavefront, against matrix products of NumPy.

The layouts are written here from the side of the lane: which element of which matrix a lane's register holds (AMD CDNA3 ISA,
chapter on matrix instructions).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from rocm_perf_lab.emulator.structures import FIRST_AGPR_ROW, LANES, FaultKind, WaveStatus
from tests.builders.opcodes import Snippets
from tests.builders.waves import WaveBench

if TYPE_CHECKING:
    from numpy.typing import NDArray

TYPES: dict[str, Any] = {
    "f64": np.float64, "f32": np.float32, "xf32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8,
    "fp8": ml_dtypes.float8_e4m3fnuz, "bf8": ml_dtypes.float8_e5m2fnuz, "i32": np.int32,
}  # fmt: skip
SMALL = [f"{a}_{b}" for a in ("bf8", "fp8") for b in ("bf8", "fp8")]
DENSE = [
    "f32_32x32x1_2b_f32", "f32_16x16x1_4b_f32", "f32_4x4x1_16b_f32", "f32_32x32x2_f32", "f32_16x16x4_f32",
    "f32_32x32x4_2b_f16", "f32_16x16x4_4b_f16", "f32_4x4x4_16b_f16", "f32_32x32x8_f16", "f32_16x16x16_f16",
    "f32_32x32x4_2b_bf16", "f32_16x16x4_4b_bf16", "f32_4x4x4_16b_bf16", "f32_32x32x8_bf16", "f32_16x16x16_bf16",
    "i32_32x32x4_2b_i8", "i32_16x16x4_4b_i8", "i32_4x4x4_16b_i8", "i32_32x32x16_i8", "i32_16x16x32_i8",
    "f32_16x16x8_xf32", "f32_32x32x4_xf32", "f64_16x16x4_f64", "f64_4x4x4_4b_f64",
    *(f"f32_16x16x32_{kinds}" for kinds in SMALL), *(f"f32_32x32x16_{kinds}" for kinds in SMALL),
]  # fmt: skip
SPARSE = [
    "f32_16x16x32_f16", "f32_32x32x16_f16", "f32_16x16x32_bf16", "f32_32x32x16_bf16", "i32_16x16x64_i8", "i32_32x32x32_i8",
    *(f"f32_16x16x64_{kinds}" for kinds in SMALL), *(f"f32_32x32x32_{kinds}" for kinds in SMALL),
]  # fmt: skip
A_ROW, B_ROW, INDEX_ROW, C_ROW, D_ROW = 0, 4, 8, 32, 64
ACCUMULATORS = ["vvvv", "avvv", "vavv", "vvaa", "aaaa"]
"""Register files of A, B, and C with D."""


@dataclass(frozen=True)
class Shape:
    """Shape and types of a matrix instruction."""

    out: Any
    edge: int
    depth: int
    blocks: int
    kinds: tuple[str, str]

    @classmethod
    def of(cls, name: str) -> Shape:
        match = re.fullmatch(r"(\w+?)_(\d+)x\d+x(\d+)_(?:(\d+)b_)?(\w+?)(?:_(\w+))?", name)
        assert match is not None
        kinds = (match[5], match[6] or match[5])
        return cls(TYPES[match[1]], int(match[2]), int(match[3]), int(match[4] or 1), kinds)

    def operand(self, per_lane: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return block, row and k of element e of lane l, for A and (with columns for rows) B: (lanes, elements) each."""
        lane, element = np.indices((LANES, per_lane))
        return lane // self.edge % self.blocks, lane % self.edge, per_lane * (lane // (self.edge * self.blocks)) + element

    def result(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return block, row and column of register (or pair) r of lane l: (lanes, registers) each."""
        lane, r = np.indices((LANES, self.edge * self.edge * self.blocks // LANES))
        if self.out == np.float64:
            return (lane // 4 % 4, lane // 16, lane % 4) if self.edge == 4 else (0 * lane, 4 * r + lane // 16, lane % 16)
        match self.edge:
            case 32:
                return r // 16, 8 * (r % 16 // 4) + 4 * (lane // 32) + r % 4, lane % 32
            case 16:
                return r // 4, 4 * (lane // 16) + r % 4, lane % 16
        return lane // 4, r, lane % 4

    @property
    def per_lane(self) -> int:
        return self.edge * self.depth * self.blocks // LANES


def registers(letter: str, first: int, bytes_per_lane: int) -> str:
    words = max(1, bytes_per_lane // 4)
    return f"{letter}{first}" if words == 1 else f"{letter}[{first}:{first + words - 1}]"


def dense_text(name: str, files: str = "vvvv", c: str = "", after: str = "") -> str:
    shape = Shape.of(name)
    size = shape.per_lane * np.dtype(TYPES[shape.kinds[0]]).itemsize
    size_d = shape.result()[0].shape[1] * np.dtype(shape.out).itemsize
    operands = [
        registers(files[3], D_ROW, size_d),
        registers(files[0], A_ROW, size),
        registers(files[1], B_ROW, size),
        c or registers(files[2], C_ROW, size_d),
    ]
    return f"v_mfma_{name} {', '.join(operands)}{after}"


def sparse_text(name: str, after: str = "", files: str = "vvv") -> str:
    shape = Shape.of(name)
    operands = [registers(files[2], D_ROW, shape.result()[0].shape[1] * 4), registers(files[0], A_ROW, 8),
                registers(files[1], B_ROW, 16), f"v{INDEX_ROW}"]  # fmt: skip
    return f"v_smfmac_{name} {', '.join(operands)}{after}"


def put(bench: WaveBench, file: str, row: int, lanes: NDArray[Any]) -> None:
    """Set consecutive registers from (lanes, elements)."""
    words = np.ascontiguousarray(lanes).view(np.uint32)
    for n in range(words.shape[1]):
        bench.row(row + n + (FIRST_AGPR_ROW if file == "a" else 0))[:] = words[:, n]


def get(bench: WaveBench, file: str, row: int, count: int, dtype: Any) -> NDArray[Any]:
    words = count * np.dtype(dtype).itemsize // 4
    rows = [bench.row(row + n + (FIRST_AGPR_ROW if file == "a" else 0)) for n in range(words)]
    return np.ascontiguousarray(np.stack(rows, axis=1)).view(dtype)


def integers(rng: np.random.Generator, shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    """Return values that are small enough for exact products and sums in every type."""
    values: NDArray[Any] = rng.integers(-7, 8, shape).astype(kind)
    return values


CBSZ = [("f32_16x16x1_4b_f32", 1, 1), ("f32_16x16x4_4b_f16", 2, 3), ("f32_4x4x1_16b_f32", 4, 11), ("f32_4x4x4_16b_bf16", 2, 1),
        ("i32_32x32x4_2b_i8", 1, 1), ("i32_4x4x4_16b_i8", 3, 5)]  # fmt: skip
BLGP_NAMES = ["f32_32x32x1_2b_f32", "f32_16x16x4_f32", "f32_16x16x16_f16", "f32_4x4x4_16b_f16", "i32_16x16x4_4b_i8"]
INLINE = {"f32_16x16x16_f16": ("0.5", 0.5), "i32_16x16x32_i8": ("-3", -3), "f64_16x16x4_f64": ("-4.0", -4.0),
          "f64_4x4x4_4b_f64": ("1.0", 1.0), "f32_4x4x1_16b_f32": ("0", 0), "f32_32x32x16_fp8_bf8": ("2.0", 2.0)}  # fmt: skip


@pytest.fixture(scope="module")
def snippets() -> Snippets:
    return Snippets([
        *(dense_text(name, files) for name in DENSE for files in ACCUMULATORS),
        *(dense_text(name, after=f" cbsz:{cbsz} abid:{abid}") for name, cbsz, abid in CBSZ),
        *(dense_text(name, after=f" blgp:{blgp}") for name in BLGP_NAMES for blgp in range(8)),
        *(dense_text(name, after=f" neg:[{n & 1},{n >> 1 & 1},{n >> 2}]") for name in DENSE if "f64" in name for n in range(8)),
        *(dense_text(name, c=text) for name, (text, _) in INLINE.items()),
        *(sparse_text(name) for name in SPARSE),
        *(sparse_text(name, after=f" cbsz:{c} abid:{a}") for name in SPARSE for c, a in ((0, 1), (0, 2), (0, 3), (1, 1))),
        sparse_text(SPARSE[0], files="aaa"), sparse_text(SPARSE[5], files="vaa"),
        dense_text("f32_32x32x1_2b_f32", after=" cbsz:2"),
    ])  # fmt: skip


@dataclass
class Product:
    """Return the operands as matrices, (blocks, rows, k) for A, (blocks, columns, k) for B, and the result."""

    shape: Shape
    a: NDArray[Any]
    b: NDArray[Any]
    c: NDArray[Any]
    d: NDArray[Any]
    lanes_b: NDArray[Any]


def run_dense(snippets: Snippets, name: str, text: str, files: str = "vvvv", seed: int = 0) -> Product:
    shape, rng = Shape.of(name), np.random.default_rng(seed)
    a, b = (integers(rng, (shape.blocks, shape.edge, shape.depth), TYPES[kind]) for kind in shape.kinds)
    c = integers(rng, (shape.blocks, shape.edge, shape.edge), shape.out)
    with WaveBench() as bench:
        bench.set_exec(0x1234)  # the matrix core ignores EXEC
        lanes_b = b[shape.operand(shape.per_lane)]
        put(bench, files[0], A_ROW, a[shape.operand(shape.per_lane)])
        put(bench, files[1], B_ROW, lanes_b)
        put(bench, files[2], C_ROW, c[shape.result()])
        assert bench.execute(snippets, text) == WaveStatus.BARRIER
        lanes_d = get(bench, files[3], D_ROW, shape.result()[0].shape[1], shape.out)
    d = np.full_like(c, 99)
    d[shape.result()] = lanes_d
    return Product(shape, a, b, c, d, lanes_b)


def multiplied(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    product: NDArray[Any] = np.einsum("bik,bjk->bij", a.astype(np.float64), b.astype(np.float64))
    return product


def test_the_opcodes_are_those_of_the_specification_for_gfx942() -> None:
    from tinygrad.runtime.autogen.amd.cdna.enum import VOP3POp

    of_gfx950_only = re.compile(r"X(128|64)_F8F6F4|LD_SCALE|MFMA_\w+?_16X16X32_B?F16|MFMA_\w+?_32X32X16_B?F16"
                                r"|MFMA_I32_(16X16X64|32X32X32)|SMFMAC_F32_(16X16X64|32X32X32)_B?F16"
                                r"|SMFMAC_\w+?_(16X16X128|32X32X64)_")  # fmt: skip
    listed = {op.name.lower() for op in VOP3POp if "MFMA" in op.name and not of_gfx950_only.search(op.name)}
    listed |= {op.name.lower() for op in VOP3POp if "SMFMAC" in op.name and not of_gfx950_only.search(op.name)}

    assert listed == {f"v_mfma_{name}" for name in DENSE} | {f"v_smfmac_{name}" for name in SPARSE}


@pytest.mark.parametrize("files", ACCUMULATORS)
@pytest.mark.parametrize("name", DENSE)
def test_products_of_small_integers_are_exact(snippets: Snippets, name: str, files: str) -> None:
    run = run_dense(snippets, name, dense_text(name, files), files)

    np.testing.assert_array_equal(run.d, (multiplied(run.a, run.b) + run.c).astype(run.shape.out))


@pytest.mark.parametrize(("name", "cbsz", "abid"), CBSZ)
def test_cbsz_broadcasts_one_block_of_a_to_its_neighbours(snippets: Snippets, name: str, cbsz: int, abid: int) -> None:
    run = run_dense(snippets, name, dense_text(name, after=f" cbsz:{cbsz} abid:{abid}"))

    neighbours = run.a.reshape(-1, 1 << cbsz, *run.a.shape[1:])
    broadcast = np.repeat(neighbours[:, abid : abid + 1], 1 << cbsz, axis=1).reshape(run.a.shape)
    np.testing.assert_array_equal(run.d, (multiplied(broadcast, run.b) + run.c).astype(run.shape.out))


@pytest.mark.parametrize("blgp", range(8))
@pytest.mark.parametrize("name", BLGP_NAMES)
def test_blgp_selects_groups_of_lanes_of_b(snippets: Snippets, name: str, blgp: int) -> None:
    run = run_dense(snippets, name, dense_text(name, after=f" blgp:{blgp}"))

    quarters = run.lanes_b.reshape(4, 16, -1)
    order = [[0, 1, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3], [1, 2, 3, 0], [0] * 4, [1] * 4, [2] * 4, [3] * 4][blgp]
    b = np.zeros_like(run.b)
    b[run.shape.operand(run.shape.per_lane)] = quarters[order].reshape(run.lanes_b.shape)
    np.testing.assert_array_equal(run.d, (multiplied(run.a, b) + run.c).astype(run.shape.out))


@pytest.mark.parametrize("negated", range(8))
@pytest.mark.parametrize("name", [name for name in DENSE if "f64" in name])
def test_the_double_products_negate_their_operands(snippets: Snippets, name: str, negated: int) -> None:
    text = dense_text(name, after=f" neg:[{negated & 1},{negated >> 1 & 1},{negated >> 2}]")
    run = run_dense(snippets, name, text)

    a, b, c = (-x if negated >> i & 1 else x for i, x in enumerate((run.a, run.b, run.c)))
    np.testing.assert_array_equal(run.d, multiplied(a, b) + c)


@pytest.mark.parametrize("name", INLINE)
def test_c_may_be_a_constant(snippets: Snippets, name: str) -> None:
    text, value = INLINE[name]
    run = run_dense(snippets, name, dense_text(name, c=text))

    np.testing.assert_array_equal(run.d, (multiplied(run.a, run.b) + value).astype(run.shape.out))


def test_a_broadcast_over_too_many_blocks_is_a_fault(snippets: Snippets) -> None:
    with WaveBench() as bench:
        assert bench.execute(snippets, dense_text("f32_32x32x1_2b_f32", after=" cbsz:2")) == WaveStatus.FAULT
        assert bench.fault.kind == FaultKind.UNSUPPORTED


# ---- rounding ----


def test_sums_are_rounded_to_float32_and_keep_denormals(snippets: Snippets) -> None:
    tiny, name = np.float32(2.0**-149), "f32_16x16x4_f32"
    shape = Shape.of(name)
    a, b = np.zeros((1, 16, 4), np.float32), np.zeros((1, 16, 4), np.float32)
    a[0, :, 0], b[0, :, 0] = np.float32(2.0**-100), np.float32(2.0**-49)  # the smallest denormal
    a[0, :, 1], b[0, :, 1] = tiny, 1  # a denormal operand
    with WaveBench() as bench:
        put(bench, "v", A_ROW, a[shape.operand(1)])
        put(bench, "v", B_ROW, b[shape.operand(1)])
        put(bench, "v", C_ROW, np.full((LANES, 4), tiny))
        bench.execute(snippets, dense_text(name))
        assert set(get(bench, "v", D_ROW, 4, np.float32).ravel()) == {np.float32(3 * 2.0**-149)}

        put(bench, "v", A_ROW, np.ones((LANES, 1), np.float32))
        put(bench, "v", B_ROW, np.full((LANES, 1), np.float32(2.0**-25)))
        put(bench, "v", C_ROW, np.ones((LANES, 4), np.float32))
        bench.execute(snippets, dense_text(name))
        assert set(get(bench, "v", D_ROW, 4, np.float32).ravel()) == {np.float32(1)}


@pytest.mark.parametrize("name", ["f32_16x16x16_f16", "f32_16x16x16_bf16"])
def test_denormal_halves_count(snippets: Snippets, name: str) -> None:
    shape = Shape.of(name)
    kind = TYPES[shape.kinds[0]]
    smallest = np.array([1], np.uint16).view(kind)[0]
    with WaveBench() as bench:
        put(bench, "v", A_ROW, np.full((LANES, 4), smallest))
        put(bench, "v", B_ROW, np.full((LANES, 4), kind(1)))
        put(bench, "v", C_ROW, np.zeros((LANES, 4), np.float32))
        bench.execute(snippets, dense_text(name))
        assert set(get(bench, "v", D_ROW, 4, np.float32).ravel()) == {np.float32(16 * float(smallest))}


def test_integer_sums_wrap(snippets: Snippets) -> None:
    name = "i32_16x16x32_i8"
    with WaveBench() as bench:
        put(bench, "v", A_ROW, np.full((LANES, 8), -128, np.int8))
        put(bench, "v", B_ROW, np.full((LANES, 8), -128, np.int8))
        put(bench, "v", C_ROW, np.full((LANES, 4), 2**31 - 1, np.int32))
        bench.execute(snippets, dense_text(name))
        assert set(get(bench, "v", D_ROW, 4, np.int32).ravel()) == {2**31 - 1 + 32 * 128 * 128 - 2**32}


# ---- structured sparsity ----


def run_sparse(
    snippets: Snippets, name: str, text: str, chosen_set: int, files: str = "vvv"
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the actual and the expected D."""
    shape, rng = Shape.of(name), np.random.default_rng(len(text))
    stored, edge = shape.depth // 2, shape.edge
    kept = np.sort(np.argsort(rng.random((edge, shape.depth // 4, 4)), axis=2)[:, :, :2], axis=2)  # two of every four
    columns = (kept + 4 * np.arange(shape.depth // 4)[:, None]).reshape(edge, stored)
    values = integers(rng, (edge, stored), TYPES[shape.kinds[0]])
    full_a = np.zeros((edge, shape.depth))
    np.put_along_axis(full_a, columns, values.astype(np.float64), axis=1)
    b = integers(rng, (edge, shape.depth), TYPES[shape.kinds[1]])
    c = integers(rng, (edge, edge), shape.out)
    per_lane = edge * stored // LANES
    _, row, at = shape.operand(per_lane)
    bits = (kept.reshape(edge, stored)[row, at].astype(np.uint64) << (2 * np.arange(per_lane, dtype=np.uint64))).sum(axis=1)
    noise = rng.integers(0, 1 << 32, LANES, dtype=np.uint64)
    hole = np.uint64(((1 << 2 * per_lane) - 1) << 2 * per_lane * chosen_set)
    indices = noise & ~hole | bits << np.uint64(2 * per_lane * chosen_set)
    with WaveBench() as bench:
        put(bench, files[0], A_ROW, values[row, at])
        _, column, depth = shape.operand(2 * per_lane)
        put(bench, files[1], B_ROW, b[column, depth])
        put(bench, "v", INDEX_ROW, indices.astype(np.uint32)[:, None])
        _, i, j = shape.result()
        put(bench, files[2], D_ROW, c[i, j])
        assert bench.execute(snippets, text) == WaveStatus.BARRIER
        result = get(bench, files[2], D_ROW, i.shape[1], shape.out)
    expected = (full_a @ b.astype(np.float64).T + c).astype(shape.out)
    return result, expected[i, j]


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_products_of_small_integers_are_exact(snippets: Snippets, name: str) -> None:
    result, expected = run_sparse(snippets, name, sparse_text(name), 0)

    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(("cbsz", "abid"), [(0, 1), (0, 2), (0, 3), (1, 1)])
@pytest.mark.parametrize("name", SPARSE)
def test_abid_selects_the_set_of_indices_if_cbsz_is_zero(snippets: Snippets, name: str, cbsz: int, abid: int) -> None:
    sets = 4 if "16" in Shape.of(name).kinds[0] else 2

    result, expected = run_sparse(
        snippets, name, sparse_text(name, after=f" cbsz:{cbsz} abid:{abid}"), 0 if cbsz else abid % sets
    )

    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(("name", "files"), [(SPARSE[0], "aaa"), (SPARSE[5], "vaa")])
def test_sparse_operands_may_be_accumulation_registers(snippets: Snippets, name: str, files: str) -> None:
    result, expected = run_sparse(snippets, name, sparse_text(name, files=files), 0, files)

    np.testing.assert_array_equal(result, expected)
