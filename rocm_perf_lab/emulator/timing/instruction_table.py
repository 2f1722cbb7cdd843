"""Unit, issue time, operands and awaited counters of each instruction, for the timing engine."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rocm_perf_lab.emulator.isa.counter_classes import CLOCKS_PER_QUAD
from rocm_perf_lab.emulator.isa.issue import is_transcendental, matrix_f16_flops, matrix_passes
from rocm_perf_lab.emulator.timing.structures import ExecutionUnit, TimedBlock, TimedFlag, TimedInstruction

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Iterator, Sequence

    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.program import Program
    from rocm_perf_lab.target.timing import TimingParameters

_NO_WAIT = -1
_VMCNT_FREE, _LGKMCNT_FREE = 0x3F, 0xF
"""Field values of s_waitcnt without a wait."""
_FIRST_VGPR = 256
_DWORD_BITS = 32
_CO_ISSUE_DWORDS = 4
"""Registers that a vector instruction may read per lane to issue beside one of another wavefront: a float64 addition does, a
float64 FMA and packed float32 do not, nor does float16 (rates of MI300X by number of wavefronts)."""
_SOURCES = ("src0", "src1", "src2", "vsrc0", "vsrc1")
_MEMORY_SOURCES = ("addr", "vaddr", "data", "data0", "data1", "vdata")
_SCALAR_RESULT = re.compile(r"V_(CMPX?_|READ(FIRST)?LANE|MAD_[IU]64|DIV_SCALE)|_CO_")
_LDS_WRITE = re.compile(r"DS_(WRITE|MSKOR|WRXCHG)")
_PRODUCER_WINDOW = 64
"""Size of the engine's record of issue times."""
_SLEEP_CYCLES = 64
_MATRIX_RESULT_FACTOR = 2
"""Clocks to the result of a matrix instruction per clock of its issue interval: 64 for 32x32x8 in thread traces of MI300X."""

_KEPT_TABLES = 16
"""Applications dispatch few kernels many times."""


class _SameProgram:
    """Program as the key of a cache, by identity: its content is large."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameProgram) and other.program is self.program

    def __hash__(self) -> int:
        return id(self.program)


def instruction_table(program: Program, timing: TimingParameters) -> ctypes.Array[TimedInstruction]:
    """Return one row per instruction, in program order; callers must not change it."""
    return _table(_SameProgram(program), timing)


@lru_cache(maxsize=_KEPT_TABLES)
def _table(key: _SameProgram, timing: TimingParameters) -> ctypes.Array[TimedInstruction]:
    program = key.program
    producers = dict(_producers(program, timing))
    rows = [_row(instruction, timing, producers.get(instruction.index, _NO_PRODUCER)) for instruction in program.instructions]
    return (TimedInstruction * len(rows))(*rows)


def block_table(program: Program) -> ctypes.Array[TimedBlock]:
    """Return the first instruction and the length of each basic block."""
    rows = [TimedBlock(b.instructions[0].index, len(b.instructions)) for b in program.blocks]
    return (TimedBlock * len(rows))(*rows)


class _Producer(NamedTuple):
    distance: int
    cycles: int


_NO_PRODUCER = _Producer(0, 0)


def _row(instruction: Instruction, timing: TimingParameters, producer: _Producer) -> TimedInstruction:
    unit = unit_of(instruction)
    vmcnt, lgkmcnt = wait_counts(instruction)
    cycles = _pipe_cycles(instruction, unit, timing)
    return TimedInstruction(
        unit=unit,
        flags=_flags(instruction, unit),
        cycles=cycles,
        issue_cycles=_issue_cycles(instruction, unit, cycles, timing),
        vmcnt=vmcnt,
        lgkmcnt=lgkmcnt,
        size=instruction.size,
        producer=producer.distance,
        producer_cycles=producer.cycles,
        dwords=_returned_dwords(instruction) if unit is ExecutionUnit.LDS else 0,
        address=instruction.address,
    )


def unit_of(instruction: Instruction) -> ExecutionUnit:
    """Return the unit that an instruction occupies."""
    name = instruction.mnemonic
    if instruction.is_matrix:
        return ExecutionUnit.MATRIX
    if instruction.is_vector_alu:
        return ExecutionUnit.VALU
    match instruction.encoding:
        case "SMEM":
            return ExecutionUnit.SMEM
        case "DS":
            return ExecutionUnit.LDS
        case "GLOBAL" | "FLAT" | "SCRATCH" | "MUBUF" | "MTBUF":
            if name in ("BUFFER_WBL2", "BUFFER_INV"):
                return ExecutionUnit.INTERNAL
            if "ATOMIC" in name:
                return ExecutionUnit.ATOMIC
            return ExecutionUnit.LOAD if "LOAD" in name else ExecutionUnit.STORE
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


def _flags(instruction: Instruction, unit: ExecutionUnit) -> TimedFlag:
    flags = TimedFlag.NONE
    fields, name = instruction.fields, instruction.mnemonic
    if unit is ExecutionUnit.VALU:
        sources = [field for field in _SOURCES if field in instruction.operands]
        if any(fields.get(field, _FIRST_VGPR) < _FIRST_VGPR for field in sources) and "vsrc0" not in fields:
            flags |= TimedFlag.CONSTANT
        if sum(count for _, _, count in _registers_read(instruction)) > _CO_ISSUE_DWORDS:
            flags |= TimedFlag.EXCLUSIVE
        if name.endswith("_F16"):
            flags |= TimedFlag.EXCLUSIVE
        if instruction.encoding == "VOPC" or _SCALAR_RESULT.search(name):
            flags |= TimedFlag.WRITES_SGPR
    elif name == "BUFFER_INV":
        flags |= TimedFlag.INVALIDATES_L1
    elif unit is ExecutionUnit.LDS:
        flags |= TimedFlag.LDS_WRITE if _LDS_WRITE.match(name) else TimedFlag.NONE
    elif unit is ExecutionUnit.LOAD:
        flags |= TimedFlag.TO_LDS if fields.get("lds") or "_LDS_" in name else TimedFlag.NONE
        flags |= TimedFlag.BYPASSES_L1 if fields.get("sc1") or fields.get("nt") else TimedFlag.NONE
    elif unit is ExecutionUnit.ATOMIC:
        flags |= TimedFlag.RETURNS if fields.get("sc0") else TimedFlag.NONE
    return flags


def _pipe_cycles(instruction: Instruction, unit: ExecutionUnit, timing: TimingParameters) -> int:
    if unit is ExecutionUnit.MATRIX:
        if timing.matrix_flops_per_simd_clock is None:
            return CLOCKS_PER_QUAD * matrix_passes(instruction)
        flops = matrix_f16_flops(instruction)
        return max(timing.valu_cycles, round((flops or 0) / timing.matrix_flops_per_simd_clock))
    if unit is ExecutionUnit.VALU:
        if is_transcendental(instruction):
            return timing.transcendental_cycles
        return timing.valu_f64_cycles if instruction.mnemonic.endswith("_F64") else timing.valu_cycles
    return timing.issue_cycles


def _issue_cycles(instruction: Instruction, unit: ExecutionUnit, pipe_cycles: int, timing: TimingParameters) -> int:
    if unit is ExecutionUnit.VALU:
        return pipe_cycles
    if unit is ExecutionUnit.LDS and _LDS_WRITE.match(instruction.mnemonic):
        return timing.issue_cycles + timing.lds_write_cycles_per_dword * _data_dwords(instruction)
    if instruction.mnemonic == "S_NOP":
        return timing.issue_cycles * ((instruction.fields["simm16"] & 0xF) + 1)
    if instruction.mnemonic == "S_SLEEP":
        return timing.issue_cycles + _SLEEP_CYCLES * (instruction.fields["simm16"] & 0x7F)
    return timing.issue_cycles


def _data_dwords(instruction: Instruction) -> int:
    bits = [instruction.operands[field].bits for field in ("data0", "data1") if field in instruction.operands]
    return max(1, sum(-(-b // _DWORD_BITS) for b in bits))


def _returned_dwords(instruction: Instruction) -> int:
    operand = instruction.operands.get("vdst")
    return operand.bits // _DWORD_BITS if operand is not None else 0


def _registers_read(instruction: Instruction) -> Iterator[tuple[bool, int, int]]:
    """Yield the vector registers that an instruction reads: whether they are accumulation registers, the first, the number."""
    fields = instruction.fields
    for field in (*_SOURCES, *_MEMORY_SOURCES):
        operand, number = instruction.operands.get(field), fields.get(field, 0)
        if operand is None or number < _FIRST_VGPR:
            continue
        yield _is_accumulation(instruction, field), number - _FIRST_VGPR, max(1, operand.bits // _DWORD_BITS)


def _is_accumulation(instruction: Instruction, field: str) -> bool:
    if instruction.is_matrix:
        accumulates = {"src0": "acc", "src1": "acc", "src2": "acc_cd"}.get(field, "acc_cd")
        value = instruction.fields.get(accumulates, 0)
        return bool(value & 2) if field == "src1" else bool(value & 1)
    if instruction.mnemonic.startswith("V_ACCVGPR_READ"):
        return True
    return field.startswith(("data", "vdata")) and bool(instruction.fields.get("acc"))


def _producers(program: Program, timing: TimingParameters) -> Iterator[tuple[int, _Producer]]:
    """Yield the instructions that read a result of a matrix instruction of their basic block, except to accumulate on it."""
    for block in program.blocks:
        if any(instruction.is_matrix for instruction in block.instructions):
            yield from _producers_in(block.instructions, timing)


def _producers_in(instructions: Sequence[Instruction], timing: TimingParameters) -> Iterator[tuple[int, _Producer]]:
    writers: dict[tuple[bool, int], int] = {}
    for place, instruction in enumerate(instructions):
        latest = max(
            (
                writers.get((accumulation, register), -1)
                for accumulation, first, count in _awaited(instruction)
                for register in range(first, first + count)
            ),
            default=-1,
        )
        if latest >= 0 and place - latest <= _PRODUCER_WINDOW:
            cycles = _MATRIX_RESULT_FACTOR * _pipe_cycles(instructions[latest], ExecutionUnit.MATRIX, timing)
            yield instruction.index, _Producer(place - latest, cycles)
        if instruction.is_matrix:
            first = instruction.fields["vdst"] - _FIRST_VGPR
            width = max(1, instruction.operands["vdst"].bits // _DWORD_BITS) if "vdst" in instruction.operands else 1
            is_accumulation = bool(instruction.fields.get("acc_cd"))
            writers.update({(is_accumulation, register): place for register in range(first, first + width)})


def _awaited(instruction: Instruction) -> Iterator[tuple[bool, int, int]]:
    """Yield the registers whose values must be complete: an accumulator is forwarded inside the matrix core."""
    accumulates = instruction.is_matrix and instruction.fields.get("src2") == instruction.fields.get("vdst")
    registers = list(_registers_read(instruction))
    yield from registers[:-1] if accumulates and registers else registers
