"""Resources of one dispatch of a kernel: registers, LDS, scratch.

The compiler's register counts are preferred: the profiler reports allocations, which include granules and padding. LDS and
scratch are always those of the dispatch, including dynamic parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.rocprof.registers import corrected_vgprs

if TYPE_CHECKING:
    from rocm_perf_lab.rocprof.trace import Trace
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.code_object import KernelMetadata


_LDS_GRANULE_OF_CSV = 512


@dataclass(frozen=True)
class KernelResources:
    """Registers per work-item and wavefront, LDS per workgroup, scratch per work-item."""

    vgpr_per_thread: int
    agpr_per_thread: int
    sgpr_per_wave: int
    lds_bytes: int
    scratch_bytes: int
    vgpr_spills: int | None
    sgpr_spills: int | None
    source: Literal["code object", "profiler"]


def resources_of(trace: Trace, dispatch: int, target: Target, metadata: KernelMetadata | None) -> KernelResources:
    """Return the resources of the dispatch at that position of `trace`."""
    lds_bytes = int(trace.dispatches.lds_bytes[dispatch])
    scratch_bytes = int(trace.dispatches.scratch_bytes[dispatch])
    if metadata is None:
        kernel = trace.kernels[int(trace.dispatches.kernel[dispatch])]
        vgprs, agprs = corrected_vgprs(
            target.architecture,
            kernel.arch_vgpr_count,
            kernel.accum_vgpr_count,
            (other.accum_vgpr_count for other in trace.kernels),
        )
        return KernelResources(
            vgpr_per_thread=vgprs,
            agpr_per_thread=agprs,
            sgpr_per_wave=kernel.sgpr_count,
            lds_bytes=lds_bytes,
            scratch_bytes=scratch_bytes,
            vgpr_spills=None,
            sgpr_spills=None,
            source="profiler",
        )
    shared = target.wave_limits.agprs_share_file
    if lds_bytes < metadata.lds_bytes or lds_bytes == _rounded(metadata.lds_bytes):
        # CSV has the static LDS only, rounded up; a trace without launch sizes has none.
        lds_bytes = metadata.lds_bytes
    return KernelResources(
        vgpr_per_thread=metadata.vgpr_count - (metadata.agpr_count if shared else 0),
        agpr_per_thread=metadata.agpr_count,
        sgpr_per_wave=metadata.sgpr_count,
        lds_bytes=lds_bytes,
        scratch_bytes=scratch_bytes or metadata.scratch_bytes,
        vgpr_spills=metadata.vgpr_spill_count,
        sgpr_spills=metadata.sgpr_spill_count,
        source="code object",
    )


def _rounded(lds_bytes: int) -> int:
    return -(-lds_bytes // _LDS_GRANULE_OF_CSV) * _LDS_GRANULE_OF_CSV
