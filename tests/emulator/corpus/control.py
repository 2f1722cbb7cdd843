"""Control flow and address spaces: calls, recursion, switches, loops, scratch, generic pointers, clocks, fences."""

from __future__ import annotations

import numpy as np

from tests.emulator.corpus.case import Run, launch
from tests.emulator.corpus.integers import quotient, remainder, signed

F32, I32, I64 = np.float32, np.int32, np.int64
LANE = np.arange(64)


@launch(grid=1, block=64)
def recursion(rng: np.random.Generator) -> Run:
    numbers = [0, 1]
    while len(numbers) < 12:
        numbers.append(numbers[-1] + numbers[-2])
    n = rng.integers(0, 12, 64).astype(I32)
    return Run((n, np.zeros(64, I32)), {1: np.array(numbers, I32)[n]})


@launch(grid=1, block=64)
def mutual_recursion(rng: np.random.Generator) -> Run:
    n = rng.integers(0, 40, 64).astype(I32)
    return Run((n, np.zeros(64, I32)), {1: (n % 2 == 0).astype(I32)})


@launch(grid=1, block=100)
def function_pointers(rng: np.random.Generator) -> Run:
    a, b = rng.integers(-1000, 1000, (2, 100)).tolist()

    def apply(which: int, x: int, y: int) -> int:
        return (x + y, x - y, x * y, quotient(x, y) if y else -1)[which]

    rows = list(zip(range(100), a, b, strict=True))
    expected = [apply((i * 7 + 1) & 3, x, y) for i, x, y in rows] + [x + y for _, x, y in rows]
    return Run((np.array(a, I32), np.array(b, I32), np.zeros(200, I32)), {2: np.array(expected, I32)})


@launch(grid=1, block=64)
def virtual_calls(rng: np.random.Generator) -> Run:
    a = rng.standard_normal(64).astype(F32)
    return Run((a, np.zeros(64, F32)), {1: np.where(LANE % 3 == 0, a * a, a * F32(3))})


@launch(grid=1, block=70)
def structs_by_value(rng: np.random.Generator) -> Run:
    x, y = rng.integers(-100, 100, 6).astype(float), rng.integers(-100, 100, 5).astype(I32)
    out, out2 = np.zeros((70, 6)), np.zeros((70, 5), I32)
    for t in range(70):
        out[t], out2[t] = x, y
        for by in (t & 3, t):
            out[t] = out[t][(np.arange(6) + by) % 6] * by
            out2[t] = out2[t][::-1] - by
    packed = x.tobytes() + y.tobytes() + b"\0" * 4
    return Run((packed, np.zeros((70, 6)), np.zeros((70, 5), I32)), {1: out + 0.0, 2: out2})


@launch(grid=1, block=64)
def stack_arguments(rng: np.random.Generator) -> Run:
    i = np.arange(34)
    return Run((np.zeros(64, I32),), {0: ((LANE[:, None] + i) * (i + 1)).sum(axis=1).astype(I32)})


@launch(grid=1, block=64)
def private_arrays(rng: np.random.Generator) -> Run:
    x = rng.integers(0, 2**16, 64).tolist()
    expected = []
    for t in range(64):
        stack: list[int] = []
        for i in range(50):
            v = x[(t + i) & 63]
            if v & 1 and len(stack) < 63:
                stack.append(v)
            elif stack:
                del stack[len(stack) - 1 - bool(v & 2 and len(stack) > 1) :]
        total, counts = len(stack), [0] * 16
        for v in stack:
            total = total * 31 + v
        for i in range(50):
            counts[(x[i] + t) & 15] += i
        total = signed(total, 32)
        for i, count in enumerate(counts):
            total ^= count << i
        expected.append(total)
    return Run((np.array(x, I32), np.zeros(64, I32), I32(50)), {1: np.array(expected, I32)})


@launch(grid=1, block=64)
def register_arrays(rng: np.random.Generator) -> Run:
    x = rng.integers(-50, 50, (64, 16)).astype(F32)
    v, rotate = x.copy(), 6
    v[:, rotate] = -1
    v[LANE, LANE & 15] += 100
    v[LANE, (LANE * 3 + rotate) & 15] = v[:, (rotate + 3) & 15] * 2 + v[LANE, (LANE * 5) & 15]
    return Run((x, np.zeros_like(x), I32(rotate)), {1: v})


def switched(v: int) -> int:
    match v & 15:
        case 0:
            return v * 3
        case 1:
            return v ^ 0x55
        case 2:
            return (v >> 3) + (v << 2)
        case 3:
            return v << 2
        case 4 | 5:
            return sum(i * v for i in range(v & 7))
        case 6:
            return -v
        case 7:
            return remainder(v, 13)
        case 9:
            return quotient(v, 3)
        case 12:
            return 77
        case 15:
            steps = 0
            while v > 1:
                v = 3 * v + 1 if v & 1 else v >> 1
                steps += 1
                if steps > 200:
                    break
            return steps
    return 1000


@launch(grid=1, block=256)
def switches(rng: np.random.Generator) -> Run:
    x = rng.integers(-(2**12), 2**12, 256).tolist()
    return Run((np.array(x, I32), np.zeros(256, I32)), {1: np.array([switched(v) for v in x], I32)})


@launch(grid=2, block=64)
def uniform_switch(rng: np.random.Generator) -> Run:
    expected = np.array([t.bit_count() for t in range(64)] * 2, I32)
    return Run((np.zeros(128, I32), I32(5)), {0: expected})


@launch(grid=(2, 4, 1), block=(16, 8, 1))
def mandelbrot(rng: np.random.Generator) -> Run:
    y, x = np.indices((32, 32)).astype(I64)
    cr, ci = (x * 3 << 12) // 32 - (2 << 12), (y * 2 << 12) // 32 - (1 << 12)
    zr, zi, count = np.zeros_like(cr), np.zeros_like(cr), np.zeros_like(cr)
    running = np.ones_like(cr, bool)
    for _ in range(60):
        r2, i2 = zr * zr >> 12, zi * zi >> 12
        running &= r2 + i2 <= (4 << 12)
        zr, zi = np.where(running, r2 - i2 + cr, zr), np.where(running, (zr * zi >> 11) + ci, zi)
        count += running
    return Run((np.zeros((32, 32), I32), I32(32), I32(60)), {0: count.astype(I32)})


def searched(x: list[int], t: int) -> int | None:
    skipped, n = 0, len(x)
    for i in range(n):
        v = x[(t * 13 + i) % n]
        if v % 3 == 0:
            skipped += 1
            continue
        for j in range(10):
            if (v + j) % 7 == t % 7:
                break
            if (v * j) % 11 == 5:
                return i * 100 + j + skipped * 10000
        else:
            if skipped > 12:
                return None
    return -1 + skipped * 10000


@launch(grid=1, block=128)
def loops_with_exits(rng: np.random.Generator) -> Run:
    x = (rng.integers(0, 30, 60) * rng.choice([1, 3, 21], 60)).tolist()
    found = [searched(x, t) for t in range(128)]
    expected = [12321 if value is None else value for value in found]
    return Run((np.array(x, I32), np.full(128, 12321, I32), I32(60)), {1: np.array(expected, I32)})


@launch(grid=2, block=128)
def clocks(rng: np.random.Generator) -> Run:
    return Run((np.zeros(256, I64), I32(500)), {0: np.ones(256, I64)})


@launch(grid=1, block=128)
def fences(rng: np.random.Generator) -> Run:
    return Run((np.zeros(64, I32), np.zeros(64, I32)), {0: (LANE * 3).astype(I32), 1: ((63 - LANE) * 3).astype(I32)})


@launch(grid=1, block=96, lds=96 * 6)
def heap_of_lds(rng: np.random.Generator) -> Run:
    x = rng.integers(0, 50, 96).astype(I32)
    return Run((x, np.zeros(96, I32), I32(96)), {1: np.sort(x)})


@launch(grid=1, block=64)
def generic_pointers(rng: np.random.Generator) -> Run:
    x, out = rng.integers(0, 1000, 64).astype(I32), np.zeros(128, I32)
    for t in range(64):
        local = [int(x[t]), 5, 6, 7]
        where = (t + 1) % 3
        if where == 0:
            out[t] += 1
            value = out[t]
        elif where == 1:
            value = x[t] * 2 + 1
        else:
            local[t & 3] += 1
            value = local[t & 3]
        out[64 + t] = value + local[t & 3]
    return Run((x, np.zeros(128, I32), I32(1)), {1: out})
