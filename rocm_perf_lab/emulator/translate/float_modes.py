"""Effects of MODE on floating-point vector instructions: flushed denormals, rounding, output modifiers, clamp.

Source: CDNA3 ISA, sections on the MODE register and on VOP3 (output modifiers need IEEE off and output denormals off).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode.values import FALSE, TRUE, Value, constant, float_constant
from rocm_perf_lab.emulator.translate.mode import DENORMALS_F32, DENORMALS_F64, DX10_CLAMP, IEEE, ROUND_F32, ROUND_F64

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.pcode.ir import Builder

FLOAT_BITS = {"F16": 16, "F32": 32, "F64": 64}
_SMALLEST_NORMAL = {16: 1 << 10, 32: 1 << 23, 64: 1 << 52}
_OUTPUT_SCALE = {1: 2.0, 2: 4.0, 3: 0.5}
"""omod of the encoding."""
_KEEPS_DENORMALS = re.compile(r"V_(MOV|CNDMASK|CMPX?_CLASS|PK_MOV|SWAP|ACCVGPR|READ|WRITE|PACK_B32|PERM|DOT|FREXP_EXP)")
_FLUSHES_ALWAYS = frozenset(
    {"V_EXP_F32", "V_LOG_F32", "V_SQRT_F32", "V_EXP_LEGACY_F32", "V_LOG_LEGACY_F32", "V_MAC_F32", "V_MAD_F32",
     "V_MAD_LEGACY_F32", "V_MADMK_F32", "V_MADAK_F32"}
)  # fmt: skip
"""Approximations, and unfused products with sums, that flush denormal float32 in any mode."""


def rounding_field(instruction: Instruction) -> int | None:
    """Return the first bit of the rounding field of MODE for an instruction, or None if it does not round."""
    formats = {kind.format for kind in instruction.operands.values()} & FLOAT_BITS.keys()
    if not formats or _KEEPS_DENORMALS.match(instruction.mnemonic) or instruction.mnemonic.startswith("V_CMP"):
        return None
    if "MIX_F32" in instruction.mnemonic or formats == {"F32"}:
        return ROUND_F32
    return ROUND_F64


def flushed_input(builder: Builder, instruction: Instruction, value: Value, bits: int) -> Value:
    """Return the raw bits of a float operand, with denormals as signed zeros unless MODE keeps input denormals."""
    return _flushed(builder, instruction, value, bits, 0)


def flushed_output(builder: Builder, instruction: Instruction, value: Value, bits: int) -> Value:
    """Return a result, with denormals as signed zeros unless MODE keeps output denormals."""
    return _flushed(builder, instruction, value, bits, 1)


def _flushed(builder: Builder, instruction: Instruction, value: Value, bits: int, which: int) -> Value:
    if _KEEPS_DENORMALS.match(instruction.mnemonic):
        return value
    keeps = builder.mode_bit((DENORMALS_F32 if bits == 32 else DENORMALS_F64) + which)
    if instruction.mnemonic in _FLUSHES_ALWAYS:
        keeps = FALSE
    if keeps == TRUE:
        return value
    raw = builder.raw(value)
    flushed = builder.select(keeps, raw, without_denormals(builder, raw, bits))
    return builder.reinterpret(flushed, value.kind, bits) if value.kind == "f" else flushed


def without_denormals(builder: Builder, raw: Value, bits: int) -> Value:
    """Return the raw bits of a float, with a denormal as signed zero."""
    sign = builder.binary("&", raw, constant(1 << bits - 1, bits))
    size = builder.binary("&", raw, constant((1 << bits - 1) - 1, bits))
    return builder.select(builder.compare("<", size, constant(_SMALLEST_NORMAL[bits], bits)), sign, raw)


def modified_output(builder: Builder, number: Value, *, scale: int, clamp: bool) -> Value:
    """Apply output modifier and clamp to a float result."""
    if scale:
        denormals = builder.mode_bit((DENORMALS_F32 if number.bits == 32 else DENORMALS_F64) + 1)
        ignored = builder.binary("||", builder.mode_bit(IEEE), denormals)
        if ignored != TRUE:
            scaled = builder.binary("*", number, float_constant(_OUTPUT_SCALE[scale], number.bits))
            size = builder.binary("&", builder.raw(scaled), constant((1 << number.bits - 1) - 1, number.bits))
            zero = builder.compare("<", size, constant(_SMALLEST_NORMAL[number.bits], number.bits))
            scaled = builder.select(zero, float_constant(0.0, number.bits), scaled)  # denormals and -0 become +0
            number = builder.select(ignored, number, scaled)
    return clamped(builder, number) if clamp else number


def clamped(builder: Builder, number: Value) -> Value:
    """Clamp to [0, 1]; NaN becomes 0 with DX10_CLAMP and is kept without."""
    zero, one = float_constant(0.0, number.bits), float_constant(1.0, number.bits)
    above = builder.select(builder.compare(">", number, zero), number, zero)
    inside = builder.select(builder.compare("<", above, one), above, one)
    keeps_nan = builder.binary("^", builder.mode_bit(DX10_CLAMP), TRUE)
    if keeps_nan == FALSE:
        return inside
    is_nan = builder.intrinsic("is.fpclass", [number], kind="u", bits=1, extra=", i32 3")
    return builder.select(builder.binary("&&", keeps_nan, is_nan), number, inside)
