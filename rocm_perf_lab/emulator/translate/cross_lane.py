"""Vector instructions that are not independent per lane: lane reads and writes, DPP, AGPR moves, matrix instructions."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.isa.instruction import OperandType
from rocm_perf_lab.emulator.pcode.values import UnsupportedSemantics, Value, constant
from rocm_perf_lab.emulator.structures import EXEC, FIRST_AGPR_ROW, FIRST_TEMP_ROW, LANES
from rocm_perf_lab.emulator.translate.indexing import indexed_operation, is_indexed
from rocm_perf_lab.emulator.translate.operands import FIRST_VGPR, inline_constant, read_source
from rocm_perf_lab.emulator.translate.runtime_calls import call_runtime
from rocm_perf_lab.emulator.translate.scaled_conversions import ELEMENT_CONVERSIONS, convert_elements
from rocm_perf_lab.emulator.translate.vector import translate_vector

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.isa.instruction_set import InstructionSet
    from rocm_perf_lab.emulator.translate.state import BlockState

_WORD = OperandType("B32", 32)
_MATRIX = re.compile(r"V_MFMA_(F32|F64|I32)_(\d+)X(\d+)X(\d+)_(?:(\d+)B_)?(.+)$")
_SPARSE = re.compile(r"V_SMFMAC_(?:F32|I32)_(\d+)X\1X(\d+)_(.+)$")
_NARROW = re.compile(r"V_MFMA_(?:SCALE_)?F32_(16X16X128|32X32X64)_F8F6F4")
_LANE_SWAP = re.compile(r"V_PERMLANE(16|32)_SWAP_B32")
_ELEMENTS = {"F16": 0, "BF16": 1, "F32": 2, "F64": 3, "I8": 4, "XF32": 5, "FP8": 6, "BF8": 7, "I32": 4}
"""enum rpl_element."""
_OCP_ELEMENTS = {"FP8": 8, "BF8": 9}
_FLUSHED_ELEMENTS = {"F16": 10, "BF16": 11}
_NO_ROW = -1
_UNSCALED = 127
"""Exponent of the scale 1."""
_BYTES = {"F16": 2, "BF16": 2, "F32": 4, "F64": 8, "I8": 1, "XF32": 4, "FP8": 1, "BF8": 1}
_PAIR_BITS = 64
_WHOLE, _LOW, _HIGH = 1, 2, 3
"""enum rpl_relative."""
_RELATIVE = {"V_MOVRELD_B32": (_WHOLE, 0), "V_MOVRELS_B32": (0, _WHOLE), "V_MOVRELSD_B32": (_WHOLE, _WHOLE),
             "V_MOVRELSD_2_B32": (_HIGH, _LOW), "V_SWAPREL_B32": (_HIGH, _LOW)}  # fmt: skip
"""Parts of M0 that are added to the destination and to the source."""
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
    elif _NARROW.fullmatch(name):
        _narrow_matrix(state, instruction)
    elif instruction.is_matrix:
        _matrix(state, instruction)
    elif swap := _LANE_SWAP.fullmatch(name):
        _swap_lanes(state, instruction, int(swap[1]))
    elif name in ELEMENT_CONVERSIONS:
        convert_elements(state, instruction)
    elif name.startswith("V_PERMLANE"):
        _permute_rows(state, instruction)
    elif name in _RELATIVE:
        _move_relative(state, instruction)
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
    first = builder.intrinsic("cttz", [state.read_mask(EXEC)], kind="u", bits=64, extra=", i1 false")
    lane = builder.binary("&", first, constant(state.wave_size - 1, 64))
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
    return builder.resize(builder.binary("&", lane, constant(state.wave_size - 1)), 64, signed=False)


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
    isa, blgp = instruction.isa, instruction.bits(63, 61)
    if out == "F64" and blgp and not isa.negates_f64_products:
        raise UnsupportedSemantics("BLGP of float64 products")
    state.count_vector()
    state.close_group()
    accumulator, a_row, b_row = _matrix_rows(instruction)
    c_row, bits = _matrix_c(instruction, out, accumulator)
    call_runtime(
        state, "rpl_mfma", instruction, instruction.bits(7, 0) + accumulator, a_row, b_row,
        c_row, constant(bits, 64), int(m), int(n), int(k), count,
        _element(kinds[0], isa), _element(kinds[1], isa), _ELEMENTS[out],
        instruction.bits(10, 8), instruction.bits(14, 11), blgp,
    )  # fmt: skip


def _matrix_c(instruction: Instruction, out: str, accumulator: int) -> tuple[int, int]:
    """Return the first row of C, or -1 and the bits of a constant."""
    c = instruction.bits(58, 50)
    if c >= FIRST_VGPR:
        return c - FIRST_VGPR + accumulator, 0
    kind = OperandType("F64", 64) if out == "F64" else OperandType("F32" if out == "F32" else "I32", 32)
    inline = inline_constant(c, kind)
    if inline is None:
        raise UnsupportedSemantics("a scalar register as matrix C")
    return _NO_ROW, inline.integer


def _element(kind: str, isa: InstructionSet) -> int:
    """Return the enum rpl_element of an element type on an architecture."""
    if isa.float8 == "ocp" and kind in _OCP_ELEMENTS:
        return _OCP_ELEMENTS[kind]
    if isa.flushes_half_products and kind in _FLUSHED_ELEMENTS:
        return _FLUSHED_ELEMENTS[kind]
    return _ELEMENTS[kind]


def _narrow_matrix(state: BlockState, instruction: Instruction) -> None:
    """Emit a product of 4 to 8-bit floats; the scaled form is that of the product behind a word pair with the scales."""
    scaled = "SCALE" in instruction.mnemonic
    product = replace(instruction, raw=instruction.raw >> _PAIR_BITS) if scaled else instruction
    state.count_vector()
    state.close_group()
    accumulator, a_row, b_row = _matrix_rows(product)
    c_row, bits = _matrix_c(product, "F32", accumulator)
    scales: list[int | Value] = []
    for source in range(2):
        row, value, byte = _scale(state, instruction, source) if scaled else (_NO_ROW, constant(_UNSCALED), 0)
        scales += [row, value, byte]
    m, depth = (16, 128) if "16X16X128" in instruction.mnemonic else (32, 64)
    call_runtime(
        state, "rpl_mfma_narrow", instruction, product.bits(7, 0) + accumulator, a_row, b_row, c_row, constant(bits), m, depth,
        product.bits(10, 8), product.bits(63, 61), *scales,
    )  # fmt: skip


def _scale(state: BlockState, instruction: Instruction, source: int) -> tuple[int, Value, int]:
    """Return the row of the exponents of A or B (or -1 and their bits), and the byte of it that op_sel selects."""
    operand = instruction.bits(40, 32) if source == 0 else instruction.bits(49, 41)
    byte = instruction.bits(11 + source, 11 + source) | instruction.bits(59 + source, 59 + source) << 1
    if operand >= FIRST_VGPR:
        return operand - FIRST_VGPR, constant(0), byte
    return _NO_ROW, read_source(state, instruction, operand, _WORD), byte


def _swap_lanes(state: BlockState, instruction: Instruction, rows: int) -> None:
    state.count_vector()
    state.close_group()
    first, second = (instruction.fields[name] % FIRST_VGPR for name in ("src0", "vdst"))
    call_runtime(state, "rpl_swap_lanes", instruction, first, second, rows)


def _sparse_matrix(state: BlockState, instruction: Instruction, match: re.Match[str]) -> None:
    edge, depth, inputs = int(match[1]), int(match[2]), match[3]
    kinds = _matrix_elements(inputs)
    state.count_vector()
    state.close_group()
    accumulator, a_row, b_row = _matrix_rows(instruction)
    a_element, b_element = (_element(kind, instruction.isa) for kind in kinds)
    call_runtime(
        state, "rpl_smfmac", instruction, instruction.bits(7, 0) + accumulator, a_row, b_row,
        instruction.bits(58, 50) % FIRST_VGPR, edge, depth, a_element, b_element,
        instruction.bits(10, 8), instruction.bits(14, 11), int(instruction.isa.clamps_sparse_products),
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


def _permute_rows(state: BlockState, instruction: Instruction) -> None:
    """Emit V_PERMLANE16_B32 or V_PERMLANEX16_B32; op_sel holds two flags."""
    fields = instruction.fields
    if fields["src0"] < FIRST_VGPR:
        raise UnsupportedSemantics("a scalar source")
    low, high = (read_source(state, instruction, fields[name], _WORD) for name in ("src1", "src2"))
    state.count_vector()
    state.close_group()
    target, source, opsel = fields["vdst"] % FIRST_VGPR, fields["src0"] % FIRST_VGPR, fields["opsel"]
    crosses = int("X16" in instruction.mnemonic)
    call_runtime(state, "rpl_permute_rows", instruction, target, source, low, high, crosses, opsel & 1, opsel >> 1 & 1)


def _move_relative(state: BlockState, instruction: Instruction) -> None:
    """Emit V_MOVREL or V_SWAPREL: M0 is added to the number of the source, of the destination, or of both."""
    fields, name = instruction.fields, instruction.mnemonic
    if instruction.variant.startswith(("SDWA", "DPP")):
        raise UnsupportedSemantics("indexed registers in such an instruction")
    to_by, from_by = _RELATIVE[name]
    source = fields["src0"]
    if from_by and source < FIRST_VGPR:
        raise UnsupportedSemantics("an indexed scalar source")
    value = constant(0) if source >= FIRST_VGPR else read_source(state, instruction, source, _WORD)
    state.count_vector()
    state.close_group()
    row = source - FIRST_VGPR if source >= FIRST_VGPR else _NO_ROW
    swaps = int(name == "V_SWAPREL_B32")
    target = fields["vdst"] % FIRST_VGPR
    call_runtime(state, "rpl_relative_move", instruction, target, row, value, to_by, from_by, swaps)


def _with_permuted_source(state: BlockState, instruction: Instruction) -> None:
    """Emit a DPP instruction: move lanes of src0 to a temporary row and mask lanes without a source out of EXEC."""
    fields = instruction.fields
    state.close_group()
    state.store_scalars()
    for i in range(max(1, instruction.operands.get("src0", _WORD).bits // 32)):
        rows = (FIRST_TEMP_ROW + i, fields["vsrc0"] % FIRST_VGPR + i)
        arguments: tuple[int, ...]
        if instruction.variant == "DPP8":
            function, arguments = "rpl_dpp8", (*rows, fields["lane_sel"], fields["fi"])
        else:
            if fields["dpp"] in instruction.isa.absent_dpp:
                raise UnsupportedSemantics(f"DPP control {fields['dpp']:#x}")
            masks = (fields["row_mask"], fields["bank_mask"], fields["bc"], fields.get("fi", 0))
            function, arguments = "rpl_dpp", (*rows, fields["dpp"], *masks)
        state.names.declare(f"declare i64 @{function}(ptr{', i32' * len(arguments)})")
        enabled = state.names.fresh()
        state.lines.append(f"{enabled} = call i64 @{function}(ptr %wave, {', '.join(f'i32 {a}' for a in arguments)})")
    execute = state.read_mask(EXEC)
    builder = state.scalar_builder
    narrowed = builder.binary("&", execute, Value(enabled, "u", 64))
    state.write_mask(EXEC, narrowed)
    translate_vector(state, instruction, source0_row=FIRST_TEMP_ROW)
    state.close_group()
    state.write_mask(EXEC, execute)
