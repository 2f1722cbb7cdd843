"""Rounding of floats to 4, 6, 8 and 16 bits after division by a power of two, to nearest even or stochastically.

Sources: CDNA4 ISA, "BF8 / FP8 and Smaller Formats and Conversions" (saturation, FP16_OVFL, exponents of scales); AMD's host
implementation of the conversions in the HIP headers (place of the random bits, NaN of the formats without NaN).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode.values import Value, constant
from rocm_perf_lab.emulator.translate.rounding import rounded_shift

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.pcode.ir import Builder

FP16_OVERFLOW_BIT = 23
_F64_MANTISSA, _F64_BIAS, _F64_EXPONENTS = 52, 1023, 0x7FF
_MANTISSA = 23
"""Bits of a float32 behind the first one; the widest source."""
_SCALE_BIAS, _SCALE_NAN = 127, 255
_SOURCE_MANTISSA = {"F32": 23, "F16": 10, "BF16": 7}
_PRNG_TAPS = 197


@dataclass(frozen=True)
class NarrowFormat:
    """Small float; `overflow` is the result of an overflow without FP16_OVFL, None if the format always saturates."""

    bits: int
    mantissa: int
    lowest_exponent: int
    largest: int
    nan: int
    overflow: int | None
    keeps_infinity: bool = False
    """Whether FP16_OVFL leaves infinite sources infinite."""


NARROW_FORMATS = {
    "FP8": NarrowFormat(8, 3, -6, 0x7E, 0x7F, 0x7F),
    "BF8": NarrowFormat(8, 2, -14, 0x7B, 0x7E, 0x7C),
    "FP6": NarrowFormat(6, 3, 0, 0x1F, 0x1F, None),
    "BF6": NarrowFormat(6, 2, -2, 0x1F, 0x1F, None),
    "FP4": NarrowFormat(4, 1, 0, 0x7, 0x7, None),
    "F16": NarrowFormat(16, 10, -14, 0x7BFF, 0x7E00, 0x7C00, keeps_infinity=True),
    "BF16": NarrowFormat(16, 7, -126, 0x7F7F, 0x7FC0, 0x7F80, keeps_infinity=True),
}


@dataclass(frozen=True)
class _Parts:
    """Fields of a number; `mantissa` has 24 bits with the first one, also if the number was denormal."""

    sign: Value
    exponent: Value
    mantissa: Value
    is_nan: Value
    is_infinite: Value


def narrowed(builder: Builder, number: Value, source: str, target: str, *, scale: Value | None, seed: Value | None) -> Value:
    """Return the code of a number in a small format.

    Args:
        builder: Emitter of code.
        number: Float of the source format.
        source: F32, F16 or BF16; BF16 has been widened to float32.
        target: Format in `NARROW_FORMATS`.
        scale: Exponent of the divisor with a bias of 127, 255 for NaN; None for 1.
        seed: Random bits for stochastic rounding: those at the top are added behind the last kept place. None for nearest even.
    """
    kind, parts = NARROW_FORMATS[target], _parts(builder, number)
    exponent = parts.exponent
    if scale is not None:
        exponent = builder.binary("-", exponent, builder.binary("-", replace(scale, kind="i"), _signed(_SCALE_BIAS)))
    below = _clamped(builder, builder.binary("-", _signed(kind.lowest_exponent), exponent), 31)
    above = builder.binary("-", exponent, _signed(kind.lowest_exponent))
    above = replace(builder.intrinsic("smax", [above, _signed(0)], kind="i", bits=32), kind="u")
    if seed is None:
        place = builder.binary("+", below, constant(_MANTISSA - kind.mantissa))
        place = builder.intrinsic("umin", [place, constant(_MANTISSA + 2)], kind="u", bits=32)
        rounded = rounded_shift(builder, parts.mantissa, place)
    else:
        rounded = _stochastically(builder, parts.mantissa, below, _SOURCE_MANTISSA[source], kind.mantissa, seed)
    code = builder.binary("+", builder.binary("<<", above, constant(kind.mantissa)), rounded)
    code = builder.select(builder.compare(">", code, constant(kind.largest)), _overflow(builder, kind, parts), code)
    is_nan = parts.is_nan
    if scale is not None:
        is_nan = builder.binary("||", is_nan, builder.compare("==", scale, constant(_SCALE_NAN)))
    code = builder.select(is_nan, constant(kind.nan), code)
    return builder.binary("|", code, builder.binary("<<", parts.sign, constant(kind.bits - 1)))


def next_random(builder: Builder, seed: Value) -> Value:
    """Return the successor of a random number (V_PRNG_B32)."""
    taps = builder.select(
        builder.compare("==", builder.binary(">>", seed, constant(31)), constant(1)), constant(_PRNG_TAPS), constant(0)
    )
    return builder.binary("^", builder.binary("<<", seed, constant(1)), taps)


def scale_exponent(builder: Builder, scale: Value) -> Value:
    """Return the bits of the exponent of a float32."""
    return builder.binary("&", builder.binary(">>", builder.raw(scale), constant(_MANTISSA)), constant(0xFF))


def _parts(builder: Builder, number: Value) -> _Parts:
    bits = builder.raw(replace(builder.to_float(number, 64), narrow=None))  # float64 has no denormals of the sources
    word = builder.resize(builder.binary(">>", bits, constant(_F64_MANTISSA, 64)), 32, signed=False)
    field = builder.binary("&", word, constant(_F64_EXPONENTS))
    mantissa = builder.resize(builder.binary(">>", bits, constant(_F64_MANTISSA - _MANTISSA, 64)), 32, signed=False)
    mantissa = builder.binary("&", mantissa, constant((1 << _MANTISSA) - 1))
    is_special = builder.compare("==", field, constant(_F64_EXPONENTS))
    is_whole = builder.compare("==", mantissa, constant(0))
    return _Parts(
        sign=builder.binary("&", builder.binary(">>", word, constant(11)), constant(1)),
        exponent=builder.binary("-", replace(field, kind="i"), _signed(_F64_BIAS)),
        mantissa=builder.binary("|", mantissa, constant(1 << _MANTISSA)),  # zero is far below all formats
        is_nan=builder.binary("&&", is_special, builder.binary("^", is_whole, constant(1, 1))),
        is_infinite=builder.binary("&&", is_special, is_whole),
    )


def _stochastically(builder: Builder, mantissa: Value, below: Value, source_bits: int, target_bits: int, seed: Value) -> Value:
    """Return a mantissa moved to its place, cut to the width of the source, plus random bits, cut to the width of the target."""
    moved = builder.shift_in_range(">>", mantissa, below)
    moved = builder.binary(">>", moved, constant(_MANTISSA - source_bits))
    noise = builder.binary(">>", seed, constant(32 - source_bits + target_bits))
    return builder.binary(">>", builder.binary("+", moved, noise), constant(source_bits - target_bits))


def _overflow(builder: Builder, kind: NarrowFormat, parts: _Parts) -> Value:
    if kind.overflow is None:
        return constant(kind.largest)
    saturates = builder.mode_bit(FP16_OVERFLOW_BIT)
    if kind.keeps_infinity:
        saturates = builder.binary("&&", saturates, builder.binary("^", parts.is_infinite, constant(1, 1)))
    return builder.select(saturates, constant(kind.largest), constant(kind.overflow))


def _clamped(builder: Builder, value: Value, highest: int) -> Value:
    low = builder.intrinsic("smax", [value, _signed(0)], kind="i", bits=32)
    return replace(builder.intrinsic("smin", [low, _signed(highest)], kind="i", bits=32), kind="u")


def _signed(value: int) -> Value:
    return Value(value, "i", 32)
