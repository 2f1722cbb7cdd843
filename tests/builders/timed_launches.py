"""Traced launches of hand-written instruction sequences, for tests of the timing engine."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rocm_perf_lab.emulator.isa.instruction import Instruction, OperandType
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.emulator.program import BasicBlock, Program
from rocm_perf_lab.emulator.timing.engine import TracedLaunch

if TYPE_CHECKING:
    from collections.abc import Sequence

BUFFER_BYTES = 1 << 32
_BLOCK, _VMEM, _LDS, _DETAIL = 1, 2, 3, 5


class Step(NamedTuple):
    """One instruction."""

    mnemonic: str
    encoding: str
    simm16: int = 0
    sources: tuple[int, ...] = ()
    """Operand numbers of src0, src1 and so on: VGPRs from 256, constants and SGPRs below."""
    bits: int = 32
    """Width of the sources."""
    vdst: int = 256
    size: int = 4


VALU = Step("V_FMA_F32", "VOP3")
EXP = Step("V_EXP_F32", "VOP1")
LOAD = Step("GLOBAL_LOAD_DWORD", "GLOBAL")
STORE = Step("GLOBAL_STORE_DWORD", "GLOBAL")
LDS_READ = Step("DS_READ_B32", "DS")
BARRIER = Step("S_BARRIER", "SOPP")
END = Step("S_ENDPGM", "SOPP")
WAIT_LOADS = Step("S_WAITCNT", "SOPP", 0x0F70)
"""vmcnt(0)"""
WAIT_LDS = Step("S_WAITCNT", "SOPP", 0xC07F)
"""lgkmcnt(0)"""


def straight_program(steps: Sequence[Step]) -> Program:
    """One basic block."""
    addresses = accumulate((step.size for step in steps), initial=0)
    instructions = tuple(
        _instruction(index, address, step) for index, (address, step) in enumerate(zip(addresses, steps, strict=False))
    )
    return Program("kernel", 0, (BasicBlock(0, 0, instructions, (), False, False),), instruction_set("gfx942"))


def _instruction(index: int, address: int, step: Step) -> Instruction:
    sources = {f"src{k}": number for k, number in enumerate(step.sources)}
    operands = {name: OperandType("B32", step.bits) for name in sources}
    return Instruction(
        index=index,
        address=address,
        size=step.size,
        mnemonic=step.mnemonic,
        encoding=step.encoding,
        variant="",
        raw=0,
        fields={"simm16": step.simm16, "vdst": step.vdst, **sources},
        isa=instruction_set("gfx942"),
        operands=operands | ({"vdst": OperandType("F32", step.bits)} if "MFMA" in step.mnemonic else {}),
    )


def traced_launch(
    steps: Sequence[Step],
    records: Sequence[Sequence[Sequence[int]]] = (((),),),
    *,
    workgroups: int = 1,
    resident: int = 1,
    base: int = 0,
) -> TracedLaunch:
    """A launch that runs `steps` once in every wavefront.

    Args:
        steps: The program.
        records: [sampled workgroup][wave] -> the dwords of its memory records.
        workgroups: Of the launch.
        resident: Workgroups that fit on one compute unit.
        base: Address of the launch's only buffer.
    """
    traces = [[np.array([_BLOCK << 56, *words], dtype=np.uint64) for words in group] for group in records]
    return TracedLaunch(
        program=straight_program(steps),
        traces=traces,
        buffers=[(base, BUFFER_BYTES)],
        workgroups=workgroups,
        waves_per_workgroup=len(traces[0]),
        resident_workgroups=resident,
    )


def vector_record(
    instruction: int, lines: Sequence[int], *, cycles: int | None = None, serial: int = 0, sectors: int = 15
) -> list[int]:
    """Return the trace record of a vector access.

    Args:
        instruction: Index of the instruction.
        lines: Addresses of lines of 128 bytes.
        cycles: Clocks in the address pipe; by default one per line, at least 4.
        serial: Clocks for which an atomic occupies its lines.
        sectors: Mask of the sectors of 32 bytes of each line that are accessed.
    """
    detail = _DETAIL << 56 | serial << 16 | (max(4, len(lines)) if cycles is None else cycles)
    return [_VMEM << 56 | (1 + len(lines)) << 32 | instruction, detail, *(line | sectors << 1 for line in lines)]


def lds_record(instruction: int, busy_cycles: int) -> list[int]:
    """Return the trace record of an LDS instruction."""
    return [_LDS << 56 | busy_cycles << 32 | instruction]
