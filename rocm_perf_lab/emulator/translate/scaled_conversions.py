"""Conversions of small floats with the exponent of a scale to float32, float16 and bfloat16 (V_CVT_SCALEF32 of CDNA4).

A number times a power of two is exact in float32, so the results are rounded once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.isa.instruction import OperandType
from rocm_perf_lab.emulator.pcode.values import Value, constant, float_constant
from rocm_perf_lab.emulator.translate.operands import read_source
from rocm_perf_lab.emulator.translate.rounding import to_bfloat, to_half
from rocm_perf_lab.emulator.translate.small_floats import widened

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.pcode.ir import Builder
    from rocm_perf_lab.emulator.translate.vector_operation import VectorOperation

_WORD = OperandType("B32", 32)
_SCALE_NAN = 255
_F64_REBIAS, _F64_MANTISSA = 1023 - 127, 52
_BITS = {"FP8": 8, "BF8": 8, "FP4": 4}


def _scaled(source: str, target: str, *, packed: bool) -> Callable[[Builder, VectorOperation], Value]:
    """Return V_CVT_SCALEF32_(PK_)`target`_`source`: op_sel selects the byte, or the pair of bytes, of S0."""
    bits = _BITS[source]

    def convert(builder: Builder, operation: VectorOperation) -> Value:
        instruction = operation.instruction
        word = read_source(operation.state, instruction, instruction.fields["src0"], _WORD)
        selected = instruction.fields["opsel"]
        first = 16 * (selected & 1) if packed and bits == 8 else 8 * (selected & 3)
        scale = _power_of_two(builder, operation.source(1))
        results = []
        for part in range(2 if packed else 1):
            code = builder.binary(">>", word, constant(first + bits * part))
            code = builder.binary("&", code, constant((1 << bits) - 1))
            number = _fp4(builder, code) if source == "FP4" else widened(builder, operation, code, source)
            wide = replace(builder.to_float(number, 64), narrow=None)
            results.append(_TARGETS[target](builder, builder.to_float(builder.binary("*", wide, scale), 32)))
        if not packed:
            return results[0]
        width = 32 if target == "F32" else 16
        low, high = (builder.resize(builder.raw(r), 2 * width, signed=False) for r in results)
        return builder.binary("|", low, builder.binary("<<", high, constant(width, 2 * width)))

    return convert


def _power_of_two(builder: Builder, scale: Value) -> Value:
    """Return 2 to the exponent of a float32, NaN if all bits of the exponent are set."""
    exponent = builder.binary("&", builder.binary(">>", builder.raw(scale), constant(23)), constant(0xFF))
    wide = builder.resize(builder.binary("+", exponent, constant(_F64_REBIAS)), 64, signed=False)
    power = builder.reinterpret(builder.binary("<<", wide, constant(_F64_MANTISSA, 64)), "f", 64)
    return builder.select(builder.compare("==", exponent, constant(_SCALE_NAN)), float_constant(float("nan"), 64), power)


def _fp4(builder: Builder, code: Value) -> Value:
    """Return an E2M1: 0, 0.5, 1, 1.5, 2, 3, 4 or 6, and its negation."""
    size = builder.binary("&", code, constant(7))
    bits = builder.binary("<<", size, constant(22))
    scaled = builder.binary("*", builder.reinterpret(bits, "f", 32), float_constant(2.0**126))
    sign = builder.binary("<<", builder.binary("&", code, constant(8)), constant(28))
    return builder.reinterpret(builder.binary("|", builder.raw(scaled), sign), "f", 32)


_TARGETS: dict[str, Callable[[Builder, Value], Value]] = {
    "F32": lambda _, number: replace(number, narrow=None),
    "F16": lambda builder, number: builder.resize(to_half(builder, builder.raw(number)), 16, signed=False),
    "BF16": lambda builder, number: builder.resize(to_bfloat(builder, builder.raw(number)), 16, signed=False),
}

SCALED_CONVERSIONS: dict[str, Callable[[Builder, VectorOperation], Value]] = {
    **{
        f"V_CVT_SCALEF32_PK_{target}_{source}": _scaled(source, target, packed=True)
        for target in ("F32", "F16", "BF16")
        for source in ("FP8", "BF8", "FP4")
    },
    **{
        f"V_CVT_SCALEF32_{target}_{source}": _scaled(source, target, packed=False)
        for target in ("F32", "F16")
        for source in ("FP8", "BF8")
    },
}
