"""Computations that were added after the constants of the error bound were fixed. They must not be used to choose them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.verify.rewrites import (
    F32,
    SUMS,
    WRONG_SUMS,
    Array,
    Computation,
    Rewrite,
    accurate_exp,
    blocked,
    chain,
    divided,
    dropped,
    f16,
    fma,
    hardware_exp,
    noisy,
    quake_rsqrt,
    reciprocal,
    rsqrt,
    tree,
    with_sums,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROWS = (5, 37, 133, 1024, 4096)
ROWS: tuple[Mapping[str, tuple[int, ...]], ...] = tuple({"x": (4, n), "out": (4, n)} for n in _ROWS)
FLAT: tuple[Mapping[str, tuple[int, ...]], ...] = tuple({"x": (n,), "out": (n,)} for n in (1, 33, 1000))


def function(double: Rewrite, ulps: float = 1.0) -> Rewrite:
    """Return an f32 function with an error of some units in the last place."""
    return lambda *x: noisy(double(*(v.astype(np.float64) for v in x)).astype(F32), ulps)


# ---- normalisation and similarity ----


def cosine_of(total: Rewrite, root: Rewrite = rsqrt) -> Rewrite:
    def cosine(x: Array, y: Array) -> Array:
        return (total(x * y) * root(total(x * x)) * root(total(y * y))).astype(F32)

    return cosine


def cosine_divided(x: Array, y: Array) -> Array:
    similarity: Array = tree(x * y) / np.sqrt(tree(x * x) * tree(y * y))
    return similarity.astype(F32)


COSINE = Computation(
    inputs={"x": "f32", "y": "f32"},
    shapes=tuple({"x": (4, n), "y": (4, n), "out": (4,)} for n in _ROWS),
    reference="sum(x * y, axis=1) / (sqrt(sum(x * x, axis=1)) * sqrt(sum(y * y, axis=1)))",
    baseline=cosine_of(tree),
    right={**with_sums(cosine_of, SUMS), "one root": cosine_divided, "divided": cosine_of(chain, divided)},
    wrong={
        **with_sums(cosine_of, {k: v for k, v in WRONG_SUMS.items() if "dropped" in k}),
        "quake": cosine_of(tree, quake_rsqrt),
        "f16": lambda x, y: cosine_of(tree)(f16(x).astype(F32), f16(y).astype(F32)),
        "no root": lambda x, y: (cosine_of(tree)(x, y) * F32(0.99995)).astype(F32),
    },
    kinds=("normal", "offset", "positive", "large", "small"),
)


def normalised_of(total: Rewrite, root: Rewrite = rsqrt, epsilon: float = 1e-6) -> Rewrite:
    return lambda x: (x * root(total(x * x)[..., None] + F32(epsilon))).astype(F32)


L2 = Computation(
    inputs={"x": "f32"},
    shapes=ROWS,
    reference="x / sqrt(sum(x * x, axis=1, keepdims=True) + 1e-6)",
    baseline=normalised_of(SUMS["256 lanes"]),
    right={**with_sums(normalised_of, SUMS), "divided": normalised_of(tree, divided)},
    wrong={
        **with_sums(normalised_of, WRONG_SUMS),
        "epsilon": normalised_of(tree, epsilon=1e-5),
        "quake": normalised_of(tree, quake_rsqrt),
    },
)


# ---- activations ----


def silu(exp: Rewrite, inverse: Rewrite) -> Rewrite:
    return lambda x: (x * inverse(F32(1) + exp(-x))).astype(F32)


def exact_inverse(x: Array) -> Array:
    return (F32(1) / x).astype(F32)


SILU = Computation(
    inputs={"x": "f32"},
    shapes=FLAT,
    reference="x / (1 + exp(-x))",
    baseline=silu(accurate_exp, exact_inverse),
    right={
        "hardware": silu(hardware_exp, reciprocal),
        "tanh": lambda x: (
            (F32(0.5) * x * (F32(1) + function(np.tanh)(F32(0.5) * x))).astype(F32)
            if np.all(x > -1)
            else silu(hardware_exp, reciprocal)(x)
        ),
        "divided": silu(hardware_exp, exact_inverse),
    },
    wrong={
        "exp2": silu(lambda x: np.exp2(x), exact_inverse),
        "f16 exp": silu(lambda x: f16(accurate_exp(x)).astype(F32), exact_inverse),
        "hard": lambda x: (x * np.clip(x / F32(6) + F32(0.5), 0, 1)).astype(F32),
        "scaled": lambda x: silu(accurate_exp, exact_inverse)(x) * F32(1.00005),
    },
    kinds=("normal", "positive", "small"),
)

GELU = Computation(
    inputs={"x": "f32"},
    shapes=FLAT,
    reference="0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))",
    baseline=lambda x: (F32(0.5) * x * (1 + np.tanh(F32(0.7978845608) * (x + F32(0.044715) * x * x * x)))).astype(F32),
    right={
        "Horner": lambda x: (
            F32(0.5) * x * (1 + function(np.tanh)(x * fma(x * x, np.full_like(x, 0.0356774081), np.full_like(x, 0.7978845608))))
        ).astype(F32),
        "fma": lambda x: fma(F32(0.5) * x, function(np.tanh)(F32(0.7978845608) * fma(F32(0.044715) * x * x, x, x)), F32(0.5) * x),
    },
    wrong={
        "sigmoid": lambda x: (x / (1 + np.exp(F32(-1.702) * x))).astype(F32),
        "constant": lambda x: (F32(0.5) * x * (1 + np.tanh(F32(0.79788) * (x + F32(0.044715) * x * x * x)))).astype(F32),
        "cubic": lambda x: (F32(0.5) * x * (1 + np.tanh(F32(0.7978845608) * (x + F32(0.0447) * x * x * x)))).astype(F32),
    },
    kinds=("normal", "positive", "small"),
)


# ---- reductions of functions ----


def log_softmax_of(total: Rewrite, exp: Rewrite = hardware_exp) -> Rewrite:
    def log_softmax(x: Array) -> Array:
        shifted = (x - x.max(axis=-1, keepdims=True)).astype(F32)
        result: Array = shifted - function(np.log)(total(exp(shifted)))[..., None]
        return result.astype(F32)

    return log_softmax


def log_softmax_at_once(x: Array) -> Array:
    """x - (max + log sum)."""
    top = x.max(axis=-1, keepdims=True)
    result: Array = x - (top + function(np.log)(tree(hardware_exp(x - top)))[..., None])
    return result.astype(F32)


LOG_SOFTMAX = Computation(
    inputs={"x": "f32"},
    shapes=ROWS,
    reference="x - max(x, axis=1, keepdims=True) - log(sum(exp(x - max(x, axis=1, keepdims=True)), axis=1, keepdims=True))",
    baseline=log_softmax_of(SUMS["64 lanes"]),
    right={**with_sums(log_softmax_of, SUMS), "at once": log_softmax_at_once},
    wrong={**with_sums(log_softmax_of, WRONG_SUMS), "log2": lambda x: log_softmax_of(tree)(x) * F32(1.0001)},
    kinds=("normal", "offset", "positive", "small", "constant"),
)


def mean_error_of(total: Rewrite) -> Rewrite:
    return lambda x, y: (total(np.square(x - y)) / F32(x.shape[-1])).astype(F32)


MEAN_ERROR = Computation(
    inputs={"x": "f16", "y": "f16"},
    output="f32",
    shapes=tuple({"x": (4, n), "y": (4, n), "out": (4,)} for n in _ROWS),
    reference="mean((x - y) * (x - y), axis=1)",
    baseline=lambda x, y: mean_error_of(tree)(x.astype(F32), y.astype(F32)),
    right=with_sums(lambda t: lambda x, y: mean_error_of(t)(x.astype(F32), y.astype(F32)), SUMS),
    wrong={
        "f16 difference": lambda x, y: mean_error_of(tree)((x - y).astype(F32), np.zeros_like(x, F32)),
        "f16 sum": lambda x, y: (chain(np.square(x - y)) / np.float16(x.shape[-1])).astype(F32),
        "expanded": lambda x, y: (
            (tree(x.astype(F32) ** 2) - 2 * tree(x.astype(F32) * y.astype(F32)) + tree(y.astype(F32) ** 2)) / F32(x.shape[-1])
        ).astype(F32),
        "1 dropped": lambda x, y: mean_error_of(dropped(tree, 1))(x.astype(F32), y.astype(F32)),
    },
    kinds=("normal", "offset", "positive", "small"),
)


# ---- stencils, recurrences, updates ----


def convolved(x: Array, y: Array) -> Array:
    total = np.zeros(x.size - y.size + 1, F32)
    for k in range(y.size):
        total = (total + x[k : k + total.size] * y[y.size - 1 - k]).astype(F32)
    return total


def convolved_fma(x: Array, y: Array) -> Array:
    total = np.zeros(x.size - y.size + 1, F32)
    for k in reversed(range(y.size)):
        total = fma(x[k : k + total.size], np.full_like(total, y[y.size - 1 - k]), total)
    return total


CONVOLUTION = Computation(
    inputs={"x": "f32", "y": "f32"},
    shapes=tuple({"x": (n + k - 1,), "y": (k,), "out": (n,)} for n, k in ((1, 1), (40, 3), (257, 9), (64, 65))),
    reference="einsum('ij,j->i', x[arange(out.shape[0])[:, None] + arange(y.shape[0])[None, :]], y[::-1])",
    baseline=convolved,
    right={"fma backwards": convolved_fma, "NumPy": lambda x, y: np.convolve(x, y, "valid").astype(F32)},
    wrong={
        "correlation": lambda x, y: convolved(x, y[::-1] if y.size > 1 else y * 2),
        "last tap": lambda x, y: convolved(x, np.concatenate([np.zeros(1, F32), y[1:]])),
        "f16 taps": lambda x, y: convolved(x, f16(y).astype(F32)),
        "f16 products": lambda x, y: convolved(f16(x).astype(F32), y),
    },
)


def adam(x: Array, m: Array, v: Array, root: Rewrite = np.sqrt, epsilon: float = 1e-8, inverse: Rewrite = exact_inverse) -> Array:
    first = fma(np.full_like(x, 0.9), m, F32(0.1) * x)
    second = fma(np.full_like(x, 0.999), v * v, F32(0.001) * x * x)
    return (first * inverse(root(second).astype(F32) + F32(epsilon))).astype(F32)


ADAM = Computation(
    inputs={"x": "f32", "m": "f32", "v": "f32"},
    shapes=tuple({"x": (n,), "m": (n,), "v": (n,), "out": (n,)} for n in (1, 33, 1000)),
    reference="(0.9 * m + 0.1 * x) / (sqrt(0.999 * v * v + 0.001 * x * x) + 1e-8)",
    baseline=adam,
    right={
        "reciprocal": lambda x, m, v: adam(x, m, v, inverse=reciprocal),
        "separate": lambda x, m, v: (
            (F32(0.9) * m + F32(0.1) * x) / (function(np.sqrt)(F32(0.999) * (v * v) + F32(0.001) * (x * x)) + F32(1e-8))
        ).astype(F32),
    },
    wrong={
        "epsilon inside": lambda x, m, v: adam(x, m, v, root=lambda s: np.sqrt(s + F32(1e-8)), epsilon=0),
        "quake": lambda x, m, v: adam(x, m, v, root=lambda s: s * quake_rsqrt(s)),
        "decay": lambda x, m, v: adam(x, m * F32(1.0001), v),
        "f16 state": lambda x, m, v: adam(x, f16(m).astype(F32), v),
    },
    kinds=("normal", "positive", "small"),
)


def rotated(x: Array, t: Array, sine: Rewrite, cosine: Rewrite) -> Array:
    half = x.shape[-1] // 2
    s, c = sine(t), cosine(t)
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * c - second * s, second * c + first * s], axis=-1).astype(F32)


ROPE = Computation(
    inputs={"x": "f32", "t": "f32"},
    shapes=tuple({"x": (m, 2 * n), "t": (m, n), "out": (m, 2 * n)} for m, n in ((1, 1), (5, 8), (33, 32))),
    reference="concatenate((x[:, :t.shape[1]] * cos(t) - x[:, t.shape[1]:] * sin(t),"
    " x[:, t.shape[1]:] * cos(t) + x[:, :t.shape[1]] * sin(t)), axis=1)",
    baseline=lambda x, t: rotated(x, t, function(np.sin, 0.5), function(np.cos, 0.5)),
    right={"hardware": lambda x, t: rotated(x, t, function(np.sin, 2), function(np.cos, 2))},
    wrong={
        "sign": lambda x, t: rotated(x, -t, np.sin, np.cos),
        "f16 tables": lambda x, t: rotated(x, t, lambda v: f16(np.sin(v)).astype(F32), lambda v: f16(np.cos(v)).astype(F32)),
        "polynomial": lambda x, t: rotated(x, t, lambda v: (v - v**3 / 6 + v**5 / 120).astype(F32), lambda v: np.cos(v)),
    },
    kinds=("normal", "positive", "small"),
)


def quantised(x: Array, inverse: Rewrite = exact_inverse) -> Array:
    scale = np.abs(x).max(axis=-1, keepdims=True) * F32(1 / 127)
    steps: Array = np.rint(x * inverse(scale))
    return steps.astype(np.int32)


QUANTISATION = Computation(
    inputs={"x": "f32"},
    output="i32",
    shapes=ROWS,
    reference="int32(round(x / (max(abs(x), axis=1, keepdims=True) / 127)))",
    baseline=quantised,
    right={
        "reciprocal": lambda x: quantised(x, reciprocal),
        "multiplied": lambda x: np.rint(x * (F32(127) / np.abs(x).max(axis=-1, keepdims=True))).astype(np.int32),
    },
    wrong={
        "truncated": lambda x: np.trunc(x * exact_inverse(np.abs(x).max(axis=-1, keepdims=True) * F32(1 / 127))).astype(np.int32),
        "128": lambda x: np.rint(x * (F32(127.01) / np.abs(x).max(axis=-1, keepdims=True))).astype(np.int32),
        "no abs": lambda x: np.rint(x * (F32(127) / x.max(axis=-1, keepdims=True))).astype(np.int32),
    },
    kinds=("normal", "offset", "positive", "small"),
)


# ---- products ----


def vector_product_of(total: Rewrite) -> Rewrite:
    return lambda x, y: total((x * y).astype(np.float64))


MATVEC_F64 = Computation(
    inputs={"x": "f64", "y": "f64"},
    output="f64",
    shapes=tuple({"x": (4, n), "y": (n,), "out": (4,)} for n in _ROWS),
    reference="x @ y",
    baseline=vector_product_of(tree),
    right=with_sums(vector_product_of, SUMS),
    wrong={
        **with_sums(vector_product_of, WRONG_SUMS),
        "f32 sums": lambda x, y: tree((x * y).astype(F32)).astype(np.float64),
        "scale": lambda x, y: vector_product_of(tree)(x, y) * (1 + 1e-9),
    },
)


def bias_relu_of(total: Rewrite) -> Rewrite:
    def bias_relu(x: Array, y: Array, z: Array) -> Array:
        products = x.astype(F32)[:, None, :] * y.astype(F32).T[None, :, :]
        return f16(np.maximum(total(products) + z.astype(F32), F32(0)))

    return bias_relu


BIAS_RELU = Computation(
    inputs={"x": "f16", "y": "f16", "z": "f16"},
    output="f16",
    shapes=tuple({"x": (m, k), "y": (k, n), "z": (n,), "out": (m, n)} for m, n, k in ((5, 7, 2), (9, 13, 65), (8, 8, 700))),
    reference="maximum(x @ y + z, 0)",
    baseline=bias_relu_of(blocked),
    right=with_sums(bias_relu_of, SUMS),
    wrong={
        **with_sums(bias_relu_of, {k: v for k, v in WRONG_SUMS.items() if "dropped" in k}),
        "no bias": lambda x, y, z: bias_relu_of(tree)(x, y, z * 0),
        "f16 sum": lambda x, y, z: np.maximum(chain((x[:, None, :] * y.T[None, :, :]).astype(np.float16)) + z, np.float16(0)),
        "leaky": lambda x, y, z: f16(np.where((r := x.astype(F32) @ y.astype(F32) + z.astype(F32)) > 0, r, F32(1e-3) * r)),
    },
    kinds=("normal", "positive", "small"),
)


FURTHER_COMPUTATIONS: Mapping[str, Computation] = {
    "cosine": COSINE,
    "l2 norm": L2,
    "silu": SILU,
    "gelu": GELU,
    "log softmax": LOG_SOFTMAX,
    "mean error": MEAN_ERROR,
    "convolution": CONVOLUTION,
    "adam": ADAM,
    "rope": ROPE,
    "quantisation": QUANTISATION,
    "matvec f64": MATVEC_F64,
    "bias relu": BIAS_RELU,
}
