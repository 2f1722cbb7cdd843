"""Atomics of LDS and device memory: all widths and operations, with and without the old value."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.emulator.corpus.case import Run, launch

F16, F32, I32, U32, I64, U64 = np.float16, np.float32, np.int32, np.uint32, np.int64, np.uint64
BF16 = ml_dtypes.bfloat16
LANE = np.arange(64)


@launch(grid=3, block=256)
def histogram(rng: np.random.Generator) -> Run:
    x = rng.integers(0, 2**32, 2500).astype(U32)
    return Run((x, np.zeros(64, U32), I32(2500)), {1: np.bincount(x >> 26, minlength=64).astype(U32)})


@launch(grid=2, block=100)
def global_integers(rng: np.random.Generator) -> Run:
    n = 190
    x = rng.integers(-(2**31), 2**31, n).astype(I32)
    u = x.view(U32)
    xor = np.bitwise_xor.reduce(x)
    signed = [x.sum(dtype=I32), -x.sum(dtype=I32), x.min(), x.max(), np.bitwise_and.reduce(x | 0xFF)]
    signed += [np.bitwise_or.reduce(x & 0xFF0), xor]
    unsigned = [u.min(), u.max(), n % 11, 5]
    down = 0
    for _ in range(n):
        down = 10 if down == 0 or down > 10 else down - 1
    unsigned[3] = down
    before = np.array([0, 0, 2**31 - 1, -(2**31), -1, 0, 0], I32)
    return Run(
        (x, before, np.array([2**32 - 1, 0, 0, 0], U32), I32(n)),
        {1: np.array(signed, I32), 2: np.array(unsigned, U32)},
    )


@launch(grid=1, block=128)
def global_longs(rng: np.random.Generator) -> Run:
    n = 101
    x = rng.integers(-(2**63), 2**63 - 1, n)
    u = x.view(U64)
    expected = [u.sum(dtype=U64), np.bitwise_xor.reduce(u), u.min(), u.max(), np.bitwise_and.reduce(u | U64(0xFFFF0000FFFF))]
    expected.append(np.bitwise_or.reduce(u & U64(0xF0F0F0F0F0F0F0)))
    before = np.array([0, 0, 2**64 - 1, 0, 2**64 - 1, 0], U64)
    return Run((x, before, np.zeros(2, I64), I32(n)), {1: np.array(expected, U64), 2: np.array([x.min(), x.max()])})


@launch(grid=1, block=64)
def returned_values(rng: np.random.Generator) -> Run:
    cells, wide = [0] * 6, [0] * 3
    out, out2 = np.zeros((6, 64), I32), np.zeros((3, 64), U64)
    for lane in range(64):
        out[:, lane], out2[:, lane] = cells, wide
        cells[0] += lane
        cells[1] = lane * lane
        cells[2] += cells[2] == lane and lane % 5 != 4
        cells[3] = 0 if cells[3] >= 6 else cells[3] + 1
        cells[4] = 6 if cells[4] == 0 else cells[4] - 1
        cells[5] = max(cells[5], lane * 37 % 64)
        wide[0] += 0x100000001 * lane
        wide[1] = (2**64 - 1) // (lane + 1)
        wide[2] += wide[2] == lane
    return Run(
        (np.zeros(6, I32), np.zeros((6, 64), I32), np.zeros(3, U64), np.zeros((3, 64), U64)),
        {0: np.array(cells, I32), 1: out, 2: np.array(wide, U64), 3: out2},
    )


@launch(grid=1, block=256)
def lds_atomics(rng: np.random.Generator) -> Run:
    x = rng.integers(-(2**31), 2**31, 256).astype(I32)
    u = x.view(U32).astype(U64)
    cells = [x.sum(dtype=I32), x.min(), x.max(), np.bitwise_xor.reduce(x), 256 % 101, 256, 768, 0]
    reals = [int((x & 1023).sum()), 0]
    wide = [(x.astype(I64).view(U64) * U64(0x10001)).sum(dtype=U64), (u << U64(20)).max(), (u << U64(20)).min()]
    expected = np.array([*cells, *reals, 255 * 128], I32)
    return Run((x, np.zeros(11, I32), np.zeros(3, U64)), {1: expected, 2: np.array(wide, U64)})


@launch(grid=2, block=64)
def global_floats(rng: np.random.Generator) -> Run:
    x, y = rng.integers(-99, 99, 128).astype(F32), rng.integers(-99, 99, 128).astype(np.float64)
    expected = np.array([x.sum(), x.sum(), x.max(), x.min(), 128, 3.5], F32)
    expected2 = np.array([y.sum(), y.sum(), y.max(), y.min()])
    return Run(
        (x, np.zeros(6, F32), y, np.zeros(4), np.zeros(128, F32)),
        {1: expected, 3: expected2, 4: np.arange(128, dtype=F32)},
    )


@launch(grid=1, block=64, only=("gfx942", "gfx950"))
def packed_floats(rng: np.random.Generator) -> Run:
    x = rng.integers(-8, 8, 64).astype(F16)
    sums = np.array([[x.sum(), -x.sum()]] * 2, F16)
    return Run((np.zeros((2, 2), F16), np.zeros(2, BF16), x), {0: sums, 1: np.array([64, -64], BF16)})


@launch(grid=5, block=64)
def spin_lock(rng: np.random.Generator) -> Run:
    value = 1
    for _ in range(20):
        value = (value * 3 + 1) % 2**32
    return Run((np.zeros(1, I32), np.ones(1, I32), I32(4)), {1: np.array([value], U32).view(I32)})


@launch(grid=6, block=128)
def last_block_reduces(rng: np.random.Generator) -> Run:
    x = rng.integers(-(2**20), 2**20, (6, 128)).astype(I32)
    parts = x.sum(axis=1, dtype=I32)
    return Run((x, np.zeros(6, I32), np.zeros(1, I32)), {1: parts, 2: np.array([parts.sum()], I32)})
