"""Builds the profile of one kernel from what the passes left behind.

Takes the trace of the timing pass, optionally traces of counter passes and the compiler's metadata of the kernel, and
the target; gives a :class:`Profile`. No measurement is judged here: that is the business of `analysis/`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.profiling.resources import KernelResources, resources_of
from rocm_perf_lab.profiling.selection import ProfileError, RankedKernel, rank_kernels, select_kernel
from rocm_perf_lab.target.occupancy import LaunchImpossible, OccupancyRequest, launch_occupancy
from rocm_perf_lab.toolchain.demangle import demangle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.rocprof.trace import Trace, TraceProvenance
    from rocm_perf_lab.target.model import Target, WaveLimits
    from rocm_perf_lab.target.occupancy import Occupancy
    from rocm_perf_lab.toolchain.code_object import KernelMetadata

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Provenance:
    """Where the numbers of a profile come from."""

    trace: TraceProvenance
    database: str
    database_sha256: str
    schema_version: str
    note: str
    versions: Mapping[str, str]
    code_object_sha256: str | None


@dataclass(frozen=True)
class Profile:
    """One kernel of one run. `grid` counts workgroups, `block` work-items."""

    kernel: RankedKernel
    grid: Dim3
    block: Dim3
    target: Target
    wave_size: int
    durations_ns: tuple[int, ...]
    """Of every dispatch of the kernel, in order of start."""
    resources: KernelResources
    occupancy: Occupancy
    counter_passes: tuple[Mapping[str, float], ...]
    """Per profiling run: device totals of one dispatch, the mean over the kernel's dispatches."""
    kernels: tuple[RankedKernel, ...]
    provenance: Provenance
    notes: tuple[str, ...]

    @property
    def threads_per_block(self) -> int:
        """Work-items of a workgroup."""
        x, y, z = self.block
        return x * y * z


def build_profile(
    trace: Trace,
    *,
    target: Target,
    identity_note: str = "",
    resources: KernelMetadata | None = None,
    symbol: str | None = None,
    helper_patterns: Sequence[str] = (),
    counter_traces: Sequence[Trace] = (),
    code_object_sha256: str | None = None,
    versions: Mapping[str, str] | None = None,
    failures: Sequence[str] = (),
) -> Profile:
    """The profile of the kernel named `symbol`, or of the dominant one.

    Args:
        trace: The run whose times count.
        target: The GPU that the run was on.
        identity_note: Why this device was used; goes into the provenance.
        resources: The compiler's metadata of the kernel; the profiler's padded counts are used without it.
        symbol: Mangled name of the kernel to profile.
        helper_patterns: Names of runtime helpers that must not be taken for the dominant kernel.
        counter_traces: Further runs that collected counters, one per pass.
        code_object_sha256: Identity of the code object.
        versions: Versions of tools, besides those that the trace states.
        failures: Passes that failed, and why; they become notes.

    Raises:
        ProfileError: No usable dispatch, or a trace of another architecture.
        LaunchImpossible: The launch does not fit the target.
    """
    ranked = rank_kernels(trace, helper_patterns)
    kernel = select_kernel(trace, ranked, symbol=symbol or (resources.symbol if resources else None))
    _check_architecture(trace, kernel, target)
    longest = int(kernel.dispatches[trace.dispatches.duration_ns[kernel.dispatches].argmax()])
    block = _dim3(trace.dispatches.workgroup[longest])
    if min(block) < 1:
        raise ProfileError(
            f"a dispatch of {kernel.name[:80]} has workgroups of {' x '.join(map(str, block))} work-items",
            where=str(trace.path),
            remedy="the trace is damaged: collect it again",
        )
    found = resources_of(trace, longest, target, resources)
    wave_size = resources.wavefront_size if resources else target.wave_limits.wave_size
    return Profile(
        kernel=kernel,
        grid=_dim3(-(-trace.dispatches.grid[longest] // trace.dispatches.workgroup[longest])),
        block=block,
        target=target,
        wave_size=wave_size,
        durations_ns=tuple(trace.dispatches.duration_ns[kernel.dispatches].tolist()),
        resources=found,
        occupancy=_occupancy(target, found, block, wave_size),
        counter_passes=_counter_passes((trace, *counter_traces), kernel),
        kernels=ranked,
        provenance=Provenance(
            trace=trace.provenance,
            database=trace.path.name,
            database_sha256=trace.sha256,
            schema_version=trace.schema_version,
            note=identity_note,
            versions={**trace.provenance.versions, **(versions or {})},
            code_object_sha256=code_object_sha256,
        ),
        notes=(*failures, *trace.notes, *_notes(trace, ranked, found)),
    )


def _check_architecture(trace: Trace, kernel: RankedKernel, target: Target) -> None:
    names = {trace.agents[agent].name for agent in np.unique(trace.dispatches.agent[kernel.dispatches]).tolist()}
    # CSV without agent_info.csv does not say what the agents are.
    others = sorted(name for name in names if name and name.partition(":")[0] != target.architecture)
    if others:
        raise ProfileError(
            f"the trace is of {', '.join(others)}, the target {target.name} is {target.architecture}",
            where=str(trace.path),
            remedy="choose the target that the run was on, for example target=mi250x",
        )


def _occupancy(target: Target, resources: KernelResources, block: Dim3, wave_size: int) -> Occupancy:
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


def _counter_passes(traces: Sequence[Trace], kernel: RankedKernel) -> tuple[Mapping[str, float], ...]:
    """One mapping per trace that has counters of the kernel; the means over its dispatches."""
    passes = []
    for trace in traces:
        kernels = _same_kernel(trace, kernel)
        counters = {}
        for name, column in trace.counters.items():
            values = column.value[np.isin(trace.dispatches.kernel[column.dispatch], kernels)]
            if len(values):
                counters[name] = float(values.mean())
        if counters:
            passes.append(counters)
    return tuple(passes)


def _same_kernel(trace: Trace, kernel: RankedKernel) -> list[int]:
    """Positions of the kernel in another trace; by its demangled name where that has no mangled ones, as in CSV."""
    by_symbol = [index for index, other in enumerate(trace.kernels) if other.mangled_name == kernel.mangled_name]
    return by_symbol or [index for index, other in enumerate(trace.kernels) if demangle(other.name) == kernel.name]


def _notes(trace: Trace, ranked: Sequence[RankedKernel], resources: KernelResources) -> tuple[str, ...]:
    notes = []
    backwards = len(trace.dispatches) - sum(len(kernel.dispatches) for kernel in ranked)
    if backwards:
        notes.append(f"{backwards} dispatches end before they start and were left out")
    timeless = int(np.count_nonzero(trace.dispatches.duration_ns == 0))
    if timeless and trace.dispatches.end_ns.any():
        notes.append(f"{timeless} dispatches take no time")
    if all(kernel.is_helper for kernel in ranked):
        notes.append("only runtime helper kernels were dispatched")
    if resources.source == "profiler" and resources.vgpr_per_thread == 0:
        notes.append("the trace does not say how many registers the kernel takes: occupancy is at most what is shown")
    elif resources.source == "profiler":
        notes.append("register counts are the profiler's allocations, which include granules and padding")
    return tuple(notes)


def _dim3(sizes: Sequence[int]) -> Dim3:
    x, y, z = (int(size) for size in sizes)
    return x, y, z
