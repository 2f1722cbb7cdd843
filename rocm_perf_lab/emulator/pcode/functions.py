"""Built-in functions of the pseudo-code and approximations of transcendentals.

exp2, log2, sin and cos are within about one unit in the last place of float32, as specified for the hardware; they
are not bitwise equal to those of a GPU.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode.values import UnsupportedSemantics, Value, constant, float_constant

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.pcode.ir import Builder

_LAYOUT = {16: (10, 5, 15), 32: (23, 8, 127), 64: (52, 11, 1023)}
"""Mantissa bits, exponent bits and bias by width of the float."""
_IEEE_BIT = 9
_CONVERSION = re.compile(r"([fiu])(\d+)_to_([fiu])(\d+)$")
_NORMALISED = re.compile(r"(f16|f32)_to_(snorm|unorm)$")
_EXP2 = (1.535336188319500e-4, 1.339887440266574e-3, 9.618437357674640e-3, 5.550332471162809e-2, 2.402264791363012e-1,
         6.931472028550421e-1, 1.0)  # fmt: skip
"""Coefficients of 2**x on [-0.5, 0.5], highest power first (Cephes exp2f)."""


def call(builder: Builder, name: str, arguments: list[Value]) -> Value:
    """Evaluate a call.

    Raises:
        UnsupportedSemantics: The function is unknown.
    """
    known = _FUNCTIONS.get(name)
    if known is not None:
        return known(builder, *arguments)
    conversion = _CONVERSION.match(name)
    if conversion:
        return _convert(builder, arguments[0], conversion)
    normalised = _NORMALISED.match(name)
    if normalised:
        return _normalise(builder, arguments[0], signed=normalised[2] == "snorm")
    combination = re.match(r"v_(min|max|minimum|maximum)(3?)_(\w)(\d+)$", name)
    if combination:
        return _combine(builder, arguments, combination)
    raise UnsupportedSemantics(f"function {name}")


def ldexp(builder: Builder, value: Value, exponent: Value) -> Value:
    """Return value * 2**exponent with one rounding; the power is applied in three steps that are exact or final."""
    if value.bits == 16:
        return builder.to_float(ldexp(builder, builder.to_float(value, 32), exponent), 16)
    mantissa_bits, _, bias = _LAYOUT[value.bits]
    width = value.bits
    power = builder.resize(replace(exponent, kind="i"), width, signed=True)
    limit = 2 * bias + mantissa_bits + 4
    power = _clamp_signed(builder, power, -limit, limit)
    result = value
    for _ in range(2):  # scaling down is exact before the last factor, scaling up until it overflows for good
        step = _clamp_signed(builder, power, -(bias - 1) + mantissa_bits, bias)
        result = builder.binary("*", result, _two_to_the(builder, step, value.bits))
        power = builder.binary("-", power, step)
    step = _clamp_signed(builder, power, -(bias - 1), bias)
    return builder.binary("*", result, _two_to_the(builder, step, value.bits))


def is_denormal(builder: Builder, value: Value) -> Value:
    """Return true for nonzero numbers below the smallest normal number."""
    return _is_class(builder, value, 0x90)


def exp2(builder: Builder, value: Value) -> Value:
    """Return 2**value in float32 (float16 through float32)."""
    if value.bits == 16:
        return builder.to_float(exp2(builder, builder.to_float(value, 32)), 16)
    bounded = builder.intrinsic("minnum", [value, float_constant(200.0)], kind="f", bits=32)
    bounded = builder.intrinsic("maxnum", [bounded, float_constant(-200.0)], kind="f", bits=32)
    whole = builder.intrinsic("roundeven", [bounded], kind="f", bits=32)
    fraction = builder.binary("-", bounded, whole)
    power = builder.to_integer(whole, "i", 32)
    # Two factors of 2**(n/2) suffice for |n| <= 200, and only the last one can round.
    half = builder.binary(">>", power, constant(1))
    scaled = builder.binary("*", _polynomial(builder, fraction, _EXP2), _two_to_the(builder, half, 32))
    scaled = builder.binary("*", scaled, _two_to_the(builder, builder.binary("-", power, half), 32))
    return builder.select(is_nan(builder, value), value, scaled)


def log2(builder: Builder, value: Value) -> Value:
    """Return the logarithm to base 2 in float32 (float16 through float32), computed in float64."""
    if value.bits == 16:
        return builder.to_float(log2(builder, builder.to_float(value, 32)), 16)
    wide = builder.to_float(value, 64)
    bits = builder.raw(wide)
    centred = builder.binary("-", bits, constant(0x3FE6A09E667F3BCD, 64))  # of sqrt(1/2): mantissa in [0.707, 1.414)
    exponent = builder.binary(">>", replace(centred, kind="i"), constant(52, 64))
    mantissa_bits = builder.binary("-", bits, builder.binary("<<", replace(exponent, kind="u"), constant(52, 64)))
    mantissa = builder.reinterpret(mantissa_bits, "f", 64)
    one = float_constant(1.0, 64)
    ratio = builder.binary("/", builder.binary("-", mantissa, one), builder.binary("+", mantissa, one))
    series = tuple(2 / (n * math.log(2)) for n in (15, 13, 11, 9, 7, 5, 3, 1))
    logarithm = builder.binary("*", ratio, _polynomial(builder, builder.binary("*", ratio, ratio), series))
    finite = builder.to_float(builder.binary("+", logarithm, builder.to_float(exponent, 64)), 32)
    result = builder.select(_equals(builder, value, 0.0), float_constant(-math.inf), finite)
    result = builder.select(_equals(builder, value, math.inf), value, result)
    result = builder.select(builder.compare("<", value, float_constant(0.0)), float_constant(math.nan), result)
    return builder.select(is_nan(builder, value), value, result)


def sine_of_turns(builder: Builder, value: Value, *, quarter_turns_ahead: int) -> Value:
    """Return sin(2 pi (value + quarter_turns_ahead / 4)) in float32, computed in float64 after an exact reduction."""
    wide = builder.to_float(value, 64)
    turn = builder.binary("+", wide, float_constant(quarter_turns_ahead / 4, 64))
    turn = builder.binary("-", turn, builder.intrinsic("roundeven", [turn], kind="f", bits=64))
    # sin on [-1/2, 1/2] turns from [-1/4, 1/4]: reflect at +-1/4.
    size = builder.intrinsic("fabs", [turn], kind="f", bits=64)
    reflected = builder.intrinsic("minnum", [size, builder.binary("-", float_constant(0.5, 64), size)], kind="f", bits=64)
    angle = builder.intrinsic("copysign", [reflected, turn], kind="f", bits=64)
    series = tuple((-1) ** (n // 2) * (2 * math.pi) ** n / math.factorial(n) for n in range(19, 0, -2))
    sine = builder.binary("*", angle, _polynomial(builder, builder.binary("*", angle, angle), series))
    return builder.to_float(replace(sine, narrow=None), value.bits)


def _polynomial(builder: Builder, x: Value, coefficients: tuple[float, ...]) -> Value:
    result = float_constant(coefficients[0], x.bits)
    for coefficient in coefficients[1:]:
        result = _fma(builder, result, x, float_constant(coefficient, x.bits))
    return result


def _fma(builder: Builder, a: Value, b: Value, c: Value) -> Value:
    bits = max((v.bits for v in (a, b, c) if not v.is_constant), default=a.bits)
    if bits == 16:  # float64 holds the product exactly, and rounds the sum only far from float16 midpoints
        return builder.to_float(_fma(builder, *(replace(builder.to_float(v, 64), narrow=None) for v in (a, b, c))), 16)
    return builder.intrinsic("fma", [builder.to_float(v, bits) for v in (a, b, c)], kind="f", bits=bits)


def _clamp_signed(builder: Builder, value: Value, low: int, high: int) -> Value:
    below = builder.intrinsic("smin", [value, constant(high, value.bits)], kind="i", bits=value.bits)
    return builder.intrinsic("smax", [below, constant(low, value.bits)], kind="i", bits=value.bits)


def _two_to_the(builder: Builder, power: Value, bits: int) -> Value:
    mantissa_bits, _, bias = _LAYOUT[bits]
    field = builder.binary("+", replace(power, kind="u"), constant(bias, bits))
    return builder.reinterpret(builder.binary("<<", field, constant(mantissa_bits, bits)), "f", bits)


def is_nan(builder: Builder, value: Value) -> Value:
    """Return true for quiet and signalling NaN."""
    number = value.narrow or value
    return _is_class(builder, number, 0x3)


def _is_class(builder: Builder, value: Value, mask: int) -> Value:
    if value.is_constant:
        value = replace(value, narrow=None)
    return builder.intrinsic("is.fpclass", [value], kind="u", bits=1, extra=f", i32 {mask}")


def _equals(builder: Builder, value: Value, number: float) -> Value:
    return builder.compare("==", value, float_constant(number, value.bits))


def _convert(builder: Builder, value: Value, conversion: re.Match[str]) -> Value:
    from_kind, from_bits, to_kind, to_bits = conversion[1], int(conversion[2]), conversion[3], int(conversion[4])
    source = value if value.kind == "f" and from_kind == "f" else builder.reinterpret(value, from_kind, from_bits)
    if to_kind == "f":
        return builder.to_float(source, to_bits)
    if from_kind == "f":
        return builder.to_integer(source, to_kind, to_bits)
    if to_bits >= from_bits:
        return replace(builder.resize(source, to_bits), kind=to_kind)
    if to_kind == "u":
        low = builder.intrinsic("umin", [source, constant((1 << to_bits) - 1, from_bits)], kind="u", bits=from_bits)
        return replace(builder.resize(low, to_bits), kind="u")
    half = 1 << (to_bits - 1)
    return builder.resize(_clamp_signed(builder, source, -half, half - 1), to_bits)


def _normalise(builder: Builder, value: Value, *, signed: bool) -> Value:
    low, scale = (-1.0, 32767.0) if signed else (0.0, 65535.0)
    number = builder.to_float(value, 32)
    bounded = builder.intrinsic("minnum", [number, float_constant(1.0)], kind="f", bits=32)
    bounded = builder.intrinsic("maxnum", [bounded, float_constant(low)], kind="f", bits=32)
    scaled = builder.binary("*", bounded, float_constant(scale))
    rounded = builder.intrinsic("roundeven", [scaled], kind="f", bits=32)
    rounded = builder.select(is_nan(builder, value), float_constant(0.0), rounded)
    return replace(builder.resize(builder.to_integer(rounded, "i", 32), 16), kind="i" if signed else "u")


def _combine(builder: Builder, arguments: list[Value], match: re.Match[str]) -> Value:
    operation, _, kind, bits = match.groups()
    name = operation if kind == "f" else ("s" if kind == "i" else "u") + operation
    typed = [builder.reinterpret(a, kind, int(bits)) for a in arguments]
    result = typed[0]
    for argument in typed[1:]:
        if kind == "f" and operation in ("min", "max"):
            result = extreme(builder, result, argument, smallest=operation == "min")
            continue
        result = builder.intrinsic(name, [result, argument], kind=kind, bits=int(bits))
    return result


def exponent_field(builder: Builder, value: Value) -> Value:
    """Return the stored, biased exponent."""
    return _exponent(builder, value)


def frexp_exponent(builder: Builder, value: Value) -> Value:
    """Return n of value = m * 2**n with m in [0.5, 1); 0 for zeros, infinities and NaN."""
    mantissa_bits, _, bias = _LAYOUT[value.bits]
    lift = mantissa_bits + 1
    lifted = builder.binary("*", value, float_constant(2.0**lift, value.bits))
    small = is_denormal(builder, value)
    field = _exponent(builder, builder.select(small, lifted, value))
    offset = builder.select(small, constant(bias - 1 + lift, 32, "i"), constant(bias - 1, 32, "i"))
    has_none = _is_class(builder, value, 0x3 | 0x204 | 0x60)  # NaN, infinities, zeros
    return builder.select(has_none, constant(0, 32, "i"), builder.binary("-", field, offset))


def fraction(builder: Builder, value: Value) -> Value:
    """Return value - floor(value), always below 1 (V_FRACT)."""
    difference = _fract(builder, value)
    below_one = float_constant(1.0 - 2.0 ** -(_LAYOUT[value.bits][0] + 1), value.bits)
    return builder.select(builder.compare(">", difference, below_one), below_one, difference)


def _exponent(builder: Builder, value: Value) -> Value:
    number = value.narrow or value
    mantissa_bits, exponent_bits, _ = _LAYOUT[number.bits]
    field = builder.binary(">>", builder.raw(number), constant(mantissa_bits, number.bits))
    field = builder.binary("&", field, constant((1 << exponent_bits) - 1, number.bits))
    return replace(builder.resize(field, 32, signed=False), kind="i")


def _mantissa(builder: Builder, value: Value) -> Value:
    """Return the significand in [0.5, 1) with the sign of value, after normalising denormals."""
    mantissa_bits, _, bias = _LAYOUT[value.bits]
    scaled = builder.binary("*", value, float_constant(2.0 ** (mantissa_bits + 1), value.bits))
    number = builder.select(is_denormal(builder, value), scaled, value)
    keep = ((1 << mantissa_bits) - 1) | (1 << (value.bits - 1))
    bits = builder.binary("&", builder.raw(number), constant(keep, value.bits))
    bits = builder.binary("|", bits, constant((bias - 1) << mantissa_bits, value.bits))
    return builder.select(_equals(builder, value, 0.0), value, builder.reinterpret(bits, "f", value.bits))


def sign(builder: Builder, value: Value) -> Value:
    """Return the sign bit."""
    number = value.narrow or value
    return builder.resize(builder.binary(">>", builder.raw(number), constant(number.bits - 1, number.bits)), 1)


def _is_even(builder: Builder, value: Value) -> Value:
    number = value.narrow or value
    half = builder.binary("*", number, float_constant(0.5, number.bits))
    return builder.compare("==", builder.intrinsic("floor", [half], kind="f", bits=half.bits), half)


def _unary_intrinsic(name: str) -> Callable[[Builder, Value], Value]:
    return lambda builder, value: builder.intrinsic(name, [value], kind="f", bits=value.bits)


def _fract(builder: Builder, value: Value) -> Value:
    return builder.binary("-", value, builder.intrinsic("floor", [value], kind="f", bits=value.bits))


def _pow(builder: Builder, base: Value, exponent: Value) -> Value:
    if not base.is_constant or base.float != 2.0:
        raise UnsupportedSemantics("a power of anything but 2")
    return exp2(builder, exponent)


def _bit_count(builder: Builder, value: Value) -> Value:
    raw = builder.raw(value)
    return builder.intrinsic("ctpop", [raw], kind="u", bits=raw.bits)


def _signext(builder: Builder, value: Value) -> Value:
    return builder.resize(replace(builder.raw(value), kind="i"), max(value.bits, 32), signed=True)


def _signext_from_bit(builder: Builder, value: Value, width: Value) -> Value:
    """Sign-extend the low `width` bits; 0 for a width of 0."""
    bounded = builder.resize(replace(width, kind="u"), value.bits)
    bounded = builder.intrinsic("umin", [bounded, constant(value.bits, value.bits)], kind="u", bits=value.bits)
    shift = builder.binary("-", constant(value.bits, value.bits), bounded)
    shift = builder.binary("&", shift, constant(value.bits - 1, value.bits))
    up = builder.shift_in_range("<<", replace(value, kind="i"), shift)
    down = builder.shift_in_range(">>", replace(up, kind="i"), shift)
    empty = builder.compare("==", width, constant(0, width.bits))
    return builder.select(empty, constant(0, value.bits, "i"), down)


def _float_to_u8(builder: Builder, value: Value) -> Value:
    rounded = builder.intrinsic("roundeven", [value], kind="f", bits=32)
    bounded = builder.intrinsic("minnum", [rounded, float_constant(255.0)], kind="f", bits=32)
    bounded = builder.intrinsic("maxnum", [bounded, float_constant(0.0)], kind="f", bits=32)
    bounded = builder.select(is_nan(builder, value), float_constant(0.0), bounded)
    return builder.resize(builder.to_integer(bounded, "u", 32), 8)


def _float_to_bfloat16(builder: Builder, value: Value) -> Value:
    """Round to nearest even and keep NaN."""
    bits = builder.raw(value)
    odd = builder.binary("&", builder.binary(">>", bits, constant(16)), constant(1))
    rounded = builder.binary(">>", builder.binary("+", builder.binary("+", bits, constant(0x7FFF)), odd), constant(16))
    quiet = builder.binary("|", builder.binary(">>", bits, constant(16)), constant(0x40))
    result = builder.select(is_nan(builder, value), quiet, rounded)
    return replace(builder.resize(result, 16), kind="bf")


def _from_bfloat16(builder: Builder, value: Value) -> Value:
    return builder.to_float(replace(builder.reinterpret(value, "u", 16), kind="bf"), 32)


def quieted(builder: Builder, value: Value) -> Value:
    """Set the quiet bit of a NaN, in the type before it was widened for the call."""
    number = value.narrow or value
    quiet = builder.binary("|", builder.raw(number), constant(1 << _LAYOUT[number.bits][0] - 1, number.bits))
    return builder.to_float(builder.reinterpret(quiet, "f", number.bits), value.bits)


def extreme(builder: Builder, left: Value, right: Value, *, smallest: bool) -> Value:
    """Return V_MIN or V_MAX of floats: ignores one NaN, orders -0 below +0, and quiets signalling NaN under IEEE."""
    name = "minimumnum" if smallest else "maximumnum"
    bits = max(left.bits, 32)  # LLVM handles float16 less well
    wide = [replace(builder.to_float(operand, bits), narrow=None) for operand in (left, right)]
    result = builder.to_float(builder.intrinsic(name, wide, kind="f", bits=bits), left.bits)
    ieee = builder.mode_bit(_IEEE_BIT)
    if ieee == constant(0, 1):
        return result
    for operand in (right, left):
        signals = builder.binary("&&", ieee, _is_class(builder, operand, 0x1))
        result = builder.select(signals, quieted(builder, operand), result)
    return result


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "abs": _unary_intrinsic("fabs"),
    "bf16_to_f32": _from_bfloat16,
    "bitCount": _bit_count,
    "cvtToQuietNAN": quieted,
    "exponent": _exponent,
    "f32_to_bf16": _float_to_bfloat16,
    "f32_to_u8": _float_to_u8,
    "floor": _unary_intrinsic("floor"),
    "fma": _fma,
    "fract": _fract,
    "isEven": _is_even,
    "isNAN": is_nan,
    "isQuietNAN": lambda builder, value: _is_class(builder, value.narrow or value, 0x2),
    "isSignalNAN": lambda builder, value: _is_class(builder, value.narrow or value, 0x1),
    "ldexp": ldexp,
    "log2": log2,
    "mantissa": _mantissa,
    "pow": _pow,
    "sign": sign,
    "signext": _signext,
    "signext_from_bit": _signext_from_bit,
    "sqrt": _unary_intrinsic("sqrt"),
    "trunc": _unary_intrinsic("trunc"),
}
