"""Register counts as rocprofv3 reports them, from the words of the kernel descriptor.

They are allocations, not uses: rounded to the allocation granule, and on CDNA2 and later padded where LLVM limits
occupancy, so `accum_vgprs` can name AGPRs that no instruction touches. rocprofiler-sdk, code_object.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass

_RDNA_SGPRS = 128
_UNIFIED_FILE = ("gfx90a", "gfx94")


@dataclass(frozen=True)
class ReportedRegisters:
    """The three counts of `rocpd_info_kernel_symbol`."""

    arch_vgprs: int
    accum_vgprs: int
    sgprs: int


def reported_registers(
    architecture: str, *, compute_pgm_rsrc1: int, compute_pgm_rsrc3: int, wavefront_size: int
) -> ReportedRegisters:
    """What rocprofv3 would write for a kernel with these descriptor words on `architecture` (for example gfx942)."""
    granules = (compute_pgm_rsrc1 & 0x3F) + 1
    sgpr_field = (compute_pgm_rsrc1 >> 6) & 0xF
    sgprs = (sgpr_field // 2 + 1) * 16 if architecture.startswith("gfx9") else _RDNA_SGPRS
    if architecture.startswith(_UNIFIED_FILE):
        arch = ((compute_pgm_rsrc3 & 0x3F) + 1) * 4
        return ReportedRegisters(arch_vgprs=arch, accum_vgprs=granules * 8 - arch, sgprs=sgprs)
    arch = granules * (8 if wavefront_size == 32 else 4)
    return ReportedRegisters(arch_vgprs=arch, accum_vgprs=arch if architecture == "gfx908" else 0, sgprs=sgprs)
