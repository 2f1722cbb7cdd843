"""Elementwise kernels, geometry, argument passing, simple data movement."""

from __future__ import annotations

import numpy as np

from tests.emulator.corpus.case import Run, launch

F32, F64, I32, U32 = np.float32, np.float64, np.int32, np.uint32


@launch(grid=4, block=256)
def vector_add(rng: np.random.Generator) -> Run:
    n = 1000
    a, b = rng.standard_normal((2, n)).astype(F32)
    return Run((a, b, np.zeros(n, F32), I32(n)), {2: a + b})


@launch(grid=2, block=256)
def copy(rng: np.random.Generator) -> Run:
    a = rng.standard_normal(1900).astype(F32)
    return Run((a, np.zeros(2000, F32), I32(1900)), {1: np.append(a, np.zeros(100, F32))})


@launch(grid=2, block=128)
def copy4(rng: np.random.Generator) -> Run:
    a = rng.standard_normal((256, 4)).astype(F32)
    return Run((a, np.zeros_like(a), I32(250)), {1: np.concatenate([a[:250], np.zeros((6, 4), F32)])})


@launch(grid=3, block=100)
def copy_bytes(rng: np.random.Generator) -> Run:
    n = 277
    a, b = rng.integers(0, 256, n).astype(np.uint8), rng.integers(-(2**15), 2**15, n).astype(np.int16)
    out, out2 = (a + 1).astype(np.int8), (b[::-1] >> 2).astype(np.uint16)
    return Run((a, np.zeros(n, np.int8), b, np.zeros(n, np.uint16), I32(n)), {1: out, 3: out2})


@launch(grid=2, block=64)
def swap_components(rng: np.random.Generator) -> Run:
    a = rng.standard_normal((100, 3)).astype(F32)
    return Run((a, np.zeros_like(a), I32(100)), {1: np.stack([a[:, 2], -a[:, 0], a[:, 1] * 2], axis=1)})


@launch(grid=2, block=50)
def packed_struct(rng: np.random.Generator) -> Run:
    fields = [("tag", "i1"), ("scale", "f8"), ("offset", "i2"), ("table", "f4", 3), ("last", "u1")]
    p = np.array([(-3, 0.375, -1234, [1.5, 2.5, -8.0], 250)], dtype=np.dtype(fields))
    i = np.arange(100)
    expected = 0.375 * i - 1234 + p["table"][0][i % 3].astype(F64) - 3000 + 250
    return Run((p.tobytes(), np.zeros(100)), {1: expected})


@launch(grid=(3, 4, 2), block=(5, 4, 3))
def coordinates(rng: np.random.Generator) -> Run:
    nx, ny, nz = 14, 13, 5
    z, y, x = np.indices((nz, ny, nx))
    return Run((np.full((nz, ny, nx), -1, I32), I32(nx), I32(ny), I32(nz)), {0: (x + 100 * y + 10000 * z).astype(I32)})


@launch(grid=(2, 3, 1), block=(32, 8, 1))
def stencil(rng: np.random.Generator) -> Run:
    a = rng.standard_normal((20, 50)).astype(F32)
    p = np.pad(a, 1, mode="edge")
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    return Run((a, np.zeros_like(a), I32(50), I32(20)), {1: F32(0.5) * a + F32(0.125) * around}, rtol=1e-6, atol=1e-6)


@launch(grid=(2, 2, 1), block=(32, 8, 1))
def transpose_naive(rng: np.random.Generator) -> Run:
    a = rng.standard_normal((64, 64)).astype(F32)
    return Run((a, np.zeros_like(a), I32(64)), {1: a.T})


@launch(grid=(2, 2, 1), block=(32, 8, 1))
def transpose_padded(rng: np.random.Generator) -> Run:
    a = rng.standard_normal((64, 64))
    return Run((a, np.zeros_like(a), I32(64)), {1: a.T})


@launch(grid=1, block=64)
def pointer_chase(rng: np.random.Generator) -> Run:
    following = rng.permutation(256).astype(I32)
    at: np.ndarray = np.arange(64)
    for _ in range(37):
        at = following[at]
    return Run((following, np.zeros(64, I32), I32(37)), {1: at.astype(I32)})


@launch(grid=1, block=64)
def linked_list(rng: np.random.Generator) -> Run:
    n = 20
    i = np.arange(n)
    return Run(
        (rng.permutation(n).astype(I32), np.zeros(1, I32), I32(n)),
        {1: np.array([np.sum(i * (i + 1))], I32)},
    )


@launch(grid=2, block=64)
def globals(rng: np.random.Generator) -> Run:
    x = rng.standard_normal(128).astype(F32)
    c = np.array([1, -0.5, 0.25, 2], F32)
    y = ((c[0] * x + c[1]) * x + c[2]) * x + c[3]
    expected = y * c[np.arange(128) & 3]
    return Run((x, np.zeros_like(x), np.zeros(1, U32)), {1: expected, 2: np.ones(1, U32)}, rtol=1e-5, atol=1e-6)
