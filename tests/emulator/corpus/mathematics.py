"""The math library (OCML) in float and double, and the conversions between number types.

References are computed in double precision (float kernels) or by `math` (double kernels).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tests.emulator.corpus.case import Case, Run, launch

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[..., float]

F32, F64, I32, I64 = np.float32, np.float64, np.int32, np.int64
ULP32, ULP64 = 2.0**-23, 2.0**-52
SMALLEST = 5e-324
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan]
N = 128


def guarded(function: Function) -> Function:
    """Return the function with IEEE results in place of Python exceptions."""

    def compute(*x: float) -> float:
        try:
            return function(*x)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return compute


def mapped(
    name: str, functions: Function, *domains: tuple[float, float], ulps: float = 3, wide: bool = False,
    special: dict[float, float] | None = None, atol: float = 0,
) -> Case:  # fmt: skip
    """Return the case of a kernel for one function: inputs spread over the domains, then special values."""
    kind = F64 if wide else F32

    def make(rng: np.random.Generator) -> Run:
        edge = np.array(list(special or {}))
        inputs = [spread(rng, low, high, N - (len(edge) if len(domains) == 1 else 0)) for low, high in domains]
        if len(domains) == 1:
            inputs[0] = np.concatenate([inputs[0], edge])
        arrays = [x.astype(kind) for x in inputs]
        results = [guarded(functions)(*(float(v) for v in row)) for row in zip(*arrays, strict=True)]
        if special and len(domains) == 1:
            results[-len(edge) :] = list(special.values())
        with np.errstate(over="ignore"):
            expected = np.array(results).astype(kind)
        smallest = atol or float(np.finfo(kind).tiny) * 2
        rtol = ulps * (ULP64 if wide else ULP32)
        return Run((*arrays, np.zeros(N, kind)), {len(arrays): expected}, rtol=rtol, atol=smallest)

    make.__name__, make.__module__ = name, __name__
    return launch(grid=2, block=64)(make)


def spread(rng: np.random.Generator, low: float, high: float, count: int) -> np.ndarray:
    """Return values, half of them uniform and half over all magnitudes up to the larger bound."""
    even = rng.uniform(low, high, count // 2)
    largest = max(abs(low), abs(high))
    magnitudes = 10.0 ** rng.uniform(-6, math.log10(largest), count - count // 2)
    both = magnitudes * rng.choice([-1, 1], magnitudes.size)
    return np.concatenate([even, np.where((both < low) | (both > high), np.clip(magnitudes, low, high), both)])


def nearest_even(x: float) -> float:
    return float(np.rint(x))


def away(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x)


def all_roundings(x: float) -> float:
    return away(x) + 10 * math.floor(x) + 100 * math.ceil(x) + 1000 * math.trunc(x) + 10000 * nearest_even(x)


def cube_root(x: float) -> float:
    return math.copysign(abs(x) ** (1 / 3), x)


def power_of(x: float, y: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.power(F64(x), F64(y)))


def divided(x: float, y: float) -> float:
    with np.errstate(all="ignore"):
        return float(F64(x) / F64(y))


def fused(x: float, y: float) -> float:
    a, b = F32(x), F32(y)
    product = F32(float(a) * float(b) - float(a))
    return float(product + np.minimum(a, b) * np.maximum(a, b) + np.maximum(a - b, F32(0)) + np.copysign(a, b))


INF, NAN = math.inf, math.nan
HUGE = (-1e30, 1e30)
CASES = [
    mapped("sine", math.sin, HUGE, special={0.0: 0.0, INF: NAN, NAN: NAN, 3.4e38: math.sin(float(F32(3.4e38)))}),
    mapped("cosine", math.cos, HUGE, special={0.0: 1.0, -INF: NAN}, atol=1e-7),
    mapped("tangent", math.tan, (-1e5, 1e5), ulps=6),
    mapped("exponential", math.exp, (-100, 90), special={-INF: 0.0, INF: INF, NAN: NAN, 0.0: 1.0}),
    mapped("exponential2", lambda x: 2.0**x, (-150, 130), special={-INF: 0.0, INF: INF}),
    mapped("exponential_minus_1", math.expm1, (-20, 88), special={-INF: -1.0, INF: INF}),
    mapped("logarithm", math.log, (1e-30, 1e30), special={0.0: -INF, -1.0: NAN, INF: INF, 1.0: 0.0, 1e-40: -92.10340}),
    mapped("logarithm10", math.log10, (1e-30, 1e30), special={0.0: -INF, INF: INF}),
    mapped("logarithm_1_plus", math.log1p, (-0.999, 1e6), special={-1.0: -INF, -2.0: NAN}),
    mapped("error_function", math.erf, (-5, 5), special={INF: 1.0, -INF: -1.0}, ulps=4),
    mapped("complementary_error", math.erfc, (-4, 9), special={INF: 0.0, -INF: 2.0}, ulps=8),
    mapped("log_gamma", math.lgamma, (-30.3, 1e5), special={0.0: INF, -3.0: INF, INF: INF}, ulps=8, atol=1e-5),
    mapped("gamma_function", math.gamma, (-10.2, 34), special={INF: INF}, ulps=32),
    mapped("hyperbolic_tangent", math.tanh, (-15, 15), special={INF: 1.0, -INF: -1.0}),
    mapped("hyperbolic_sine", math.sinh, (-85, 85)),
    mapped("arcsine", math.asin, (-1, 1), special={1.5: NAN}),
    mapped("arctangent", math.atan, HUGE, special={INF: math.pi / 2, -INF: -math.pi / 2}),
    mapped("square_root", math.sqrt, (0, 1e30), ulps=1, special={-1.0: NAN, INF: INF, 1e-40: math.sqrt(F32(1e-40))}),
    mapped("reciprocal_root", lambda x: divided(1, math.sqrt(x)), (1e-30, 1e30), special={0.0: INF, INF: 0.0}),
    mapped("cube_root", cube_root, HUGE),
    mapped("rounded", all_roundings, (-50, 50), special={2.5: all_roundings(2.5), -0.5: all_roundings(-0.5)}),
    mapped("fast", lambda x: math.sin(x) + math.cos(x) * math.exp(x * 0.1) + math.log(abs(x) + 1), (-6, 6), ulps=30, atol=3e-6),
    mapped("quotient", divided, HUGE, (-1e20, 1e20), ulps=1.5),
    mapped("remainder_", math.fmod, HUGE, (-1e4, 1e4), ulps=0.1),
    mapped("power", power_of, (-3, 20), (-9, 9), ulps=16),
    mapped("angle", math.atan2, (-10, 10), (-10, 10), ulps=4),
    mapped("distance", math.hypot, (-1e25, 1e25), (-1e25, 1e25)),
    mapped("fused", fused, (-10, 10), (-10, 10), ulps=8, atol=1e-5),
    mapped("scaled", lambda x, y: math.ldexp(x, int(y)) + y * 8, (-10, 10), (-20, 20)),
    mapped("sine64", math.sin, HUGE, wide=True, special={1e300: math.sin(1e300), INF: NAN}),
    mapped("cosine64", math.cos, HUGE, wide=True, special={1e300: math.cos(1e300), 0.0: 1.0}),
    mapped("exponential64", math.exp, (-700, 700), wide=True, special={-INF: 0.0, INF: INF, -1e4: 0.0}),
    mapped("logarithm64", math.log, (1e-300, 1e300), wide=True, special={0.0: -INF, -1.0: NAN, 1.0: 0.0}),
    mapped("error_function64", math.erf, (-6, 6), wide=True, ulps=4),
    mapped("log_gamma64", math.lgamma, (0.1, 1e8), wide=True, ulps=8, atol=1e-14),
    mapped("hyperbolic_tangent64", math.tanh, (-20, 20), wide=True, ulps=4),
    mapped("arctangent64", math.atan, HUGE, wide=True),
    mapped("square_root64", math.sqrt, (0, 1e200), wide=True, ulps=0.1, special={INF: INF, -4.0: NAN, 1e-310: math.sqrt(1e-310)}),
    mapped("reciprocal_root64", lambda x: 1 / math.sqrt(x), (1e-200, 1e200), wide=True),
    mapped("rounded64", all_roundings, (-1e6, 1e6), wide=True, special={2.5: all_roundings(2.5)}),
    mapped("quotient64", divided, (-1e300, 1e300), (-1e150, 1e150), wide=True, ulps=0.1),
    mapped("power64", power_of, (0, 20), (-200, 200), wide=True, ulps=4),
    mapped("sum_of_products64", lambda x, y: x + (x - y) * 0.5, (-9, 9), (-9, 9), wide=True, atol=1e-13),
    mapped("remainder64", math.fmod, (-1e50, 1e50), (-1e10, 1e10), wide=True, ulps=0.1),
]  # fmt: skip


@launch(grid=1, block=64)
def parts(rng: np.random.Generator) -> Run:
    x, y = spread(rng, -1e4, 1e4, 64).astype(F32), spread(rng, -1e9, 1e9, 64)

    def packed(v: float) -> float:
        mantissa, exponent = math.frexp(v)
        fraction, whole = math.modf(v)
        return mantissa + exponent * 10 + fraction * 100 + whole

    exponents = [2 * (math.frexp(float(v))[1] - 1) for v in x]
    out = np.array([[packed(float(v)) for v in x], exponents, np.ones(64)], F32)
    return Run((x, np.zeros((3, 64), F32), y, np.zeros(64)), {1: out, 3: np.array([packed(v) for v in y])}, rtol=1e-6, atol=1e-4)


@launch(grid=1, block=64)
def classified(rng: np.random.Generator) -> Run:
    x, y = spread(rng, -2, 2, 64).astype(F32), spread(rng, -2, 2, 64)
    x[:7] = [*SPECIAL, 1e-40, -1e-42]
    y[3:8] = SPECIAL
    normal = np.isfinite(x) & (np.abs(x) >= np.finfo(F32).tiny)
    flags = [np.isnan(x), np.isinf(x), np.isfinite(x), np.signbit(x), x == x, x > 0, ~(x < 1), normal]
    flags += [np.isnan(y), np.isinf(y), np.signbit(y), y <= 0, y != y, ~(y >= 1)]
    expected = sum(flag.astype(I32) << place for place, flag in enumerate(flags))
    return Run((x, np.zeros(64, I32), y), {1: expected})


@launch(grid=1, block=64)
def converted(rng: np.random.Generator) -> Run:
    x, y = spread(rng, -1e5, 1e5, 64).astype(F32), spread(rng, -1e9, 1e9, 64)
    z = (rng.integers(-(2**62), 2**62, 64) << 1) >> rng.integers(0, 62, 64)
    u = z.view(np.uint64)
    low = z.astype(I32)
    bytes_and_shorts = z.astype(np.uint8).astype(F32) + z.astype(np.int16).astype(F32)
    out = [x.astype(F64), z.astype(F64), u.astype(F64), y.astype(I32).astype(F64)]
    both = low.astype(F32) + low.view(np.uint32).astype(F32)
    out2 = [y.astype(F32), z.astype(F32), u.astype(F32), both, bytes_and_shorts]
    magnitudes = np.abs(x).astype(I64) + np.abs(y).astype(I64)
    roundings = np.rint(x) + np.ceil(x) * 3 + np.floor(x) * 5
    out3 = [x.astype(I64), y.astype(I64), x.astype(I64), magnitudes, roundings.astype(F64).astype(I64)]
    return Run(
        (x, y, z, np.zeros((4, 64)), np.zeros((5, 64), F32), np.zeros((5, 64), I64)),
        {3: np.array(out), 4: np.array(out2), 5: np.array(out3)},
    )


@launch(grid=1, block=64)
def complex_root(rng: np.random.Generator) -> Run:
    z = rng.uniform(-2, 2, 64) + 1j * rng.uniform(-2, 2, 64)
    before = np.concatenate([z.real, z.imag])
    for _ in range(20):
        z = 2 * z / 3 + np.conj(z * z) / (3 * np.abs(z * z) ** 2)
    return Run((before, np.zeros(128)), {1: np.concatenate([z.real, z.imag])}, rtol=1e-9, atol=1e-9)


def any_bits(rng: np.random.Generator, kind: type[np.generic], count: int) -> np.ndarray:
    """Return numbers of every exponent, with denormals, infinities and NaN."""
    bits = np.dtype(kind).itemsize * 8
    drawn = np.frombuffer(rng.bytes(count * bits // 8), kind).copy()
    small = np.frombuffer(rng.bytes(count // 8 * bits // 8), f"u{bits // 8}")
    drawn[: count // 8].view(small.dtype)[:] = small >> rng.integers(9 if bits == 32 else 12, bits - 2, small.size).astype(
        small.dtype
    )
    drawn[-5:] = SPECIAL
    rng.shuffle(drawn)
    return drawn


@launch(grid=32, block=128)
def exact_quotients(rng: np.random.Generator) -> Run:
    a, b = any_bits(rng, F32, 4096), any_bits(rng, F32, 4096)
    c, d = any_bits(rng, F64, 4096), any_bits(rng, F64, 4096)
    near = slice(0, 2048)  # quotients inside the range, also at its ends
    with np.errstate(all="ignore"):
        d[near] = np.where(np.isfinite(c[near]), c[near], 1) * 2.0 ** rng.uniform(-1022, 1022, 2048)
        b[near] = np.where(np.isfinite(a[near]), a[near], 1) * 2.0 ** rng.uniform(-127, 127, 2048)
        quotients, wide = a / b, c / d
    return Run((a, b, np.zeros(4096, F32), c, d, np.zeros(4096)), {2: quotients, 5: wide}, atol=SMALLEST)


@launch(grid=8, block=128)
def exact_roots(rng: np.random.Generator) -> Run:
    a, b = any_bits(rng, F32, 1024), any_bits(rng, F64, 1024)
    with np.errstate(all="ignore"):
        return Run((a, np.zeros(1024, F32), b, np.zeros(1024)), {1: np.sqrt(a), 3: np.sqrt(b)})
