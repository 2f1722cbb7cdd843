"""Matrix cores with their lane layouts, accumulation registers, matrix products and attention.

Layouts: AMD matrix instruction calculator. For M x N x K with `blocks` independent products, E elements per lane:
A[i][k] of block b is in lane i + M * (b + blocks * (k // E)), element k % E, B alike with j. Of C and D, element i of
column j of block b (32-bit types) is in lane j + N * (q % (64 // N)), register 4 * (q // (64 // N)) + i % 4, where
q = i // 4 + b * M // 4.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.emulator.corpus.case import Case, Run, launch

F16, F32, F64, I8, I32 = np.float16, np.float32, np.float64, np.int8, np.int32
BF16, FP8, BF8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz
XF32 = "float32 with 10 bits of mantissa"
OCP_FP8, OCP_BF8 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
LANES = 64
CDNA3, CDNA4, SINCE_CDNA3 = ("gfx942",), ("gfx950",), ("gfx942", "gfx950")


def operand_places(m: int, k: int, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """Return lane and element of A[b][i][k]."""
    per_lane = m * k * blocks // LANES
    b, i, at = np.indices((blocks, m, k))
    return i + m * (b + blocks * (at // per_lane)), at % per_lane


def result_places(m: int, blocks: int, kind: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return lane and register of D[b][i][j]."""
    b, i, j = np.indices((blocks, m, m))
    if kind == F64:
        groups = LANES // (m * blocks)
        return j + m * (b + blocks * (i % groups)), i // groups
    q, groups = i // 4 + b * m // 4, LANES // m
    return j + m * (q % groups), 4 * (q // groups) + i % 4


def matrix_case(
    name: str, m: int, k: int, blocks: int, a_kind: Any, b_kind: Any = None, out: Any = F32,
    *, only: tuple[str, ...] = (), theme: str = __name__,
) -> Case:  # fmt: skip
    """Return the case of an MFMA: D = A B + C for every block."""
    b_kind = b_kind or a_kind

    def values(rng: np.random.Generator, shape: tuple[int, ...], kind: Any) -> np.ndarray:
        if kind is XF32:
            return (rng.standard_normal(shape).astype(F32).view(np.uint32) & 0xFFFFE000).astype(np.uint32).view(F32)
        return rng.integers(-128, 128, shape).astype(I8) if kind == I8 else rng.standard_normal(shape).astype(kind)

    def make(rng: np.random.Generator) -> Run:
        a, b = values(rng, (blocks, m, k), a_kind), values(rng, (blocks, m, k), b_kind)
        c = (values(rng, (blocks, m, m), out) if out != I32 else rng.integers(-(2**30), 2**30, (blocks, m, m))).astype(out)
        per_lane, registers = m * k * blocks // LANES, m * m * blocks // LANES
        lanes_a, lanes_b = (np.zeros((LANES, per_lane), x.dtype) for x in (a, b))
        lanes_a[operand_places(m, k, blocks)] = a
        lanes_b[operand_places(m, k, blocks)] = b
        lanes_c, lanes_d = np.zeros((LANES, registers), out), np.zeros((LANES, registers), out)
        lanes_c[result_places(m, blocks, out)] = c
        wide = np.int64 if out == I32 else F64
        product = np.einsum("bik,bjk->bij", a.astype(wide), b.astype(wide)) + c
        lanes_d[result_places(m, blocks, out)] = product.astype(out)
        tolerance = 0.0 if out == I32 else 1e-5 if out == F32 else 1e-14
        return Run((lanes_a, lanes_b, lanes_c, np.zeros_like(lanes_d)), {3: lanes_d}, rtol=tolerance, atol=tolerance)

    make.__name__, make.__module__ = name, theme
    return launch(grid=1, block=64, only=only)(make)


def sparse_case(
    name: str, m: int, k: int, a_kind: Any, b_kind: Any, out: Any = F32, chosen_set: int = 0,
    *, only: tuple[str, ...] = (), theme: str = __name__,
) -> Case:  # fmt: skip
    """Return the case of an SMFMAC: the lane holds two of every four neighbours in a row of A, each with an index of two bits."""

    def make(rng: np.random.Generator) -> Run:
        per_lane = m * k // 2 // LANES
        a = np.zeros((m, k), a_kind)
        lanes_a, indices = np.zeros((LANES, per_lane), a_kind), np.zeros(LANES, np.uint32)
        for i, group in np.ndindex(m, k // 4):
            lane, first = i + m * (group // (per_lane // 2)), group % (per_lane // 2) * 2
            for n, place in enumerate(sorted(rng.permutation(4)[:2])):
                a[i, 4 * group + place] = lanes_a[lane, first + n] = a_kind(rng.integers(-8, 9))
                indices[lane] |= np.uint32(place << 2 * (first + n + chosen_set * per_lane))
        b = rng.integers(-8, 9, (1, m, k)).astype(b_kind)
        lanes_b = np.zeros((LANES, 2 * per_lane), b_kind)
        halves = 2 if lanes_b[0].nbytes == 32 else 1  # on gfx950, the second 16 bytes of a lane are of the second half of K
        for half, columns in enumerate(np.split(b, halves, axis=2)):
            lane, element = operand_places(m, k // halves, 1)
            lanes_b[lane, element + half * 2 * per_lane // halves] = columns
        before = rng.integers(-99, 99, (LANES, m * m // LANES)).astype(out)
        expected = before.copy()
        expected[result_places(m, 1, out)] += np.einsum("ik,bjk->bij", a.astype(F64), b.astype(F64)).astype(out)
        return Run((lanes_a, lanes_b, indices.view(I32), before), {3: expected})

    make.__name__, make.__module__ = f"sparse_{name}", theme
    return launch(grid=1, block=64, only=only)(make)


CASES = [
    matrix_case("f32_32x32x1f32", 32, 1, 2, F32),
    matrix_case("f32_16x16x1f32", 16, 1, 4, F32),
    matrix_case("f32_4x4x1f32", 4, 1, 16, F32),
    matrix_case("f32_32x32x2f32", 32, 2, 1, F32),
    matrix_case("f32_16x16x4f32", 16, 4, 1, F32),
    matrix_case("f32_32x32x4f16", 32, 4, 2, F16),
    matrix_case("f32_16x16x4f16", 16, 4, 4, F16),
    matrix_case("f32_4x4x4f16", 4, 4, 16, F16),
    matrix_case("f32_32x32x8f16", 32, 8, 1, F16),
    matrix_case("f32_16x16x16f16", 16, 16, 1, F16),
    matrix_case("f32_32x32x4bf16_1k", 32, 4, 2, BF16),
    matrix_case("f32_16x16x4bf16_1k", 16, 4, 4, BF16),
    matrix_case("f32_4x4x4bf16_1k", 4, 4, 16, BF16),
    matrix_case("f32_32x32x8bf16_1k", 32, 8, 1, BF16),
    matrix_case("f32_16x16x16bf16_1k", 16, 16, 1, BF16),
    matrix_case("i32_32x32x16_i8", 32, 16, 1, I8, out=I32, only=SINCE_CDNA3),
    matrix_case("i32_16x16x32_i8", 16, 32, 1, I8, out=I32, only=SINCE_CDNA3),
    *(
        case
        for only, fp8, bf8 in ((CDNA3, FP8, BF8), (CDNA4, OCP_FP8, OCP_BF8))
        for case in (
            matrix_case("f32_16x16x32_fp8_fp8", 16, 32, 1, fp8, only=only),
            matrix_case("f32_16x16x32_fp8_bf8", 16, 32, 1, fp8, bf8, only=only),
            matrix_case("f32_16x16x32_bf8_fp8", 16, 32, 1, bf8, fp8, only=only),
            matrix_case("f32_32x32x16_bf8_bf8", 32, 16, 1, bf8, only=only),
            matrix_case("f32_32x32x16_fp8_fp8", 32, 16, 1, fp8, only=only),
            sparse_case("f32_32x32x32_fp8_bf8", 32, 32, fp8, bf8, chosen_set=1, only=only),
        )
    ),
    matrix_case("i32_32x32x4i8", 32, 4, 2, I8, out=I32),
    matrix_case("i32_16x16x4i8", 16, 4, 4, I8, out=I32),
    matrix_case("i32_4x4x4i8", 4, 4, 16, I8, out=I32),
    matrix_case("f32_16x16x8_xf32", 16, 8, 1, XF32, only=CDNA3),
    matrix_case("f32_32x32x4_xf32", 32, 4, 1, XF32, only=CDNA3),
    matrix_case("f64_16x16x4f64", 16, 4, 1, F64, out=F64),
    matrix_case("f64_4x4x4f64", 4, 4, 4, F64, out=F64),
    sparse_case("f32_16x16x32_f16", 16, 32, F16, F16, chosen_set=2, only=SINCE_CDNA3),
    sparse_case("f32_32x32x16_bf16", 32, 16, BF16, BF16, chosen_set=1, only=SINCE_CDNA3),
    sparse_case("i32_16x16x64_i8", 16, 64, I8, I8, out=I32, only=SINCE_CDNA3),
]


@launch(grid=1, block=64)
def broadcast_a(rng: np.random.Generator) -> Run:
    a, b = rng.standard_normal((2, 2, 32)).astype(F32)
    expected = np.zeros((LANES, 32), F32)
    expected[result_places(32, 2, F32)] = np.stack([np.outer(a[1], b[0]), np.outer(a[1], b[1])])
    return Run((a, b, np.zeros_like(expected)), {2: expected})


@launch(grid=(3, 2, 1), block=(16, 16, 1))
def gemm_f32(rng: np.random.Generator) -> Run:
    a, b = rng.standard_normal((27, 41)).astype(F32), rng.standard_normal((41, 35)).astype(F32)
    return Run((a, b, np.zeros((27, 35), F32), I32(27), I32(35), I32(41)), {2: a @ b}, rtol=1e-5, atol=1e-5)


@launch(grid=(2, 2, 1), block=(16, 16, 1))
def gemm_f16(rng: np.random.Generator) -> Run:
    a, b = rng.integers(-3, 4, (2, 64, 64)).astype(F16)
    return Run((a, b, np.zeros((64, 64), F16), I32(64)), {2: (a.astype(F32) @ b.astype(F32)).astype(F16)})


@launch(grid=(2, 2, 1), block=256)
def gemm_mfma(rng: np.random.Generator) -> Run:
    a, b = rng.standard_normal((2, 128, 128)).astype(F16)
    return Run((a, b, np.zeros((128, 128), F32), I32(128)), {2: a.astype(F32) @ b.astype(F32).T}, rtol=1e-4, atol=1e-4)


@launch(grid=40, block=128, lds=40 * 4)
def attention(rng: np.random.Generator) -> Run:
    n, d = 40, 24
    q, k, v = rng.standard_normal((3, n, d)).astype(F32)
    scores = np.where(np.tri(n, dtype=bool), q.astype(F64) @ k.T * 0.25, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = (weights / weights.sum(axis=1, keepdims=True)) @ v
    return Run((q, k, v, np.zeros((n, d), F32), I32(n), I32(d), F32(0.25)), {3: expected.astype(F32)}, rtol=2e-5, atol=2e-6)


@launch(grid=1, block=64)
def accumulators(rng: np.random.Generator) -> Run:
    x = rng.integers(-(2**30), 2**30, 64).astype(I32)
    return Run((x, np.zeros(64, I32)), {1: x + 17})


@launch(grid=1, block=64)
def accumulator_memory(rng: np.random.Generator) -> Run:
    x = rng.standard_normal((64, 4)).astype(F32)
    return Run((x, np.zeros_like(x)), {1: x})


@launch(grid=1, block=64)
def pressure(rng: np.random.Generator) -> Run:
    x = rng.integers(-100, 100, (64, 96)).astype(F32)
    v = x.astype(F64)
    for _ in range(3):
        for i in range(96):
            v[:, i] = v[:, i] * 0.5 + v[:, (i * 7 + 3) % 96]
    return Run((x, np.zeros(64, F32)), {1: (v.sum(axis=1) + 1).astype(F32)}, rtol=1e-5, atol=1e-2)
