"""Integer arithmetic: division, wide products, bit operations, narrow types, random numbers."""

from __future__ import annotations

import numpy as np

from tests.emulator.corpus.case import Run, launch

I16, U16, I32, U32, I64, U64 = np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64
MASK32, MASK64 = 2**32 - 1, 2**64 - 1


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def quotient(a: int, b: int) -> int:
    """Divide towards zero, as in C."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a - b * quotient(a, b)


def mixed(rng: np.random.Generator, bits: int, n: int = 128) -> list[int]:
    """Return numbers of all magnitudes and both signs, including the extremes."""
    edges = [0, 1, -1, 2, (1 << (bits - 1)) - 1, -(1 << (bits - 1)), 1 << (bits // 2), (1 << (bits // 2)) - 1, 3, -7]
    drawn = [int(rng.integers(-(2**62), 2**62)) << 1 >> int(rng.integers(64 - bits, 63)) for _ in range(n - len(edges))]
    return edges + [signed(value, bits) for value in drawn]


def table(rows: list[list[int]], kind: type[np.generic]) -> np.ndarray:
    bits = np.dtype(kind).itemsize * 8
    return np.array([[value & ((1 << bits) - 1) for value in row] for row in rows], f"u{bits // 8}").view(kind)


def popcount(value: int) -> int:
    return value.bit_count()


def first_set(value: int) -> int:
    return (value & -value).bit_length()


def reverse(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


@launch(grid=1, block=128)
def divide32(rng: np.random.Generator) -> Run:
    a, b = mixed(rng, 32), [value or 5 for value in reversed(mixed(rng, 32))]
    ua, ub = [x & MASK32 for x in a], [x & MASK32 for x in b]
    out = [
        [quotient(x, y) for x, y in zip(a, b, strict=True)],
        [remainder(x, y) for x, y in zip(a, b, strict=True)],
        [quotient(x, 7) + remainder(x, 1000) for x in a],
    ]
    uout = [
        [x // y for x, y in zip(ua, ub, strict=True)],
        [x % y for x, y in zip(ua, ub, strict=True)],
        [x // 10 + x % 641 for x in ua],
    ]
    buffers = (np.array(a, I32), np.array(b, I32), np.zeros((3, 128), I32), np.zeros((3, 128), U32))
    return Run(buffers, {2: table(out, I32), 3: table(uout, U32)})


@launch(grid=1, block=128)
def divide64(rng: np.random.Generator) -> Run:
    a, b = mixed(rng, 64), [value or 5 for value in mixed(rng, 64)]
    rng.shuffle(b)
    ua, ub = [x & MASK64 for x in a], [x & MASK64 for x in b]
    out = [
        [quotient(x, y) for x, y in zip(a, b, strict=True)],
        [remainder(x, y) for x, y in zip(a, b, strict=True)],
        [quotient(x, 1000000007) for x in a],
    ]
    uout = [
        [x // y for x, y in zip(ua, ub, strict=True)],
        [x % y for x, y in zip(ua, ub, strict=True)],
        [x % 97 for x in ua],
    ]
    buffers = (np.array(a, I64), np.array(b, I64), np.zeros((3, 128), I64), np.zeros((3, 128), U64))
    return Run(buffers, {2: table(out, I64), 3: table(uout, U64)})


@launch(grid=1, block=64)
def uniform_divide(rng: np.random.Generator) -> Run:
    a, b, c, d = -0x123456789ABCDEF, 0xFEDCBA987, -1234567, 1021
    ua, shift = a & MASK64, d & 63
    out = [
        quotient(a, b),
        remainder(a, b),
        ua // b,
        quotient(c, d),
        remainder(c, d),
        a * b,
        (a * b) >> 64,
        (ua << shift) + (a >> shift) + (ua >> shift),
        popcount(ua) + (64 - b.bit_length()) * 100 + first_set(ua) * 10000,
        reverse(ua, 64),
        abs(c) + min(c, d) + max(a, b),
        (c > d) + 2 * (a < b) + 4 * ((c & MASK32) < d) + 8 * (ua < b),
    ]
    return Run((np.zeros((1, 12), U64), I64(a), I64(b), I32(c), I32(d)), {0: table([out], U64)})


@launch(grid=1, block=128)
def multiply(rng: np.random.Generator) -> Run:
    a, b = mixed(rng, 64), mixed(rng, 64)
    rng.shuffle(b)
    pairs = list(zip(a, b, strict=True))
    short = [(signed(x, 32), signed(y, 32)) for x, y in pairs]
    out = [
        [x * y for x, y in pairs],
        [x * y >> 64 for x, y in pairs],
        [(x & MASK64) * (y & MASK64) >> 64 for x, y in pairs],
    ]
    out2 = [
        [x * y >> 32 for x, y in short],
        [(x & MASK32) * (y & MASK32) >> 32 for x, y in short],
        [signed(x, 24) * signed(y, 24) for x, y in short],
        [x * y + 12345 for x, y in short],
        [(x & 0xFFFFFF) * (y & 0xFFFFFF) for x, y in short],
    ]
    buffers = (np.array(a, I64), np.array(b, I64), np.zeros((3, 128), I64), np.zeros((5, 128), I32))
    return Run(buffers, {2: table(out, I64), 3: table(out2, I32)})


@launch(grid=1, block=128)
def bits(rng: np.random.Generator) -> Run:
    a = [value & MASK64 for value in mixed(rng, 64)]
    x, high, i = [v & MASK32 for v in a], [v >> 32 for v in a], list(range(128))

    def rotated(value: int, by: int, width: int) -> int:
        return (value << by | value >> (width - by)) & ((1 << width) - 1)

    def swapped(value: int, count: int) -> int:
        return int.from_bytes(value.to_bytes(count, "little"), "big")

    def chosen(low: int, upper: int) -> int:  # bytes 0, 4, 1, 5
        return (low & 0xFF) | (upper & 0xFF) << 8 | (low >> 8 & 0xFF) << 16 | (upper >> 8 & 0xFF) << 24

    out = [
        [popcount(v) + popcount(w) * 100 for v, w in zip(x, a, strict=True)],
        [32 - v.bit_length() + (64 - w.bit_length()) * 100 for v, w in zip(x, a, strict=True)],
        [first_set(v) + first_set(w) * 100 for v, w in zip(x, a, strict=True)],
        [reverse(v, 32) for v in x],
        [chosen(v, h) for v, h in zip(x, high, strict=True)],
        [(v << (n & 31)) ^ (signed(v, 32) >> (n & 31)) for v, n in zip(x, i, strict=True)],
        [v >> (n & 15) & 511 for v, n in zip(x, i, strict=True)],
        [rotated(v, n & 31, 32) for v, n in zip(x, i, strict=True)],
        [abs(signed(v, 32) - signed(h, 32)) + 5 for v, h in zip(x, high, strict=True)],
    ]
    out2 = [
        [reverse(v, 64) for v in a],
        [(v << (n & 63)) ^ (v >> (n & 63)) ^ (signed(v, 64) >> (n & 63)) for v, n in zip(a, i, strict=True)],
        [rotated(v, n & 63, 64) for v, n in zip(a, i, strict=True)],
        [swapped(v, 8) + swapped(v & MASK32, 4) for v in a],
    ]
    return Run((np.array(a, U64), np.zeros((9, 128), I32), np.zeros((4, 128), U64)), {1: table(out, I32), 2: table(out2, U64)})


@launch(grid=1, block=128)
def wide_sums(rng: np.random.Generator) -> Run:
    a, b = ([value & MASK64 for value in mixed(rng, 64)] for _ in range(2))
    rng.shuffle(b)
    b[:3] = a[:3]
    x = [(p << 64) | q for p, q in zip(a, b, strict=True)]
    y = [(q << 64) | p for p, q in zip(a, b, strict=True)]
    sums = [p + q for p, q in zip(x, y, strict=True)]
    differences = [p - q for p, q in zip(x, y, strict=True)]
    compared = [
        int(((p << 64) | q) < ((q << 64) | p)) + 2 * (p == q) + 4 * (signed(p, 64) < signed(q, 64)) + 8 * (p <= q)
        for p, q in zip(a, b, strict=True)
    ]
    out = [sums, [s >> 64 for s in sums], differences, [d >> 64 for d in differences], compared]
    return Run((np.array(a, U64), np.array(b, U64), np.zeros((5, 128), U64)), {2: table(out, U64)})


@launch(grid=1, block=128)
def narrow(rng: np.random.Generator) -> Run:
    a, b, c = mixed(rng, 16), [value & 0xFFFF for value in mixed(rng, 16)], rng.integers(-128, 128, 128).tolist()
    rng.shuffle(b)
    rows = list(zip(a, b, c, range(128), strict=True))
    out = [
        [signed(x + y, 16) for x, y, _, _ in rows],
        [signed(x * y, 16) for x, y, _, _ in rows],
        [(y >> (i & 15)) + (x >> (i & 15)) + (x << (i & 7) & 0xFFFF) for x, y, _, i in rows],
        [max(x, z) - min(y, z & 127) for x, y, z, _ in rows],
        [signed(z * 3, 8) + (z + 200 & 255) for _, _, z, _ in rows],
        [quotient(x, z | 1) + y % ((x | 1) & 0xFFFF) for x, y, z, _ in rows],
    ]
    buffers = (np.array(a, I16), np.array(b, U16), np.array(c, np.int8), np.zeros((6, 128), I32))
    return Run(buffers, {3: table(out, I32)})


@launch(grid=2, block=128)
def xorshift(rng: np.random.Generator) -> Run:
    seeds = rng.integers(1, 2**32, 256).astype(U32)
    s, hits = seeds.copy(), 0

    def step(state: np.ndarray) -> np.ndarray:
        state = np.bitwise_xor(state, state << U32(13))
        state = np.bitwise_xor(state, state >> U32(17))
        result: np.ndarray = np.bitwise_xor(state, state << U32(5))
        return result

    for _ in range(50):
        s = step(s)
        x = (s >> U32(16)).astype(U64)
        s = step(s)
        y = (s >> U32(16)).astype(U64)
        hits += int((x * x + y * y < U64(2**32)).sum())
    return Run((seeds, np.zeros(1, U64), I32(50)), {1: np.array([hits], U64)})


@launch(grid=2, block=64)
def philox(rng: np.random.Generator) -> Run:
    seed, offset = 0x123456789ABCDEF0, 99
    counter = [np.arange(128, dtype=U64), np.full(128, offset, U64), np.zeros(128, U64), np.zeros(128, U64)]
    k0, k1 = seed & MASK32, seed >> 32
    low, half = U64(MASK32), U64(32)
    for _ in range(10):
        p0, p1 = U64(0xD2511F53) * counter[0], U64(0xCD9E8D57) * counter[2]
        counter = [(p1 >> half) ^ counter[1] ^ U64(k0), p1 & low, (p0 >> half) ^ counter[3] ^ U64(k1), p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
    return Run((np.zeros((128, 4), U32), U64(seed), U32(offset)), {0: np.stack(counter, axis=1).astype(U32)})


@launch(grid=1, block=64)
def sha_rounds(rng: np.random.Generator) -> Run:
    message = rng.integers(0, 2**32, (64, 16)).astype(U32)
    w = list(message.T)
    s = [np.full(64, 0x6A09E667 * (j + 1) & MASK32, U32) for j in range(8)]

    def ror(x: np.ndarray, n: int) -> np.ndarray:
        return (x >> U32(n)) | (x << U32(32 - n))

    for j in range(64):
        if j >= 16:
            a, b = w[(j + 1) & 15], w[(j + 14) & 15]
            more = (ror(a, 7) ^ ror(a, 18) ^ (a >> U32(3))) + w[(j + 9) & 15] + (ror(b, 17) ^ ror(b, 19) ^ (b >> U32(10)))
            w[j & 15] = w[j & 15] + more
        t1 = s[7] + (ror(s[4], 6) ^ ror(s[4], 11) ^ ror(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + w[j & 15]
        t2 = (ror(s[0], 2) ^ ror(s[0], 13) ^ ror(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]))
        s = [t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]]
    return Run((message, np.zeros((64, 8), U32)), {1: np.stack(s, axis=1)})
