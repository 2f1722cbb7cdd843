"""The occupancy of a launch that ran: exact by the compiler's counts, and by the profiler's as far as these can be believed.

A profiler reports allocations: rounded to granules, and on CDNA2 and later with AGPRs that LLVM adds where something else limits
occupancy. So its counts may seem not to fit what did run, or registers to be the limit where they are not.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from rocm_perf_lab.target.occupancy import LaunchImpossible, OccupancyRequest, launch_occupancy, mode_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.profiling.resources import KernelResources
    from rocm_perf_lab.target.model import Target, WaveLimits
    from rocm_perf_lab.target.occupancy import Occupancy


def occupancy_of_launch(
    target: Target, resources: KernelResources, block: tuple[int, int, int], wave_size: int, spread: bool | None = None
) -> Occupancy:
    """Of workgroups of `block` work-items, in wavefronts of `wave_size`.

    Args:
        target: The GPU.
        resources: Of the kernel.
        block: Work-items of a workgroup, along each axis.
        wave_size: Lanes of a wavefront.
        spread: Whether workgroups are spread over a WGP, where the code object says so.

    Raises:
        LaunchImpossible: By the compiler's counts it does not fit the target.
    """
    size = prod(block)
    request = OccupancyRequest(
        vgprs=resources.vgpr_per_thread,
        agprs=resources.agpr_per_thread,
        sgprs=resources.sgpr_per_wave,
        lds_bytes=resources.lds_bytes,
        workgroup_size=(size, size),
        wave_size=wave_size,
        workgroup_processor=spread,
    )
    if resources.source == "code object":
        return launch_occupancy(target, request)
    reached = _of_what_ran(target, request)
    if reached.limiter == "vgpr" and _may_be_padding(target.modes[mode_of(target, request)], resources):
        # Without them: another limit stands where the compiler saw it, and fewer registers would not help.
        bare = launch_occupancy(target, replace(request, agprs=0))
        return bare if bare.waves_per_simd == reached.waves_per_simd else reached
    return reached


def counted_wave_size(target: Target, groups: int, size: int, counters: Sequence[Mapping[str, float]]) -> int:
    """As many lanes as make the wavefronts that were counted; the target's default where no counter tells.

    Args:
        target: The GPU.
        groups: Workgroups of the launch.
        size: Work-items of each.
        counters: Of each pass.
    """
    counted = next((one[name] for one in counters for name in ("SQ_WAVES", "SQ_WAVES_sum") if name in one), None)
    sizes = {limits.wave_size for limits in target.modes.values()}
    fitting = [lanes for lanes in sizes if counted == groups * -(-size // lanes)]
    return fitting[0] if len(fitting) == 1 else target.wave_limits.wave_size


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
