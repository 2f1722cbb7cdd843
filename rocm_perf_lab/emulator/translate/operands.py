"""Source operands: registers, inline constants, literals, and the modifiers of each encoding."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode.values import UnsupportedSemantics, Value, constant
from rocm_perf_lab.emulator.structures import EXEC, FIRST_AGPR_ROW, VCC

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.isa.instruction import Instruction, OperandType
    from rocm_perf_lab.emulator.pcode.ir import Builder
    from rocm_perf_lab.emulator.translate.state import BlockState

FIRST_VGPR = 256
LITERAL, SCC_OPERAND, EXECZ_OPERAND, VCCZ_OPERAND = 255, 253, 252, 251
SHARED_BASE, PRIVATE_BASE = 235, 237
_INLINE_FLOATS = {240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0,
                  248: 0.15915494309189532}  # fmt: skip
_PACK = {16: "<e", 32: "<f", 64: "<d"}
APERTURE_SHARED, APERTURE_PRIVATE = 0x7FFF0000_00000000, 0x7FFE0000_00000000
"""Flat addresses of LDS and scratch, outside of device memory."""


def read_source(state: BlockState, instruction: Instruction, operand: int, kind: OperandType, *, agpr: bool = False) -> Value:
    """Return the raw bits of a source operand: a chunk for a vector register, else a scalar."""
    if operand >= FIRST_VGPR:
        return _vector(state, operand - FIRST_VGPR + (FIRST_AGPR_ROW if agpr else 0), kind.bits)
    if operand < 128:
        return _scalar(state, operand, kind.bits)
    inline = inline_constant(operand, kind)
    if inline is not None:
        return inline
    if operand == LITERAL:
        return literal_constant(instruction, kind)
    if operand in (SCC_OPERAND, EXECZ_OPERAND, VCCZ_OPERAND):
        return _condition(state, operand, kind.bits)
    if operand in (SHARED_BASE, PRIVATE_BASE):
        base = APERTURE_SHARED if operand == SHARED_BASE else APERTURE_PRIVATE
        return constant(base if kind.bits == 64 else base >> 32, kind.bits)
    raise UnsupportedSemantics(f"source operand {operand}")


def _condition(state: BlockState, operand: int, bits: int) -> Value:
    """Return SCC, or whether EXEC or VCC is zero, as a number."""
    builder = state.scalar_builder
    if operand == SCC_OPERAND:
        return builder.resize(state.scc, bits, signed=False)
    mask = state.read_mask(EXEC if operand == EXECZ_OPERAND else VCC)
    return builder.resize(builder.compare("==", mask, constant(0, 64)), bits, signed=False)


def inline_constant(operand: int, kind: OperandType) -> Value | None:
    """Return the constant of an operand number from 128 to 248, or None."""
    if 128 <= operand <= 192:
        return constant(operand - 128, kind.bits)
    if 193 <= operand <= 208:
        return constant(192 - operand, kind.bits)
    if operand in _INLINE_FLOATS:
        float_bits = kind.bits if kind.bits < 64 or "F64" in kind.format or kind.format.startswith(("B", "U", "I")) else 32
        packed = struct.pack(_PACK[float_bits], _INLINE_FLOATS[operand])
        return constant(int.from_bytes(packed, "little"), kind.bits)
    return None


def _vector(state: BlockState, row: int, bits: int) -> Value:
    group = state.group
    low = group.read_row(row)
    if bits <= 32:
        return group.builder.resize(low, bits, signed=False)
    return join_words(group.builder, [group.read_row(row + i) for i in range(bits // 32)])


def join_words(builder: Builder, words: list[Value]) -> Value:
    """Join 32-bit words, lowest first."""
    bits = 32 * len(words)
    result = builder.resize(words[0], bits, signed=False)
    for i, word in enumerate(words[1:], start=1):
        wide = builder.resize(word, bits, signed=False)
        result = builder.binary("|", result, builder.binary("<<", wide, constant(32 * i, bits)))
    return result


def _scalar(state: BlockState, register: int, bits: int) -> Value:
    if bits == 64:
        return state.read64(register)
    word = state.read32(register)
    return state.scalar_builder.resize(word, bits, signed=False) if bits < 32 else word


def literal_constant(instruction: Instruction, kind: OperandType) -> Value:
    """Return the literal of an instruction as an operand of a type."""
    literal = instruction.fields["literal"] & 0xFFFFFFFF
    if kind.bits < 64:
        return constant(literal, kind.bits)
    if "F64" in kind.format:
        return constant(literal << 32, 64)
    signed = kind.format.startswith("I")
    return constant(literal | (0xFFFFFFFF << 32 if signed and literal >> 31 else 0), 64)


def apply_sign_modifiers(builder: Builder, value: Value, *, negate: bool, absolute: bool) -> Value:
    """Clear and flip the sign bit of raw float bits as requested."""
    sign = 1 << (value.bits - 1)
    if absolute:
        value = builder.binary("&", value, constant(sign - 1, value.bits))
    if negate:
        value = builder.binary("^", value, constant(sign, value.bits))
    return value
