"""Clamp of integer results: exact computation in a wider type, then saturation to the type of the result."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode.values import UnsupportedSemantics, Value, constant

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.pcode.ir import Builder
    from rocm_perf_lab.emulator.translate.vector_operation import VectorOperation

_SUM = re.compile(r"V_(PK_)?(ADD|SUB|SUBREV|ADDC|SUBB|SUBBREV|MAD)_(?:CO_|NC_|LEGACY_)?([UI])(16|32|64)(?:_([UI])(16|24|32))?$")
_DOT = re.compile(r"V_DOT(2|4|8)C?_([UI])32_[UI](16|8|4)$")
_ABSOLUTE_DIFFERENCES = {"V_SAD_U8": (8, 0), "V_SAD_HI_U8": (8, 16), "V_SAD_U16": (16, 0), "V_SAD_U32": (32, 0)}
"""Bits of the parts and left shift of their sum."""


def saturated(operation: VectorOperation) -> Value:
    """Return the clamped result of an integer operation.

    Raises:
        UnsupportedSemantics: The effect of clamp on this operation is unknown.
    """
    name, builder = operation.instruction.mnemonic, operation.group.builder
    match = _SUM.match(name)
    if match:
        packed, kind, bits = match[1], match[3].lower(), int(match[4])
        inputs = int(match[6] or bits)
        if not packed:
            return _bounded(builder, _sum(operation, match[2], kind, bits, inputs, operation.source), kind, bits)
        halves = [
            _bounded(builder, _sum(operation, match[2], kind, 16, 16, _half_source(operation, shift)), kind, 16)
            for shift in (0, 16)
        ]
        return _joined(builder, halves)
    match = _DOT.match(name)
    if match:
        return _bounded(builder, _dot(operation, int(match[1]), match[2].lower(), int(match[3])), match[2].lower(), 32)
    if name in _ABSOLUTE_DIFFERENCES:
        return _bounded(builder, _differences(operation, *_ABSOLUTE_DIFFERENCES[name]), "u", 32)
    raise UnsupportedSemantics("clamp of this integer operation")


def _half_source(operation: VectorOperation, shift: int) -> Callable[[int], Value]:
    builder = operation.group.builder
    return lambda i: builder.resize(builder.binary(">>", operation.source(i), constant(shift)), 16, signed=False)


def _joined(builder: Builder, halves: list[Value]) -> Value:
    low, high = (builder.resize(half, 32, signed=False) for half in halves)
    return builder.binary("|", low, builder.binary("<<", high, constant(16)))


def _sum(
    operation: VectorOperation, operator: str, kind: str, bits: int, input_bits: int, source: Callable[[int], Value]
) -> Value:
    """Return the exact sum as a signed number of more than twice the width."""
    builder, wide = operation.group.builder, 64 if bits < 64 else 192

    def exact(index: int, width: int) -> Value:
        value = builder.raw(source(index))
        low = builder.resize(value, min(width, value.bits), signed=False)
        return _as(builder.resize(low, wide, signed=kind == "i"), "i")

    a, b = exact(0, input_bits), exact(1, input_bits)
    if operator == "MAD":
        return _as(builder.binary("+", builder.binary("*", a, b), exact(2, bits)), "i")
    if operator.endswith("REV"):
        a, b = b, a
    total = builder.binary("+" if operator.startswith("ADD") else "-", a, b)
    if operator in ("ADDC", "SUBB", "SUBBREV"):
        carry = builder.resize(operation.lane_bit("VCC"), wide, signed=False)
        total = builder.binary("+" if operator == "ADDC" else "-", total, carry)
    return _as(total, "i")


def _dot(operation: VectorOperation, count: int, kind: str, bits: int) -> Value:
    builder = operation.group.builder
    total = _as(builder.resize(builder.raw(operation.source(2)), 64, signed=kind == "i"), "i")
    for i in range(count):
        parts = [_part(builder, builder.raw(operation.source(n)), bits * i, bits, signed=kind == "i") for n in (0, 1)]
        total = builder.binary("+", total, builder.binary("*", *parts))
    return total


def _part(builder: Builder, value: Value, shift: int, bits: int, *, signed: bool) -> Value:
    part = builder.resize(builder.binary(">>", value, constant(shift)) if shift else value, bits, signed=False)
    return _as(builder.resize(part, 64, signed=signed), "i")


def _differences(operation: VectorOperation, bits: int, shift: int) -> Value:
    builder = operation.group.builder
    a, b = (builder.raw(operation.source(i)) for i in (0, 1))
    total = constant(0, 64, "i")
    for i in range(32 // bits):
        x, y = (_part(builder, v, bits * i, bits, signed=False) for v in (a, b))
        total = builder.binary(
            "+", total, builder.intrinsic("abs", [builder.binary("-", x, y)], kind="i", bits=64, extra=", i1 false")
        )
    addend = _as(builder.resize(builder.raw(operation.source(2)), 64, signed=False), "i")
    return builder.binary("+", builder.binary("<<", total, constant(shift, 64)), addend)


def _bounded(builder: Builder, exact: Value, kind: str, bits: int) -> Value:
    low, high = (0, (1 << bits) - 1) if kind == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    exact = _as(exact, "i")
    below = builder.intrinsic("smin", [exact, constant(high, exact.bits)], kind="i", bits=exact.bits)
    inside = builder.intrinsic("smax", [below, constant(low, exact.bits)], kind="i", bits=exact.bits)
    return builder.resize(_as(inside, "u"), bits)


def _as(value: Value, kind: str) -> Value:
    return replace(value, kind=kind)
