"""Scalar ALU instructions: SOP1, SOP2, SOPC, SOPK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.isa.instruction import MODE_REGISTER, OperandType, register_field
from rocm_perf_lab.emulator.pcode.compiler import SemanticsCompiler
from rocm_perf_lab.emulator.pcode.parser import parse
from rocm_perf_lab.emulator.pcode.values import UnsupportedSemantics, Value, constant
from rocm_perf_lab.emulator.structures import EXEC, M0, SGPRS, VCC, offset_of
from rocm_perf_lab.emulator.translate.indexing import set_index_mode
from rocm_perf_lab.emulator.translate.mode import MODE_FIELDS
from rocm_perf_lab.emulator.translate.operands import read_source
from rocm_perf_lab.emulator.translate.runtime_calls import call_runtime

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.translate.state import BlockState

_WORD = OperandType("B32", 32)
_CONSTANT_ZERO = 128
HARDWARE_REGISTERS = ("zero", "status", "hw_id", "gpr_alloc", "lds_alloc", "sh_mem_bases", "xcc_id", "hw_id1", "shader_cycles")
"""enum rpl_register."""
_BIT_SEARCHES = {"S_FF1_I32": "cttz", "S_FLBIT_I32": "ctlz", "S_BCNT1_I32": "ctpop"}


class ScalarRegisters:
    """Operands of one scalar instruction, by their names in the pseudo-code."""

    def __init__(self, state: BlockState, instruction: Instruction) -> None:
        self._state = state
        self._instruction = instruction

    def read(self, name: str) -> Value | None:
        """Return the raw bits of an operand, or None if the instruction has no such operand."""
        fields, state = self._instruction.fields, self._state
        match name:
            case "S0" | "S1":
                return self._source(name)
            case "D0":
                bits = destination_bits(self._instruction)
                return state.read64(fields["sdst"]) if bits == 64 else state.read32(fields["sdst"])
            case "SCC":
                return state.scc
            case "EXEC" | "VCC":
                return state.read_mask(EXEC if name == "EXEC" else VCC)
            case "M0":
                return state.read32(M0)
            case "SIMM16":
                return constant(fields["simm16"], 16)
            case "SIMM32":
                return state.literal(self._instruction, 32)
        return None

    def lane_bit(self, name: str) -> Value:
        """Raise UnsupportedSemantics: scalar instructions have no lanes."""
        raise UnsupportedSemantics(f"lane of {name} in a scalar instruction")

    def _source(self, name: str) -> Value:
        instruction = self._instruction
        if instruction.encoding == "SOPK":
            compares = instruction.mnemonic.startswith("S_CMPK")
            if name == "S0" and compares:
                return self._state.read32(instruction.fields["sdst"])
            return constant(instruction.fields["simm16"], 16)
        field = f"ssrc{name[1]}"
        kind = instruction.operands.get(field, _WORD)
        return read_source(self._state, instruction, instruction.fields[field], kind)


def destination_bits(instruction: Instruction) -> int:
    """Return the width of the scalar destination."""
    kind = instruction.operands.get("sdst")
    return kind.bits if kind else 32


def translate_scalar(state: BlockState, instruction: Instruction) -> None:
    """Emit one scalar instruction.

    Raises:
        UnsupportedSemantics: The pseudo-code has no translation.
    """
    name = instruction.mnemonic
    if name == "S_GETPC_B64":
        state.write(instruction.fields["sdst"], state.device_address(instruction.address + 4))
    elif name == "S_GETREG_B32":
        _get_register(state, instruction)
    elif name in ("S_SETREG_B32", "S_SETREG_IMM32_B32"):
        _set_register(state, instruction)
    elif name in MODE_FIELDS:
        _set_mode(state, instruction, constant(instruction.fields["simm16"]), *MODE_FIELDS[name])
    elif name.startswith("S_SET_GPR_IDX"):
        set_index_mode(state, instruction)
    elif name == "S_SETVSKIP":
        if instruction.fields["ssrc0"] != _CONSTANT_ZERO:
            raise UnsupportedSemantics("skipped vector instructions")
    elif name == "S_MOVRELSD_2_B32":
        raise UnsupportedSemantics("two indices in M0")
    elif name.startswith("S_MOVREL"):
        _move_relative(state, instruction)
    elif name in ("S_MOV_B32", "S_MOV_B64"):
        _move(state, instruction)
    elif not _is_shared(state, instruction):
        _operate(state, instruction)


def _is_shared(state: BlockState, instruction: Instruction) -> bool:
    """Emit a call if operations are shared; the constants of SOPK are not operands."""
    if state.shared is None or instruction.encoding == "SOPK":
        return False
    return state.shared.call(state, instruction, _operate)


def _operate(state: BlockState, instruction: Instruction, _: int | None = None) -> None:
    name = instruction.mnemonic
    if name.rpartition("_")[0] in _BIT_SEARCHES and not name.endswith("_I64"):
        _search_bits(state, instruction)
    else:
        _run_pseudocode(state, instruction)


def _move(state: BlockState, instruction: Instruction) -> None:
    target, source = instruction.fields["sdst"], instruction.fields["ssrc0"]
    if EXEC in _written(instruction) or target == EXEC + 1:
        state.close_group()
    kind = OperandType("B", destination_bits(instruction))
    state.write(target, read_source(state, instruction, source, instruction.operands.get("ssrc0", kind)))


def _run_pseudocode(state: BlockState, instruction: Instruction) -> None:
    if instruction.pseudocode is None:
        raise UnsupportedSemantics("no pseudo-code")
    touches_exec = "EXEC" in instruction.pseudocode or EXEC in _written(instruction)
    if touches_exec:
        state.close_group()
    compiler = SemanticsCompiler(state.scalar_builder, ScalarRegisters(state, instruction), per_lane=False)
    compiler.run(parse(instruction.pseudocode))
    variables, assigned = compiler.variables, compiler.assigned
    if "D0" in assigned:
        bits = destination_bits(instruction)
        value = state.scalar_builder.resize(state.scalar_builder.raw(variables["D0"]), bits)
        state.write(instruction.fields["sdst"], value)
    if "EXEC" in assigned:
        bits = max(32, destination_bits(instruction))
        state.write(EXEC, state.scalar_builder.resize(variables["EXEC"], bits, signed=False))
    if "VCC" in assigned:
        state.write_mask(VCC, variables["VCC"])
    if "M0" in assigned:
        state.write(M0, state.scalar_builder.resize(variables["M0"], 32, signed=False))
    if "SCC" in assigned:
        state.scc = variables["SCC"]


def _written(instruction: Instruction) -> range:
    if "sdst" not in instruction.operands:
        return range(0)
    first = instruction.fields["sdst"]
    last = first + destination_bits(instruction) // 32
    return range(EXEC, EXEC + 1) if first <= EXEC + 1 and last > EXEC else range(0)


def _search_bits(state: BlockState, instruction: Instruction) -> None:
    """Emit find-first and count as one instruction, instead of the loop over bits in the pseudo-code."""
    builder = state.scalar_builder
    bits = instruction.operands["ssrc0"].bits
    source = read_source(state, instruction, instruction.fields["ssrc0"], instruction.operands["ssrc0"])
    intrinsic = _BIT_SEARCHES[instruction.mnemonic.rpartition("_")[0]]
    if intrinsic == "ctpop":
        count = builder.resize(builder.intrinsic(intrinsic, [source], kind="u", bits=bits), 32)
        state.write(instruction.fields["sdst"], count)
        state.scc = builder.boolean(count)
        return
    place = builder.resize(builder.intrinsic(intrinsic, [source], kind="u", bits=bits, extra=", i1 false"), 32)
    nothing = builder.compare("==", source, constant(0, bits))
    state.write(instruction.fields["sdst"], builder.select(nothing, constant(0xFFFFFFFF), place))


def _move_relative(state: BlockState, instruction: Instruction) -> None:
    """Emit S_MOVRELS or S_MOVRELD, which add M0 to the number of the source or of the destination."""
    builder = state.scalar_builder
    index = builder.resize(state.read32(M0), 64, signed=False)
    bits = destination_bits(instruction)
    source, target = instruction.fields["ssrc0"], instruction.fields["sdst"]
    reads = instruction.mnemonic.startswith("S_MOVRELS")
    value = None if reads else read_source(state, instruction, source, OperandType("B", bits))
    state.close_group()
    state.store_scalars()
    place, address = state.names.fresh(), state.names.fresh()
    state.lines += [
        f"{place} = getelementptr i8, ptr %wave, i64 {offset_of('sgpr') + 4 * (source if reads else target)}",
        f"{address} = getelementptr i32, ptr {place}, i64 {index.operand}",
    ]
    if value is not None:
        state.lines.append(f"store i{bits} {builder.text(value)}, ptr {address}, align 4")
        state.forget(0, SGPRS)
        return
    loaded = state.names.fresh()
    state.lines.append(f"{loaded} = load i{bits}, ptr {address}, align 4")
    state.write(target, Value(loaded, "u", bits))


def _get_register(state: BlockState, instruction: Instruction) -> None:
    """Emit S_GETREG; registers other than MODE are in runtime/hardware_registers.c."""
    register, offset, size = register_field(instruction)
    builder = state.scalar_builder
    if register != MODE_REGISTER:
        kind = HARDWARE_REGISTERS.index(dict(instruction.isa.hardware_registers).get(register, "zero"))
        call_runtime(state, "rpl_read_register", instruction, instruction.fields["sdst"], kind, offset, size)
        state.forget(instruction.fields["sdst"], 1)
        return
    mode = state.load_mode()
    field = builder.binary(">>", mode, constant(offset))
    state.write(instruction.fields["sdst"], builder.binary("&", field, constant((1 << size) - 1)))


def _set_register(state: BlockState, instruction: Instruction) -> None:
    register, offset, size = register_field(instruction)
    if register != MODE_REGISTER:
        return
    if "literal" in instruction.fields:
        value: Value = constant(instruction.fields["literal"])
    else:
        value = state.read32(instruction.fields["sdst"])
    _set_mode(state, instruction, value, offset, size)


def _set_mode(state: BlockState, instruction: Instruction, value: Value, offset: int, size: int) -> None:
    """Set a field of MODE."""
    state.close_group()
    builder = state.scalar_builder
    mask = ((1 << size) - 1) << offset
    placed = builder.binary("&", builder.binary("<<", value, constant(offset)), constant(mask))
    kept = builder.binary("&", state.load_mode(), constant(~mask))
    merged = builder.binary("|", kept, placed)
    address = state.names.fresh()
    state.lines += [
        f"{address} = getelementptr i8, ptr %wave, i64 {offset_of('mode')}",
        f"store i32 {builder.text(merged)}, ptr {address}",
    ]
    state.mode = state.mode.after(instruction)
