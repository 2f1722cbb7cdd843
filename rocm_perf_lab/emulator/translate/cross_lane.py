"""Vector instructions that are not independent per lane: lane reads and writes, DPP, AGPR moves, matrix instructions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocm_perf_lab.arch.registry import largest_matrix_operand_bytes
from rocm_perf_lab.emulator.isa.instruction import OperandType
from rocm_perf_lab.emulator.pcode.values import UnsupportedSemantics, Value, constant
from rocm_perf_lab.emulator.structures import EXEC, FIRST_AGPR_ROW, FIRST_TEMP_ROW, LANES
from rocm_perf_lab.emulator.translate.indexing import indexed_operation, is_indexed
from rocm_perf_lab.emulator.translate.operands import FIRST_VGPR, inline_constant, read_source
from rocm_perf_lab.emulator.translate.runtime_calls import call_runtime
from rocm_perf_lab.emulator.translate.vector import translate_vector

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.translate.state import BlockState

_WORD = OperandType("B32", 32)
_MATRIX = re.compile(r"V_MFMA_(F32|F64|I32)_(\d+)X(\d+)X(\d+)_(?:(\d+)B_)?(.+)$")
_SPARSE = re.compile(r"V_SMFMAC_(?:F32|I32)_(\d+)X\1X(\d+)_(.+)$")
_ELEMENTS = {"F16": 0, "BF16": 1, "F32": 2, "F64": 3, "I8": 4, "XF32": 5, "FP8": 6, "BF8": 7, "I32": 4}
"""enum rpl_element."""
_BYTES = {"F16": 2, "BF16": 2, "F32": 4, "F64": 8, "I8": 1, "XF32": 4, "FP8": 1, "BF8": 1}
_LANE_MOVES = frozenset({"V_READFIRSTLANE_B32", "V_READLANE_B32", "V_WRITELANE_B32"})


def translate_vector_alu(state: BlockState, instruction: Instruction) -> None:
    """Emit any VOP instruction.

    Raises:
        UnsupportedSemantics: The instruction has no translation.
    """
    if instruction.mnemonic == "V_NOP":
        return
    if is_indexed(state):
        indexed_operation(state, instruction, _emit)
    else:
        _emit(state, instruction)


def _emit(state: BlockState, instruction: Instruction) -> None:
    name = instruction.mnemonic
    if name in _LANE_MOVES:
        state.count_vector()
        state.close_group()
        _LANE_HANDLERS[name](state, instruction)
    elif name.startswith("V_ACCVGPR"):
        _move_accumulator(state, instruction)
    elif instruction.is_matrix:
        _matrix(state, instruction)
    elif instruction.variant.startswith("DPP"):
        _with_permuted_source(state, instruction)
    else:
        translate_vector(state, instruction)


def _read_first_lane(state: BlockState, instruction: Instruction) -> None:
    source = instruction.fields["src0"]
    target = instruction.fields["vdst"] % FIRST_VGPR
    if source < FIRST_VGPR:
        state.write(target, read_source(state, instruction, source, _WORD))
        return
    builder = state.scalar_builder
    first = builder.intrinsic("cttz", [state.read64(EXEC)], kind="u", bits=64, extra=", i1 false")
    lane = builder.binary("&", first, constant(LANES - 1, 64))
    state.write(target, _load_lane(state, source - FIRST_VGPR, lane))


def _read_lane(state: BlockState, instruction: Instruction) -> None:
    lane = _lane_operand(state, instruction)
    state.write(instruction.fields["vdst"] % FIRST_VGPR, _load_lane(state, instruction.fields["src0"] - FIRST_VGPR, lane))


def _write_lane(state: BlockState, instruction: Instruction) -> None:
    value = read_source(state, instruction, instruction.fields["src0"], _WORD)
    lane = _lane_operand(state, instruction)
    row = instruction.fields["vdst"]
    pointer = _lane_pointer(state, row - FIRST_VGPR if row >= FIRST_VGPR else row, lane)
    state.lines.append(f"store i32 {state.scalar_builder.text(value)}, ptr {pointer}")


_LANE_HANDLERS = {
    "V_READFIRSTLANE_B32": _read_first_lane,
    "V_READLANE_B32": _read_lane,
    "V_WRITELANE_B32": _write_lane,
}


def _lane_operand(state: BlockState, instruction: Instruction) -> Value:
    builder = state.scalar_builder
    lane = read_source(state, instruction, instruction.fields["src1"], _WORD)
    return builder.resize(builder.binary("&", lane, constant(LANES - 1)), 64, signed=False)


def _load_lane(state: BlockState, row: int, lane: Value) -> Value:
    pointer = _lane_pointer(state, row, lane)
    name = state.names.fresh()
    state.lines.append(f"{name} = load i32, ptr {pointer}")
    return Value(name, "u", 32)


def _lane_pointer(state: BlockState, row: int, lane: Value) -> str:
    element = state.scalar_builder.binary("+", lane, constant(row * LANES, 64))
    pointer = state.names.fresh()
    state.lines.append(f"{pointer} = getelementptr i32, ptr %wave, i64 {state.scalar_builder.text(element)}")
    return pointer


def _move_accumulator(state: BlockState, instruction: Instruction) -> None:
    group = state.group
    group.instructions += 1
    if "MOV" in instruction.mnemonic:  # VOP1; the others are VOP3P
        row, source = instruction.fields["vdst"] % FIRST_VGPR, instruction.fields["src0"]
        group.write_row(row + FIRST_AGPR_ROW, read_source(state, instruction, source, _WORD, agpr=True))
        return
    row, source = instruction.bits(7, 0), instruction.bits(40, 32)
    if "READ" in instruction.mnemonic:
        group.write_row(row, group.read_row(source % FIRST_VGPR + FIRST_AGPR_ROW))
        return
    group.write_row(row + FIRST_AGPR_ROW, read_source(state, instruction, source, _WORD))


def _matrix(state: BlockState, instruction: Instruction) -> None:
    sparse = _SPARSE.match(instruction.mnemonic)
    if sparse is not None:
        _sparse_matrix(state, instruction, sparse)
        return
    match = _MATRIX.match(instruction.mnemonic)
    if match is None:
        raise UnsupportedSemantics("this matrix instruction")
    out, m, n, k, blocks, inputs = match.groups()
    kinds = _matrix_elements(inputs)
    count = int(blocks or 1)
    if int(m) * int(k) * count * _BYTES[kinds[0]] > largest_matrix_operand_bytes() * LANES:
        raise UnsupportedSemantics("its operands are wider than those of the emulated architecture")
    state.count_vector()
    state.close_group()
    accumulator, a_row, b_row = _matrix_rows(instruction)
    c, bits = instruction.bits(58, 50), 0
    if c < FIRST_VGPR:
        kind = OperandType("F64", 64) if out == "F64" else OperandType("F32" if out == "F32" else "I32", 32)
        inline = inline_constant(c, kind)
        if inline is None:
            raise UnsupportedSemantics("a scalar register as matrix C")
        c_row, bits = -1, inline.integer
    else:
        c_row = c - FIRST_VGPR + accumulator
    call_runtime(
        state, "rpl_mfma", instruction, instruction.bits(7, 0) + accumulator, a_row, b_row,
        c_row, constant(bits, 64), int(m), int(n), int(k), count,
        _ELEMENTS[kinds[0]], _ELEMENTS[kinds[1]], _ELEMENTS[out],
        instruction.bits(10, 8), instruction.bits(14, 11), instruction.bits(63, 61),
    )  # fmt: skip


def _sparse_matrix(state: BlockState, instruction: Instruction, match: re.Match[str]) -> None:
    edge, depth, inputs = int(match[1]), int(match[2]), match[3]
    kinds = _matrix_elements(inputs)
    if edge * depth * _BYTES[kinds[0]] > 2 * largest_matrix_operand_bytes() * LANES:
        raise UnsupportedSemantics("its operands are wider than those of the emulated architecture")
    state.count_vector()
    state.close_group()
    accumulator, a_row, b_row = _matrix_rows(instruction)
    call_runtime(
        state, "rpl_smfmac", instruction, instruction.bits(7, 0) + accumulator, a_row, b_row,
        instruction.bits(58, 50) % FIRST_VGPR, edge, depth, _ELEMENTS[kinds[0]], _ELEMENTS[kinds[1]],
        instruction.bits(10, 8), instruction.bits(14, 11),
    )  # fmt: skip


def _matrix_elements(inputs: str) -> list[str]:
    """Return the element types of A and B."""
    kinds = inputs.split("_") if "_" in inputs else [inputs, inputs]
    if any(kind not in _BYTES for kind in kinds) or len(kinds) != 2:
        raise UnsupportedSemantics(f"matrix elements {inputs}")
    return kinds


def _matrix_rows(instruction: Instruction) -> tuple[int, int, int]:
    """Return the first row of the register file with C and D, and the rows of A and B."""
    acc = instruction.bits(60, 59)
    a_row = instruction.bits(40, 32) % FIRST_VGPR + (FIRST_AGPR_ROW if acc & 1 else 0)
    b_row = instruction.bits(49, 41) % FIRST_VGPR + (FIRST_AGPR_ROW if acc & 2 else 0)
    return FIRST_AGPR_ROW if instruction.bits(15, 15) else 0, a_row, b_row


def _with_permuted_source(state: BlockState, instruction: Instruction) -> None:
    """Emit a DPP instruction: move lanes of src0 to a temporary row and mask lanes without a source out of EXEC."""
    fields = instruction.fields
    state.close_group()
    state.store_scalars()
    state.names.declare("declare i64 @rpl_dpp(ptr, i32, i32, i32, i32, i32, i32)")
    for i in range(max(1, instruction.operands.get("src0", _WORD).bits // 32)):
        arguments = (FIRST_TEMP_ROW + i, fields["vsrc0"] % FIRST_VGPR + i, fields["dpp"], fields["row_mask"], fields["bank_mask"])
        given = ", ".join(f"i32 {a}" for a in (*arguments, fields["bc"]))
        enabled = state.names.fresh()
        state.lines.append(f"{enabled} = call i64 @rpl_dpp(ptr %wave, {given})")
    execute = state.read64(EXEC)
    builder = state.scalar_builder
    narrowed = builder.binary("&", execute, Value(enabled, "u", 64))
    state.write(EXEC, narrowed)
    translate_vector(state, instruction, source0_row=FIRST_TEMP_ROW)
    state.close_group()
    state.write(EXEC, execute)
