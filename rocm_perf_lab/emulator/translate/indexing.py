"""Vector registers indexed by M0 between S_SET_GPR_IDX_ON and S_SET_GPR_IDX_OFF, for arrays in registers.

The mode is a bit of MODE, known at translation. M0[15:12] selects the operands to which the index M0[7:0] is added; since any
scalar instruction may write M0, the runtime reads it. Sources are copied to temporary rows, the operation works on these,
and its result is copied to the indexed destination.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.isa.instruction import OperandType
from rocm_perf_lab.emulator.pcode.values import UnsupportedSemantics, Value, constant
from rocm_perf_lab.emulator.structures import FIRST_TEMP_ROW, M0, offset_of
from rocm_perf_lab.emulator.translate.mode import REGISTER_INDEXING
from rocm_perf_lab.emulator.translate.operands import FIRST_VGPR, read_source
from rocm_perf_lab.emulator.translate.runtime_calls import call_runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.translate.state import BlockState

    Emit = Callable[[BlockState, Instruction], None]

_WORD = OperandType("B32", 32)
_INDEX_BITS, _MODE_SHIFT = 0xFF, 12
_DESTINATION = 3
_SOURCES = {"src0": 0, "src1": 1, "vsrc1": 1, "src2": 2}
_ROWS_OF_AN_OPERAND = 4
_IN_OTHER_WAYS = ("V_SWAP", "V_ACCVGPR", "V_MFMA", "V_SMFMAC")
"""They write their sources, or their operands are not fields in the table of the encoding."""


def set_index_mode(state: BlockState, instruction: Instruction) -> None:
    """Emit S_SET_GPR_IDX_ON, _OFF, _IDX or _MODE."""
    name, fields = instruction.mnemonic, instruction.fields
    builder = state.scalar_builder
    if name == "S_SET_GPR_IDX_MODE":
        _merge_into_m0(state, constant((fields["simm16"] & 15) << _MODE_SHIFT), 15 << _MODE_SHIFT)
    elif name != "S_SET_GPR_IDX_OFF":
        index = builder.binary("&", read_source(state, instruction, fields["ssrc0"], _WORD), constant(_INDEX_BITS))
        if name == "S_SET_GPR_IDX_IDX":
            _merge_into_m0(state, index, _INDEX_BITS)
            return
        mode = constant((fields["ssrc1"] & 15) << _MODE_SHIFT)
        _merge_into_m0(state, builder.binary("|", index, mode), _INDEX_BITS | 15 << _MODE_SHIFT)
    if name in ("S_SET_GPR_IDX_ON", "S_SET_GPR_IDX_OFF"):
        _switch(state, instruction)


def is_indexed(state: BlockState) -> bool:
    """Return whether the mode is on.

    Raises:
        UnsupportedSemantics: The mode depends on the path.
    """
    known = state.mode.bit(REGISTER_INDEXING)
    if known is None:
        raise UnsupportedSemantics("register indexing that depends on the path")
    return known


def indexed_operation(state: BlockState, instruction: Instruction, emit: Emit) -> None:
    """Emit a vector instruction while the mode is on; `emit` translates it as if the mode were off.

    Raises:
        UnsupportedSemantics: DPP, SDWA, or an operation on registers of the matrix core.
    """
    if instruction.variant.startswith(("DPP", "SDWA")) or instruction.mnemonic.startswith(_IN_OTHER_WAYS):
        raise UnsupportedSemantics("indexed registers in such an instruction")
    if instruction.mnemonic == "V_MOV_B32":
        _move(state, instruction)
        return
    fields = dict(instruction.fields)
    for name, source in _SOURCES.items():
        if fields.get(name, 0) >= FIRST_VGPR:
            place = FIRST_TEMP_ROW + _ROWS_OF_AN_OPERAND * source
            _copy(state, instruction, place, fields[name] - FIRST_VGPR, _rows(instruction, name), by_source=source)
            fields[name] = FIRST_VGPR + place
    target = fields.get("vdst", 0)
    if not _writes_registers(instruction):
        emit(state, replace(instruction, fields=fields))
        return
    row, rows = target % FIRST_VGPR, _rows(instruction, "vdst")
    place = FIRST_TEMP_ROW + _ROWS_OF_AN_OPERAND * _DESTINATION
    fields["vdst"] = FIRST_VGPR + place
    _copy(state, instruction, place, row, rows, by_source=_DESTINATION)  # for lanes that keep it, or as an addend
    emit(state, replace(instruction, fields=fields))
    _copy(state, instruction, row, place, rows, by_target=_DESTINATION)


def _move(state: BlockState, instruction: Instruction) -> None:
    """Emit V_MOV_B32 without temporary rows; compilers put it between ON and OFF."""
    state.group.instructions += 1
    source = instruction.fields["src0"]
    value = constant(0) if source >= FIRST_VGPR else read_source(state, instruction, source, _WORD)
    row = source - FIRST_VGPR if source >= FIRST_VGPR else -1
    target = instruction.fields["vdst"] % FIRST_VGPR
    call_runtime(state, "rpl_indexed_move", instruction, target, row, value, _DESTINATION, 0, 0)


def _copy(
    state: BlockState, instruction: Instruction, to: int, row: int, rows: int, *, by_source: int = -1, by_target: int = -1
) -> None:
    """Copy rows of all lanes, because a lane read may access a lane outside EXEC."""
    for i in range(rows):
        call_runtime(state, "rpl_indexed_move", instruction, to + i, row + i, constant(0), by_target, by_source, 1)


def _rows(instruction: Instruction, name: str) -> int:
    twin = name.removeprefix("v") if name == "vsrc1" else name
    kind = instruction.operands.get(name) or instruction.operands.get(twin) or _WORD
    return max(1, kind.bits // 32)


def _writes_registers(instruction: Instruction) -> bool:
    """Return whether the destination is a vector register; V_CMP and lane reads write scalar registers."""
    return "vdst" in instruction.fields and not instruction.mnemonic.startswith(("V_CMP", "V_READ"))


def _switch(state: BlockState, instruction: Instruction) -> None:
    builder, bit = state.scalar_builder, 1 << REGISTER_INDEXING
    kept = builder.binary("&", state.load_mode(), constant(~bit & 0xFFFFFFFF))
    is_on = instruction.mnemonic == "S_SET_GPR_IDX_ON"
    address = state.names.fresh()
    state.lines += [
        f"{address} = getelementptr i8, ptr %wave, i64 {offset_of('mode')}",
        f"store i32 {builder.text(builder.binary('|', kept, constant(bit if is_on else 0)))}, ptr {address}",
    ]
    state.mode = state.mode.after(instruction)


def _merge_into_m0(state: BlockState, bits: Value, mask: int) -> None:
    builder = state.scalar_builder
    kept = builder.binary("&", state.read32(M0), constant(~mask & 0xFFFFFFFF))
    state.write(M0, builder.binary("|", kept, bits))
