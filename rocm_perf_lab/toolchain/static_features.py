"""Static features of a kernel: instruction mix, code size, registers and spills.

Every instruction of the code counts once, independently of how often it executes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

InstructionClass = Literal["valu", "mfma", "salu", "smem", "vmem", "lds", "branch", "waitcnt", "barrier", "other"]

_CLASS_OF_PREFIX: dict[str, InstructionClass] = {
    "v_mfma": "mfma",
    "v_smfmac": "mfma",
    "v_wmma": "mfma",
    "v_swmmac": "mfma",
    "v_": "valu",
    "global_": "vmem",
    "flat_": "vmem",
    "buffer_": "vmem",
    "tbuffer_": "vmem",
    "scratch_": "vmem",
    "image_": "vmem",
    "ds_": "lds",
    "lds_": "lds",
    "s_waitcnt": "waitcnt",
    "s_wait_": "waitcnt",
    "s_barrier": "barrier",
    "s_branch": "branch",
    "s_cbranch": "branch",
    "s_call": "branch",
    "s_setpc": "branch",
    "s_swappc": "branch",
    "s_rfe": "branch",
    "s_load": "smem",
    "s_buffer": "smem",
    "s_scratch": "smem",
    "s_store": "smem",
    "s_atomic": "smem",
    "s_dcache": "smem",
    "s_memtime": "smem",
    "s_memrealtime": "smem",
    "s_gl1_inv": "smem",
    "s_atc_probe": "smem",
    "s_prefetch": "smem",
    "s_subvector_loop": "branch",
    "s_clause": "other",
    "s_inst_prefetch": "other",
    "s_set_inst_prefetch": "other",
    "s_delay_alu": "other",
    "s_nop": "other",
    "s_endpgm": "other",
    "s_sleep": "other",
    "s_sendmsg": "other",
    "s_setprio": "other",
    "s_sethalt": "other",
    "s_setkill": "other",
    "s_wakeup": "other",
    "s_incperflevel": "other",
    "s_decperflevel": "other",
    "s_ttracedata": "other",
    "s_round_mode": "other",
    "s_denorm_mode": "other",
    "s_version": "other",
    "s_code_end": "other",
    "s_icache": "other",
    "s_trap": "other",
    "s_": "salu",
}
"""The first matching prefix decides."""


@dataclass(frozen=True)
class StaticFeatures:
    """Instructions by class, bytes and registers of one kernel."""

    valu: int
    mfma: int
    salu: int
    smem: int
    vmem: int
    lds: int
    branch: int
    waitcnt: int
    barrier: int
    other: int
    code_bytes: int
    vgprs: int
    agprs: int
    sgprs: int
    lds_bytes: int
    scratch_bytes: int
    vgpr_spills: int
    sgpr_spills: int

    @property
    def instructions(self) -> int:
        """Number of instructions of all classes."""
        return (
            self.valu + self.mfma + self.salu + self.smem + self.vmem + self.lds
            + self.branch + self.waitcnt + self.barrier + self.other
        )  # fmt: skip


def static_features(code_object: CodeObject, kernel: KernelMetadata) -> StaticFeatures:
    """Return the features of a kernel: instruction counts from its disassembly, the others from its metadata.

    Raises:
        DisassemblyError: No installed disassembler supports the processor.
    """
    from rocm_perf_lab.toolchain.disassembly import disassemble

    mix = Counter(instruction_class(line.mnemonic) for line in disassemble(code_object, kernel.symbol))
    return StaticFeatures(
        valu=mix["valu"],
        mfma=mix["mfma"],
        salu=mix["salu"],
        smem=mix["smem"],
        vmem=mix["vmem"],
        lds=mix["lds"],
        branch=mix["branch"],
        waitcnt=mix["waitcnt"],
        barrier=mix["barrier"],
        other=mix["other"],
        code_bytes=kernel.code_bytes,
        vgprs=kernel.vgpr_count,
        agprs=kernel.agpr_count,
        sgprs=kernel.sgpr_count,
        lds_bytes=kernel.lds_bytes,
        scratch_bytes=kernel.scratch_bytes,
        vgpr_spills=kernel.vgpr_spill_count,
        sgpr_spills=kernel.sgpr_spill_count,
    )


def instruction_class(mnemonic: str) -> InstructionClass:
    """Return the class of an instruction."""
    return next((kind for prefix, kind in _CLASS_OF_PREFIX.items() if mnemonic.startswith(prefix)), "other")
