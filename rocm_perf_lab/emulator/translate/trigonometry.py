"""V_TRIG_PREOP_F64: the 53 bits of 2 / pi that are relevant for the size of an argument (Payne and Hanek's reduction).

AMD's pseudo-code shifts a number of 1,201 bits; LLVM's constant folding of the intrinsic does the same with words.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode.functions import ldexp
from rocm_perf_lab.emulator.pcode.values import Value, constant

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.pcode.ir import Builder
    from rocm_perf_lab.emulator.translate.vector_operation import VectorOperation

_BITS, _SEGMENT_BITS, _WORD_BITS = 1201, 53, 64
_WORDS = 22
"""Shifts up to 31 * 53 + 970 end in zeros, the last words."""
_FIRST_SHIFTED_EXPONENT, _FIRST_SCALED_EXPONENT, _SCALE = 1077, 1968, 128


def trigonometric_segment(builder: Builder, operation: VectorOperation) -> Value:
    """Return D0 of V_TRIG_PREOP_F64."""
    raw = operation.source(0)
    segment = builder.resize(builder.binary("&", operation.source(1), constant(31, 64)), 64, signed=False)
    exponent = builder.binary("&", builder.binary(">>", raw, constant(52, 64)), constant(0x7FF, 64))
    excess = builder.binary("-", exponent, constant(_FIRST_SHIFTED_EXPONENT, 64))
    is_large = builder.compare(">", exponent, constant(_FIRST_SHIFTED_EXPONENT, 64))
    shift = builder.binary("*", segment, constant(_SEGMENT_BITS, 64))
    shift = builder.binary("+", shift, builder.select(is_large, excess, constant(0, 64)))
    bits = builder.binary(">>", _window(builder, shift), constant(_WORD_BITS - _SEGMENT_BITS, 64))
    power = builder.binary("-", constant(-_SEGMENT_BITS & 0xFFFFFFFFFFFFFFFF, 64), shift)
    scaled_up = builder.binary("+", power, constant(_SCALE, 64))
    power = builder.select(builder.compare(">=", exponent, constant(_FIRST_SCALED_EXPONENT, 64)), scaled_up, power)
    return ldexp(builder, builder.to_float(bits, 64), builder.resize(power, 32))


def _window(builder: Builder, shift: Value) -> Value:
    """Return the 64 bits of 2 / pi from `shift` bits after the point on."""
    words = _two_over_pi()
    first: Value = constant(0, 64)
    second: Value = constant(0, 64)
    position = builder.binary(">>", shift, constant(6, 64))
    for index, word in enumerate(words[:-1]):
        here = builder.compare("==", position, constant(index, 64))
        first = builder.select(here, constant(word, 64), first)
        second = builder.select(here, constant(words[index + 1], 64), second)
    offset = builder.binary("&", shift, constant(63, 64))
    upper = builder.shift_in_range("<<", first, offset)
    lower = builder.binary(">>", second, constant(1, 64))
    lower = builder.shift_in_range(">>", lower, builder.binary("-", constant(63, 64), offset))
    return builder.binary("|", upper, lower)


@cache
def _two_over_pi() -> tuple[int, ...]:
    """Return the fraction of 2 / pi to 1,201 bits in words of 64, highest first, padded with zeros."""
    guard = 64
    one = 1 << (_BITS + guard)
    pi = 4 * (4 * _inverse_arctangent(5, one) - _inverse_arctangent(239, one))
    fraction = (2 * one * one // pi) >> guard
    padded = fraction << (_WORDS * _WORD_BITS - _BITS)
    mask = (1 << _WORD_BITS) - 1
    return tuple(padded >> (_WORD_BITS * (_WORDS - 1 - index)) & mask for index in range(_WORDS))


def _inverse_arctangent(x: int, one: int) -> int:
    """Return arctan(1 / x) as a multiple of 1 / one."""
    power = total = one // x
    divisor, sign = 1, 1
    while power:
        power //= x * x
        divisor, sign = divisor + 2, -sign
        total += sign * (power // divisor)
    return total
