"""Hand-written vector operations that CDNA4 adds to CDNA3; see :mod:`rocm_perf_lab.emulator.translate.overrides`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode.values import Value, constant
from rocm_perf_lab.emulator.translate.rounding import to_bfloat, to_half

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.pcode.ir import Builder
    from rocm_perf_lab.emulator.translate.vector_operation import VectorOperation


def _truth_table(bits: int) -> Callable[[Builder, VectorOperation], Value]:
    """Return V_BITOP3: bit 4 a + 2 b + c of the table is the result for the bits a, b, c of the sources."""

    def combine(builder: Builder, operation: VectorOperation) -> Value:
        fields = operation.instruction.fields
        table = fields["omod"] << 6 | fields["abs"] << 3 | fields["neg"]
        sources = [builder.resize(operation.source(i), bits, signed=False) for i in range(3)]
        result: Value = constant(0, bits)
        for case in range(8):
            if table >> case & 1:
                chosen = [s if case >> 2 - i & 1 else builder.invert(s) for i, s in enumerate(sources)]
                both = builder.binary("&", chosen[0], chosen[1])
                result = builder.binary("|", result, builder.binary("&", both, chosen[2]))
        return result

    return combine


def _minmax3(name: str, bits: int) -> Callable[[Builder, VectorOperation], Value]:
    """Return V_MINIMUM3 or V_MAXIMUM3 of IEEE 754-2019: NaN wins, and -0 is less than +0."""

    def combine(builder: Builder, operation: VectorOperation) -> Value:
        return _extreme3(builder, name, [operation.source(i) for i in range(3)], bits)

    return combine


def _packed_minmax3(name: str) -> Callable[[Builder, VectorOperation], Value]:
    def combine(builder: Builder, operation: VectorOperation) -> Value:
        words = [operation.source(i) for i in range(3)]
        halves = []
        for shift in (0, 16):
            parts = [builder.resize(builder.binary(">>", word, constant(shift)), 16, signed=False) for word in words]
            halves.append(builder.resize(builder.raw(_extreme3(builder, name, parts, 16)), 32, signed=False))
        return builder.binary("|", halves[0], builder.binary("<<", halves[1], constant(16)))

    return combine


def _extreme3(builder: Builder, name: str, words: list[Value], bits: int) -> Value:
    first, second, third = (builder.reinterpret(word, "f", bits) for word in words)
    pair = builder.intrinsic(name, [first, second], kind="f", bits=bits)
    return builder.intrinsic(name, [pair, third], kind="f", bits=bits)


def _widened_bfloat(builder: Builder, operation: VectorOperation) -> Value:
    half = builder.resize(builder.resize(operation.source(0), 16, signed=False), 32, signed=False)
    return builder.reinterpret(builder.binary("<<", half, constant(16)), "f", 32)


def _converted_pair(convert: Callable[[Builder, Value], Value]) -> Callable[[Builder, VectorOperation], Value]:
    """Return V_CVT_PK_F16_F32 or V_CVT_PK_BF16_F32, which round to nearest even in any mode."""

    def pair(builder: Builder, operation: VectorOperation) -> Value:
        low, high = (convert(builder, builder.raw(operation.source(i))) for i in (0, 1))
        return builder.binary("|", low, builder.binary("<<", high, constant(16)))

    return pair


def _saturated_shifts(lowest: int, highest: int) -> Callable[[Builder, VectorOperation], Value]:
    """Return V_ASHR_PK: both sources, shifted right and saturated to bytes."""

    def pack(builder: Builder, operation: VectorOperation) -> Value:
        shift = builder.binary("&", operation.source(2), constant(31))
        parts = []
        for i in (0, 1):
            moved = builder.shift_in_range(">>", builder.reinterpret(operation.source(i), "i", 32), shift)
            low = builder.intrinsic("smax", [moved, constant(lowest & 0xFFFFFFFF)], kind="u", bits=32)
            byte = builder.intrinsic("smin", [low, constant(highest)], kind="u", bits=32)
            parts.append(builder.binary("&", byte, constant(0xFF)))
        pair = builder.binary("|", parts[0], builder.binary("<<", parts[1], constant(8)))
        return builder.resize(pair, 16, signed=False)

    return pack


ADDITIONS: dict[str, Callable[[Builder, VectorOperation], Value]] = {
    "V_BITOP3_B32": _truth_table(32),
    "V_BITOP3_B16": _truth_table(16),
    "V_MINIMUM3_F32": _minmax3("minimum", 32),
    "V_MAXIMUM3_F32": _minmax3("maximum", 32),
    "V_PK_MINIMUM3_F16": _packed_minmax3("minimum"),
    "V_PK_MAXIMUM3_F16": _packed_minmax3("maximum"),
    "V_CVT_F32_BF16": _widened_bfloat,
    "V_CVT_PK_BF16_F32": _converted_pair(to_bfloat),
    "V_CVT_PK_F16_F32": _converted_pair(to_half),
    "V_ASHR_PK_I8_I32": _saturated_shifts(-128, 127),
    "V_ASHR_PK_U8_I32": _saturated_shifts(0, 255),
}
