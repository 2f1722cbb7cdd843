"""Vector ALU instructions: read operands with modifiers, run the pseudo-code, write results with modifiers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.isa.instruction import OperandType
from rocm_perf_lab.emulator.pcode.compiler import SemanticsCompiler
from rocm_perf_lab.emulator.pcode.parser import PseudocodeError, parse
from rocm_perf_lab.emulator.pcode.values import UnsupportedSemantics, Value, constant
from rocm_perf_lab.emulator.structures import EXEC, NULL
from rocm_perf_lab.emulator.translate import overrides, saturation, sdwa
from rocm_perf_lab.emulator.translate.division import SHORTCUTS
from rocm_perf_lab.emulator.translate.float_modes import (
    FLOAT_BITS,
    clamped,
    flushed_output,
    modified_output,
    rounding_field,
    without_denormals,
)
from rocm_perf_lab.emulator.translate.operands import FIRST_VGPR
from rocm_perf_lab.emulator.translate.vector_operation import VectorOperation, is_packed_float

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.pcode.ir import Builder
    from rocm_perf_lab.emulator.translate.division import Shortcut
    from rocm_perf_lab.emulator.translate.state import BlockState

_WORD = OperandType("B32", 32)
_MIXED_HALF = re.compile(r"V_(MAD|FMA)_MIX(LO|HI)_F16")
"""Operations that clamp the written half themselves."""
_KEEPS_UPPER_HALF = re.compile(
    r"V_(MAD_[FUI]16|MAC_F16|MAD[AM]K_F16|FMA_F16|DIV_FIXUP_F16|(MIN3|MAX3|MED3)_[FUI]16|(ADD|SUB)_I16"
    r"|BITOP3_B16|ASHR_PK_[IU]8_I32|CVT_SCALEF32_F16_(FP8|BF8))"
)
"""16-bit operations introduced with gfx9, which write half a register; older ones clear the upper half."""


def translate_vector(state: BlockState, instruction: Instruction, *, source0_row: int | None = None) -> None:
    """Emit one vector instruction into the open lane group.

    Args:
        state: Registers of the block.
        instruction: VOP1, VOP2, VOP3, VOP3P or VOPC, without DPP (see `source0_row`).
        source0_row: Row that replaces src0, prepared for DPP.

    Raises:
        UnsupportedSemantics: The instruction has no translation.
    """
    if state.shared is None or not state.shared.call(state, instruction, _translate, source0_row):
        _translate(state, instruction, source0_row)


def _translate(state: BlockState, instruction: Instruction, source0_row: int | None) -> None:
    operation = VectorOperation(state, instruction, source0_row)
    operation.settle_hazards()
    rounding = rounding_field(instruction)
    if rounding is not None:
        state.round_as(rounding)
    group = state.group
    group.instructions += 1
    compiler = SemanticsCompiler(group.builder, operation, per_lane=True)
    shortcut = SHORTCUTS.get(instruction.mnemonic)
    if shortcut is None:
        _operate(compiler, operation)
    else:
        _operate_with_shortcut(compiler, operation, shortcut)
    _write_results(operation, compiler)


def _operate(compiler: SemanticsCompiler, operation: VectorOperation) -> None:
    handler = overrides.OVERRIDES.get(operation.instruction.mnemonic)
    if handler is None:
        _run_pseudocode(compiler, operation.instruction)
        return
    compiler.variables["D0"] = handler(compiler.builder, operation)
    compiler.assigned.add("D0")


def _operate_with_shortcut(compiler: SemanticsCompiler, operation: VectorOperation, shortcut: Shortcut) -> None:
    """Emit the shortcut, and the operation behind a branch; without the latter, masks are zero."""
    builder = compiler.builder
    sources = [builder.raw(compiler.evaluate_register(f"S{i}")) for i in range(3)]
    suffices, result = shortcut(builder, operation, sources)
    names: list[str] = []

    def general() -> list[Value]:
        _operate(compiler, operation)
        names.extend(compiler.masks)
        return [builder.reinterpret(compiler.variables["D0"], "f", result.bits), *compiler.masks.values()]

    value, *masks = operation.group.branch(suffices, [result], general)
    compiler.variables["D0"] = value
    compiler.masks.update(zip(names, masks, strict=True))


def _run_pseudocode(compiler: SemanticsCompiler, instruction: Instruction) -> None:
    if instruction.pseudocode is None:
        raise UnsupportedSemantics("no pseudo-code")
    try:
        statements = parse(instruction.pseudocode)
    except PseudocodeError as error:
        raise UnsupportedSemantics(f"pseudo-code: {error}") from error
    if instruction.mnemonic.startswith("V_DIV_SCALE"):
        bits = instruction.operands["src0"].bits
        source = compiler.evaluate_register("S0")
        compiler.variables["D0"] = compiler.builder.reinterpret(source, "f", bits)  # the default that the text omits
        compiler.assigned.add("D0")
    compiler.run(statements)


def _write_results(operation: VectorOperation, compiler: SemanticsCompiler) -> None:
    """Store D0 and the lane masks that the pseudo-code assigned."""
    target = operation.mask_register()
    for name, bits in compiler.masks.items():
        if name != "EXEC" and "EXEC" in compiler.masks and operation.instruction.isa.compares_into_exec_only:
            continue
        register = EXEC if name == "EXEC" else target
        if register == NULL:
            continue
        if register is None:
            raise UnsupportedSemantics(f"per-lane assignment to {name}")
        operation.group.write_mask(register, bits)
    if "D0" in compiler.assigned and "D0" not in compiler.masks:
        _write_destination(operation, compiler.variables["D0"])
    if "S0" in compiler.assigned:  # V_SWAP
        row = operation.instruction.fields["src0"] - FIRST_VGPR
        operation.group.write_row(row, operation.group.builder.raw(compiler.variables["S0"]))
    if "EXEC" in compiler.masks:
        operation.state.close_group()


def _write_destination(operation: VectorOperation, value: Value) -> None:
    row, bits = operation.destination()
    group, instruction = operation.group, operation.instruction
    builder = group.builder
    raw = builder.raw(_flushed_result(operation, _output_modifiers(operation, value)))
    if operation.is_sdwa and bits <= 32:
        group.write_row(row, sdwa.place_result(builder, instruction, raw, group.read_row(row)))
    elif raw.bits > 32 and bits > 32:
        for i in range(bits // 32):
            word = builder.resize(builder.binary(">>", raw, constant(32 * i, raw.bits)), 32, signed=False)
            group.write_row(row + i, word)
    elif _writes_upper_half(instruction, raw.bits):
        kept = builder.binary("&", group.read_row(row), constant(0xFFFF))
        upper = builder.binary("<<", builder.resize(raw, 32, signed=False), constant(16))
        group.write_row(row, builder.binary("|", kept, upper))
    elif raw.bits == 16 and bits == 16 and _keeps_upper_half(instruction):
        kept = builder.binary("&", group.read_row(row), constant(0xFFFF0000))
        group.write_row(row, builder.binary("|", kept, builder.resize(raw, 32, signed=False)))
    else:
        group.write_row(row, builder.resize(raw, 32, signed=False))


def _keeps_upper_half(instruction: Instruction) -> bool:
    return instruction.isa.keeps_upper_halves or _KEEPS_UPPER_HALF.fullmatch(instruction.mnemonic) is not None


def _writes_upper_half(instruction: Instruction, bits: int) -> bool:
    return bits == 16 and instruction.encoding == "VOP3" and bool(instruction.fields.get("opsel", 0) & 8)


def _output_modifiers(operation: VectorOperation, value: Value) -> Value:
    fields, builder = operation.instruction.fields, operation.group.builder
    scale, clamp = fields.get("omod", 0), fields.get("clmp", 0)
    if not (scale or clamp) or _MIXED_HALF.match(operation.instruction.mnemonic):
        return value
    if operation.is_packed and is_packed_float(operation.instruction):
        return _each_part(builder, value, lambda part: clamped(builder, part))
    if _result_format(operation.instruction) not in ("F16", "F32", "F64"):
        return saturation.saturated(operation) if clamp else value
    number = value if value.kind == "f" else builder.reinterpret(value, "f", value.bits)
    return modified_output(builder, number, scale=scale, clamp=bool(clamp))


def _flushed_result(operation: VectorOperation, value: Value) -> Value:
    builder, instruction = operation.group.builder, operation.instruction
    if operation.flushes_products:
        return without_denormals(builder, builder.raw(value), 32)
    if operation.is_packed and not instruction.mnemonic.endswith("MIX_F32"):
        if not is_packed_float(instruction):
            return value
        return _each_part(builder, value, lambda part: flushed_output(builder, instruction, part, part.bits))
    bits = FLOAT_BITS.get(_result_format(instruction))
    return flushed_output(builder, instruction, value, bits) if bits == value.bits else value


def _result_format(instruction: Instruction) -> str:
    return instruction.operands.get("vdst", _WORD).format


def _each_part(builder: Builder, value: Value, change: Callable[[Value], Value]) -> Value:
    """Apply `change` to each float of a packed result."""
    bits = 32 if value.bits == 64 else 16
    raw = builder.raw(value)
    result: Value = constant(0, raw.bits)
    for shift in range(0, raw.bits, bits):
        part = builder.resize(builder.binary(">>", raw, constant(shift, raw.bits)), bits, signed=False)
        changed = builder.raw(change(builder.reinterpret(part, "f", bits)))
        wide = builder.resize(changed, raw.bits, signed=False)
        result = builder.binary("|", result, builder.binary("<<", wide, constant(shift, raw.bits)))
    return result
