"""Rounding of float32 to 16 bits by integer arithmetic: to nearest even in any mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode.values import Value, constant

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.pcode.ir import Builder

_F16_DROPPED, _F16_REBIAS = 13, 112
_QUIET = {"f16": 0x7E00, "bf16": 0x40}


def to_bfloat(builder: Builder, word: Value) -> Value:
    """Return the bits of a float32 rounded to bfloat16."""
    upper = builder.binary(">>", word, constant(16))
    odd = builder.binary("&", upper, constant(1))
    rounded = builder.binary(">>", builder.binary("+", builder.binary("+", word, constant(0x7FFF)), odd), constant(16))
    return builder.select(_is_nan(builder, word), builder.binary("|", upper, constant(_QUIET["bf16"])), rounded)


def to_half(builder: Builder, word: Value) -> Value:
    """Return the bits of a float32 rounded to float16, by integer arithmetic."""
    sign = builder.binary("&", builder.binary(">>", word, constant(16)), constant(0x8000))
    size = builder.binary("&", word, constant(0x7FFFFFFF))
    rebiased = builder.binary("-", size, constant(_F16_REBIAS << 23))
    normal = rounded_shift(builder, rebiased, constant(_F16_DROPPED))
    exponent = builder.binary(">>", size, constant(23))
    mantissa = builder.binary("|", builder.binary("&", size, constant(0x7FFFFF)), constant(0x800000))
    distance = builder.binary("-", constant(_F16_REBIAS + 1 + _F16_DROPPED), exponent)
    shift = builder.intrinsic("umin", [distance, constant(25)], kind="u", bits=32)  # to zero: all of the 24 bits, and the tie
    small = rounded_shift(builder, mantissa, shift)
    result = builder.select(builder.compare("<", exponent, constant(_F16_REBIAS + 1)), small, normal)
    result = builder.intrinsic("umin", [result, constant(0x7C00)], kind="u", bits=32)
    result = builder.select(_is_nan(builder, word), constant(_QUIET["f16"]), result)
    return builder.binary("|", sign, result)


def rounded_shift(builder: Builder, value: Value, shift: Value) -> Value:
    """Return `value` >> `shift`, rounded to nearest even."""
    one = constant(1)
    odd = builder.binary("&", builder.shift_in_range(">>", value, shift), one)
    half = builder.binary("-", builder.shift_in_range("<<", one, builder.binary("-", shift, one)), one)
    return builder.shift_in_range(">>", builder.binary("+", builder.binary("+", value, half), odd), shift)


def _is_nan(builder: Builder, word: Value) -> Value:
    return builder.compare(">", builder.binary("&", word, constant(0x7FFFFFFF)), constant(0x7F800000))
