"""Translates a kernel to one LLVM function `void kernel(ptr wave)`, which runs from `wave->resume` to `wave->status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.errors import UnsupportedInstruction
from rocm_perf_lab.emulator.pcode.llvm_text import SsaNames
from rocm_perf_lab.emulator.pcode.values import UnsupportedSemantics, Value
from rocm_perf_lab.emulator.program import CONDITIONAL_BRANCHES, FIRST_MISSING_CODE, GRID_BARRIER, is_computed_jump
from rocm_perf_lab.emulator.structures import EXEC, VCC, WaveStatus, offset_of
from rocm_perf_lab.emulator.translate.cross_lane import translate_vector_alu
from rocm_perf_lab.emulator.translate.memory import meet_grid, translate_memory
from rocm_perf_lab.emulator.translate.mode import modes_at_entry
from rocm_perf_lab.emulator.translate.probes import ProbeMarks
from rocm_perf_lab.emulator.translate.runtime_calls import call_runtime
from rocm_perf_lab.emulator.translate.scalar import translate_scalar
from rocm_perf_lab.emulator.translate.state import BlockState

if TYPE_CHECKING:
    from collections.abc import Container

    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.program import BasicBlock, Program
    from rocm_perf_lab.emulator.translate.shared_operations import SharedOperations

FUNCTION_NAME = "kernel"
_WITHOUT_EFFECT = frozenset(
    {"S_WAITCNT", "S_NOP", "S_SETPRIO", "S_ICACHE_INV", "S_SETHALT", "S_INCPERFLEVEL", "S_DECPERFLEVEL", "S_TTRACEDATA",
     "S_CODE_END", "S_SENDMSG", "S_INST_PREFETCH", "S_WAIT_IDLE", "S_WAITCNT_DEPCTR", "S_TTRACEDATA_IMM", "S_VERSION",
     "S_WAITCNT_VSCNT", "S_WAITCNT_EXPCNT", "S_GL1_INV", "S_WAKEUP", "S_WAITCNT_VMCNT", "S_WAITCNT_LGKMCNT", "S_CLAUSE",
     "V_CLREXCP", "V_PIPEFLUSH", "DS_NOP",
     *(f"S_CBRANCH_CDBG{which}" for which in ("SYS", "USER", "SYS_OR_USER", "SYS_AND_USER"))}
)  # fmt: skip
"""Waits, hints, and branches on flags that only debuggers set."""


def kernel_ir(program: Program, shared: SharedOperations | None = None, in_place: Container[int] = ()) -> str:
    """Return the LLVM IR of a program, with declarations of the functions that it calls.

    Args:
        program: Program of a kernel.
        shared: Functions to call for operations; by default all operations are translated in place.
        in_place: With `shared`, indices of the blocks whose operations are translated in place nevertheless.

    Raises:
        UnsupportedInstruction: An instruction has no translation; with mnemonic, encoding and address.
    """
    names = SsaNames()
    lines: list[str] = []
    modes = modes_at_entry(program)
    marks = ProbeMarks(program)
    for block in program.blocks:
        called = None if block.index in in_place else shared
        state = BlockState(names, lines, modes[block.index], called, wave_size=program.isa.wave_size)
        _translate_block(program, block, state, marks)
    head = [f"define void @{FUNCTION_NAME}(ptr noalias align 64 %wave) {{", "entry:", *_prologue(program)]
    tail = [
        *_dispatcher(program, names),
        *_arrivals_at_missing_code(program, names),
        "fault:",
        *_fault_exit(),
        "}",
        '!0 = !{!"branch_weights", i32 1, i32 100000}',
    ]
    return "\n".join([*sorted(names.declarations), *head, *lines, *tail])


def resume_id(block: BasicBlock) -> int:
    """Return the value of `wave->resume` for a block; 0 is the kernel entry."""
    return block.index + 1


def resume_ids_of_missing_code(program: Program) -> dict[int, int]:
    """Return the values of `wave->resume` at which a wavefront continues where there is no code, with the addresses."""
    return {len(program.blocks) + 1 + number: one.address for number, one in enumerate(program.missing)}


def _prologue(program: Program) -> list[str]:
    entry = program.block_at[program.entry]
    points = [(resume_id(b), f"run{b.index}") for b in program.blocks if b.is_resume_point]
    points += [(resume, _label(program, address)) for resume, address in resume_ids_of_missing_code(program).items()]
    cases = " ".join(f"i32 {resume}, label %{label}" for resume, label in points)
    return [
        *(("%jump_target = alloca i64",) if program.has_indirect_jumps else ()),
        *(("%jump_place = alloca i32", "store i32 -1, ptr %jump_place") if program.has_indirect_jumps or program.missing else ()),
        f"%executions_field = getelementptr i8, ptr %wave, i64 {offset_of('block_executions')}",
        "%executions = load ptr, ptr %executions_field",
        f"%lanes_field = getelementptr i8, ptr %wave, i64 {offset_of('block_active_lanes')}",
        "%lanes = load ptr, ptr %lanes_field",
        f"%trace_field = getelementptr i8, ptr %wave, i64 {offset_of('trace')}",
        "%trace = load ptr, ptr %trace_field",
        "%traced = icmp ne ptr %trace, null",
        f"%slice = getelementptr i8, ptr %wave, i64 {offset_of('slice')}",
        f"%resume_field = getelementptr i8, ptr %wave, i64 {offset_of('resume')}",
        "%resume = load i32, ptr %resume_field",
        f"switch i32 %resume, label %block{entry.index} [ {cases} ]",
    ]


def _fault_exit() -> list[str]:
    lines: list[str] = []
    _return_status(lines, WaveStatus.FAULT, 0, ("%fault_status", "%fault_resume"))
    return lines


def _translate_block(program: Program, block: BasicBlock, state: BlockState, marks: ProbeMarks) -> None:
    _enter_block(block, state)
    last = block.instructions[-1]
    state.last_index = last.index
    for instruction in block.instructions[:-1]:
        _translate_instruction(program, state, instruction, marks)
    if not _is_terminator(last):
        _translate_instruction(program, state, last, marks)
    state.close_group()
    _leave_block(program, block, state, marks)


def _enter_block(block: BasicBlock, state: BlockState) -> None:
    n, names, lines = block.index, state.names, state.lines
    lines.append(f"block{n}:")
    if block.is_loop_header:
        lines += [
            f"%left{n} = load i64, ptr %slice",
            f"%over{n} = icmp slt i64 %left{n}, 0",
            f"br i1 %over{n}, label %pause{n}, label %run{n}, !prof !0",
            f"pause{n}:",
        ]
        _return_status(lines, WaveStatus.SLICE_OVER, resume_id(block), (names.fresh(), names.fresh()))
    else:
        lines.append(f"br label %run{n}")
    lines.append(f"run{n}:")
    if state.shared is not None:
        lines.append(state.shared.enter_block(n, len(block.instructions), names))
        return
    lines += [
        f"%count_at{n} = getelementptr i64, ptr %executions, i64 {n}",
        f"%count{n} = load i64, ptr %count_at{n}",
        f"%counted{n} = add i64 %count{n}, 1",
        f"store i64 %counted{n}, ptr %count_at{n}",
        f"%had{n} = load i64, ptr %slice",
        f"%has{n} = sub i64 %had{n}, {len(block.instructions)}",
        f"store i64 %has{n}, ptr %slice",
        f"br i1 %traced, label %tell{n}, label %do{n}, !prof !0",
        f"tell{n}:",
        f"call void @rpl_trace_block(ptr %wave, i32 {n})",
        f"br label %do{n}",
        f"do{n}:",
    ]
    names.declare("declare void @rpl_trace_block(ptr, i32)")


def _is_terminator(instruction: Instruction) -> bool:
    name = instruction.mnemonic
    return name.startswith("S_ENDPGM") or name in _TERMINATORS | CONDITIONAL_BRANCHES


_TERMINATORS = frozenset(
    {"S_BRANCH", "S_BARRIER", "S_SLEEP", "S_TRAP", "S_SETPC_B64", "S_SWAPPC_B64", "S_CALL_B64", GRID_BARRIER}
)

_PAUSES = {"S_BARRIER": WaveStatus.BARRIER, "S_SLEEP": WaveStatus.SLICE_OVER, GRID_BARRIER: WaveStatus.GRID_BARRIER}
_BREAKPOINT_TRAP = 3
"""Traps without effect unless a debugger is attached (LLVM "User Guide for AMDGPU Backend", trap handler ABI)."""


def _translate_instruction(program: Program, state: BlockState, instruction: Instruction, marks: ProbeMarks) -> None:
    try:
        if instruction.mnemonic in _WITHOUT_EFFECT:
            return
        marks.before(state, instruction)
        if instruction.is_vector_alu:
            translate_vector_alu(state, instruction)
        elif instruction.encoding.startswith("SOP"):
            translate_scalar(state, instruction)
        else:
            translate_memory(state, instruction)
        marks.after(state, instruction)
    except UnsupportedSemantics as reason:
        encoding = instruction.raw.to_bytes(instruction.size, "little").hex(" ", 4)
        raise UnsupportedInstruction(
            f"the emulator does not support {instruction.mnemonic.lower()} ({reason})",
            where=f"kernel {program.symbol}, address {instruction.address:#x}, encoding {encoding}: {instruction.text}",
            hint="Compile with other flags, or report the instruction.",
            address=instruction.address,
        ) from reason


def _leave_block(program: Program, block: BasicBlock, state: BlockState, marks: ProbeMarks) -> None:
    lines, last = state.lines, block.instructions[-1]
    name = last.mnemonic
    condition = _branch_condition(state, name) if name in CONDITIONAL_BRANCHES else None
    target = _indirect_target(state, last) if is_computed_jump(last) else None
    if name in ("S_SWAPPC_B64", "S_CALL_B64"):
        state.write(last.fields["sdst"], state.device_address(last.address + last.size))
    if name == "S_TRAP" and last.fields["simm16"] & 0xFF != _BREAKPOINT_TRAP:
        call_runtime(state, "rpl_trap", last, last.fields["simm16"] & 0xFF)
    if name == GRID_BARRIER:
        meet_grid(state, last)
    state.store_scalars()
    active_lanes = state.active_lanes()
    if active_lanes is not None:
        n = block.index
        lines += [
            f"%lanes_at{n} = getelementptr i64, ptr %lanes, i64 {n}",
            f"%lanes{n} = load i64, ptr %lanes_at{n}",
            f"%lanes_now{n} = add i64 %lanes{n}, {active_lanes}",
            f"store i64 %lanes_now{n}, ptr %lanes_at{n}",
        ]
    if any(address in program.missing_at for address in block.successors):
        lines.append(f"store i32 {last.index}, ptr %jump_place")
    if condition is not None:
        marks.branch(state, last, condition)
        taken, otherwise = (_label(program, address) for address in block.successors)
        lines.append(f"br i1 {state.scalar_builder.text(condition)}, label %{taken}, label %{otherwise}")
    elif name.startswith("S_ENDPGM"):
        _return_status(lines, WaveStatus.ENDED, 0, (state.names.fresh(), state.names.fresh()))
    elif name in _PAUSES:
        status = _PAUSES[name]
        resume = _resume_at(program, block.successors[0])
        _return_status(lines, status, resume, (state.names.fresh(), state.names.fresh()))
    elif target is not None:
        _jump(state, last, target)
    elif not block.successors:  # a trap that ends the wavefront
        lines.append("unreachable")
    else:
        lines.append(f"br label %{_label(program, block.successors[0])}")


def _label(program: Program, address: int) -> str:
    if address in program.missing_at:
        return f"missing{program.missing_at[address]}"
    return f"block{program.block_at[address].index}"


def _resume_at(program: Program, address: int) -> int:
    if address in program.missing_at:
        return len(program.blocks) + 1 + program.missing_at[address]
    return resume_id(program.block_at[address])


def _branch_condition(state: BlockState, name: str) -> Value:
    builder = state.scalar_builder
    if "SCC" in name:
        condition = state.scc
        return builder.binary("^", condition, Value(1, "u", 1)) if name.endswith("0") else condition
    register = VCC if "VCC" in name else EXEC
    operator = "!=" if name.endswith("NZ") else "=="
    return builder.compare(operator, state.read_mask(register), Value(0, "u", 64))


def _indirect_target(state: BlockState, instruction: Instruction) -> Value:
    return state.read64(instruction.fields["ssrc0"])


def _jump(state: BlockState, instruction: Instruction, target: Value) -> None:
    """Emit a computed jump through the single dispatcher; a switch per jump would create far more edges than blocks."""
    state.lines += [
        f"store i64 {target.operand}, ptr %jump_target",
        f"store i32 {instruction.index}, ptr %jump_place",
        "br label %dispatch",
    ]


def _dispatcher(program: Program, names: SsaNames) -> list[str]:
    """Emit the dispatcher of computed jumps: to a block of the program, or to a fault if the address has no code."""
    if not program.has_indirect_jumps:
        return []
    names.declare("declare i32 @rpl_trap(ptr, i32, i32)")
    places = [*(b.address for b in program.blocks), *program.missing_at]
    cases = " ".join(f"i64 {address}, label %{_label(program, address)}" for address in places)
    return [
        "dispatch:",
        f"%load_address_field = getelementptr i8, ptr %wave, i64 {offset_of('load_address')}",
        "%load_address = load i64, ptr %load_address_field",
        "%jumped_to = load i64, ptr %jump_target",
        "%dispatched = sub i64 %jumped_to, %load_address",
        f"switch i64 %dispatched, label %lost [ {cases} ]",
        "lost:",
        "%lost_at = load i32, ptr %jump_place",
        "%lost_fault = call i32 @rpl_trap(ptr %wave, i32 %lost_at, i32 -1)",
        "br label %fault",
    ]


def _arrivals_at_missing_code(program: Program, names: SsaNames) -> list[str]:
    """Emit the faults of wavefronts that arrive where there is no code."""
    if program.missing:
        names.declare("declare i32 @rpl_trap(ptr, i32, i32)")
    lines = []
    for number in range(len(program.missing)):
        lines += [
            f"missing{number}:",
            f"%left_at{number} = load i32, ptr %jump_place",
            f"%missing_fault{number} = call i32 @rpl_trap(ptr %wave, i32 %left_at{number}, i32 {FIRST_MISSING_CODE - number})",
            "br label %fault",
        ]
    return lines


def _return_status(lines: list[str], status: WaveStatus, resume: int, names: tuple[str, str]) -> None:
    """Store the reason for stopping and the resume point, and return."""
    status_pointer, resume_pointer = names
    lines += [
        f"{status_pointer} = getelementptr i8, ptr %wave, i64 {offset_of('status')}",
        f"store i32 {int(status)}, ptr {status_pointer}",
        f"{resume_pointer} = getelementptr i8, ptr %wave, i64 {offset_of('resume')}",
        f"store i32 {resume}, ptr {resume_pointer}",
        "ret void",
    ]
