"""A compiled kernel's resources in the words of :mod:`rocm_perf_lab.target.occupancy`."""

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
    """What one kernel asks of the target.

    Args:
        kernel: The kernel's metadata.
        workgroup_size: Work-items of a launch; None for all that the kernel was compiled for.
        dynamic_lds_bytes: LDS that the launch adds to the kernel's own.
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
