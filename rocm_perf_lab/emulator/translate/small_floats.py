"""Conversions of 8-bit floats: FP8 (e4m3) and BF8 (e5m2).

The "fnuz" variants have no infinities and no -0; NaN is 0x80. Of the OCP ones BF8 has infinities, and FP8 only NaN (0x7f).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode.values import UnsupportedSemantics, Value, constant, float_constant
from rocm_perf_lab.emulator.translate.narrowing import FP16_OVERFLOW_BIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.pcode.ir import Builder
    from rocm_perf_lab.emulator.translate.vector_operation import VectorOperation

_SIZE, _SIGN = 0x7F, 0x80
_F32_MANTISSA, _F32_BIAS = 23, 127
_F64_MANTISSA, _F64_BIAS = 52, 1023


@dataclass(frozen=True)
class SmallFloat:
    """8-bit format; `overflow` is the result of an overflow, `infinity` None if the format has none."""

    mantissa: int
    bias: int
    largest: int
    nan: int
    infinity: int | None
    has_negative_zero: bool

    @property
    def overflow(self) -> int:
        """Result of a number that is too large."""
        return self.nan if self.infinity is None else self.infinity


_FORMATS = {
    ("fnuz", "FP8"): SmallFloat(3, 8, 0x7F, 0x80, None, has_negative_zero=False),
    ("fnuz", "BF8"): SmallFloat(2, 16, 0x7F, 0x80, None, has_negative_zero=False),
    ("ocp", "FP8"): SmallFloat(3, 7, 0x7E, 0x7F, None, has_negative_zero=True),
    ("ocp", "BF8"): SmallFloat(2, 15, 0x7B, 0x7E, 0x7C, has_negative_zero=True),
}


def _format(operation: VectorOperation, name: str) -> SmallFloat:
    variant = operation.instruction.isa.float8
    if variant is None:
        raise UnsupportedSemantics("8-bit floats")
    return _FORMATS[variant, name]


def widened(builder: Builder, operation: VectorOperation, byte: Value, name: str) -> Value:
    """Return the value of a byte in the format `FP8` or `BF8` of the architecture."""
    return _to_float32(builder, byte, _format(operation, name))


def small_to_float(name: str, *, packed: bool) -> Callable[[Builder, VectorOperation], Value]:
    """Return V_CVT_F32_FP8 or a similar operation; SDWA has selected the byte or the pair of bytes."""

    def convert(builder: Builder, operation: VectorOperation) -> Value:
        kind, source = _format(operation, name), operation.source(0)
        low = _to_float32(builder, builder.resize(source, 8, signed=False), kind)
        if not packed:
            return low
        high = _to_float32(builder, builder.resize(builder.binary(">>", source, constant(8, source.bits)), 8), kind)
        wide = [builder.resize(builder.raw(number), 64, signed=False) for number in (low, high)]
        return builder.binary("|", wide[0], builder.binary("<<", wide[1], constant(32, 64)))

    return convert


def pair_to_small(name: str) -> Callable[[Builder, VectorOperation], Value]:
    """Return V_CVT_PK_FP8_F32: writes two bytes to the half selected by op_sel and keeps the other half."""

    def convert(builder: Builder, operation: VectorOperation) -> Value:
        kind = _format(operation, name)
        numbers = [builder.reinterpret(operation.source(i), "f", 32) for i in (0, 1)]
        low, high = (builder.resize(_from_float32(builder, n, kind), 32, signed=False) for n in numbers)
        pair = builder.binary("|", low, builder.binary("<<", high, constant(8)))
        return inserted(builder, operation, pair, 16, 16 if operation.instruction.fields["opsel"] & 8 else 0)

    return convert


def stochastic_to_small(name: str) -> Callable[[Builder, VectorOperation], Value]:
    """Return V_CVT_SR_FP8_F32: adds the top bits of S1 below the last kept place, then truncates."""

    def convert(builder: Builder, operation: VectorOperation) -> Value:
        kind = _format(operation, name)
        dropped = 23 - kind.mantissa
        noise = builder.binary(">>", operation.source(1), constant(32 - dropped))
        moved = builder.binary("+", operation.source(0), noise)
        value = builder.reinterpret(operation.source(0), "f", 32)
        finite = builder.intrinsic("is.fpclass", [value], kind="u", bits=1, extra=", i32 504")
        source = builder.select(finite, builder.reinterpret(moved, "f", 32), value)
        byte = builder.resize(_from_float32(builder, source, kind, toward_zero=True), 32, signed=False)
        return inserted(builder, operation, byte, 8, 8 * (operation.instruction.fields["opsel"] >> 2))

    return convert


def inserted(builder: Builder, operation: VectorOperation, part: Value, bits: int, shift: int) -> Value:
    """Return D0 with `bits` from `shift` replaced."""
    before = operation.read("D0", bits=32)
    assert before is not None
    kept = builder.binary("&", before, constant(~(((1 << bits) - 1) << shift)))
    return builder.binary("|", kept, builder.binary("<<", part, constant(shift)))


def _to_float32(builder: Builder, byte: Value, kind: SmallFloat) -> Value:
    """Return the value of a byte."""
    word = builder.resize(byte, 32, signed=False)
    size = builder.binary("<<", builder.binary("&", word, constant(_SIZE)), constant(_F32_MANTISSA - kind.mantissa))
    sign = builder.binary("<<", builder.binary("&", word, constant(_SIGN)), constant(24))
    scaled = builder.reinterpret(builder.binary("|", size, sign), "f", 32)  # with the exponent bias of a float32
    value = builder.binary("*", scaled, float_constant(2.0 ** (_F32_BIAS - kind.bias)))
    if not kind.has_negative_zero:
        return builder.select(builder.compare("==", word, constant(kind.nan)), float_constant(math.nan), value)
    magnitude = builder.binary("&", word, constant(_SIZE))
    if kind.infinity is not None:
        infinite = builder.reinterpret(builder.binary("|", sign, constant(0x7F800000)), "f", 32)
        value = builder.select(builder.compare("==", magnitude, constant(kind.infinity)), infinite, value)
    return builder.select(
        builder.compare(">", magnitude, constant(kind.infinity or kind.largest)), float_constant(math.nan), value
    )


def _from_float32(builder: Builder, value: Value, kind: SmallFloat, *, toward_zero: bool = False) -> Value:
    """Convert to 8 bits, rounded to nearest even or truncated; FP16_OVFL turns overflow into the largest number."""
    wide = replace(builder.to_float(value, 64), narrow=None)
    scaled = builder.binary("*", wide, float_constant(2.0 ** (kind.bias - _F64_BIAS), 64))
    bits = builder.raw(builder.intrinsic("fabs", [scaled], kind="f", bits=64))
    drop = _F64_MANTISSA - kind.mantissa
    if not toward_zero:
        odd = builder.binary("&", builder.binary(">>", bits, constant(drop, 64)), constant(1, 64))
        bits = builder.binary("+", builder.binary("+", bits, constant((1 << drop - 1) - 1, 64)), odd)
    size = builder.binary(">>", bits, constant(drop, 64))
    is_nan = builder.intrinsic("is.fpclass", [value], kind="u", bits=1, extra=", i32 3")
    largest = builder.intrinsic("umin", [size, constant(kind.largest, 64)], kind="u", bits=64)
    sign = builder.binary(">>", builder.raw(value), constant(24))
    sign = builder.binary("&", sign, constant(_SIGN))
    number = builder.binary("|", sign, builder.resize(largest, 32))
    overflow: Value = constant(kind.overflow)
    nan: Value = constant(kind.nan)
    if kind.has_negative_zero:
        overflow, nan = (builder.binary("|", sign, special) for special in (overflow, nan))
    else:
        number = builder.select(builder.compare("==", number, constant(_SIGN)), constant(0), number)
    overflows = builder.binary("&&", builder.compare(">", size, constant(kind.largest, 64)),
                               builder.binary("^", builder.mode_bit(FP16_OVERFLOW_BIT), constant(1, 1)))  # fmt: skip
    number = builder.select(overflows, overflow, number)
    return builder.resize(builder.select(is_nan, nan, number), 8)
