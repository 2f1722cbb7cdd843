"""Steps of a division: V_DIV_FMAS of float64, rounded only once if the quotient is denormal, and shortcuts for usual operands.

V_DIV_SCALE, V_DIV_FMAS and V_DIV_FIXUP handle quotients near the ends of the range of a float. A shortcut is the result for other
operands, and the condition for it; chunks of lanes in which all active lanes fulfil it skip the general code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode import functions
from rocm_perf_lab.emulator.pcode.values import Value, constant, float_constant

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.pcode.ir import Builder
    from rocm_perf_lab.emulator.translate.vector_operation import VectorOperation

    Shortcut = Callable[[Builder, VectorOperation, list[Value]], tuple[Value, Value]]
    """Returns the condition and D0, for the raw bits of S0, S1 and S2."""

_SCALE = {32: 64, 64: 128}
_SMALLEST = {32: -149, 64: -1074}
"""Exponent of the smallest denormal."""
_BIAS = {32: 127, 64: 1023}


def fused_and_scaled(bits: int) -> Callable[[Builder, VectorOperation], Value]:
    """Return V_DIV_FMAS: fma(S0, S1, S2), if VCC is set times the power of two that reverts V_DIV_SCALE."""

    def compute(builder: Builder, operation: VectorOperation) -> Value:
        a, b, c = (builder.reinterpret(operation.source(i), "f", bits) for i in range(3))
        plain = builder.intrinsic("fma", [a, b, c], kind="f", bits=bits)
        exponent = builder.binary("&", functions.exponent_field(builder, c), constant(0x7FF))
        is_large = builder.compare(">", exponent, constant(_BIAS[bits]))
        up = builder.binary("*", plain, float_constant(2.0 ** _SCALE[bits], bits))
        down = _scaled_down(builder, (a, b, c), plain)
        return builder.select(operation.lane_bit("VCC"), builder.select(is_large, up, down), plain)

    return compute


def _scaled_down(builder: Builder, operands: tuple[Value, Value, Value], plain: Value) -> Value:
    """Return the exact fma divided by the scale, rounded once: if `plain` was rounded to a tie, its error decides the tie."""
    bits = plain.bits
    scale, smallest = 2.0 ** _SCALE[bits], 2.0 ** _SMALLEST[bits]
    near = builder.binary("*", plain, float_constant(1 / scale, bits))
    left = builder.binary("-", plain, builder.binary("*", near, float_constant(scale, bits)))
    size = builder.intrinsic("fabs", [left], kind="f", bits=bits)
    is_tie = builder.compare("==", size, float_constant(scale * smallest / 2, bits))
    agrees = builder.compare(">", builder.binary("*", left, _sign_of_error(builder, operands, plain)), float_constant(0.0, bits))
    step = builder.intrinsic("copysign", [float_constant(smallest, bits), left], kind="f", bits=bits)
    return builder.select(builder.binary("&&", is_tie, agrees), builder.binary("+", near, step), near)


def _sign_of_error(builder: Builder, operands: tuple[Value, Value, Value], plain: Value) -> Value:
    """Return 1, -1 or 0 if the exact fma is above, below or equal to `plain` (after Boldo and Muller)."""
    a, b, c = operands
    bits = plain.bits
    product = builder.binary("*", a, b)
    product_rest = builder.intrinsic("fma", [a, b, builder.negate(product)], kind="f", bits=bits)
    small, small_rest = _two_sum(builder, c, product_rest)
    large, large_rest = _two_sum(builder, product, small)
    error = builder.binary("+", builder.binary("+", builder.binary("-", large, plain), large_rest), small_rest)
    one, zero = float_constant(1.0, bits), float_constant(0.0, bits)
    unit = builder.intrinsic("copysign", [one, error], kind="f", bits=bits)
    return builder.select(builder.compare("==", error, zero), zero, unit)


def _two_sum(builder: Builder, a: Value, b: Value) -> tuple[Value, Value]:
    total = builder.binary("+", a, b)
    part = builder.binary("-", total, a)
    rest = builder.binary("+", builder.binary("-", a, builder.binary("-", total, part)), builder.binary("-", b, part))
    return total, rest


# ---- shortcuts ----

_LARGEST_EXPONENT = {32: 254, 64: 2046}
"""Stored exponent of the largest numbers."""
_SCALED_DISTANCE = {32: 96, 64: 768}
"""Distance of the exponents from which V_DIV_SCALE scales because the quotient may be infinite."""
_NO_DENORMAL_DISTANCE = {32: -124, 64: -1020}
"""Distance of the exponents from which the quotient is not denormal."""
_TINY_NUMERATOR = {32: 23, 64: 53}


def _unscaled(bits: int) -> Shortcut:
    """Return the shortcut of V_DIV_SCALE: neither operand is scaled, and VCC is zero."""

    def shortcut(builder: Builder, _: VectorOperation, sources: list[Value]) -> tuple[Value, Value]:
        value, denominator, numerator = (builder.reinterpret(source, "f", bits) for source in sources)
        below, above = (functions.exponent_field(builder, number) for number in (denominator, numerator))
        largest = _LARGEST_EXPONENT[bits]
        conditions = (
            _within(builder, below, 1, largest - 2),  # 1 / denominator is not denormal
            _within(builder, above, _TINY_NUMERATOR[bits] + 1, largest),
            _within(builder, builder.binary("-", above, below), _NO_DENORMAL_DISTANCE[bits], _SCALED_DISTANCE[bits] - 1),
        )
        return _all(builder, conditions), value

    return shortcut


def _not_rescaled(bits: int) -> Shortcut:
    """Return the shortcut of V_DIV_FMAS: V_DIV_SCALE has not scaled."""

    def shortcut(builder: Builder, operation: VectorOperation, sources: list[Value]) -> tuple[Value, Value]:
        operands = [builder.reinterpret(source, "f", bits) for source in sources]
        is_scaled = operation.lane_bit("VCC")
        return builder.binary("^", is_scaled, constant(1, 1)), builder.intrinsic("fma", operands, kind="f", bits=bits)

    return shortcut


def _ordinary_quotient(bits: int) -> Shortcut:
    """Return the shortcut of V_DIV_FIXUP: the quotient with the sign of the operands."""

    def shortcut(builder: Builder, _: VectorOperation, sources: list[Value]) -> tuple[Value, Value]:
        fields = [functions.exponent_field(builder, builder.reinterpret(source, "f", bits)) for source in sources]
        quotient, below, above = fields
        largest = _LARGEST_EXPONENT[bits]
        conditions = (
            _within(builder, quotient, 0, largest),
            _within(builder, below, 1, largest),
            _within(builder, above, 1, largest),
            _within(builder, builder.binary("-", above, below), _NO_DENORMAL_DISTANCE[bits], largest),
        )
        size = builder.binary("&", sources[0], constant((1 << bits - 1) - 1, bits))
        sign = builder.binary("&", builder.binary("^", sources[1], sources[2]), constant(1 << bits - 1, bits))
        return _all(builder, conditions), builder.reinterpret(builder.binary("|", size, sign), "f", bits)

    return shortcut


def _within(builder: Builder, value: Value, low: int, high: int) -> Value:
    moved = replace(builder.binary("-", value, constant(low, value.bits, "i")), kind="u")
    return builder.compare("<", moved, constant(high - low + 1, value.bits))


def _all(builder: Builder, conditions: tuple[Value, ...]) -> Value:
    result = conditions[0]
    for condition in conditions[1:]:
        result = builder.binary("&&", result, condition)
    return result


SHORTCUTS: dict[str, Shortcut] = {
    **{f"V_DIV_SCALE_F{bits}": _unscaled(bits) for bits in (32, 64)},
    **{f"V_DIV_FMAS_F{bits}": _not_rescaled(bits) for bits in (32, 64)},
    **{f"V_DIV_FIXUP_F{bits}": _ordinary_quotient(bits) for bits in (32, 64)},
}
