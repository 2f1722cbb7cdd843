"""Instructions that gfx90a alone has, and those that it introduced: atomics of f64, packed f32, loads to LDS.

Pairs of brain floats: A[i][k] of block b is in lane i + M * (b + blocks * (k // 2)), element k % 2.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.emulator.corpus.case import Run, launch
from tests.emulator.corpus.matrices import matrix_case

F16, F32, F64, I8, I32 = np.float16, np.float32, np.float64, np.int8, np.int32
BF16 = ml_dtypes.bfloat16
CDNA2 = ("gfx90a",)

CASES = [
    matrix_case("f32_32x32x2bf16", 32, 2, 2, BF16, only=CDNA2, theme=__name__),
    matrix_case("f32_16x16x2bf16", 16, 2, 4, BF16, only=CDNA2, theme=__name__),
    matrix_case("f32_4x4x2bf16", 4, 2, 16, BF16, only=CDNA2, theme=__name__),
    matrix_case("f32_32x32x4bf16", 32, 4, 1, BF16, only=CDNA2, theme=__name__),
    matrix_case("f32_16x16x8bf16", 16, 8, 1, BF16, only=CDNA2, theme=__name__),
    matrix_case("i32_32x32x8i8", 32, 8, 1, I8, out=I32, only=CDNA2, theme=__name__),
    matrix_case("i32_16x16x16i8", 16, 16, 1, I8, out=I32, only=CDNA2, theme=__name__),
]


@launch(grid=1, block=64, only=CDNA2)
def gemm_pairs(rng: np.random.Generator) -> Run:
    a, b = rng.integers(-8, 9, (2, 32, 48)).astype(BF16)
    return Run((a, b, np.zeros((32, 32), F32), I32(48)), {2: a.astype(F32) @ b.astype(F32).T})


@launch(grid=1, block=64, only=CDNA2)
def multiply_and_add(rng: np.random.Generator) -> Run:
    """Multiply, round, add and round, unlike FMA."""
    a, b, c = rng.standard_normal((3, 64)).astype(F32)
    results = [c + a * b, np.abs(c) - a * b, a * F32(3.5) + b, a * b - F32(2.5)]
    return Run((a, b, c, np.zeros((4, 64), F32)), {3: np.stack(results)})


@launch(grid=3, block=128)
def double_atomics(rng: np.random.Generator) -> Run:
    x = rng.integers(-1000, 1000, 3 * 128).astype(F64)  # sums are exact in any order
    lane = np.arange(3 * 128) % 128
    sums = [x[lane % 4 == part].sum() for part in range(4)]
    cells = [x.sum(), x.min(), x.max(), -x.sum(), (-x).max(), len(x)]
    histogram = [*sums, len(x), x.sum(), x.min(), x.max()]
    before, start = np.zeros(6), np.zeros(8)
    before[[1, 2, 4]] = 1e6, -1e6, -1e6
    start[6:] = 1e6, -1e6
    return Run(
        (x, before, np.full(len(x), -1.0), start),
        {1: np.array(cells, F64), 2: np.arange(len(x), dtype=F64), 3: np.array(histogram, F64)},
        sorted_buffers=(2,),
    )


@launch(grid=4, block=64)
def unsafe_sums(rng: np.random.Generator) -> Run:
    stride, count = 33, 256
    x = rng.integers(-50, 50, count).astype(F32)
    pairs = rng.integers(-2, 3, (count, 2)).astype(F16)
    sums = np.zeros(stride * 10, F32)
    for part in range(8):
        sums[part * stride] = x[part::8].sum()
    sums[8 * stride], sums[9 * stride] = max(x.max(), 0), min(x.min(), 0)
    total = pairs.astype(F32).sum(axis=0).astype(F16)
    return Run((x, np.zeros_like(sums), pairs, np.zeros(2, F16), I32(stride)), {1: sums, 3: total})


@launch(grid=1, block=256)
def buffer_loads_to_lds(rng: np.random.Generator) -> Run:
    x = rng.integers(1, 2**31, 256).astype(I32)
    inside = np.where(np.arange(256) < 250, x, 0)  # a record outside of the 1,000 bytes is read as zero
    return Run((x, np.zeros(256, I32)), {1: inside[::-1].copy()})


@launch(grid=9, block=256)
def packed_gemv(rng: np.random.Generator) -> Run:
    rows, columns = 9, 1030
    matrix, vector = rng.integers(-4, 5, (rows, columns)).astype(F32), rng.integers(-4, 5, columns).astype(F32)
    swapped = matrix.reshape(rows, -1, 2)[:, :, ::-1] * vector.reshape(-1, 2) * F32(0.5)
    other = swapped.sum(axis=1)
    expected = (matrix @ vector + 3 * other[:, 0] - 2 * other[:, 1]).astype(F32)
    return Run((matrix, vector, np.zeros(rows, F32), I32(columns)), {2: expected})
