"""Float VALU opcodes against NumPy and rational arithmetic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.builders.opcodes import TYPES, Row, Snippets, assert_same, check_floats, edge_floats, exactly, pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

F16, F32, F64 = np.float16, np.float32, np.float64
Floats = Any


def signals(x: Floats) -> NDArray[np.bool_]:
    """Signalling NaNs."""
    bits = x.view(f"u{x.dtype.itemsize}")
    quiet = {2: 0x200, 4: 0x400000, 8: 1 << 51}[x.dtype.itemsize]
    is_signalling: NDArray[np.bool_] = np.isnan(x) & (bits & np.array(quiet, bits.dtype) == 0)
    return is_signalling


def extreme(a: Floats, b: Floats, *, smallest: bool) -> Floats:
    """minNum or maxNum of IEEE 754-2008 with ordered zeros."""
    first = (a < b) | ((a == b) & np.signbit(a)) if smallest else (a > b) | ((a == b) & ~np.signbit(a))
    result = np.where(np.isnan(a), b, np.where(np.isnan(b) | first, a, b))
    return np.where(signals(a) | signals(b), np.array(np.nan, a.dtype), result)


def low(a: Floats, b: Floats) -> Floats:
    return extreme(a, b, smallest=True)


def high(a: Floats, b: Floats) -> Floats:
    return extreme(a, b, smallest=False)


def median(a: Floats, b: Floats, c: Floats) -> Floats:
    top = high(high(a, b), c)
    ordered = np.where(top == a, high(b, c), np.where(top == b, high(a, c), high(a, b)))
    return np.where(np.isnan(a) | np.isnan(b) | np.isnan(c), low(low(a, b), c), ordered)


def clamp(x: Floats) -> Floats:
    one, zero = np.array(1, x.dtype), np.array(0, x.dtype)
    return np.where(x > 0, np.where(x < 1, x, one), zero)


def fma(dtype: Any, mode: str = "nearest") -> Any:
    def one(a: Any, b: Any, c: Any) -> Any:
        if isinstance(a, float) and math.isfinite(a) and math.isfinite(b) and not math.isfinite(c):
            return c
        with np.errstate(all="ignore"):
            return a * b + c if not isinstance(a, float) else float(F64(a) * F64(b) + F64(c))

    return exactly(one, dtype, mode, sums=True)


def mantissa(x: Floats) -> Floats:
    fraction: Floats = np.frexp(x)[0]
    return np.asarray(np.where(np.isfinite(x), fraction, x), x.dtype)


def exponent(x: Floats) -> NDArray[np.int32]:
    return np.where(np.isfinite(x), np.frexp(np.where(np.isfinite(x), x, 0))[1], 0).astype(np.int32)


def scaled(dtype: Any) -> Any:
    """ldexp with one rounding."""

    def scale(x: Floats, power: Any) -> Floats:
        from fractions import Fraction

        from tests.builders.opcodes import rounded

        def one(value: float, n: int) -> float:
            if not math.isfinite(value) or value == 0:
                return value
            return rounded(Fraction(value) * Fraction(2) ** max(-3000, min(n, 3000)), dtype)

        return np.array([one(float(v), int(n)) for v, n in zip(x, power, strict=True)]).astype(dtype)

    return scale


def fraction(x: Floats) -> Floats:
    below_one = np.nextafter(np.array(1, x.dtype), np.array(0, x.dtype))
    return np.where(np.isnan(x - np.floor(x)), np.nan, np.minimum(x - np.floor(x), below_one)).astype(x.dtype)


def without_denormals(x: Floats) -> Floats:
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(np.array(0, x.dtype), x), x)


def exp2(x: Floats) -> Floats:
    return without_denormals(np.exp2(x.astype(F64)).astype(F32))


def log2(x: Floats) -> Floats:
    return np.log2(without_denormals(x).astype(F64)).astype(F32)


def wide(function: Any) -> Any:
    """Round a function of float64 to the type of the operand."""
    return lambda x: function(x.astype(F64)).astype(x.dtype)


def two(bits: int) -> str:
    return f"f{bits} f{bits}"


def three(bits: int) -> str:
    return f"f{bits} f{bits} f{bits}"


def registers(bits: int, *firsts: int) -> list[str]:
    return [f"v[{r}:{r + 1}]" if bits == 64 else f"v{r}" for r in firsts]


def cube(part: str) -> Any:
    """Face of a cube map, its coordinates, and twice the major axis."""

    def compute(x: Floats, y: Floats, z: Floats) -> Floats:
        ax, ay, az = np.abs(x), np.abs(y), np.abs(z)
        on_z = (az >= ax) & (az >= ay)
        on_y = ~on_z & (ay >= ax)
        choices = {
            "id": [np.where(z < 0, 5, 4), np.where(y < 0, 3, 2), np.where(x < 0, 1, 0)],
            "ma": [z * 2, y * 2, x * 2],
            "sc": [np.where(z < 0, -x, x), x, np.where(x < 0, z, -z)],
            "tc": [-y, np.where(y < 0, -z, z), -y],
        }[part]
        return np.select([on_z, on_y], choices[:2], choices[2]).astype(F32)

    return compute


def two_over_pi(bits: int) -> int:
    """floor(2 / pi * 2**bits), by Machin's formula."""
    one = 1 << bits + 64

    def arctangent(n: int) -> int:
        total, power, k = 0, one // n, 1
        while power:
            total += power // k if k % 4 == 1 else -(power // k)
            power //= n * n
            k += 2
        return total

    pi = 4 * (4 * arctangent(5) - arctangent(239))
    return (one * one * 2 // pi) >> 64


def digits_of_two_over_pi(x: Floats, segment: Any) -> Floats:
    """Return the 53 bits of 2 / pi that the argument reduction of x needs."""
    digits = two_over_pi(1201)

    def one(exponent: int, n: int) -> float:
        shift = (n & 31) * 53 + max(0, exponent - 1077)
        part = (digits << shift >> 1201 - 53) & (1 << 53) - 1
        return math.ldexp(part, -53 - shift + (128 if exponent >= 1968 else 0))

    exponents = (x.view(np.uint64) >> np.uint64(52) & np.uint64(0x7FF)).tolist()
    return np.array([one(e, int(n)) for e, n in zip(exponents, segment, strict=True)])


def rows_of(bits: int) -> list[Row]:
    kind, dtype = f"f{bits}", TYPES[f"f{bits}"]
    a, b, c = registers(bits, 0, 2, 4)
    d = registers(bits, 20)[0]
    e32 = "" if bits == 64 else "_e32"
    rows = [
        Row(f"v_add_f{bits}", lambda a, b: a + b, two(bits), kind),
        Row(f"v_mul_f{bits}", lambda a, b: a * b, two(bits), kind),
        Row(f"v_min_f{bits}", low, two(bits), kind),
        Row(f"v_max_f{bits}", high, two(bits), kind),
        Row(f"v_fma_f{bits}", fma(dtype), three(bits), kind),
        Row(f"v_trunc_f{bits}_e32", np.trunc, kind, kind),
        Row(f"v_floor_f{bits}_e32", np.floor, kind, kind),
        Row(f"v_ceil_f{bits}_e32", np.ceil, kind, kind),
        Row(f"v_rndne_f{bits}_e32", np.rint, kind, kind),
        Row(f"v_fract_f{bits}_e32", fraction, kind, kind),
        Row(f"v_rcp_f{bits}_e32", lambda x: (1 / x.astype(F64)).astype(x.dtype), kind, kind, ulps=1),
        Row(f"v_rsq_f{bits}_e32", wide(lambda x: 1 / np.sqrt(x)), kind, kind, ulps=1),
        Row(f"v_frexp_mant_f{bits}_e32", mantissa, kind, kind),
        Row(f"v_add_f{bits}{'_e64' if bits < 64 else ''}", lambda a, b: clamp(a - np.abs(b)), two(bits), kind,
            operands=f"{d}, {a}, -|{b}| clamp"),
        Row(f"v_mul_f{bits}{'_e64' if bits < 64 else ''}", lambda a, b: -a * np.abs(b), two(bits), kind,
            operands=f"{d}, -{a}, |{b}|"),
        Row(f"v_fma_f{bits}", lambda a, b, c: fma(dtype)(-a, np.abs(b), -np.abs(c)), three(bits), kind,
            operands=f"{d}, -{a}, |{b}|, -|{c}|"),
        Row(f"v_max_f{bits}{'_e64' if bits < 64 else ''}", lambda a, b: clamp(high(a, b)), two(bits), kind, " clamp"),
        Row(f"v_add_f{bits}{'_e64' if bits < 64 else ''}", lambda a: np.array(0.5, dtype) + a, kind, kind,
            operands=f"{d}, 0.5, {a}"),
        Row(f"v_mul_f{bits}{'_e64' if bits < 64 else ''}", lambda a: np.array(-4, dtype) * a, kind, kind,
            operands=f"{d}, {a}, -4.0"),
    ]  # fmt: skip
    del e32
    if bits < 64:
        rows += [
            Row(f"v_sub_f{bits}_e32", lambda a, b: a - b, two(bits), kind),
            Row(f"v_subrev_f{bits}_e32", lambda a, b: b - a, two(bits), kind),
            Row(f"v_min3_f{bits}", lambda a, b, c: low(low(a, b), c), three(bits), kind),
            Row(f"v_max3_f{bits}", lambda a, b, c: high(high(a, b), c), three(bits), kind),
            Row(f"v_med3_f{bits}", median, three(bits), kind),
        ]
    return rows


ROWS = [
    *(row for bits in (16, 32, 64) for row in rows_of(bits)),
    Row("v_mul_legacy_f32", lambda a, b: np.where((a == 0) | (b == 0), F32(0), a * b), "f32 f32", "f32"),
    Row("v_fmac_f32_e32", fma(F32), "f32 f32 f32", "f32", operands="v4, v0, v2", target=4),
    Row("v_mac_f16_e32", lambda a, b, c: a * b + c, "f16 f16 f16", "f16", operands="v4, v0, v2", target=4),
    Row("v_fmac_f64_e32", fma(F64), "f64 f64 f64", "f64", operands="v[4:5], v[0:1], v[2:3]", target=4),
    Row("v_fmamk_f32", lambda a, b: fma(F32)(a, np.full_like(a, 1.7), b), "f32 f32", "f32", operands="v20, v0, 0x3fd9999a, v2"),
    Row("v_fmaak_f32", lambda a, b: fma(F32)(a, b, np.full_like(a, 1.7)), "f32 f32", "f32", operands="v20, v0, v2, 0x3fd9999a"),
    Row("v_mad_legacy_f16", lambda a, b, c: a * b + c, "f16 f16 f16", "f16"),
    Row("v_mad_f16", lambda a, b, c: a * b + c, "f16 f16 f16", "f16"),
    Row("v_madmk_f16", lambda a, b: a * F16(1.5) + b, "f16 f16", "f16", operands="v20, v0, 0x3e00, v2"),
    Row("v_madak_f16", lambda a, b: a * b + F16(1.5), "f16 f16", "f16", operands="v20, v0, v2, 0x3e00"),
    *(Row(f"v_cube{part}_f32", cube(part), "f32 f32 f32", "f32") for part in ("id", "ma", "sc", "tc")),
    Row("v_trig_preop_f64", digits_of_two_over_pi, "f64 u32", "f64"),
    Row("v_fma_legacy_f16", fma(F16), "f16 f16 f16", "f16"),
    Row("v_sqrt_f16_e32", np.sqrt, "f16", "f16", ulps=1),
    Row("v_sqrt_f32_e32", lambda x: np.sqrt(without_denormals(x)), "f32", "f32", ulps=1),
    Row("v_sqrt_f64_e32", np.sqrt, "f64", "f64", ulps=1),
    Row("v_rcp_iflag_f32_e32", lambda x: (1 / x.astype(F64)).astype(F32), "f32", "f32", ulps=1),
    Row("v_exp_f32_e32", exp2, "f32", "f32", ulps=1),
    Row("v_log_f32_e32", log2, "f32", "f32", ulps=1),
    Row("v_exp_f16_e32", wide(np.exp2), "f16", "f16", ulps=1),
    Row("v_log_f16_e32", wide(np.log2), "f16", "f16", ulps=1),
    Row("v_exp_legacy_f32_e32", exp2, "f32", "f32", ulps=1),
    Row("v_log_legacy_f32_e32", log2, "f32", "f32", ulps=1),
    Row("v_frexp_exp_i32_f32_e32", exponent, "f32", "i32"),
    Row("v_frexp_exp_i32_f64_e32", exponent, "f64", "i32"),
    Row("v_frexp_exp_i16_f16_e32", lambda x: exponent(x).astype(np.int16), "f16", "i16"),
    Row("v_ldexp_f32", scaled(F32), "f32 i32", "f32"),
    Row("v_ldexp_f64", scaled(F64), "f64 i32", "f64"),
    Row("v_ldexp_f16_e32", scaled(F16), "f16 i16", "f16"),
]
"""Opcode, oracle, operands, result."""

QUOTIENT_F32 = """\
v_div_scale_f32 v10, s[0:1], v2, v2, v0
v_div_scale_f32 v11, vcc, v0, v2, v0
v_rcp_f32_e32 v12, v10
v_fma_f32 v13, -v10, v12, 1.0
v_fma_f32 v12, v13, v12, v12
v_mul_f32_e32 v14, v11, v12
v_fma_f32 v15, -v10, v14, v11
v_fma_f32 v14, v15, v12, v14
v_fma_f32 v15, -v10, v14, v11
v_div_fmas_f32 v15, v15, v12, v14
v_div_fixup_f32 v20, v15, v2, v0"""
"""The division sequence of compilers, exact in every case."""
QUOTIENT_F64 = """\
v_div_scale_f64 v[6:7], s[0:1], v[2:3], v[2:3], v[0:1]
v_rcp_f64_e32 v[8:9], v[6:7]
v_fma_f64 v[10:11], -v[6:7], v[8:9], 1.0
v_fma_f64 v[8:9], v[8:9], v[10:11], v[8:9]
v_fma_f64 v[10:11], -v[6:7], v[8:9], 1.0
v_fma_f64 v[8:9], v[8:9], v[10:11], v[8:9]
v_div_scale_f64 v[10:11], vcc, v[0:1], v[2:3], v[0:1]
v_mul_f64 v[12:13], v[10:11], v[8:9]
v_fma_f64 v[6:7], -v[6:7], v[12:13], v[10:11]
v_div_fmas_f64 v[6:7], v[6:7], v[8:9], v[12:13]
v_div_fixup_f64 v[20:21], v[6:7], v[2:3], v[0:1]"""
QUOTIENT_F16 = """\
v_cvt_f32_f16_e32 v10, v0
v_cvt_f32_f16_e32 v11, v2
v_rcp_f32_e32 v11, v11
v_mul_f32_e32 v10, v10, v11
v_cvt_f16_f32_e32 v10, v10
v_div_fixup_f16 v20, v10, v2, v0"""
QUOTIENT_F16_LEGACY = QUOTIENT_F16.replace("fixup_f16", "fixup_legacy_f16")
SINE, COSINE = "v_sin_{}_e32 v20, v0", "v_cos_{}_e32 v20, v0"


def texts() -> list[str]:
    """Return every instruction of this file."""
    trigonometry = [text.format(kind) for text in (SINE, COSINE) for kind in ("f16", "f32")]
    return [*(row.text for row in ROWS), QUOTIENT_F16, QUOTIENT_F16_LEGACY, QUOTIENT_F32, QUOTIENT_F64, *trigonometry]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.text)
def test_it_equals_the_oracle_on_edge_values(snippets: Snippets, row: Row) -> None:
    check_floats(snippets, row, limit=1024 if "fma" in row.name else 4096)


@pytest.mark.parametrize(
    ("text", "dtype", "ulps"),
    [(QUOTIENT_F16, F16, 1), (QUOTIENT_F16_LEGACY, F16, 1), (QUOTIENT_F32, F32, 0), (QUOTIENT_F64, F64, 0)],
    ids=str,
)
def test_a_division_as_compilers_write_it_is_correctly_rounded(snippets: Snippets, text: str, dtype: Any, ulps: int) -> None:
    a, b = pairs(edge_floats(dtype), edge_floats(dtype, seed=5))
    outcome = snippets.run(text, {0: a, 2: b})

    with np.errstate(all="ignore"):
        assert_same("division", outcome.row(20, dtype), a / b, [a, b], ulps)


@pytest.mark.parametrize("kind", ["f16", "f32"])
@pytest.mark.parametrize(("text", "ahead"), [(SINE, 0.0), (COSINE, 0.25)])
def test_sine_and_cosine_of_turns_are_close(snippets: Snippets, text: str, ahead: float, kind: str) -> None:
    x = np.concatenate([np.linspace(-256, 256, 1021), np.linspace(-1, 1, 1021), [0.0, -0.0]]).astype(TYPES[kind])
    outcome = snippets.run(text.format(kind), {0: x})

    turns = np.mod(x.astype(F64) + ahead, 1.0)
    error = np.abs(outcome.row(20, TYPES[kind])[: len(x)].astype(F64) - np.sin(2 * np.pi * turns))
    assert error.max() < (2e-7 if kind == "f32" else 1e-3)
