"""Register counts as reported by rocprofv3, computed from the kernel descriptor.

They are allocations: rounded to the allocation granule, and on CDNA2 and later padded if LLVM limits occupancy, so
`accum_vgprs` may include AGPRs that no instruction uses. Encodings are in `arch/*.yaml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.arch.registry import find_processor, nearest_processor

if TYPE_CHECKING:
    from collections.abc import Iterable

_ARCHITECTURAL_VGPRS = 256


@dataclass(frozen=True)
class ReportedRegisters:
    """The three register counts of `rocpd_info_kernel_symbol`."""

    arch_vgprs: int
    accum_vgprs: int
    sgprs: int


def reported_registers(
    architecture: str, *, compute_pgm_rsrc1: int, compute_pgm_rsrc3: int, wavefront_size: int
) -> ReportedRegisters:
    """Return the counts that rocprofv3 writes for these descriptor words on `architecture` (for example gfx942).

    Raises:
        ArchitectureError: The architecture is unknown.
    """
    counts = nearest_processor(architecture).registers.reported(compute_pgm_rsrc1, compute_pgm_rsrc3, wavefront_size)
    return ReportedRegisters(arch_vgprs=counts.vgprs, accum_vgprs=counts.agprs, sgprs=counts.sgprs)


def corrected_vgprs(architecture: str, arch_vgprs: int, accum_vgprs: int, others: Iterable[int]) -> tuple[int, int]:
    """Return the architectural and accumulation VGPRs that a reported kernel allocates.

    rocprofv3 reports half of the allocation on architectures that it does not decode as a unified register file
    (`profiler_reports_half` in `arch/*.yaml`). A version that decodes it reports AGPRs for some kernels.

    Args:
        architecture: Architecture of the GPU.
        arch_vgprs: Reported architectural VGPRs.
        accum_vgprs: Reported accumulation VGPRs.
        others: Accumulation VGPRs of all kernels in the same trace.
    """
    processor = find_processor(architecture)
    if processor is not None and processor.registers.agprs == "unified" and arch_vgprs > _ARCHITECTURAL_VGPRS:
        # A count of the whole allocation: an instruction can name 256 VGPRs.
        return _ARCHITECTURAL_VGPRS, min(max(accum_vgprs, arch_vgprs - _ARCHITECTURAL_VGPRS), _ARCHITECTURAL_VGPRS)
    if processor is None or not processor.registers.profiler_reports_half or accum_vgprs or any(others):
        return arch_vgprs, accum_vgprs
    allocated = 2 * arch_vgprs
    if allocated > 2 * _ARCHITECTURAL_VGPRS:
        return arch_vgprs, accum_vgprs
    return min(allocated, _ARCHITECTURAL_VGPRS), max(0, allocated - _ARCHITECTURAL_VGPRS)
