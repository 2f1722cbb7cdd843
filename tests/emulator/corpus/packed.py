"""Packed and narrow types: float16, bfloat16, 8-bit floats, packed integers, dot products, conversions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.emulator.corpus.case import Case, Run, launch

F16, F32, F64, I16, U16, I32, U32, I64 = (
    np.float16, np.float32, np.float64, np.int16, np.uint16, np.int32, np.uint32, np.int64,
)  # fmt: skip
BF16 = ml_dtypes.bfloat16
N = 64


def nibbles(x: np.ndarray, *, signed: bool) -> np.ndarray:
    parts = np.stack([x.view(U32) >> U32(4 * i) & U32(15) for i in range(8)], axis=1).astype(I64)
    return np.where(parts > 7, parts - 16, parts) if signed else parts


@launch(grid=1, block=N)
def dots(rng: np.random.Generator) -> Run:
    a, b = rng.integers(-(2**31), 2**31, (2, N)).astype(I32)
    c = rng.integers(-(2**23), 2**23, N).astype(I32)
    f = rng.standard_normal(N).astype(F32)

    def dot(kind: type[np.generic]) -> np.ndarray:
        x, y = (v.view(kind).reshape(N, -1).astype(I64) for v in (a, b))
        return np.asarray((x * y).sum(axis=1))

    wide = c.astype(I64)
    signed = [dot(np.int8) + wide, (nibbles(a, signed=True) * nibbles(b, signed=True)).sum(axis=1) + wide, dot(I16) + wide]
    signed.append(np.clip(dot(np.int8) + (wide << 8), -(2**31), 2**31 - 1))
    unsigned = [dot(np.uint8) + wide, (nibbles(a, signed=False) * nibbles(b, signed=False)).sum(axis=1) + wide, dot(U16) + wide]
    halves = ((a & 15) * (b & 15) + (a >> 28) * (b >> 28)).astype(F64) + f
    return Run(
        (a, b, c, np.zeros((4, N), I32), np.zeros((3, N), U32), np.zeros(N, F32), f),
        {3: np.array(signed).astype(I32), 4: np.array(unsigned).astype(U32), 5: halves.astype(F32)},
        rtol=2e-7,
        atol=1e-5,
    )


@launch(grid=1, block=N)
def packed_halves(rng: np.random.Generator) -> Run:
    a, b, c = rng.standard_normal((3, N, 2)).astype(F16)
    wide = a.astype(F64) * b.astype(F64) + c
    swapped = a[:, ::-1] * np.stack([b[:, 0], -b[:, 0]], axis=1)
    roots = np.stack([np.sqrt(a[:, 0] * a[:, 0]), np.floor(a[:, 1])], axis=1)
    listed = [a + b, a * b, wide, np.maximum(a, b), np.minimum(a, -b), swapped - b[:, 1:], a / b, roots]
    # The compiler may fuse the product and the difference.
    return Run((a, b, c, np.zeros((8, N, 2), F16)), {3: np.array([x.astype(F16) for x in listed])}, rtol=1e-3, atol=2e-3)


@launch(grid=1, block=N)
def packed_shorts(rng: np.random.Generator) -> Run:
    a, b = rng.integers(-(2**15), 2**15, (2, N, 2)).astype(I16)
    c = rng.integers(0, 2**16, (N, 2)).astype(U16)
    other, amounts = c[:, ::-1], b & 15
    listed = [a + b, a - b, a * b + a[:, ::-1], np.maximum(a, b), np.minimum(a, b[:, 1:]), a >> amounts, a << amounts]
    listed.append(np.clip(a.astype(I32) + b, -(2**15), 2**15 - 1).astype(I16))
    unsigned = [c >> (other & U16(15)), np.maximum(c, other), np.where(c > other, c - other, 0).astype(U16)]
    return Run(
        (a, b, np.zeros((8, N, 2), I16), c, np.zeros((3, N, 2), U16)),
        {2: np.array(listed), 4: np.array(unsigned)},
    )


@launch(grid=1, block=N)
def packed_floats(rng: np.random.Generator) -> Run:
    a, b, c = rng.integers(-100, 100, (3, N, 2)).astype(F32)
    other = b[:, ::-1]
    listed = [a + b, a * other, a * b + c, -a[:, :1] * other + c * 2, (a - 1) * np.array([0.5, 4], F32)]
    return Run((a, b, c, np.zeros((5, N, 2), F32)), {3: np.array(listed)})


def eight_bit_floats(architecture: str, fp8_type: Any, bf8_type: Any) -> Case:
    """Return the case of an architecture, whose conversions have these formats."""

    def make(rng: np.random.Generator) -> Run:
        a, b = (rng.standard_normal((2, N)) * 10.0 ** rng.uniform(-3, 1.5, (2, N))).astype(F32)
        values = np.stack([a, b, b * 2, a * 2], axis=1)
        fp8, bf8 = values.astype(fp8_type), values.astype(bf8_type)
        x, y = fp8.astype(F32), bf8.astype(F32)
        fout = [x[:, 0], x[:, 3], y[:, 1], y[:, 2], x[:, 0] + 3 * x[:, 1], y[:, 2] + 3 * y[:, 3]]
        packed = [codes.view(np.uint8).reshape(N, 4).copy().view(I32)[:, 0] for codes in (fp8, bf8)]
        return Run((a, b, np.zeros((2, N), I32), np.zeros((6, N), F32)), {2: np.array(packed), 3: np.array(fout)})

    make.__name__ = "eight_bit_floats"
    return launch(grid=1, block=N, only=(architecture,))(make)


CASES = [
    eight_bit_floats("gfx942", ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz),
    eight_bit_floats("gfx950", ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2),
]


@launch(grid=1, block=N)
def brain_floats(rng: np.random.Generator) -> Run:
    a, b = rng.standard_normal((2, N)).astype(F32)
    x, y = a.astype(BF16), b.astype(BF16)
    fout = [x.astype(F32) * y.astype(F32), (x + y).astype(F32), (x * y).astype(F32)]
    return Run((a, b, np.zeros(N, BF16), np.zeros((3, N), F32)), {2: x, 3: np.array(fout)})


@launch(grid=1, block=N)
def halves(rng: np.random.Generator) -> Run:
    a, b = rng.standard_normal(N).astype(F16), (rng.standard_normal(N) * 20).astype(F32)
    h, g = b.astype(F16), (b * 3).astype(F16)
    wide_h, wide_g = h.astype(F64), g.astype(F64)
    out = [a + h, a * h, (b * 1000).astype(F16), (wide_h * b + wide_g).astype(F16)]
    fout = [a.astype(F32) + b, (wide_h * wide_g + b).astype(F32), (wide_h * wide_g + wide_h).astype(F32)]
    integers = h.astype(I16).astype(I32) + (h * h).astype(U16).astype(I32) * 65536
    steps = (np.arange(N) * 37 - 1000).astype(F16).astype(I32)
    return Run(
        (a, b, np.zeros((4, N), F16), np.zeros((3, N), F32), np.zeros((2, N), I32)),
        {2: np.array(out), 3: np.array(fout), 4: np.array([integers, steps])},
        rtol=1e-6,
    )


@launch(grid=1, block=N)
def conversions(rng: np.random.Generator) -> Run:
    a, b = (rng.standard_normal((2, N)) * 60).astype(F32)
    bits, others = a.view(U32), b.view(U32)

    def pair(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return low.astype(I64).astype(U32) & U32(0xFFFF) | (high.astype(I64).astype(U32) & U32(0xFFFF)) << U32(16)

    def toward_zero(x: np.ndarray) -> np.ndarray:
        near = x.astype(F16)
        return np.where(np.abs(near.astype(F32)) > np.abs(x), np.nextafter(near, F16(0)), near).astype(F16).view(U16)

    small = [x * F32(0.01) for x in (a, b)]
    normed = [np.rint(np.clip(x, -1, 1).astype(F64) * 32767) for x in small]
    unorm = [np.rint(np.clip(x, 0, 1).astype(F64) * 65535) for x in small]
    i = np.arange(N).astype(U32)
    field = (others >> (i & U32(15)) & U32(127)).astype(I32)
    low_bytes, high_bytes = (x.view(np.uint8).reshape(N, 4).astype(I32) for x in (bits.copy(), others.copy()))
    out = [
        pair(toward_zero(a), toward_zero(b)),
        pair(*normed),
        pair(*unorm),
        pair(np.clip((a * F32(1000)).astype(I32), -(2**15), 2**15 - 1), b.astype(I32)),
        pair(np.minimum(np.abs(a * F32(1000)).astype(U32), 65535), np.abs(b).astype(U32)),
        np.abs(low_bytes - high_bytes).sum(axis=1) + 7,
        ((bits >> (i & U32(15))) & U32(2047)).astype(I32) + np.where(field > 63, field - 128, field),
        (((low_bytes + high_bytes + 1) >> 1) << np.array([0, 8, 16, 24])).sum(axis=1),
    ]
    mantissas, exponents = np.frexp(a)[0], np.frexp(b)[1]
    fout = [
        np.sort(np.stack([a, b, np.full(N, 0.5, F32)]), axis=0)[1],
        np.minimum(np.minimum(a, b), F32(-1)) + np.maximum(np.maximum(a, b), F32(1)),
        (a - np.floor(a)) + np.ldexp(b, i.astype(I32) & 7),
        mantissas * 8 + exponents.astype(F32),
        np.clip(a, 0, 1) + np.clip(b * 2, 0, 1),
        (low_bytes * [1, 2, 4, 8]).sum(axis=1),
    ]
    expected = np.array([np.asarray(x).astype(I64).astype(U32) for x in out])
    return Run((a, b, np.zeros((8, N), U32), np.zeros((6, N), F32)), {2: expected, 3: np.array(fout).astype(F32)})
