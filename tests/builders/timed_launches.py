"""Traced launches of hand-written instruction sequences, for tests of the timing engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rocm_perf_lab.emulator.isa.instruction import Instruction
from rocm_perf_lab.emulator.program import BasicBlock, Program
from rocm_perf_lab.emulator.timing.engine import TracedLaunch

if TYPE_CHECKING:
    from collections.abc import Sequence

BUFFER_BYTES = 1 << 32
_BLOCK, _VMEM, _LDS = 1, 2, 3


class Step(NamedTuple):
    """One instruction."""

    mnemonic: str
    encoding: str
    simm16: int = 0


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
    instructions = tuple(
        Instruction(
            index=index,
            address=4 * index,
            size=4,
            mnemonic=step.mnemonic,
            encoding=step.encoding,
            variant="",
            raw=0,
            fields={"simm16": step.simm16},
            operands={},
        )
        for index, step in enumerate(steps)
    )
    return Program("kernel", 0, 0, (BasicBlock(0, 0, instructions, (), False, False),))


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


def vector_record(instruction: int, addresses: Sequence[int]) -> list[int]:
    """Return the trace record of a load or store of 64-byte segments."""
    return [_VMEM << 56 | len(addresses) << 32 | instruction, *addresses]


def lds_record(instruction: int, busy_cycles: int) -> list[int]:
    """Return the trace record of an LDS instruction."""
    return [_LDS << 56 | busy_cycles << 32 | instruction]
