"""Occupancy of a launch that ran: exact with the compiler's register counts, corrected with the profiler's.

A profiler reports allocations, rounded to granules, which on CDNA2 and later include AGPRs that LLVM adds if something else
limits occupancy. Its counts may therefore contradict the launch, or show registers as the limit although they are not.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from rocm_perf_lab.target.occupancy import LaunchImpossible, OccupancyRequest, launch_occupancy, mode_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.arch.model import WaveLimits
    from rocm_perf_lab.profiling.resources import KernelResources
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.target.occupancy import Occupancy


def occupancy_of_launch(
    target: Target, resources: KernelResources, block: tuple[int, int, int], wave_size: int, spread: bool | None = None
) -> Occupancy:
    """Return the occupancy of a launch.

    Args:
        target: The GPU.
        resources: Resources of the kernel.
        block: Work-items of a workgroup along each axis.
        wave_size: Lanes of a wavefront.
        spread: True if workgroups are spread over a WGP, if the code object states it.

    Raises:
        LaunchImpossible: By the compiler's counts the launch does not fit the target.
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
        # Without these AGPRs another limit applies, as the compiler computed; fewer registers would not help.
        bare = launch_occupancy(target, replace(request, agprs=0))
        return bare if bare.waves_per_simd == reached.waves_per_simd else reached
    return reached


def counted_wave_size(target: Target, groups: int, size: int, counters: Sequence[Mapping[str, float]]) -> int:
    """Return the wave size that yields the counted wavefronts; the target's default if no counter is available.

    Args:
        target: The GPU.
        groups: Workgroups of the launch.
        size: Work-items per workgroup.
        counters: Counters of each pass.
    """
    counted = next((one[name] for one in counters for name in ("SQ_WAVES", "SQ_WAVES_sum") if name in one), None)
    sizes = {limits.wave_size for limits in target.modes.values()}
    fitting = [lanes for lanes in sizes if counted == groups * -(-size // lanes)]
    return fitting[0] if len(fitting) == 1 else target.wave_limits.wave_size


def _of_what_ran(target: Target, request: OccupancyRequest) -> Occupancy:
    """Return the occupancy of a launch that the profiler recorded; if it does not fit, registers or LDS were miscounted.

    Miscounts occur on architectures whose rules are not known exactly, and with profiler versions that use other granules.
    """
    without_agprs = replace(request, agprs=0)
    without_registers = replace(without_agprs, vgprs=0)
    for fewer in (request, without_agprs, without_registers):
        with suppress(LaunchImpossible):
            return launch_occupancy(target, fewer)
    return launch_occupancy(target, replace(without_registers, lds_bytes=0))


def _may_be_padding(limits: WaveLimits, resources: KernelResources) -> bool:
    """Return True if the reported AGPRs equal the number that LLVM adds if LDS or the workgroup limits occupancy.

    LLVM allocates just as many as fit without lowering the occupancy below the other limit (GCNSubtarget, AMDGPUAsmPrinter).
    """
    granule, registers = limits.vgpr_granule, limits.vgprs_per_lane
    total = resources.vgpr_per_thread + resources.agpr_per_thread
    if not limits.agprs_share_file or not resources.agpr_per_thread or not 0 < total <= registers:
        return False
    waves = registers // total
    return total == registers // (waves + 1) // granule * granule + granule
