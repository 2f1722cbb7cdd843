"""Sub-dword addressing: selects a byte or half of a source register, and the part of the destination that a result replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.isa.instruction import OperandType
from rocm_perf_lab.emulator.pcode.values import Value, constant
from rocm_perf_lab.emulator.translate.operands import FIRST_VGPR, read_source

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.pcode.ir import Builder
    from rocm_perf_lab.emulator.translate.state import BlockState

_WORD = OperandType("B32", 32)
_PARTS = {0: (0, 8), 1: (8, 8), 2: (16, 8), 3: (24, 8), 4: (0, 16), 5: (16, 16), 6: (0, 32)}
"""First bit and width by selector."""
_PAD_SIGN, _PRESERVE = 1, 2


def select_source(state: BlockState, instruction: Instruction, index: int, operand: int, kind: OperandType) -> Value:
    """Return the selected part of a source, zero- or sign-extended to the width of the operand."""
    fields = instruction.fields
    is_scalar = bool(fields.get(f"s{index}", 0))
    number = operand % FIRST_VGPR if is_scalar else operand % FIRST_VGPR + FIRST_VGPR
    word = read_source(state, instruction, number, _WORD)
    first, width = _PARTS[fields[f"src{index}_sel"]]
    builder = state.group.builder
    part = builder.resize(builder.binary(">>", word, constant(first)) if first else word, width, signed=False)
    return builder.resize(part, max(kind.bits, width), signed=bool(fields.get(f"src{index}_sext", 0)))


def place_result(builder: Builder, instruction: Instruction, raw: Value, before: Value) -> Value:
    """Return the register with the result in its selected part; the rest is zero, the sign or the bits of `before`."""
    fields = instruction.fields
    first, width = _PARTS[fields.get("dst_sel", 6)]
    value = builder.resize(raw, 32, signed=False)
    if width == 32:
        return value
    part = builder.resize(builder.resize(value, width, signed=False), 32, signed=False)
    placed = builder.binary("<<", part, constant(first)) if first else part
    if fields["dst_unused"] == _PRESERVE:
        hole = ~(((1 << width) - 1) << first)
        return builder.binary("|", placed, builder.binary("&", before, constant(hole)))
    if fields["dst_unused"] == _PAD_SIGN:
        signed = builder.resize(builder.resize(value, width, signed=False), 32, signed=True)
        return builder.binary("<<", signed, constant(first)) if first else signed
    return placed
