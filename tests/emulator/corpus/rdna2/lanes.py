"""Kernels whose results are equal in wavefronts of 32 and 64 lanes, with the operations of RDNA2 between lanes."""

from __future__ import annotations

import numpy as np

from tests.emulator.corpus.case import Run, launch

F32, I32 = np.float32, np.int32
LANE = np.arange(64)
GROUP = LANE & ~31


@launch(grid=1, block=64)
def shuffles(rng: np.random.Generator) -> Run:
    x = rng.integers(-(2**20), 2**20, 64).astype(I32)
    halves = x.reshape(2, 32)
    down = np.where((LANE & 7) + 3 < 8, x[np.minimum(LANE + 3, 63)], x)
    listed = [np.repeat(halves.sum(axis=1), 32), np.cumsum(halves, axis=1).ravel(), x[GROUP + (LANE * 7 & 31)], down]
    return Run((x, np.zeros(4 * 64, I32)), {1: np.concatenate(listed).astype(I32)})


@launch(grid=1, block=64)
def patterns(rng: np.random.Generator) -> Run:
    x = rng.integers(1, 1000, 64).astype(I32)
    row, place = LANE & ~15, LANE & 15
    eight = np.array([0x1AC688 >> 3 * i & 7 for i in range(8)])
    swapped = np.array([(0x0FEDCBA9_76543201 >> 4 * i) & 15 for i in range(16)])
    listed = [
        x[LANE ^ 3],
        x[row | 15 - place],
        x[LANE ^ 7],
        x[row + 2],
        x[LANE ^ 5],
        np.where(place + 3 < 16, x[np.minimum(LANE + 3, 63)], -5),
        x[(LANE & ~7) + eight[LANE & 7]],
        x[row + swapped[place]],
        x[LANE ^ 16],
    ]
    return Run((x, np.zeros(9 * 64, I32)), {1: np.concatenate(listed).astype(I32)})


@launch(grid=1, block=32)
def votes(rng: np.random.Generator) -> Run:
    x = rng.integers(-100, 100, 32).astype(I32)
    odd = x & 1 == 1
    answers = np.full(32, int((x == 5).any()) | 2 | int((x > 0).all()) << 2, I32)
    ranks = np.where(odd, np.cumsum(odd) - odd, -1).astype(I32)
    return Run((x, np.zeros(32, I32), np.zeros(32, I32)), {1: answers, 2: ranks})


@launch(grid=1, block=96)
def waterfall(rng: np.random.Generator) -> Run:
    keys = rng.integers(0, 9, 96).astype(I32)
    return Run((keys, np.zeros(96, I32)), {1: keys * 3 + 1})


@launch(grid=(2, 3, 2), block=(5, 4, 3))
def ids(_: np.random.Generator) -> Run:
    z, y, x = np.meshgrid(range(3), range(4), range(5), indexing="ij")
    item = (x + 100 * y + 1000 * z).ravel()
    return Run((np.zeros(12 * 60, I32),), {0: (np.arange(12)[:, None] * 100000 + item).ravel().astype(I32)})


@launch(grid=1, block=96)
def private_arrays(rng: np.random.Generator) -> Run:
    x, lane = rng.integers(-1000, 1000, 96), np.arange(96)
    sums = sum(x * ((i * 7 + lane) % 40) + lane for i in range(57))
    return Run((x.astype(I32), np.zeros(96, I32), I32(57)), {1: np.asarray(sums).astype(I32)})


@launch(grid=1, block=96)
def flat_pointers(rng: np.random.Generator) -> Run:
    x = rng.integers(-1000, 1000, 96).astype(I32)
    weights = 3 ** np.arange(7, -1, -1)
    base = int((x[:8] * weights).sum())
    factor = np.where(np.arange(96) % 3 == 1, np.arange(96), 1)
    return Run((x, np.zeros(96, I32)), {1: (base * factor).astype(I32)})


@launch(grid=1, block=96)
def float_atomics(rng: np.random.Generator) -> Run:
    x = rng.standard_normal(96).astype(F32)
    return Run((x, np.full(1, 100, F32), np.full(1, -100, F32)), {1: x[:96].min(keepdims=True), 2: x.max(keepdims=True)})


@launch(grid=(4, 4, 1), block=(16, 16, 1))
def matrix_product(rng: np.random.Generator) -> Run:
    a, b = rng.integers(-8, 8, (2, 64, 64)).astype(F32)
    return Run((a, b, np.zeros((64, 64), F32), I32(64)), {2: a @ b})
