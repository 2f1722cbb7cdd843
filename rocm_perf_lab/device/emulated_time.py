"""Estimated duration of an emulated launch on the target, from its traces, its occupancy and the timing model."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.target.occupancy import launch_occupancy
from rocm_perf_lab.toolchain.kernel_occupancy import occupancy_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.core.geometry import Dim3
    from rocm_perf_lab.emulator.launching import LaunchResult
    from rocm_perf_lab.emulator.memory import Allocation
    from rocm_perf_lab.emulator.timing.engine import TimingEstimate
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.code_object import KernelMetadata


ClockMode = Literal["max", "load"] | int
"""Shader clock of a launch."""


def estimate_launch(
    target: Target,
    kernel: KernelMetadata,
    result: LaunchResult,
    *,
    block: Dim3,
    dynamic_lds_bytes: int,
    buffers: Sequence[Allocation],
    thread_trace: bool = False,
    warm: bool = True,
    clock: ClockMode = "max",
) -> TimingEstimate:
    """Estimate the duration of one traced launch.

    Args:
        target: The GPU.
        kernel: Metadata of the kernel.
        result: The traced launch.
        block: Work-items per workgroup.
        dynamic_lds_bytes: Dynamic LDS of a workgroup.
        buffers: Device memory of the launch, in an order that does not change between runs.
        thread_trace: Record the wavefronts for a thread trace.
        warm: The same launch ran before, so that the memory-side cache holds its lines.
        clock: Shader clock: the maximum, that under sustained load (see :func:`sustained_clock_mhz`), or a number of MHz.

    Raises:
        TimingUnavailable: The target has no timing parameters.
    """
    from rocm_perf_lab.emulator.build import load_runtime
    from rocm_perf_lab.emulator.counters import block_totals
    from rocm_perf_lab.emulator.timing.engine import TracedLaunch, estimate
    from rocm_perf_lab.emulator.timing.shared_caches import shared_memory_profile

    request = occupancy_request(kernel, workgroup_size=prod(block), dynamic_lds_bytes=dynamic_lds_bytes)
    runtime, resident = load_runtime(), int(launch_occupancy(target, request).workgroups_per_cu)
    ranges = [(b.address, b.nbytes) for b in buffers]
    memory = None
    if result.footprint is not None:
        memory = shared_memory_profile(runtime, result.footprint, ranges, target, resident_workgroups=resident, warm=warm)
    traced = TracedLaunch(
        program=result.program,
        traces=result.traces,
        buffers=ranges,
        workgroups=result.workgroups,
        waves_per_workgroup=result.waves_per_workgroup,
        resident_workgroups=resident,
        sample=result.sample,
        workgroup_counts=result.workgroup_counts,
        memory=memory,
        counters={
            **block_totals(
                [block.counters for block in result.program.blocks], result.block_executions, result.program.isa.counter_set
            ),
            **result.counters,
        },
    )
    timed = target if isinstance(clock, str) else _at_clock(target, clock)
    result_at_clock = estimate(runtime, traced, timed, thread_trace=thread_trace and clock != "load")
    if clock != "load":
        return result_at_clock
    return estimate(runtime, traced, _at_clock(target, sustained_clock_mhz(target, result_at_clock)), thread_trace=thread_trace)


def sustained_clock_mhz(target: Target, estimate: TimingEstimate) -> int:
    """Return the clock that the power limit allows after about a second of equal launches.

    It falls linearly with the utilisation of the matrix cores (`timing.matrix_clock_drop_mhz`).

    Args:
        target: The GPU.
        estimate: Estimate of the launch at the maximum clock.
    """
    drop = target.timing.matrix_clock_drop_mhz if target.timing is not None else 0
    available = estimate.cycles * target.compute_units * target.simds_per_cu
    busy = estimate.counters.get("SQ_VALU_MFMA_BUSY_CYCLES", 0.0) / available if available else 0.0
    return round(target.max_clock_mhz - drop * min(1.0, busy))


def _at_clock(target: Target, clock_mhz: int) -> Target:
    return target.model_copy(update={"max_clock_mhz": clock_mhz})
