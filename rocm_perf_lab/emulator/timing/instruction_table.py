"""Unit, issue time and awaited counters of each instruction, for the timing engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.isa.issue import is_transcendental, matrix_f16_flops
from rocm_perf_lab.emulator.timing.structures import ExecutionUnit, TimedBlock, TimedInstruction

if TYPE_CHECKING:
    import ctypes

    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.program import Program
    from rocm_perf_lab.target.timing import TimingParameters

_NO_WAIT = -1
_VMCNT_FREE, _LGKMCNT_FREE = 0x3F, 0xF
"""Field values of s_waitcnt without a wait."""


def instruction_table(program: Program, timing: TimingParameters) -> ctypes.Array[TimedInstruction]:
    """Return one row per instruction, in program order."""
    rows = [_row(instruction, timing) for instruction in program.instructions]
    return (TimedInstruction * len(rows))(*rows)


def block_table(program: Program) -> ctypes.Array[TimedBlock]:
    """Return the first instruction and the length of each basic block."""
    rows = [TimedBlock(b.instructions[0].index, len(b.instructions)) for b in program.blocks]
    return (TimedBlock * len(rows))(*rows)


def _row(instruction: Instruction, timing: TimingParameters) -> TimedInstruction:
    unit = unit_of(instruction)
    vmcnt, lgkmcnt = wait_counts(instruction)
    return TimedInstruction(unit, _cycles(instruction, unit, timing), vmcnt, lgkmcnt, 0)


def unit_of(instruction: Instruction) -> ExecutionUnit:
    """Return the unit that an instruction occupies."""
    name = instruction.mnemonic
    if instruction.is_vector_alu:
        return ExecutionUnit.VALU
    match instruction.encoding:
        case "SMEM":
            return ExecutionUnit.SMEM
        case "DS":
            return ExecutionUnit.LDS
        case "GLOBAL" | "FLAT" | "SCRATCH" | "MUBUF":
            if name in ("BUFFER_WBL2", "BUFFER_INV"):
                return ExecutionUnit.INTERNAL
            return ExecutionUnit.LOAD if "LOAD" in name or "ATOMIC" in name else ExecutionUnit.STORE
        case "SOPP":
            if name.startswith(("S_BRANCH", "S_CBRANCH")):
                return ExecutionUnit.BRANCH
            special = {"S_WAITCNT": ExecutionUnit.WAIT, "S_BARRIER": ExecutionUnit.BARRIER, "S_ENDPGM": ExecutionUnit.END}
            return special.get(name, ExecutionUnit.INTERNAL)
    return ExecutionUnit.BRANCH if name in ("S_SETPC_B64", "S_SWAPPC_B64", "S_CALL_B64") else ExecutionUnit.SCALAR


def wait_counts(instruction: Instruction) -> tuple[int, int]:
    """Return vmcnt and lgkmcnt of s_waitcnt, -1 for no wait (CDNA3 ISA, S_WAITCNT)."""
    if instruction.mnemonic != "S_WAITCNT":
        return _NO_WAIT, _NO_WAIT
    word = instruction.fields["simm16"]
    vmcnt = (word & 0xF) | (word >> 14 & 3) << 4
    lgkmcnt = word >> 8 & 0xF
    return (_NO_WAIT if vmcnt == _VMCNT_FREE else vmcnt), (_NO_WAIT if lgkmcnt == _LGKMCNT_FREE else lgkmcnt)


def _cycles(instruction: Instruction, unit: ExecutionUnit, timing: TimingParameters) -> int:
    if unit is ExecutionUnit.VALU:
        return _vector_cycles(instruction, timing)
    return {ExecutionUnit.SCALAR: timing.scalar_cycles, ExecutionUnit.BRANCH: timing.branch_cycles}.get(unit, timing.issue_cycles)


def _vector_cycles(instruction: Instruction, timing: TimingParameters) -> int:
    flops = matrix_f16_flops(instruction)
    if flops is not None:
        return max(timing.valu_cycles, round(flops / timing.matrix_flops_per_simd_clock))
    if is_transcendental(instruction):
        return timing.transcendental_cycles
    return timing.valu_f64_cycles if instruction.mnemonic.endswith("_F64") else timing.valu_cycles
