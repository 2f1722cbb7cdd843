"""V_DIV_FMAS, the last step of a float64 division, rounded only once if the quotient is denormal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode import functions
from rocm_perf_lab.emulator.pcode.values import Value, constant, float_constant

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.pcode.ir import Builder
    from rocm_perf_lab.emulator.translate.vector_operation import VectorOperation

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
