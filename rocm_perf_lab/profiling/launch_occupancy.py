"""The occupancy of a launch that ran: exact by the compiler's counts, and by the profiler's as far as these can be believed.

A profiler reports allocations: rounded to granules, and on CDNA2 and later with AGPRs that LLVM adds where something else limits
occupancy. So its counts may seem not to fit what did run, or registers to be the limit where they are not.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.target.occupancy import LaunchImpossible, OccupancyRequest, launch_occupancy

if TYPE_CHECKING:
    from rocm_perf_lab.profiling.resources import KernelResources
    from rocm_perf_lab.target.model import Target, WaveLimits
    from rocm_perf_lab.target.occupancy import Occupancy


def occupancy_of_launch(target: Target, resources: KernelResources, block: tuple[int, int, int], wave_size: int) -> Occupancy:
    """Of workgroups of `block` work-items, in wavefronts of `wave_size`.

    Raises:
        LaunchImpossible: By the compiler's counts it does not fit the target.
    """
    size = block[0] * block[1] * block[2]
    mode = target.default_mode
    if target.wave_limits.wave_size != wave_size:
        mode = next((name for name, limits in target.modes.items() if limits.wave_size == wave_size), mode)
    request = OccupancyRequest(
        vgprs=resources.vgpr_per_thread,
        agprs=resources.agpr_per_thread,
        sgprs=resources.sgpr_per_wave,
        lds_bytes=resources.lds_bytes,
        workgroup_size=(size, size),
        mode=mode,
    )
    if resources.source == "code object":
        return launch_occupancy(target, request)
    reached = _of_what_ran(target, request)
    if reached.limiter == "vgpr" and _may_be_padding(target.modes[mode], resources):
        # Without them: another limit stands where the compiler saw it, and fewer registers would not help.
        bare = launch_occupancy(target, replace(request, agprs=0))
        return bare if bare.waves_per_simd == reached.waves_per_simd else reached
    return reached


def _of_what_ran(target: Target, request: OccupancyRequest) -> Occupancy:
    """The occupancy of a launch that a profiler saw: it ran, so where it does not fit, registers or LDS were miscounted.

    That comes with architectures whose rules are only guessed, and with versions of the profiler that count by other granules.
    """
    without_agprs = replace(request, agprs=0)
    without_registers = replace(without_agprs, vgprs=0)
    for fewer in (request, without_agprs, without_registers):
        with suppress(LaunchImpossible):
            return launch_occupancy(target, fewer)
    return launch_occupancy(target, replace(without_registers, lds_bytes=0))


def _may_be_padding(limits: WaveLimits, resources: KernelResources) -> bool:
    """Whether the AGPRs that the profiler reports are as many as LLVM adds where LDS or the workgroup limits occupancy.

    It allocates just so much that no wavefront more fits than the other limit lets in (GCNSubtarget, AMDGPUAsmPrinter).
    """
    granule, registers = limits.vgpr_granule, limits.vgprs_per_lane
    total = resources.vgpr_per_thread + resources.agpr_per_thread
    if not limits.agprs_share_file or not resources.agpr_per_thread or not 0 < total <= registers:
        return False
    waves = registers // total
    return total == registers // (waves + 1) // granule * granule + granule
