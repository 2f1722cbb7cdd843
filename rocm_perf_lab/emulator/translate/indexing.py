"""Vector registers addressed through M0, between S_SET_GPR_IDX_ON and S_SET_GPR_IDX_OFF: arrays in registers.

Compilers put one V_MOV_B32 between the two and keep the three in one basic block, so the mode is known at translation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.isa.instruction import OperandType
from rocm_perf_lab.emulator.pcode.values import UnsupportedSemantics, Value, constant
from rocm_perf_lab.emulator.translate.operands import FIRST_VGPR, read_source
from rocm_perf_lab.emulator.translate.runtime_calls import call_runtime
from rocm_perf_lab.emulator.wave import M0

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.translate.state import BlockState

_WORD = OperandType("B32", 32)
_INDEX_BITS, _MODE_SHIFT = 0xFF, 12
_SOURCE0, _DESTINATION = 1, 8


def set_index_mode(state: BlockState, instruction: Instruction) -> None:
    """S_SET_GPR_IDX_ON, _OFF, _IDX and _MODE.

    Raises:
        UnsupportedSemantics: The mode changes outside of ON and OFF.
    """
    name, fields = instruction.mnemonic, instruction.fields
    if name == "S_SET_GPR_IDX_OFF":
        state.index_mode = None
        return
    if name == "S_SET_GPR_IDX_MODE":
        if state.index_mode is None:
            raise UnsupportedSemantics("the indexing mode changes in another block than it began")
        state.index_mode = fields["simm16"] & 15
        _merge_into_m0(state, constant(state.index_mode << _MODE_SHIFT), 15 << _MODE_SHIFT)
        return
    builder = state.scalar_builder
    index = builder.binary("&", read_source(state, instruction, fields["ssrc0"], _WORD), constant(_INDEX_BITS))
    if name == "S_SET_GPR_IDX_IDX":
        _merge_into_m0(state, index, _INDEX_BITS)
        return
    state.index_mode = fields["ssrc1"] & 15
    mode = constant(state.index_mode << _MODE_SHIFT)
    _merge_into_m0(state, builder.binary("|", index, mode), _INDEX_BITS | 15 << _MODE_SHIFT)


def move_indexed(state: BlockState, instruction: Instruction) -> None:
    """A vector instruction while the mode is on.

    Raises:
        UnsupportedSemantics: Another one than a plain V_MOV_B32.
    """
    if instruction.mnemonic != "V_MOV_B32" or instruction.variant:
        raise UnsupportedSemantics("indexed registers in another instruction than v_mov_b32")
    mode = state.index_mode or 0
    state.group.instructions += 1
    source = instruction.fields["src0"]
    value = constant(0) if source >= FIRST_VGPR else read_source(state, instruction, source, _WORD)
    row = source - FIRST_VGPR if source >= FIRST_VGPR else -1
    target = instruction.fields["vdst"] % FIRST_VGPR
    call_runtime(
        state, "rpl_indexed_move", instruction, target, row, value, int(bool(mode & _DESTINATION)), int(bool(mode & _SOURCE0))
    )


def _merge_into_m0(state: BlockState, bits: Value, mask: int) -> None:
    builder = state.scalar_builder
    kept = builder.binary("&", state.read32(M0), constant(~mask & 0xFFFFFFFF))
    state.write(M0, builder.binary("|", kept, bits))
