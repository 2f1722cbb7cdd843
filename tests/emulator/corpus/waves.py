"""Communication between lanes: DPP, shuffles, votes, permutes, barriers, and algorithms based on them."""

from __future__ import annotations

import numpy as np

from tests.emulator.corpus.case import Run, launch

F32, I32, U32 = np.float32, np.int32, np.uint32
LANE = np.arange(64)


@launch(grid=3, block=256)
def reduce_lds(rng: np.random.Generator) -> Run:
    x = rng.integers(-100, 100, (3, 256)).astype(F32)
    return Run((x, np.zeros(3, F32)), {1: x.sum(axis=1)})


@launch(grid=2, block=64)
def reduce_dpp(rng: np.random.Generator) -> Run:
    x = rng.integers(-(2**30), 2**30, (2, 64)).astype(I32)
    sums = np.cumsum(x, axis=1, dtype=I32)
    return Run((x, np.zeros(130, I32)), {1: np.append(sums.ravel(), sums[:, 63])})


@launch(grid=1, block=64)
def dpp_patterns(rng: np.random.Generator) -> Run:
    x = rng.integers(1, 1000, 64).astype(I32)
    row, place = LANE & ~15, LANE & 15

    def shifted(lanes: np.ndarray, valid: np.ndarray, otherwise: int = 0) -> np.ndarray:
        return np.where(valid, x[lanes & 63], otherwise)

    always = np.ones(64, bool)
    listed = [
        shifted(LANE ^ 3, always),
        shifted(row | (place - 1) & 15, always),
        shifted(row | (15 - place), always),
        shifted(LANE ^ 7, always),
        shifted(LANE + 3, place + 3 < 16, -5),
        shifted(LANE + 1, LANE < 63),
        shifted(LANE - 1, LANE > 0),
        shifted(LANE + 1, always),
        shifted(LANE - 1, always),
        shifted(row + 2, always),
        shifted(LANE, (LANE // 16 % 2 == 0) & (place < 8), -7),
        shifted((LANE & ~3) | np.array([1, 0, 0, 0])[LANE & 3], always),
        np.where(LANE & 1, -9, -1),
    ]
    return Run((x, np.zeros(13 * 64, I32)), {1: np.concatenate(listed).astype(I32)})


@launch(grid=1, block=64)
def reduce_shuffles(rng: np.random.Generator) -> Run:
    x = rng.integers(-1000, 1000, 64).astype(F32)
    y = rng.integers(-(2**62), 2**62, 64)
    expected = y[(LANE * 7) & 63] + y[LANE ^ 3]
    return Run(
        (x, np.zeros(65, F32), np.zeros(64), y, np.zeros(64, np.int64)),
        {1: np.append(np.full(64, x.max()), x.sum()).astype(F32), 2: np.cumsum(x.astype(np.float64)), 4: expected},
    )


@launch(grid=1, block=64)
def votes(rng: np.random.Generator) -> Run:
    x = rng.integers(-100, 100, 64).astype(I32)
    positive, odd = x > 0, x & 1 == 1
    ballot = int(sum(1 << int(lane) for lane in LANE[positive]))
    ranks = np.cumsum(odd) - odd
    lanes = LANE[odd]
    packed = ranks * 100 + lanes[0] + 1 + ((63 - lanes[-1]) << 16)
    answers = np.concatenate([np.full(64, 0b0110), np.where(odd, packed, 0), np.where(odd, x[lanes[0]], 0)])
    return Run(
        (x, np.zeros(2, np.uint64), np.zeros(192, I32)),
        {1: np.array([ballot, positive.sum()], np.uint64), 2: answers.astype(I32)},
    )


@launch(grid=1, block=64)
def waterfall(rng: np.random.Generator) -> Run:
    keys = rng.integers(0, 7, 64).astype(I32)
    turns = {key: turn for turn, key in enumerate(dict.fromkeys(keys.tolist()), start=1)}
    return Run((keys, np.zeros(64, I32)), {1: np.array([turns[k] * 1000 + k for k in keys.tolist()], I32)})


@launch(grid=3, block=256)
def softmax(rng: np.random.Generator) -> Run:
    x = (rng.standard_normal((3, 300)) * 5).astype(F32)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return Run((x, np.zeros_like(x), I32(300)), {1: (e / e.sum(axis=1, keepdims=True)).astype(F32)}, rtol=2e-6)


@launch(grid=2, block=128)
def layernorm(rng: np.random.Generator) -> Run:
    x, gamma, beta = rng.standard_normal((2, 200)).astype(F32), *rng.standard_normal((2, 200)).astype(F32)
    wide = x.astype(np.float64)
    scaled = (wide - wide.mean(axis=1, keepdims=True)) / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
    return Run((x, gamma, beta, np.zeros_like(x), I32(200)), {3: (scaled * gamma + beta).astype(F32)}, rtol=1e-5, atol=2e-6)


@launch(grid=2, block=256, lds=2048)
def scan(rng: np.random.Generator) -> Run:
    x = rng.integers(-(2**31), 2**31, (2, 230)).astype(I32)
    return Run((x, np.zeros_like(x), I32(230)), {1: np.cumsum(x, axis=1, dtype=I32)})


@launch(grid=2, block=256)
def bitonic_sort(rng: np.random.Generator) -> Run:
    x = rng.integers(0, 2**32, (2, 512)).astype(U32)
    return Run((x,), {0: np.sort(x, axis=1)})


@launch(grid=1, block=192)
def divergent_barriers(rng: np.random.Generator) -> Run:
    x = rng.integers(0, 2**31, 192).astype(I32)
    acc = x.tolist()
    for turn in range(3):
        value = list(acc)
        for t in range(192):
            if t >> 6 == turn:
                acc[t] += sum(value[(t * 7 + i) % 192] & i for i in range(t & 15))
            elif t & 1:
                acc[t] ^= value[191 - t]
        acc = [(a + 2**31) % 2**32 - 2**31 for a in acc]
    return Run((x, np.zeros(192, I32)), {1: np.array(acc, I32)})


@launch(grid=1, block=64)
def permutes(rng: np.random.Generator) -> Run:
    x = rng.integers(0, 2**32, 64).astype(U32)
    other = x[::-1]
    scattered = np.zeros(64, U32)
    scattered[(LANE * 5 + 3) & 63] = x
    written = x.copy()
    written[9] = 77
    wide = x.astype(np.uint64) << np.uint64(32) | other.astype(np.uint64)
    permuted = (x >> 24) | U32(0xFF00) | ((other >> 16) & 0xFF) << 16
    listed = [
        x[(LANE * 5 + 3) & 63],
        scattered,
        x[LANE ^ 16],
        x[LANE ^ 3],
        written,
        np.full(64, x[(x[0] & 31) + 8]),
        permuted,
        wide >> np.uint64(24),
        wide >> (LANE & 31).astype(np.uint64),
    ]
    return Run((x, np.zeros(9 * 64, U32)), {1: np.concatenate([part.astype(U32) for part in listed])})
