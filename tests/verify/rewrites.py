"""Computations with right and wrong rewrites, emulated in NumPy with the roundings of a GPU.

A rewrite receives the inputs in their data types and returns one output. Sums are in f32 unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

F32 = np.float32
Array = NDArray[Any]
Rewrite = Callable[..., Array]
LOG2E = F32(1.4426950408889634)


@dataclass(frozen=True)
class Computation:
    """A kernel by its reference, with rewrites.

    Args:
        inputs: Data types of the inputs by name; shapes are those of `shapes`.
        shapes: Shapes of the inputs and of the output, one mapping per trial.
        output: Data type of the output, whose name is `out`.
        reference: NumPy expression of the output.
        baseline: Rewrite that stands for the unmodified kernel.
        right: Rewrites that must pass every trial.
        wrong: Rewrites that must fail at least one trial.
        kinds: Distributions of the inputs; see `tests/verify/test_rewrites.py`.
    """

    inputs: Mapping[str, str]
    shapes: tuple[Mapping[str, tuple[int, ...]], ...]
    reference: str
    baseline: Rewrite
    right: Mapping[str, Rewrite]
    wrong: Mapping[str, Rewrite]
    output: str = "f32"
    kinds: tuple[str, ...] = ("normal", "offset", "positive", "large", "small", "constant")


# ---- sums over the last axis ----


def chain(x: Array) -> Array:
    """Add the terms one after another."""
    return np.cumsum(x, axis=-1, dtype=x.dtype)[..., -1]


def backwards(x: Array) -> Array:
    """Add the terms from the last to the first."""
    return chain(x[..., ::-1])


def tree(x: Array) -> Array:
    """Add the two halves until one term is left."""
    while x.shape[-1] > 1:
        x = padded(x, 2)
        half = x.shape[-1] // 2
        x = (x[..., :half] + x[..., half:]).astype(x.dtype)
    return x[..., 0]


def lanes(x: Array, count: int) -> Array:
    """Add every `count`-th term in one lane, then the lanes in a tree, as wave shuffles do."""
    x = padded(x, count)
    return tree(chain(np.swapaxes(x.reshape(*x.shape[:-1], -1, count), -1, -2)))


def vectors(x: Array, count: int) -> Array:
    """Add four consecutive terms per lane and step, in four accumulators."""
    x = padded(x, 4 * count)
    parts = np.moveaxis(x.reshape(*x.shape[:-1], -1, count, 4), -3, -1)
    return tree(tree(chain(parts)))


def atomics(x: Array, groups: int) -> Array:
    """Add a block of terms per workgroup, then the workgroups one after another."""
    x = padded(x, groups)
    return chain(tree(x.reshape(*x.shape[:-1], groups, -1)))


def contiguous(x: Array, count: int) -> Array:
    """Add a contiguous block of terms per lane, then the lanes in a tree."""
    x = padded(x, count)
    return tree(chain(x.reshape(*x.shape[:-1], count, -1)))


def shuffled(x: Array) -> Array:
    """Add the terms one after another in random order, as unordered atomics do."""
    return chain(x[..., np.random.default_rng(5).permutation(x.shape[-1])])


def kahan(x: Array) -> Array:
    """Add with compensation."""
    total, lost = np.zeros(x.shape[:-1], x.dtype), np.zeros(x.shape[:-1], x.dtype)
    for k in range(x.shape[-1]):
        y = x[..., k] - lost
        new = total + y
        lost = (new - total) - y
        total = new
    return total


def padded(x: Array, multiple: int) -> Array:
    """Append zeros up to a multiple."""
    missing = -x.shape[-1] % multiple
    return np.concatenate([x, np.zeros((*x.shape[:-1], missing), x.dtype)], axis=-1) if missing else x


SUMS: Mapping[str, Rewrite] = {
    "chain": chain,
    "backwards": backwards,
    "tree": tree,
    "64 lanes": lambda x: lanes(x, 64),
    "256 lanes": lambda x: lanes(x, 256),
    "vectors": lambda x: vectors(x, 64),
    "contiguous": lambda x: contiguous(x, 64),
    "atomics": lambda x: atomics(x, 64),
    "shuffled": shuffled,
}


def dropped(total: Rewrite, count: int) -> Rewrite:
    """Omit the last terms."""
    return lambda x: total(x[..., : max(1, x.shape[-1] - count)])


def twice(total: Rewrite, count: int) -> Rewrite:
    """Add the first terms twice."""
    return lambda x: total(np.concatenate([x, x[..., :count]], axis=-1))


WRONG_SUMS: Mapping[str, Rewrite] = {
    f"{count} {name}": change(lanes64, count)
    for count in (1, 8, 64)
    for name, change in (("dropped", dropped), ("twice", twice))
    for lanes64 in (SUMS["64 lanes"],)
}
BOTH = {**SUMS, **WRONG_SUMS}


def with_sums(form: Callable[[Rewrite], Rewrite], sums: Mapping[str, Rewrite], label: str = "") -> dict[str, Rewrite]:
    """Return a form of a computation with each sum."""
    return {f"{label}{name}": form(total) for name, total in sums.items()}


def f32(*values: Array) -> tuple[Array, ...]:
    """Convert arrays to f32."""
    return tuple(np.asarray(value).astype(F32) for value in values)


def f16(value: Array) -> Array:
    """Round f32 to f16."""
    return np.asarray(value).astype(np.float16)


def bf16(value: Array) -> Array:
    """Round f32 to bf16."""
    return np.asarray(value).astype(ml_dtypes.bfloat16)


def noisy(value: Array, ulps: float) -> Array:
    """Add an error of up to `ulps` units in the last place to f32 results, as hardware functions have."""
    signs = np.random.default_rng(7).uniform(-1, 1, value.shape)
    return (value.astype(np.float64) * (1 + signs * ulps * 2.0**-23)).astype(F32)


def hardware_exp(x: Array) -> Array:
    """exp2(x * log2 e) with an exp2 of one ulp."""
    return np.where(x == 0, F32(1), noisy(np.exp2((x * LOG2E).astype(F32).astype(np.float64)).astype(F32), 1.0))


def accurate_exp(x: Array) -> Array:
    """Return exp, rounded once."""
    return np.exp(x.astype(np.float64)).astype(F32)


def rsqrt(x: Array) -> Array:
    """Return 1 / sqrt with one ulp."""
    return noisy((1 / np.sqrt(x.astype(np.float64))).astype(F32), 1.0)


def quake_rsqrt(x: Array) -> Array:
    """Return 1 / sqrt by the integer trick with one Newton step."""
    y = (np.int32(0x5F3759DF) - (x.astype(F32).view(np.int32) >> 1)).view(F32)
    return (y * (F32(1.5) - F32(0.5) * x * y * y)).astype(F32)


def polynomial_exp(x: Array) -> Array:
    """exp2 with the Taylor polynomial of degree 5."""
    scaled = (x * LOG2E).astype(F32)
    whole = np.rint(scaled)
    rest = ((scaled - whole) * F32(0.6931471805599453)).astype(F32)
    value = np.ones_like(rest)
    for degree in range(5, 0, -1):
        value = (1 + value * rest / F32(degree)).astype(F32)
    return np.ldexp(value, whole.astype(np.int32)).astype(F32)


def reciprocal(x: Array) -> Array:
    """Return 1 / x with one ulp."""
    return noisy((1 / x.astype(np.float64)).astype(F32), 1.0)


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once."""
    return (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(F32)


# ---- computations ----


def sum_of(total: Rewrite) -> Rewrite:
    return lambda x: total(x.astype(F32)).reshape(1)


def dot_of(total: Rewrite) -> Rewrite:
    return lambda x, y: total((x * y).astype(F32)).reshape(1)


def fma_dot(x: Array, y: Array) -> Array:
    total = np.zeros(1, F32)
    for k in range(x.size):
        total = fma(x[k : k + 1], y[k : k + 1], total)
    return total


_ROWS = ((1,), (5,), (37,), (133,), (257,), (1024,), (4096,))
ROWS = tuple({"x": (3, n), "out": (3, n)} for (n,) in _ROWS)
TOTALS = tuple({"x": (n,), "out": (1,)} for n in (1, 2, 5, 64, 133, 1000, 8192))

SUM = Computation(
    inputs={"x": "f32"},
    shapes=TOTALS,
    reference="reshape(sum(x), (1,))",
    baseline=sum_of(SUMS["256 lanes"]),
    right=with_sums(sum_of, SUMS),
    wrong=with_sums(sum_of, WRONG_SUMS),
)
DOT = Computation(
    inputs={"x": "f32", "y": "f32"},
    shapes=tuple({**s, "y": s["x"]} for s in TOTALS),
    reference="reshape(sum(x * y), (1,))",
    baseline=dot_of(SUMS["256 lanes"]),
    right={**with_sums(dot_of, SUMS), "fma": fma_dot},
    wrong={**with_sums(dot_of, WRONG_SUMS), "scale": lambda x, y: dot_of(tree)(x, y) * F32(1.0001)},
)


def variance_of(total: Rewrite) -> Rewrite:
    def variance(x: Array) -> Array:
        mean = (total(x) / F32(x.shape[-1]))[..., None]
        return (total(np.square(x - mean)) / F32(x.shape[-1])).astype(F32)

    return variance


def welford(x: Array) -> Array:
    mean, square = np.zeros(x.shape[:-1], F32), np.zeros(x.shape[:-1], F32)
    for k in range(x.shape[-1]):
        delta = x[..., k] - mean
        mean = (mean + delta / F32(k + 1)).astype(F32)
        square = (square + delta * (x[..., k] - mean)).astype(F32)
    return (square / F32(x.shape[-1])).astype(F32)


def one_pass(x: Array) -> Array:
    mean = tree(x) / F32(x.shape[-1])
    return (tree(np.square(x)) / F32(x.shape[-1]) - mean * mean).astype(F32)


VARIANCE = Computation(
    inputs={"x": "f32"},
    shapes=tuple({"x": (3, n), "out": (3,)} for (n,) in _ROWS[1:]),
    reference="var(x, axis=1)",
    baseline=variance_of(SUMS["256 lanes"]),
    right={**with_sums(variance_of, SUMS), "Welford": welford},
    wrong={
        **with_sums(variance_of, WRONG_SUMS),
        "one pass": one_pass,
        "n - 1": lambda x: variance_of(tree)(x) * F32(x.shape[-1] / (x.shape[-1] - 1)),
    },
)


def layernorm_of(total: Rewrite, root: Rewrite = rsqrt, epsilon: float = 1e-5, folded: bool = False) -> Rewrite:
    def layernorm(x: Array, gamma: Array, beta: Array) -> Array:
        n = F32(x.shape[-1])
        mean = (total(x) / n)[..., None]
        scale = root((total(np.square(x - mean)) / n)[..., None] + F32(epsilon))
        if folded:  # x * scale - mean * scale
            return fma(fma(x, scale, -mean * scale), gamma, beta)
        return (((x - mean) * scale) * gamma + beta).astype(F32)

    return layernorm


def divided(x: Array) -> Array:
    return (F32(1) / np.sqrt(x)).astype(F32)


LAYERNORM = Computation(
    inputs={"x": "f32", "gamma": "f32", "beta": "f32"},
    shapes=tuple({**s, "gamma": s["x"][1:], "beta": s["x"][1:]} for s in ROWS[1:]),
    reference="(x - mean(x, axis=1, keepdims=True)) / sqrt(var(x, axis=1, keepdims=True) + 1e-5) * gamma + beta",
    baseline=layernorm_of(SUMS["256 lanes"]),
    right={
        **with_sums(layernorm_of, SUMS),
        "division": layernorm_of(tree, divided),
        "folded": layernorm_of(tree, folded=True),
    },
    wrong={
        **with_sums(layernorm_of, WRONG_SUMS),
        "other epsilon": layernorm_of(tree, epsilon=1e-6),
        "quake": layernorm_of(tree, quake_rsqrt),
        "scale": layernorm_of(tree, lambda x: rsqrt(x) * F32(1.0001)),
    },
)


def rmsnorm_of(total: Rewrite, root: Rewrite = rsqrt, epsilon: float = 1e-6, half: bool = False) -> Rewrite:
    def rmsnorm(x: Array, gamma: Array) -> Array:
        wide = x.astype(F32)
        scale = root(total(np.square(wide))[..., None] / F32(x.shape[-1]) + F32(epsilon))
        rounded = f16(wide * scale).astype(F32) if half else wide * scale
        return f16(rounded * gamma.astype(F32))

    return rmsnorm


def f16_rmsnorm(x: Array, gamma: Array) -> Array:
    mean = (chain(np.square(x)).astype(F32) / F32(x.shape[-1]))[..., None]
    return f16(x.astype(F32) * rsqrt(mean + F32(1e-6)) * gamma.astype(F32))


RMSNORM = Computation(
    inputs={"x": "f16", "gamma": "f16"},
    output="f16",
    shapes=tuple({**s, "gamma": s["x"][1:]} for s in ROWS[1:]),
    reference="x / sqrt(mean(x * x, axis=1, keepdims=True) + 1e-6) * gamma",
    baseline=rmsnorm_of(SUMS["64 lanes"]),
    right={**with_sums(rmsnorm_of, SUMS), "division": rmsnorm_of(tree, divided)},
    wrong={
        **with_sums(rmsnorm_of, {k: v for k, v in WRONG_SUMS.items() if "64" not in k}),
        "f16 accumulation": f16_rmsnorm,
        "quake": rmsnorm_of(tree, quake_rsqrt),
        "other epsilon": rmsnorm_of(tree, epsilon=1e-3),
    },
    kinds=("normal", "offset", "positive", "small"),
)
RMSNORM_ROUNDED = Computation(
    inputs=RMSNORM.inputs,
    output="f16",
    shapes=RMSNORM.shapes,
    reference=RMSNORM.reference,
    kinds=RMSNORM.kinds,
    baseline=rmsnorm_of(tree, half=True),
    right={**with_sums(lambda t: rmsnorm_of(t, half=True), SUMS), "one": rmsnorm_of(tree)},
    wrong={"quake": rmsnorm_of(tree, quake_rsqrt), "1 dropped": rmsnorm_of(dropped(tree, 1)), "f16": f16_rmsnorm},
)


def softmax_of(total: Rewrite, exp: Rewrite = hardware_exp, inverse: bool = True) -> Rewrite:
    def softmax(x: Array) -> Array:
        e = exp((x - x.max(axis=-1, keepdims=True)).astype(F32))
        s = total(e)[..., None]
        return (e * reciprocal(s)).astype(F32) if inverse else (e / s).astype(F32)

    return softmax


def online_softmax(x: Array) -> Array:
    top, total = np.full(x.shape[:-1], -np.inf, F32), np.zeros(x.shape[:-1], F32)
    for start in range(0, x.shape[-1], 32):
        block = x[..., start : start + 32]
        new = np.maximum(top, block.max(axis=-1))
        total = total * hardware_exp(top - new) + tree(hardware_exp(block - new[..., None]))
        top = new
    return (hardware_exp(x - top[..., None]) * reciprocal(total)[..., None]).astype(F32)


def folded_softmax(x: Array) -> Array:
    """exp2(x * log2e - max * log2e) as one fma."""
    top = x.max(axis=-1, keepdims=True)
    e = noisy(np.exp2(fma(x, np.full_like(x, LOG2E), -(top * LOG2E)).astype(np.float64)).astype(F32), 1.0)
    return (e / tree(e)[..., None]).astype(F32)


SOFTMAX = Computation(
    inputs={"x": "f32"},
    shapes=ROWS,
    reference="exp(x - max(x, axis=1, keepdims=True)) / sum(exp(x - max(x, axis=1, keepdims=True)), axis=1, keepdims=True)",
    baseline=softmax_of(SUMS["256 lanes"], accurate_exp, inverse=False),
    right={
        **with_sums(softmax_of, SUMS),
        "online": online_softmax,
        "folded": folded_softmax,
        "division": softmax_of(tree, inverse=False),
        "Kahan": softmax_of(kahan),
    },
    wrong={
        **with_sums(softmax_of, WRONG_SUMS),
        "exp2": softmax_of(tree, lambda x: np.exp2(x)),
        "polynomial": softmax_of(tree, polynomial_exp),
        "scale": lambda x: softmax_of(tree)(x) * F32(1.0001),
        "rounded exp": softmax_of(tree, lambda x: f16(accurate_exp(x)).astype(F32)),
    },
    kinds=("normal", "offset", "positive", "small"),
)


def logsumexp_of(total: Rewrite) -> Rewrite:
    def logsumexp(x: Array) -> Array:
        top = x.max(axis=-1)
        logs: Array = np.log(total(hardware_exp(x - top[..., None])).astype(np.float64)).astype(F32)
        result: Array = noisy(logs, 1.0) + top
        return result.astype(F32)

    return logsumexp


LOGSUMEXP = Computation(
    inputs={"x": "f32"},
    shapes=tuple({"x": (3, n), "out": (3,)} for (n,) in _ROWS),
    reference="log(sum(exp(x - max(x, axis=1, keepdims=True)), axis=1)) + max(x, axis=1)",
    baseline=logsumexp_of(SUMS["64 lanes"]),
    right=with_sums(logsumexp_of, SUMS),
    wrong={**with_sums(logsumexp_of, WRONG_SUMS), "scale": lambda x: logsumexp_of(tree)(x) * F32(1.0001)},
)


def gemm_of(total: Rewrite, accumulate: Any = F32, output: Any = F32) -> Rewrite:
    def gemm(x: Array, y: Array) -> Array:
        products = (x.astype(F32)[:, None, :] * y.astype(F32).T[None, :, :]).astype(accumulate)
        return total(products).astype(output)

    return gemm


def fma_gemm(x: Array, y: Array) -> Array:
    total = np.zeros((x.shape[0], y.shape[1]), F32)
    for k in range(x.shape[1]):
        total = fma(x[:, k : k + 1], y[k : k + 1, :], total)
    return total


def blocked(x: Array) -> Array:
    """Add four products at once, then the results one after another, as matrix instructions do."""
    x = padded(x, 4)
    return chain(x.reshape(*x.shape[:-1], -1, 4).astype(np.float64).sum(axis=-1).astype(F32))


MATRICES = tuple(
    {"x": (m, k), "y": (k, n), "out": (m, n)}
    for m, n, k in ((1, 1, 1), (5, 7, 2), (9, 13, 33), (16, 16, 64), (17, 9, 257), (4, 3, 1500))
)
GEMM_SUMS: Mapping[str, Rewrite] = {**SUMS, "matrix instruction": blocked}
GEMM = Computation(
    inputs={"x": "f32", "y": "f32"},
    shapes=MATRICES,
    reference="x @ y",
    baseline=fma_gemm,
    right={**with_sums(gemm_of, GEMM_SUMS), "fma": fma_gemm},
    wrong={
        **with_sums(gemm_of, WRONG_SUMS),
        "scale": lambda x, y: fma_gemm(x, y) * F32(1.0001),
        "f16 products": gemm_of(tree, np.float16),
        "bf16 inputs": lambda x, y: fma_gemm(bf16(x).astype(F32), bf16(y).astype(F32)),
    },
)
GEMM_F16 = Computation(
    inputs={"x": "f16", "y": "f16"},
    output="f16",
    shapes=MATRICES,
    reference="x @ y",
    baseline=gemm_of(blocked, output=np.float16),
    right=with_sums(lambda t: gemm_of(t, output=np.float16), GEMM_SUMS),
    wrong={
        **with_sums(lambda t: gemm_of(t, output=np.float16), WRONG_SUMS),
        "f16 accumulation": gemm_of(chain, np.float16, np.float16),
    },
    kinds=("normal", "offset", "positive", "small"),
)
GEMM_BF16 = Computation(
    inputs={"x": "bf16", "y": "bf16"},
    output="f32",
    shapes=MATRICES,
    reference="x @ y",
    baseline=gemm_of(blocked),
    right=with_sums(gemm_of, GEMM_SUMS),
    wrong={
        **with_sums(gemm_of, WRONG_SUMS),
        "bf16 accumulation": lambda x, y: np.stack([bf16(p) for p in [gemm_of(tree)(x, y)]])[0].astype(F32),
    },
)


def scan_blocks(x: Array, block: int = 64) -> Array:
    parts = padded(x, block).reshape(-1, block)
    inner = np.cumsum(parts, axis=1, dtype=F32)
    before = np.concatenate([np.zeros(1, F32), np.cumsum(inner[:-1, -1], dtype=F32)])
    sums: Array = (inner + before[:, None]).reshape(-1)[: x.size]
    return sums


def scan_steps(x: Array) -> Array:
    """Hillis and Steele."""
    result, step = x.copy(), 1
    while step < x.size:
        result = np.concatenate([result[:step], result[step:] + result[:-step]])
        step *= 2
    return result


SCAN = Computation(
    inputs={"x": "f32"},
    shapes=tuple({"x": (n,), "out": (n,)} for n in (1, 5, 133, 1000, 8192)),
    reference="cumsum(x)",
    baseline=scan_blocks,
    right={"chain": lambda x: np.cumsum(x, dtype=F32), "steps": scan_steps, "32": lambda x: scan_blocks(x, 32)},
    wrong={
        "exclusive": lambda x: np.concatenate([np.zeros(1, F32), np.cumsum(x, dtype=F32)[:-1]]),
        "last carry": lambda x: np.concatenate([scan_blocks(x)[:-1], scan_blocks(x)[-1:] - x[:1]]),
    },
)


def products(x: Array) -> Array:
    return np.cumprod(x, dtype=F32)


CUMPROD = Computation(
    inputs={"x": "f32"},
    shapes=tuple({"x": (n,), "out": (n,)} for n in (1, 5, 133, 400)),
    reference="cumprod(x)",
    baseline=products,
    right={
        "blocks": lambda x: np.concatenate([products(x[:50]), products(x[50:]) * products(x[:50])[-1:]]).astype(F32),
    },
    wrong={
        "scale": lambda x: products(x * F32(1 + 1e-5)),
        "one left out": lambda x: products(np.where(np.arange(x.size) == 3, F32(1), x)),
    },
    kinds=("near one",),
)


def stencil(x: Array) -> Array:
    return (F32(0.25) * x[:-2] + F32(0.5) * x[1:-1] + F32(0.25) * x[2:]).astype(F32)


STENCIL = Computation(
    inputs={"x": "f32"},
    shapes=tuple({"x": (n + 2,), "out": (n,)} for n in (1, 33, 1000)),
    reference="0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]",
    baseline=stencil,
    right={
        "fma": lambda x: fma(
            np.full_like(x[2:], F32(0.25)), x[2:], fma(np.full_like(x[2:], F32(0.5)), x[1:-1], F32(0.25) * x[:-2])
        ),
        "factored": lambda x: (F32(0.25) * ((x[:-2] + x[2:]) + F32(2) * x[1:-1])).astype(F32),
        "differences": lambda x: (x[1:-1] + F32(0.25) * ((x[:-2] - x[1:-1]) + (x[2:] - x[1:-1]))).astype(F32),
    },
    wrong={
        "weight": lambda x: (F32(0.25) * x[:-2] + F32(0.49999) * x[1:-1] + F32(0.25) * x[2:]).astype(F32),
        "edge": lambda x: np.concatenate([stencil(x)[:-1], x[-2:-1]]),
    },
)


def attention_of(exp: Rewrite = hardware_exp, half: bool = True, block: int = 32, scale: float = 0.125) -> Rewrite:
    """Attention with an online softmax and weights in f16 or f32."""

    def attention(q: Array, k: Array, v: Array) -> Array:
        scores = gemm_of(blocked)(q, k.T) * F32(scale)
        top, total = np.full((q.shape[0], 1), -np.inf, F32), np.zeros((q.shape[0], 1), F32)
        out = np.zeros((q.shape[0], v.shape[1]), F32)
        for start in range(0, k.shape[0], block):
            part = scores[:, start : start + block]
            new = np.maximum(top, part.max(axis=1, keepdims=True))
            weights = exp(part - new)
            total = (total * exp(top - new) + tree(weights)[:, None]).astype(F32)
            rounded = f16(weights) if half else weights
            out = (out * exp(top - new) + gemm_of(blocked)(rounded, v[start : start + block])).astype(F32)
            top = new
        return f16(out / total)

    return attention


ATTENTION_SHAPES = tuple(
    {"q": (m, 16), "k": (n, 16), "v": (n, 16), "out": (m, 16)} for m, n in ((5, 1), (7, 33), (16, 64), (9, 200))
)
_SCORES = "(q @ transpose(k)) * 0.125"
_WEIGHTS = f"exp({_SCORES} - max({_SCORES}, axis=1, keepdims=True))"
ATTENTION = Computation(
    inputs={"q": "f16", "k": "f16", "v": "f16"},
    output="f16",
    shapes=ATTENTION_SHAPES,
    reference=f"({_WEIGHTS} @ v) / sum({_WEIGHTS}, axis=1, keepdims=True)",
    baseline=attention_of(accurate_exp),
    right={
        "other block": attention_of(block=16),
        "hardware exp": attention_of(),
        "f32 weights": attention_of(half=False),
        "one block": attention_of(block=256),
    },
    wrong={
        "last key": lambda q, k, v: attention_of()(q, k[:-1] if len(k) > 1 else k * 2, v[:-1] if len(v) > 1 else v * 2),
        "scale": attention_of(scale=0.12),
        "exp2": attention_of(lambda x: np.exp2(x)),
    },
    kinds=("normal", "positive", "small"),
)

COMPUTATIONS: Mapping[str, Computation] = {
    "sum": SUM,
    "dot": DOT,
    "variance": VARIANCE,
    "layernorm": LAYERNORM,
    "rmsnorm": RMSNORM,
    "rmsnorm rounded": RMSNORM_ROUNDED,
    "softmax": SOFTMAX,
    "logsumexp": LOGSUMEXP,
    "gemm": GEMM,
    "gemm f16": GEMM_F16,
    "gemm bf16": GEMM_BF16,
    "scan": SCAN,
    "cumprod": CUMPROD,
    "stencil": STENCIL,
    "attention": ATTENTION,
}
