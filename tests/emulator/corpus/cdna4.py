"""Instructions that gfx950 adds: deeper matrix products, block scales, 160 KB of LDS, transposing loads, conversions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from tests.emulator.corpus.case import Case, Run, launch
from tests.emulator.corpus.matrices import matrix_case, sparse_case

if TYPE_CHECKING:
    from numpy.typing import NDArray

F16, F32, F64, I8, I16, U16, I32, U32, I64 = (
    np.float16, np.float32, np.float64, np.int8, np.int16, np.uint16, np.int32, np.uint32, np.int64,
)  # fmt: skip
BF16, FP8, BF8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
FP6, BF6, FP4 = ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn, ml_dtypes.float4_e2m1fn
CDNA4 = ("gfx950",)
LANES = np.arange(64)
FORMATS: dict[str, tuple[Any, int]] = {"fp8": (FP8, 8), "bf8": (BF8, 8), "fp6": (FP6, 6), "bf6": (BF6, 6), "fp4": (FP4, 4)}


def packed_bits(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint32]:
    """Return rows of codes as rows of dwords, the first code in the lowest bits."""
    places = (codes[..., None] >> np.arange(bits, dtype=np.uint8) & 1).reshape(*codes.shape[:-1], -1)
    return np.packbits(places.astype(np.uint8), axis=-1, bitorder="little").view(U32)


def scaled_case(edge: int, a_name: str, b_name: str) -> Case:
    """Return the case of a product whose rows have one exponent (of two) per 32 values."""

    def make(rng: np.random.Generator) -> Run:
        depth, words, scales, operands = 256, [], [], []
        for name in (a_name, b_name):
            kind, bits = FORMATS[name]
            values = rng.choice([-4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4], (edge, depth)).astype(kind)
            exponents = rng.integers(125, 130, (edge, depth // 32)).astype(np.uint8)
            words.append(packed_bits(values.view(np.uint8), bits))
            scales.append(exponents)
            operands.append(values.astype(F64) * 2.0 ** (np.repeat(exponents, 32, axis=1).astype(F64) - 127))
        product = (operands[0] @ operands[1].T).astype(F32)
        return Run((*words, *scales, np.zeros((edge, edge), F32), I32(depth)), {4: product})

    make.__name__ = f"scaled_{edge}_{a_name}_{b_name}"
    return launch(grid=1, block=64, only=CDNA4)(make)


CASES = [
    matrix_case("f32_16x16x32_f16", 16, 32, 1, F16, only=CDNA4, theme=__name__),
    matrix_case("f32_16x16x32_bf16", 16, 32, 1, BF16, only=CDNA4, theme=__name__),
    matrix_case("f32_32x32x16_f16", 32, 16, 1, F16, only=CDNA4, theme=__name__),
    matrix_case("f32_32x32x16_bf16", 32, 16, 1, BF16, only=CDNA4, theme=__name__),
    matrix_case("i32_16x16x64_i8", 16, 64, 1, I8, out=I32, only=CDNA4, theme=__name__),
    matrix_case("i32_32x32x32_i8", 32, 32, 1, I8, out=I32, only=CDNA4, theme=__name__),
    sparse_case("f32_16x16x64_f16", 16, 64, F16, F16, chosen_set=1, only=CDNA4, theme=__name__),
    sparse_case("f32_32x32x32_bf16", 32, 32, BF16, BF16, only=CDNA4, theme=__name__),
    sparse_case("i32_16x16x128_i8", 16, 128, I8, I8, out=I32, only=CDNA4, theme=__name__),
    sparse_case("f32_32x32x64_fp8_bf8", 32, 64, FP8, BF8, only=CDNA4, theme=__name__),
    scaled_case(16, "fp8", "fp8"),
    scaled_case(16, "bf8", "fp4"),
    scaled_case(16, "fp6", "bf6"),
    scaled_case(16, "fp4", "fp4"),
    scaled_case(32, "fp8", "fp4"),
    scaled_case(32, "bf8", "bf8"),
    scaled_case(32, "bf6", "fp6"),
    scaled_case(32, "fp4", "fp4"),
]


@launch(grid=1, block=512, only=CDNA4)
def large_lds(rng: np.random.Generator) -> Run:
    n = 3700
    x = rng.integers(-(2**30), 2**30, 40960).astype(I32)
    filled = (x + np.arange(40960)).astype(np.int32)
    i = np.arange(n)
    return Run((x, np.zeros(n, I32), I32(n)), {1: filled[40959 - i * 7] ^ filled[i * 11]})


@launch(grid=2, block=256, lds=163840, only=CDNA4)
def large_dynamic_lds(rng: np.random.Generator) -> Run:
    n = 20480
    x = rng.integers(-(2**60), 2**60, n)
    expected = x[::-1].copy()
    expected[-1] += 5 * 256
    return Run((x, np.zeros(n, I64), I32(n)), {1: expected})


@launch(grid=1, block=64, only=CDNA4)
def transposing_reads(rng: np.random.Generator) -> Run:
    """16 lanes read rows of 16 elements in pieces of 8 bytes; lane n of them receives column n."""
    x = rng.integers(0, 256, (67, 8)).astype(np.uint8)
    rows = x[:64].reshape(4, 128)

    def columns(bits: int) -> NDArray[np.uint8]:
        elements = np.unpackbits(rows, axis=1, bitorder="little").reshape(4, 64 // bits, 16, bits)
        turned = elements.transpose(0, 2, 1, 3).reshape(64, 64)
        return np.packbits(turned, axis=1, bitorder="little")

    outputs = [columns(bits) for bits in (16, 8, 4)]
    zeros = np.zeros((64, 8), np.uint8)
    return Run((x, zeros, zeros, zeros, np.zeros((64, 3), I32)), dict(enumerate(outputs, start=1)))


@launch(grid=1, block=64, only=CDNA4)
def transposed_gemm(rng: np.random.Generator) -> Run:
    a, b = rng.integers(-4, 5, (16, 96)).astype(F16), rng.integers(-4, 5, (96, 16)).astype(F16)
    return Run((a, b, np.zeros((16, 16), F32), I32(96)), {2: a.astype(F32) @ b.astype(F32)})


@launch(grid=1, block=256, only=CDNA4)
def wide_loads_to_lds(rng: np.random.Generator) -> Run:
    x = rng.integers(-(2**31), 2**31, 1792).astype(I32)
    threes = x[1024:].reshape(256, 3)[:, ::-1].T.ravel()
    return Run((x, np.zeros(1792, I32)), {1: np.concatenate([x[1023::-1], threes])})


@launch(grid=1, block=256, only=CDNA4)
def wide_buffer_loads_to_lds(rng: np.random.Generator) -> Run:
    x = rng.integers(1, 2**31, 1024).astype(I32)
    inside = np.where(np.arange(1024) < 1024 - 12, x, 0)
    return Run((x, np.zeros(1024, I32)), {1: inside.reshape(4, 256)[:, ::-1].ravel().copy()})


@launch(grid=1, block=64, only=CDNA4)
def lane_swaps(rng: np.random.Generator) -> Run:
    """The upper half (of each 32 lanes, or of all) of the first register and the lower half of the second are exchanged."""
    a, b = rng.integers(0, 2**32, (2, 64)).astype(U32)
    expected = np.zeros((2, 64, 2), U32)
    for turn, rows in enumerate((16, 32)):
        upper = LANES // rows % 2 == 1
        expected[turn, :, 0] = np.where(upper, b[LANES - rows], a)
        expected[turn, :, 1] = np.where(upper, b, a[(LANES + rows) % 64])
    return Run((a, b, np.zeros_like(expected)), {2: expected})


@launch(grid=1, block=64, only=CDNA4)
def swap_reduction(rng: np.random.Generator) -> Run:
    x = rng.integers(-1000, 1000, 64).astype(F32)
    return Run((x, np.zeros(64, F32)), {1: np.full(64, x.sum(), F32)})


@launch(grid=1, block=128, only=CDNA4)
def random_bits(rng: np.random.Generator) -> Run:
    """Galois register of 32 bits: shift to the left, and add the polynomial if a one is shifted out."""
    x = seeds = rng.integers(0, 2**32, 128).astype(U32)
    for _ in range(37):
        x = x << U32(1) ^ np.where(x >> U32(31), U32(197), U32(0))
    return Run((seeds, np.zeros(128, U32), I32(37)), {1: x})


@launch(grid=1, block=64, only=CDNA4)
def tables_of_bits(rng: np.random.Generator) -> Run:
    a, b, c = rng.integers(0, 2**32, (3, 64)).astype(U32)

    def looked_up(table: int) -> NDArray[np.uint32]:
        result = np.zeros(64, U32)
        for case in range(8):
            if table >> case & 1:
                result |= (a if case & 4 else ~a) & (b if case & 2 else ~b) & (c if case & 1 else ~c)
        return result

    words = np.stack([looked_up(0xCA), looked_up(0x17), (a & b) | (~a & ~c)])
    return Run((a, b, c, np.zeros((3, 64), U32), np.zeros(64, U16)), {3: words, 4: looked_up(0x69).astype(U16)})


@launch(grid=1, block=128, only=CDNA4)
def saturated_shifts(rng: np.random.Generator) -> Run:
    a, b, c = rng.integers(-(2**31), 2**31, (3, 128)).astype(I32)
    shift = c & 31
    results = []
    for low, high in ((-128, 127), (0, 255)):
        first, second = (np.clip(x >> shift, low, high).astype(U32) & U32(255) for x in (a, b))
        results.append((first | second << U32(8)).astype(U16))
    return Run((a, b, c, np.zeros((2, 128), U16)), {3: np.stack(results)})


@launch(grid=1, block=64, only=CDNA4)
def pairs_of_brain_floats(rng: np.random.Generator) -> Run:
    a, b = rng.integers(-16, 17, (2, 64, 2)).astype(BF16)
    c, f = rng.integers(-99, 99, 64).astype(F32), rng.standard_normal((64, 2)).astype(F32)
    sums = (a.astype(F32) * b.astype(F32)).sum(axis=1) + c
    zeros = np.zeros((64, 2), U16)
    return Run(
        (a, b, c, np.zeros((2, 64), F32), zeros, zeros, f),
        {3: np.stack([sums, sums]), 4: f.astype(BF16).view(U16), 5: f.astype(F16).view(U16)},
    )


@launch(grid=1, block=64, only=CDNA4)
def pair_atomics(rng: np.random.Generator) -> Run:
    x = rng.integers(-1, 2, (64, 2)).astype(BF16)
    total = x.astype(F32).sum(axis=0).astype(BF16)
    return Run((np.zeros((3, 2), BF16), x, np.zeros(2, BF16)), {0: np.stack([total] * 3)})


@launch(grid=1, block=64, only=CDNA4)
def widened(rng: np.random.Generator) -> Run:
    x, (exponents, scale) = rng.integers(0, 2**32, 64).astype(U32), scales(rng)
    factor = 2.0**exponents

    def field(kind: Any, bits: int, place: int) -> NDArray[np.float64]:
        codes = (x >> U32(bits * place) & U32((1 << bits) - 1)).astype(np.uint8)
        with np.errstate(invalid="ignore"):
            wide: NDArray[np.float64] = codes.view(kind).astype(F64) * factor
        return wide

    def pair(kind: Any, bits: int, word: int) -> NDArray[np.float64]:
        return np.stack([field(kind, bits, 2 * word), field(kind, bits, 2 * word + 1)], axis=1)

    singles = np.stack([field(FP8, 8, 2), field(BF8, 8, 1)], axis=1)
    out = np.stack([pair(FP8, 8, 1), pair(BF8, 8, 0), pair(FP4, 4, 3), singles]).astype(F32)
    with np.errstate(over="ignore"):
        halves = np.stack([pair(FP8, 8, 0), pair(FP4, 4, 1)]).astype(F16)
    brains = np.stack([pair(BF8, 8, 1), pair(FP4, 4, 2)]).astype(F32).astype(BF16)
    return Run(
        (x, scale, np.zeros_like(out), np.zeros_like(halves), np.zeros_like(brains)),
        {2: out, 3: halves, 4: brains},
        rtol=1e-9,  # NaNs of any sign
    )


def scales(rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Return exponents and scales: only the exponent of a scale counts."""
    exponents = rng.integers(-6, 7, 64)
    return exponents.astype(F64), (rng.uniform(1, 2, 64) * 2.0**exponents).astype(F32)


@launch(grid=1, block=64, only=CDNA4)
def widened_rows(rng: np.random.Generator) -> Run:
    codes, (exponents, scale) = rng.integers(0, 64, (64, 32)).astype(np.uint8), scales(rng)
    factor = 2.0 ** exponents[:, None]
    out, halves = (codes.view(FP6).astype(F64) * factor).astype(F32), (codes.view(BF6).astype(F64) * factor).astype(F16)
    words = np.zeros((64, 8), U32)  # aligned to 32 bytes
    words[:, :6] = packed_bits(codes, 6)
    return Run((words, scale, np.zeros_like(out), np.zeros_like(halves)), {2: out, 3: halves})


@launch(grid=1, block=64, only=CDNA4)
def narrowed(rng: np.random.Generator) -> Run:
    a, b = (rng.standard_normal((2, 64)) * 3).astype(F32)
    exponents, scale = scales(rng)
    a, b = (np.ldexp(x, exponents.astype(I32)).astype(F32) for x in (a, b))
    pair = np.stack([a, b], axis=1).astype(F64) / 2.0 ** exponents[:, None]
    out = np.empty((2, 64, 2), U16)
    out[0, :, 0], out[1, :, 1] = 0x1234, 0x5678
    out[0, :, 1] = pair.astype(FP8).view(U16)[:, 0]
    out[1, :, 0] = pair.astype(BF8).view(U16)[:, 0]
    codes = np.clip(pair, -6, 6).astype(FP4).view(np.uint8).astype(U32)
    four = U32(0x12005678) | (codes[:, 0] | codes[:, 1] << U32(4)) << U32(16)
    return Run((a, b, scale, np.zeros_like(out), np.zeros(64, U32)), {3: out, 4: four})


@launch(grid=1, block=64, only=CDNA4)
def narrowed_rows(rng: np.random.Generator) -> Run:
    exponents, scale = scales(rng)
    factor = 2.0 ** exponents[:, None]
    a, b = ((rng.standard_normal((64, 16)) * factor).astype(F32) for _ in range(2))
    halves = (rng.standard_normal((64, 32)) * factor).astype(F16)
    alternating = np.stack([a, b], axis=2).reshape(64, 32).astype(F64)
    rows = np.clip(alternating / factor, -7.5, 7.5).astype(FP6)
    others = np.clip(halves.astype(F64) / factor, -28, 28).astype(BF6)
    out = np.zeros((2, 64, 8), U32)
    out[0, :, :6], out[1, :, :6] = (packed_bits(codes.view(np.uint8), 6) for codes in (rows, others))
    return Run((a, b, scale, np.zeros_like(out), halves), {3: out})


@launch(grid=1, block=64, only=CDNA4)
def rounded_at_random(rng: np.random.Generator) -> Run:
    x = rng.choice([-28, -1.75, -0.5, 0, 1, 2.5, 30, 448], 64).astype(F32)
    noise = rng.integers(0, 2**32, 64).astype(U32)
    codes = x.astype(FP8).view(np.uint8).astype(U32) << U32(8)
    halves, brains = np.zeros((64, 2), F16), np.zeros((64, 2), BF16)
    halves[:, 0], halves[:, 1] = x, 2
    brains[:, 0], brains[:, 1] = 1, x
    return Run((x, noise, np.zeros(64, U32), np.zeros_like(halves), np.zeros_like(brains)), {2: codes, 3: halves, 4: brains})


@launch(grid=1, block=64)
def extremes(rng: np.random.Generator) -> Run:
    special = np.array([np.nan, np.inf, -np.inf, 0.0, 1.5, -2.25], F32)
    a, b, c = rng.choice(special, (3, 64)).astype(F32)
    x, y = rng.choice(special, (2, 64, 2)).astype(F16)
    other_x, other_y = x[:, ::-1], y[:, ::-1]
    smallest, largest = np.minimum(np.minimum(a, b), c), np.maximum(np.maximum(a, b), c)
    out = np.stack([smallest, largest, np.minimum(a, np.maximum(b, c))])
    out2 = np.stack([np.minimum(np.minimum(x, y), other_x), np.maximum(np.maximum(x, y), other_y)])
    return Run((a, b, c, np.zeros_like(out), x, y, np.zeros_like(out2)), {3: out, 6: out2})
