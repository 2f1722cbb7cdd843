"""Resources of a compiled kernel as a request of :mod:`rocm_perf_lab.target.occupancy`."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from rocm_perf_lab.target.occupancy import OccupancyRequest
from rocm_perf_lab.toolchain.descriptor import uses_workgroup_processor

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.code_object import KernelMetadata


def occupancy_request(
    kernel: KernelMetadata, *, workgroup_size: int | None = None, dynamic_lds_bytes: int = 0
) -> OccupancyRequest:
    """Return the occupancy request of a kernel.

    Args:
        kernel: Metadata of the kernel.
        workgroup_size: Work-items per workgroup; None for the whole range that the kernel was compiled for.
        dynamic_lds_bytes: Dynamic LDS of the launch, in addition to the static LDS.
    """
    if workgroup_size is not None:
        sizes = (workgroup_size, workgroup_size)
    elif kernel.required_workgroup_size is not None:
        sizes = (prod(kernel.required_workgroup_size), prod(kernel.required_workgroup_size))
    else:
        sizes = (1, kernel.max_flat_workgroup_size)
    return OccupancyRequest(
        vgprs=kernel.vgpr_count - kernel.agpr_count,  # the count in the metadata includes both kinds
        agprs=kernel.agpr_count,
        sgprs=kernel.sgpr_count,
        lds_bytes=kernel.lds_bytes + dynamic_lds_bytes,
        workgroup_size=sizes,
        wave_size=kernel.wavefront_size,
        workgroup_processor=uses_workgroup_processor(kernel.descriptor),
    )
