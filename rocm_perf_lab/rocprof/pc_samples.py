"""PC samples of kernels: the instruction, state and SIMD of wavefronts that were interrupted at regular intervals.

`read_pc_samples(path)` reads rocprofv3's CSV, JSON and rocpd output, and the code.json of AMD's trace viewer. Host-trap samples
name the instruction only, and may be late by two instructions. Stochastic samples are exact and also tell whether the
wavefront issued the instruction, or the reason why not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SIMDS_PER_COMPUTE_UNIT = 4
"""`wave_count` of a sample is of the compute unit; stochastic sampling exists only for GPUs with four SIMDs in each."""
_COLLECT = (
    "collect them with: rocprofv3 --pc-sampling-beta-enabled --pc-sampling-method stochastic --pc-sampling-unit cycles "
    "--pc-sampling-interval 1048576 --kernel-trace -f json -- APP"
)


class PcSamplesError(LabError):
    """A file that cannot be read as PC samples."""


class SamplingMethod(StrEnum):
    """Method by which samples were taken."""

    HOST_TRAP = "host_trap"
    STOCHASTIC = "stochastic"


class StallReason(IntEnum):
    """Reason for not issuing the sampled instruction; names and values are those of rocprofiler-sdk."""

    NONE = 0
    NO_INSTRUCTION_AVAILABLE = 1
    ALU_DEPENDENCY = 2
    WAITCNT = 3
    INTERNAL_INSTRUCTION = 4
    BARRIER_WAIT = 5
    ARBITER_NOT_WIN = 6
    ARBITER_WIN_EX_STALL = 7
    OTHER_WAIT = 8
    SLEEP_WAIT = 9


class IssueType(IntEnum):
    """Type of an issued instruction; names and values are those of rocprofiler-sdk."""

    NONE = 0
    VALU = 1
    MATRIX = 2
    SCALAR = 3
    TEX = 4
    LDS = 5
    LDS_DIRECT = 6
    FLAT = 7
    EXPORT = 8
    MESSAGE = 9
    BARRIER = 10
    BRANCH_NOT_TAKEN = 11
    BRANCH_TAKEN = 12
    JUMP = 13
    OTHER = 14
    NO_INST = 15
    DUAL_VALU = 16


class Pipe(StrEnum):
    """Execution pipe of a SIMD's arbiter, as in the names of the fields `arb_state_issue_<pipe>`."""

    VALU = "valu"
    MATRIX = "matrix"
    LDS = "lds"
    LDS_DIRECT = "lds_direct"
    SCALAR = "scalar"
    VMEM_TEX = "vmem_tex"
    FLAT = "flat"
    EXP = "exp"
    MISC = "misc"
    BRMSG = "brmsg"


@dataclass(frozen=True)
class SampledInstruction:
    """Samples of one instruction of a kernel.

    `address` is its address in the ELF file of the code object; None if the format names the text only. `issued` is 0 and
    `reasons` empty for host-trap samples. `exposed` are the stalled samples in whose cycle no wavefront of the SIMD issued
    anything; None if the state of the arbiter was not recorded.
    """

    text: str
    source: str
    code_object: int | None
    address: int | None
    samples: int
    issued: int = 0
    reasons: Mapping[StallReason, int] = field(default_factory=dict)
    exposed: Mapping[StallReason, int] | None = None
    active_lanes: float | None = None
    """Mean number of lanes set in the execution mask."""

    @property
    def stalled(self) -> int:
        """Samples in which the wavefront did not issue, with any reason."""
        return sum(self.reasons.values())

    @property
    def mnemonic(self) -> str:
        """`v_add_u32_e32` of `v_add_u32_e32 v0, s2, v0`; empty if unknown."""
        return self.text.split(maxsplit=1)[0] if self.text.strip() else ""


@dataclass(frozen=True)
class ArbiterState:
    """Activity of the arbiter of the sampled SIMD in the sampled cycles, over all samples that state it.

    A pipe `issued` if an instruction of any wavefront entered it, and `refused` if it could not accept one.
    """

    samples: int
    progressed: int
    """Samples in which at least one pipe accepted an instruction."""
    overhead: int
    """Samples in which only scalar, branch, message or miscellaneous instructions were accepted."""
    issued: Mapping[Pipe, int]
    refused: Mapping[Pipe, int]


@dataclass(frozen=True)
class SampledKernel:
    """Samples of one kernel, over all its dispatches; instructions are sorted by code object and address, else by samples."""

    name: str
    """Name in the recording, mangled or not; empty if it does not name the kernels."""
    dispatches: int
    instructions: tuple[SampledInstruction, ...]
    wave_counts: Mapping[int, int] = field(default_factory=dict)
    """Samples by number of wavefronts on the compute unit; empty if unknown."""
    arbiter: ArbiterState | None = None

    @property
    def samples(self) -> int:
        """Number of samples."""
        return sum(one.samples for one in self.instructions)


@dataclass(frozen=True)
class PcSampling:
    """Samples of one recording, by kernel; kernels are sorted by descending number of samples."""

    path: Path
    method: SamplingMethod
    kernels: tuple[SampledKernel, ...]
    undecoded: int = 0
    """Samples in code that rocprofv3 could not identify, which are not assigned to a kernel."""
    gfxip: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        """Number of samples in known code."""
        return sum(kernel.samples for kernel in self.kernels)


def no_samples(path: Path) -> PcSamplesError:
    """Return the error for a file without PC samples."""
    return PcSamplesError("the file contains no PC samples", where=str(path), hint=_COLLECT)
