"""Triton kernels on every emulated architecture against NumPy: `make corpus` runs all, the slow suite a sample."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.builders.triton_kernels import emulate, matmul_launch, triton_launch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

F64 = np.float64
NORMAL = {"kind": "normal"}
SMALL = {"kind": "integers", "low": -4, "high": 5}


@dataclass(frozen=True)
class TritonCase:
    """Kernel `kernel(pointers, ...)`: buffers by name as (type, shape, initialiser), constants, and its reference."""

    name: str
    source: str
    inputs: Mapping[str, tuple[str, tuple[int, ...], Mapping[str, Any]]]
    outputs: Mapping[str, tuple[str, tuple[int, ...]]]
    expected: Callable[[Arrays], Arrays]
    grid: tuple[int, ...] = (1,)
    constants: Mapping[str, int | str] = field(default_factory=dict)
    rtol: float = 0.0
    warps: int = 4


ADD = """
@triton.jit
def kernel(x, y, out, N: tl.constexpr):
    i = tl.program_id(0) * 256 + tl.arange(0, 256)
    inside = i < N
    a, b = tl.load(x + i, inside), tl.load(y + i, inside)
    tl.store(out + i, tl.where(a > b, a * 2.5 + b, tl.minimum(a, b) - 1), inside)
"""
FUNCTIONS = """
@triton.jit
def kernel(x, out):
    i = tl.arange(0, 1024)
    v = tl.load(x + i)
    tl.store(out + i, tl.exp(v))
    tl.store(out + 1024 + i, tl.log(tl.abs(v)))
    tl.store(out + 2048 + i, tl.sqrt(tl.abs(v)))
    tl.store(out + 3072 + i, tl.sigmoid(v))
    tl.store(out + 4096 + i, tl.erf(v))
    tl.store(out + 5120 + i, v / 3.7)
"""
SOFTMAX = """
@triton.jit
def kernel(x, out, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * COLUMNS + at, at < COLUMNS, other=-float("inf"))
    row = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + tl.program_id(0) * COLUMNS + at, row / tl.sum(row, axis=0), at < COLUMNS)
"""
LAYER_NORM = """
@triton.jit
def kernel(x, gamma, beta, out, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < COLUMNS
    row = tl.load(x + tl.program_id(0) * COLUMNS + at, inside, other=0.0)
    mean = tl.sum(row, axis=0) / COLUMNS
    centred = tl.where(inside, row - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / COLUMNS + 1e-5)
    result = centred * scale * tl.load(gamma + at, inside) + tl.load(beta + at, inside)
    tl.store(out + tl.program_id(0) * COLUMNS + at, result, inside)
"""
RMS_NORM = """
@triton.jit
def kernel(x, out):
    at = tl.arange(0, 512)
    row = tl.load(x + tl.program_id(0) * 512 + at).to(tl.float32)
    tl.store(out + tl.program_id(0) * 512 + at, row * tl.rsqrt(tl.sum(row * row, axis=0) / 512 + 1e-6))
"""
REDUCTIONS = """
@triton.jit
def kernel(x, out):
    at = tl.arange(0, 64)[:, None] * 32 + tl.arange(0, 32)[None, :]
    v = tl.load(x + at)
    r, c = tl.arange(0, 64), tl.arange(0, 32)
    tl.store(out + r, tl.sum(v, axis=1))
    tl.store(out + 64 + r, tl.max(v, axis=1))
    tl.store(out + 128 + r, tl.argmax(v, axis=1))
    tl.store(out + 192 + c, tl.min(v, axis=0))
    tl.store(out + 224 + c, tl.xor_sum(v, axis=0))
    tl.store(out + 256, tl.sum(v))
"""
SCANS = """
@triton.jit
def larger(a, b):
    return tl.maximum(a, b)

@triton.jit
def kernel(x, out):
    i = tl.arange(0, 512)
    v = tl.load(x + i)
    tl.store(out + i, tl.cumsum(v))
    tl.store(out + 512 + i, tl.associative_scan(v, 0, larger))
    tl.store(out + 1024 + i, tl.cumsum(v, reverse=True))
    tl.store(out + 1536 + i, tl.cumprod(tl.where(v > 0, 1, -1)))
"""
SORTS = """
@triton.jit
def kernel(x, out):
    i = tl.arange(0, 512)
    v = tl.load(x + i)
    tl.store(out + i, tl.sort(v))
    tl.store(out + 512 + i, tl.sort(v, descending=True))
    tl.store(out + 1024 + i, tl.flip(v))
"""
GATHER = """
@triton.jit
def kernel(x, index, out):
    i = tl.arange(0, 256)
    v, at = tl.load(x + i), tl.load(index + i)
    tl.store(out + i, tl.gather(v, at, 0))
    tl.store(out + 256 + i, tl.load(x + tl.load(index + at)))
    tl.store(out + 512 + i, tl.histogram(at, 256))
"""
ATOMICS = """
@triton.jit
def kernel(x, out, total):
    v = tl.load(x + tl.program_id(0) * 256 + tl.arange(0, 256))
    bins = v.to(tl.int32) & 15
    tl.atomic_add(out + bins, v)
    tl.atomic_max(out + 16 + bins, v)
    tl.atomic_min(out + 32 + bins, v)
    tl.atomic_add(total, tl.sum(v))
"""
INTEGER_ATOMICS = """
@triton.jit
def kernel(x, out, tickets):
    v = tl.load(x + tl.program_id(0) * 256 + tl.arange(0, 256))
    tl.atomic_xor(out + (v & 7), v)
    tl.atomic_or(out + 8 + (v & 7), v)
    tl.atomic_and(out + 16 + (v & 7), v)
    place = tl.atomic_add(tickets, 1)
    tl.atomic_cas(tickets + 1 + place, 0, 1)
"""
TRANSPOSE = """
@triton.jit
def kernel(x, out):
    r, c = tl.program_id(0) * 32 + tl.arange(0, 32), tl.program_id(1) * 64 + tl.arange(0, 64)
    tile = tl.load(x + r[:, None] * 128 + c[None, :])
    tl.store(out + c[:, None] * 64 + r[None, :], tl.trans(tile))
"""
DIVISIONS = """
@triton.jit
def kernel(x, y, out):
    i = tl.arange(0, 512)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a // b)
    tl.store(out + 512 + i, a % b)
    tl.store(out + 1024 + i, tl.umulhi(a.to(tl.uint32), b.to(tl.uint32)).to(tl.int32))
    tl.store(out + 1536 + i, (a << (b & 15)) ^ (a >> (b & 7)))
"""
CASTS = """
@triton.jit
def kernel(x, half, brain, integer, back):
    i = tl.arange(0, 1024)
    v = tl.load(x + i)
    tl.store(half + i, v.to(tl.float16))
    tl.store(brain + i, v.to(tl.bfloat16))
    tl.store(integer + i, v.to(tl.int8))
    tl.store(back + i, v.to(tl.float16).to(tl.bfloat16).to(tl.float32))
"""
FLASH = """
@triton.jit
def kernel(q, k, v, out, LENGTH: tl.constexpr, CAUSAL: tl.constexpr):
    rows, features, keys = tl.program_id(0) * 32 + tl.arange(0, 32), tl.arange(0, 64), tl.arange(0, 32)
    query = tl.load(q + rows[:, None] * 64 + features[None, :])
    largest = tl.full((32,), -float("inf"), tl.float32)
    total = tl.zeros((32,), tl.float32)
    acc = tl.zeros((32, 64), tl.float32)
    for start in range(0, LENGTH, 32):
        at = start + keys
        key = tl.load(k + at[None, :] * 64 + features[:, None])
        scores = tl.dot(query, key) * 0.125
        if CAUSAL:
            scores = tl.where(rows[:, None] >= at[None, :], scores, -1e30)
        new = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp(scores - new[:, None])
        rescale = tl.exp(largest - new)
        total = total * rescale + tl.sum(weights, 1)
        value = tl.load(v + at[:, None] * 64 + features[None, :])
        acc = tl.dot(weights.to(value.dtype), value, acc * rescale[:, None])
        largest = new
    tl.store(out + rows[:, None] * 64 + features[None, :], acc / total[:, None])
"""
MASKED_MATMUL = """
@triton.jit
def kernel(a, b, bias, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    r, c, inner = tl.program_id(0) * 32 + tl.arange(0, 32), tl.program_id(1) * 32 + tl.arange(0, 32), tl.arange(0, 32)
    acc = tl.zeros((32, 32), tl.float32)
    for start in range(0, K, 32):
        at = start + inner
        left = tl.load(a + r[:, None] * K + at[None, :], (r[:, None] < M) & (at[None, :] < K), other=0.0)
        right = tl.load(b + at[:, None] * N + c[None, :], (at[:, None] < K) & (c[None, :] < N), other=0.0)
        acc = tl.dot(left, right, acc)
    result = tl.maximum(acc + tl.load(bias + c, c < N, other=0.0)[None, :], 0.0)
    tl.store(out + r[:, None] * N + c[None, :], result, (r[:, None] < M) & (c[None, :] < N))
"""
QUANTISED = """
@triton.jit
def kernel(a, packed, scale, out):
    r, c, inner = tl.arange(0, 32), tl.arange(0, 32), tl.arange(0, 64)
    words = tl.load(packed + (inner[:, None] // 2) * 32 + c[None, :])
    codes = (words >> ((inner[:, None] % 2) * 4)) & 15
    right = ((codes - 8) * tl.load(scale + c)[None, :]).to(tl.float16)
    left = tl.load(a + r[:, None] * 64 + inner[None, :])
    tl.store(out + r[:, None] * 32 + c[None, :], tl.dot(left, right))
"""
CONVOLUTION = """
@triton.jit
def kernel(x, weights, out, WIDTH: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, 64)
    acc = tl.zeros((64,), tl.float32)
    for dy in tl.static_range(-1, 2):
        for dx in tl.static_range(-1, 2):
            inside = (r + dy >= 0) & (r + dy < WIDTH) & (c + dx >= 0) & (c + dx < WIDTH) & (c < WIDTH)
            acc += tl.load(x + (r + dy) * WIDTH + c + dx, inside, other=0.0) * tl.load(weights + (dy + 1) * 3 + dx + 1)
    tl.store(out + r * WIDTH + c, acc, c < WIDTH)
"""
PHILOX = """
@triton.jit
def kernel(out):
    i = tl.arange(0, 512)
    tl.store(out + i, tl.randint(1234, i).to(tl.int32, bitcast=True))
"""
JOINED = """
@triton.jit
def kernel(x, out):
    i = tl.arange(0, 256)
    even, odd = tl.split(tl.reshape(tl.load(x + tl.arange(0, 512)), (256, 2)))
    tl.store(out + tl.arange(0, 512), tl.interleave(odd, even))
    tl.store(out + 512 + i, tl.sum(tl.join(even, odd), axis=1))
    tl.store(out + 768 + tl.arange(0, 512), tl.cat(odd, even, can_reorder=True) * 0 + 7)
"""
FP64 = """
@triton.jit
def kernel(x, y, out):
    r, c = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    tl.store(out + r * 32 + c, tl.dot(tl.load(x + r * 32 + c), tl.load(y + r * 32 + c), out_dtype=tl.float64))
"""
WHILE = """
@triton.jit
def kernel(x, out):
    i = tl.program_id(0)
    n, steps = tl.load(x + i), 0
    while n > 1:
        n = tl.where(n % 2 == 0, n // 2, 3 * n + 1)
        steps += 1
    tl.store(out + i, steps)
"""


def philox(count: int, seed: int) -> NDArray[np.int32]:
    """Return the first words of Philox4x32-10 with counters (i, 0, 0, 0)."""
    mask = 0xFFFFFFFF
    words = []
    for i in range(count):
        counter, key = [i, 0, 0, 0], [seed & mask, seed >> 32]
        for _ in range(10):
            first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
            counter = [second >> 32 ^ counter[1] ^ key[0], second & mask, first >> 32 ^ counter[3] ^ key[1], first & mask]
            key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
        words.append(counter[0])
    return np.array(words, np.uint32).view(np.int32)


def softmax(x: NDArray[Any], axis: int = -1) -> NDArray[np.float64]:
    powers = np.exp(x.astype(F64) - x.max(axis=axis, keepdims=True).astype(F64))
    result: NDArray[np.float64] = powers / powers.sum(axis=axis, keepdims=True)
    return result


def attention(b: Arrays, *, causal: bool) -> Arrays:
    scores = b["q"].astype(F64) @ b["k"].astype(F64).T * 0.125
    if causal:
        scores = np.where(np.tri(len(scores), dtype=bool), scores, -1e30)
    return {"out": softmax(scores) @ b["v"].astype(F64)}


def layer_norm(b: Arrays) -> Arrays:
    x = b["x"].astype(F64)
    centred = x - x.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
    return {"out": centred * scale * b["gamma"] + b["beta"]}


def rms_norm(b: Arrays) -> Arrays:
    x = b["x"].astype(F64)
    return {"out": x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-6)}


def functions(b: Arrays) -> Arrays:
    x = b["x"].astype(F64)
    rows = [np.exp(x), np.log(abs(x)), np.sqrt(abs(x)), 1 / (1 + np.exp(-x)), np.vectorize(math.erf)(x), x / 3.7]
    return {"out": np.stack(rows)}


def reductions(b: Arrays) -> Arrays:
    x = b["x"]
    parts = [x.sum(1), x.max(1), x.argmax(1), x.min(0), np.bitwise_xor.reduce(x, axis=0), [x.sum()]]
    return {"out": np.concatenate(parts)}


def scans(b: Arrays) -> Arrays:
    x = b["x"]
    signs = np.cumprod(np.where(x > 0, 1, -1))
    return {"out": np.stack([np.cumsum(x), np.maximum.accumulate(x), np.cumsum(x[::-1])[::-1], signs])}


def gathers(b: Arrays) -> Arrays:
    x, index = b["x"], b["index"]
    return {"out": np.stack([x[index], x[index[index]], np.bincount(index, minlength=256)])}


def float_atomics(b: Arrays) -> Arrays:
    x = b["x"]
    bins = [x[x.astype(int) % 16 == n] for n in range(16)]
    rows = [[part.sum() for part in bins], [part.max(initial=0) for part in bins], [part.min(initial=0) for part in bins]]
    return {"out": np.array(rows), "total": np.array([x.sum()])}


def integer_atomics(b: Arrays) -> Arrays:
    x = b["x"]
    out = np.zeros((3, 8), np.int32)
    for n in range(8):
        chosen = x[x & 7 == n]
        out[0, n], out[1, n] = np.bitwise_xor.reduce(chosen), np.bitwise_or.reduce(chosen)
    return {"out": out, "tickets": np.array([4, 1, 1, 1, 1])}


def divisions(b: Arrays) -> Arrays:
    x, y = b["x"].astype(np.int64), b["y"].astype(np.int64)
    quotient = np.trunc(x / y).astype(np.int64)
    shifted = (x << (y & 15)).astype(np.int32) ^ (x >> (y & 7)).astype(np.int32)
    return {"out": np.stack([quotient, x - quotient * y, x * y >> 32, shifted])}


def casts(b: Arrays) -> Arrays:
    import ml_dtypes

    x = b["x"]
    half = x.astype(np.float16)
    brain = x.astype(ml_dtypes.bfloat16)
    back = half.astype(np.float32).astype(ml_dtypes.bfloat16)
    return {"half": half, "brain": brain, "integer": np.trunc(x).astype(np.int8), "back": back.astype(np.float32)}


def quantised(b: Arrays) -> Arrays:
    codes = np.stack([b["packed"] & 15, b["packed"] >> 4 & 15], axis=1).reshape(64, 32)
    right = ((codes - 8) * b["scale"]).astype(np.float16)
    return {"out": b["a"].astype(F64) @ right.astype(F64)}


def convolution(b: Arrays) -> Arrays:
    x, weights = np.pad(b["x"].astype(F64), 1), b["weights"]
    shifted = [x[dy : dy + 50, dx : dx + 50] * weights[dy, dx] for dy in range(3) for dx in range(3)]
    return {"out": np.sum(shifted, axis=0)}


def joined(b: Arrays) -> Arrays:
    pairs = b["x"].reshape(256, 2)
    return {"out": np.concatenate([pairs[:, ::-1].ravel(), pairs.sum(axis=1), np.full(512, 7)])}


def collatz(b: Arrays) -> Arrays:
    def steps(n: int) -> int:
        return 0 if n <= 1 else 1 + steps(n // 2 if n % 2 == 0 else 3 * n + 1)

    return {"out": np.array([steps(int(n)) for n in b["x"]])}


def masked_matmul(b: Arrays) -> Arrays:
    return {"out": np.maximum(b["a"].astype(F64) @ b["b"].astype(F64) + b["bias"], 0)}


MATRIX = {"q": ("f16", (64, 64), NORMAL), "k": ("f16", (64, 64), NORMAL), "v": ("f16", (64, 64), NORMAL)}
LARGE = {"kind": "integers", "low": -1000, "high": 1000}
CASES = [
    TritonCase("add", ADD, {"x": ("f32", (1000,), SMALL), "y": ("f32", (1000,), SMALL)}, {"out": ("f32", (1000,))},
               lambda b: {"out": np.where(b["x"] > b["y"], b["x"] * 2.5 + b["y"], np.minimum(b["x"], b["y"]) - 1)},
               (4,), {"N": 1000}),
    TritonCase("add_f64", ADD, {"x": ("f64", (300,), SMALL), "y": ("f64", (300,), SMALL)}, {"out": ("f64", (300,))},
               lambda b: {"out": np.where(b["x"] > b["y"], b["x"] * 2.5 + b["y"], np.minimum(b["x"], b["y"]) - 1)},
               (2,), {"N": 300}),
    TritonCase("functions", FUNCTIONS, {"x": ("f32", (1024,), NORMAL)}, {"out": ("f32", (6, 1024))}, functions, rtol=3e-6),
    TritonCase("softmax", SOFTMAX, {"x": ("f32", (6, 700), NORMAL)}, {"out": ("f32", (6, 700))},
               lambda b: {"out": softmax(b["x"])}, (6,), {"COLUMNS": 700, "BLOCK": 1024}, rtol=3e-6),
    TritonCase("softmax_f16", SOFTMAX, {"x": ("f16", (3, 100), NORMAL)}, {"out": ("f16", (3, 100))},
               lambda b: {"out": softmax(b["x"])}, (3,), {"COLUMNS": 100, "BLOCK": 128}, rtol=4e-3, warps=1),
    TritonCase("layer_norm", LAYER_NORM,
               {"x": ("f32", (4, 777), NORMAL), "gamma": ("f32", (777,), NORMAL), "beta": ("f32", (777,), NORMAL)},
               {"out": ("f32", (4, 777))}, layer_norm, (4,), {"COLUMNS": 777, "BLOCK": 1024}, rtol=2e-5),
    TritonCase("rms_norm_bf16", RMS_NORM, {"x": ("bf16", (4, 512), NORMAL)}, {"out": ("bf16", (4, 512))}, rms_norm, (4,),
               rtol=8e-3),
    TritonCase("reductions", REDUCTIONS, {"x": ("i32", (64, 32), LARGE)}, {"out": ("i32", (257,))}, reductions),
    TritonCase("scans", SCANS, {"x": ("i32", (512,), LARGE)}, {"out": ("i32", (4, 512))}, scans),
    TritonCase("sorts", SORTS, {"x": ("i32", (512,), LARGE)}, {"out": ("i32", (3, 512))},
               lambda b: {"out": np.stack([np.sort(b["x"]), np.sort(b["x"])[::-1], b["x"][::-1]])}),
    TritonCase("gathers", GATHER,
               {"x": ("i32", (256,), LARGE), "index": ("i32", (256,), {"kind": "integers", "low": 0, "high": 256})},
               {"out": ("i32", (3, 256))}, gathers),
    TritonCase("atomics_f32", ATOMICS, {"x": ("f32", (1024,), {"kind": "integers", "low": 0, "high": 99})},
               {"out": ("f32", (3, 16)), "total": ("f32", (1,))}, float_atomics, (4,)),
    TritonCase("atomics_f64", ATOMICS, {"x": ("f64", (1024,), {"kind": "integers", "low": 0, "high": 99})},
               {"out": ("f64", (3, 16)), "total": ("f64", (1,))}, float_atomics, (4,)),
    TritonCase("integer_atomics", INTEGER_ATOMICS, {"x": ("i32", (1024,), LARGE)},
               {"out": ("i32", (3, 8)), "tickets": ("i32", (5,))}, integer_atomics, (4,)),
    TritonCase("transpose", TRANSPOSE, {"x": ("f32", (64, 128), NORMAL)}, {"out": ("f32", (128, 64))},
               lambda b: {"out": b["x"].T}, (2, 2)),
    TritonCase("transpose_bytes", TRANSPOSE, {"x": ("i8", (64, 128), SMALL)}, {"out": ("i8", (128, 64))},
               lambda b: {"out": b["x"].T}, (2, 2), warps=2),
    TritonCase("divisions", DIVISIONS,
               {"x": ("i32", (512,), {"kind": "integers", "low": 0, "high": 2**31}),
                "y": ("i32", (512,), {"kind": "integers", "low": 1, "high": 5000})},
               {"out": ("i32", (4, 512))}, divisions),
    TritonCase("casts", CASTS, {"x": ("f32", (1024,), {"kind": "normal", "std": 20})},
               {"half": ("f16", (1024,)), "brain": ("bf16", (1024,)), "integer": ("i8", (1024,)), "back": ("f32", (1024,))},
               casts),
    TritonCase("flash_attention", FLASH, MATRIX, {"out": ("f32", (64, 64))}, lambda b: attention(b, causal=False), (2,),
               {"LENGTH": 64, "CAUSAL": 0}, rtol=5e-3),
    TritonCase("flash_attention_causal", FLASH, MATRIX, {"out": ("f16", (64, 64))}, lambda b: attention(b, causal=True), (2,),
               {"LENGTH": 64, "CAUSAL": 1}, rtol=5e-3, warps=2),
    TritonCase("flash_attention_bf16", FLASH, {name: ("bf16", shape, init) for name, (_, shape, init) in MATRIX.items()},
               {"out": ("f32", (64, 64))}, lambda b: attention(b, causal=False), (2,), {"LENGTH": 64, "CAUSAL": 0}, rtol=3e-2),
    TritonCase("masked_matmul", MASKED_MATMUL,
               {"a": ("f16", (50, 70), SMALL), "b": ("f16", (70, 45), SMALL), "bias": ("f32", (45,), SMALL)},
               {"out": ("f32", (50, 45))}, masked_matmul, (2, 2), {"M": 50, "N": 45, "K": 70}),
    TritonCase("quantised", QUANTISED,
               {"a": ("f16", (32, 64), SMALL), "packed": ("i32", (32, 32), {"kind": "integers", "low": 0, "high": 256}),
                "scale": ("f32", (32,), {"kind": "integers", "low": 1, "high": 4})},
               {"out": ("f32", (32, 32))}, quantised),
    TritonCase("convolution", CONVOLUTION, {"x": ("f32", (50, 50), SMALL), "weights": ("f32", (3, 3), SMALL)},
               {"out": ("f32", (50, 50))}, convolution, (50,), {"WIDTH": 50}, warps=1),
    TritonCase("philox", PHILOX, {}, {"out": ("i32", (512,))}, lambda _: {"out": philox(512, 1234)}),
    TritonCase("joined", JOINED, {"x": ("i32", (512,), LARGE)}, {"out": ("i32", (1280,))}, joined),
    TritonCase("matmul_f64", FP64, {"x": ("f64", (32, 32), SMALL), "y": ("f64", (32, 32), SMALL)}, {"out": ("f64", (32, 32))},
               lambda b: {"out": b["x"] @ b["y"]}),
    TritonCase("collatz", WHILE, {"x": ("i32", (40,), {"kind": "integers", "low": 1, "high": 300})}, {"out": ("i32", (40,))},
               collatz, (40,), warps=1),
]  # fmt: skip
SAMPLE = {"gfx90a": {"flash_attention_bf16", "atomics_f64"}, "gfx942": {"casts"}, "gfx950": {"flash_attention", "gathers"}}
MATMULS = {
    "gfx90a": ["f16", "bf16", "f32", "f64", "i8"],
    "gfx942": ["f16", "bf16", "f32", "f64", "i8", "f8e4m3fnuz", "f8e5m2fnuz", "f8e4m3fn", "f8e5m2"],
    "gfx950": ["f16", "bf16", "f32", "f64", "i8", "f8e4m3fn", "f8e5m2"],
}
"""Element types of matrix products that Triton compiles for an architecture."""
RUNS = [
    pytest.param(case, architecture, marks=pytest.mark.slow if case.name in SAMPLE[architecture] else pytest.mark.corpus)
    for architecture in SAMPLE  # Triton does not support RDNA2
    for case in CASES
]


@pytest.mark.parametrize(("case", "architecture"), RUNS, ids=lambda value: value.name if isinstance(value, TritonCase) else value)
def test_a_triton_kernel_agrees_with_its_reference(case: TritonCase, architecture: str) -> None:
    buffers: list[dict[str, Any]] = [
        {"name": name, "kind": "buffer", "dtype": kind, "shape": list(shape), "init": dict(init) | {"seed": seed}}
        for seed, (name, (kind, shape, init)) in enumerate(case.inputs.items())
    ]
    buffers += [
        {"name": name, "kind": "buffer", "dtype": kind, "shape": list(shape), "access": "inout", "init": {"kind": "constant"}}
        for name, (kind, shape) in case.outputs.items()
    ]
    launch = triton_launch(
        case.source, architecture=architecture, entry="kernel", constexprs={n: str(v) for n, v in case.constants.items()},
        options={"num_warps": case.warps}, arguments=buffers, grid=list(case.grid),
    )  # fmt: skip

    outputs, _ = emulate(launch)

    inputs = {argument.name: argument.data for argument in launch.arguments if hasattr(argument, "data")}
    expected = case.expected(inputs)
    assert set(expected) == set(case.outputs)
    for name, wanted in expected.items():
        result = outputs[name].astype(F64)
        wide = np.asarray(wanted).astype(F64).reshape(result.shape)
        np.testing.assert_allclose(result, wide, rtol=case.rtol, atol=case.rtol * 0.3, err_msg=name)


@pytest.mark.corpus
@pytest.mark.parametrize(("architecture", "dtype"), [(a, dtype) for a, kinds in MATMULS.items() for dtype in kinds])
@pytest.mark.parametrize("num_stages", [1, 2])
def test_a_matrix_product_of_small_integers_is_exact(architecture: str, dtype: str, num_stages: int) -> None:
    launch = matmul_launch(dtype, architecture=architecture, num_warps=4, num_stages=num_stages, matrix_instr_nonkdim=16)
    a, b = (argument.data.astype(F64) for argument in launch.arguments[:2])  # type: ignore[union-attr]

    outputs, result = emulate(launch)

    np.testing.assert_array_equal(outputs["c_ptr"].astype(F64), a @ b)
    assert launch.code_object.architecture == architecture
    assert dtype == "f64" or result.counters["SQ_INSTS_MFMA"] > 0
