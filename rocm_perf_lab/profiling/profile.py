"""Profile of one kernel, built from the traces of all passes and the compiler's metadata of the kernel.

A :class:`Profile` contains measurements only; conclusions belong to `analysis/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Self

import numpy as np

from rocm_perf_lab.profiling.launch_occupancy import counted_wave_size, occupancy_of_launch
from rocm_perf_lab.profiling.populations import Population, describe_others, dispatches_like, populations, resources_of_code
from rocm_perf_lab.profiling.resources import KernelResources, resources_of
from rocm_perf_lab.profiling.selection import ProfileError, RankedKernel, rank_kernels, select_kernel
from rocm_perf_lab.toolchain.demangle import demangle
from rocm_perf_lab.toolchain.descriptor import uses_workgroup_processor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.rocprof.trace import Trace, TraceProvenance
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.target.occupancy import Occupancy
    from rocm_perf_lab.target.timing_errors import TimingErrors
    from rocm_perf_lab.toolchain.code_object import KernelMetadata

Dim3 = tuple[int, int, int]

_NAMED_STRANGERS = 3
_MOST_COUNTED_POPULATIONS = 20
_OTHER_LAUNCHES = ("the counters are of dispatches with other launch shapes than the times",)


@dataclass(frozen=True)
class Provenance:
    """Origin of the numbers of a profile."""

    trace: TraceProvenance
    database: str
    database_sha256: str
    schema_version: str
    note: str
    versions: Mapping[str, str]
    code_object_sha256: str | None

    @classmethod
    def of(cls, trace: Trace, note: str, versions: Mapping[str, str], code_object_sha256: str | None) -> Self:
        """Return the provenance of a trace, completed by information from its device."""
        return cls(
            trace=trace.provenance,
            database=trace.path.name,
            database_sha256=trace.sha256,
            schema_version=trace.schema_version,
            note=note,
            versions={**trace.provenance.versions, **versions},
            code_object_sha256=code_object_sha256,
        )


@dataclass(frozen=True)
class Profile:
    """One kernel of one run. `grid` counts workgroups, `block` work-items."""

    kernel: RankedKernel
    grid: Dim3
    block: Dim3
    target: Target
    wave_size: int
    durations_ns: tuple[int, ...]
    """Durations of the dispatches of the first population, in order of start."""
    resources: KernelResources
    occupancy: Occupancy
    counter_passes: tuple[Mapping[str, float], ...]
    """Device totals of one dispatch per profiling run: means over the kernel's dispatches."""
    kernels: tuple[RankedKernel, ...]
    provenance: Provenance
    notes: tuple[str, ...]
    populations: tuple[Population, ...] = ()
    """Dispatches of the kernel with equal launch shape and code, by descending total time. Launch, resources, times and counters
    are those of the first one."""
    population_counters: tuple[tuple[Mapping[str, float], ...], ...] = ()
    """`counter_passes` of the largest populations."""
    doubts: tuple[str, ...] = ()
    """Reasons why figures that depend on the target may be wrong; no verdict is certain then."""

    @property
    def timing_errors(self) -> TimingErrors | None:
        """Error bands of emulated times; None for measured ones, and if there are none."""
        trace = self.provenance.trace
        return self.target.timing_errors if trace.emulated and trace.has_times else None

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
    ranked: Sequence[RankedKernel] | None = None,
    counter_traces: Sequence[Trace] = (),
    code_object_sha256: str | None = None,
    versions: Mapping[str, str] | None = None,
    failures: Sequence[str] = (),
    doubts: Sequence[str] = (),
) -> Profile:
    """Build the profile of the kernel named `symbol`, or of the dominant one.

    Args:
        trace: The timing run.
        target: The GPU of the run.
        identity_note: Reason for the choice of the device, for the provenance.
        resources: The compiler's metadata of the kernel; without it the profiler's padded counts are used.
        symbol: Mangled name of the kernel.
        helper_patterns: Name patterns of runtime helpers, which are never the dominant kernel.
        ranked: The kernels of the trace, if they were ranked with these patterns.
        counter_traces: Further runs that collected counters, one per pass.
        code_object_sha256: Identity of the code object.
        versions: Versions of tools, in addition to those in the trace.
        failures: Descriptions of failed passes; they become notes.
        doubts: Reasons why the target may be wrong.

    Raises:
        ProfileError: The trace contains no usable dispatch, or is of another architecture.
        LaunchImpossible: The launch does not fit the target.
    """
    ranked = tuple(ranked) if ranked is not None else rank_kernels(trace, helper_patterns)
    kernel = select_kernel(trace, ranked, symbol=symbol or (resources.symbol if resources else None))
    _check_architecture(trace, kernel, target)
    groups = populations(trace, kernel.dispatches)
    launch = _launch(trace, kernel, groups[0])
    found = resources_of(trace, launch.dispatch, target, resources)
    counted_groups = tuple(
        _counter_passes((trace, *counter_traces), kernel, trace, group) for group in groups[:_MOST_COUNTED_POPULATIONS]
    )
    counters = counted_groups[0] or _counter_passes((trace, *counter_traces), kernel)
    counted = counted_wave_size(target, prod(launch.grid), prod(launch.block), counters)
    wave_size = resources.wavefront_size if resources else counted
    spread = uses_workgroup_processor(resources.descriptor) if resources else None
    return Profile(
        kernel=kernel,
        grid=launch.grid,
        block=launch.block,
        target=target,
        wave_size=wave_size,
        durations_ns=tuple(trace.dispatches.duration_ns[groups[0].dispatches].tolist()),
        resources=found,
        occupancy=occupancy_of_launch(target, found, launch.block, wave_size, spread),
        counter_passes=counters,
        kernels=ranked,
        provenance=Provenance.of(trace, identity_note, versions or {}, code_object_sha256),
        notes=(
            *failures,
            *trace.notes,
            *describe_others(groups),
            *_notes(trace, ranked, found, launch.dispatch),
            *_strangers(counter_traces, kernel),
            *(_OTHER_LAUNCHES if counters and not counted_groups[0] else ()),
        ),
        populations=groups,
        doubts=tuple(doubts),
        population_counters=counted_groups,
    )


@dataclass(frozen=True)
class _Launch:
    """The longest dispatch of the largest population of a kernel."""

    dispatch: int
    grid: Dim3
    block: Dim3


def _launch(trace: Trace, kernel: RankedKernel, population: Population) -> _Launch:
    dispatches = trace.dispatches
    longest = int(population.dispatches[dispatches.duration_ns[population.dispatches].argmax()])
    block = _dim3(dispatches.workgroup[longest])
    if min(block) < 1:
        raise ProfileError(
            f"a dispatch of {kernel.name[:80]} has workgroups of {' x '.join(map(str, block))} work-items",
            where=str(trace.path),
            hint="the trace is damaged: collect it again",
        )
    return _Launch(longest, population.grid, block)


def _check_architecture(trace: Trace, kernel: RankedKernel, target: Target) -> None:
    names = {trace.agents[agent].name for agent in np.unique(trace.dispatches.agent[kernel.dispatches]).tolist()}
    # CSV without agent_info.csv does not describe the agents.
    others = sorted(name for name in names if name and name.partition(":")[0] != target.architecture)
    if others:
        raise ProfileError(
            f"the trace is of {', '.join(others)}, the target {target.name} is {target.architecture}",
            where=str(trace.path),
            hint="select the target of the run, for example target=mi250x",
        )


def _counter_passes(
    traces: Sequence[Trace], kernel: RankedKernel, timed: Trace | None = None, population: Population | None = None
) -> tuple[Mapping[str, float], ...]:
    """Return one mapping per pass with counters of the kernel, or of one population; means over the dispatches.

    Args:
        traces: Runs with counters.
        kernel: The kernel.
        timed: The run of `population`.
        population: Only dispatches with its launch shape and code count.
    """
    passes = []
    for trace in traces:
        if not trace.counters and not trace.replays:
            continue
        dispatches = np.flatnonzero(np.isin(trace.dispatches.kernel, _same_kernel(trace, kernel)))
        if population is not None and timed is not None:
            code = resources_of_code(timed.kernels[population.kernel])
            same = trace is timed
            dispatches = population.dispatches if same else dispatches_like(trace, dispatches, population, code)
        chosen = np.zeros(len(trace.dispatches), bool)
        chosen[dispatches] = True
        for of_pass in trace.passes:
            counters = {}
            for name, column in of_pass.items():
                values = column.value[chosen[column.dispatch]]
                if len(values):
                    counters[name] = float(values.mean())
            if counters:
                passes.append(counters)
    return tuple(passes)


def _strangers(traces: Sequence[Trace], kernel: RankedKernel) -> tuple[str, ...]:
    """Return a note if counters were collected, but none of this kernel."""
    if not any(trace.counters for trace in traces) or _counter_passes(traces, kernel):
        return ()
    others = list(dict.fromkeys(demangle(other.name)[:80] for trace in traces for other in trace.kernels))
    named = ", ".join(others[:_NAMED_STRANGERS]) or "none"
    more = f" and {len(others) - _NAMED_STRANGERS} more" if len(others) > _NAMED_STRANGERS else ""
    return (f"the counter passes have no counters of {kernel.name[:80]}; their kernels: {named}{more}",)


def _same_kernel(trace: Trace, kernel: RankedKernel) -> list[int]:
    """Return the positions of the kernel in another trace, by its demangled name if that has no mangled ones (CSV)."""
    by_symbol = [index for index, other in enumerate(trace.kernels) if other.mangled_name == kernel.mangled_name]
    return by_symbol or [index for index, other in enumerate(trace.kernels) if demangle(other.name) == kernel.name]


def _notes(trace: Trace, ranked: Sequence[RankedKernel], resources: KernelResources, dispatch: int) -> tuple[str, ...]:
    notes = []
    backwards = len(trace.dispatches) - sum(len(kernel.dispatches) for kernel in ranked)
    if backwards:
        notes.append(f"{backwards} dispatches end before they start and were ignored")
    timeless = int(np.count_nonzero(trace.dispatches.duration_ns == 0))
    if timeless and trace.dispatches.end_ns.any():
        notes.append(f"{timeless} dispatches have a duration of 0")
    if all(kernel.is_helper for kernel in ranked):
        notes.append("only runtime helper kernels were dispatched")
    if resources.source == "profiler" and resources.vgpr_per_thread == 0:
        notes.append("the trace does not state the kernel's register counts: the occupancy shown is an upper bound")
    elif resources.source == "profiler":
        notes.append("register counts are the profiler's allocations, which include granules and padding")
        if trace.kernels[int(trace.dispatches.kernel[dispatch])].arch_vgpr_count != resources.vgpr_per_thread:
            notes.append("rocprofv3 reports half of the allocated VGPRs on this architecture: the count is doubled")
    return tuple(notes)


def _dim3(sizes: Sequence[int]) -> Dim3:
    x, y, z = (int(size) for size in sizes)
    return x, y, z
