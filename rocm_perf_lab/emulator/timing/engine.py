"""Estimates the duration of a launch on the target: `estimate(...) -> TimingEstimate`.

The traces of sampled workgroups are replayed on a model of one compute unit (`runtime/timing.c`); the launch lasts as long
as the compute unit with the most workgroups. See `docs/timing-model.md`.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.emulator.errors import EmulationError
from rocm_perf_lab.emulator.timing.instruction_table import block_table, instruction_table
from rocm_perf_lab.emulator.timing.memory_counters import hardware_counters
from rocm_perf_lab.emulator.timing.stable_traces import stabilise
from rocm_perf_lab.emulator.timing.structures import CuCounters, CuParameters, CuRun, TimedWave
from rocm_perf_lab.emulator.timing.thread_trace import ThreadTraceRecorder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.build import Runtime
    from rocm_perf_lab.emulator.program import Program
    from rocm_perf_lab.emulator.timing.strata import WorkgroupSample
    from rocm_perf_lab.emulator.timing.thread_trace import TracedWave
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.target.timing import TimingParameters

_LINE_BYTES = 128
_WRITE_BYTES = 64
_ROUNDS_IN_DETAIL = 4
"""Rounds of resident workgroups; later ones are extrapolated at the rate of the second half."""
_TRACED_INSTRUCTIONS = 500_000
"""Approximate size of a thread trace, which holds at least one workgroup."""
_TAG_SHIFT, _VMEM_TAG = np.uint64(56), np.uint64(2)
_INSTRUCTION = np.uint64(0xFFFFFFFF)
_SHARED = np.uint64(1)


class TimingUnavailable(EmulationError):
    """The target has no timing parameters, or too little memory to replay a trace."""


@dataclass(frozen=True)
class TracedLaunch:
    """Results of a functional run for the timing engine.

    traces: [sampled workgroup][wave] -> (n_words). buffers: (address, bytes) in a reproducible order.
    """

    program: Program
    traces: Sequence[Sequence[NDArray[np.uint64]]]
    buffers: Sequence[tuple[int, int]]
    workgroups: int
    waves_per_workgroup: int
    resident_workgroups: int
    """Number that fits on one compute unit at once."""
    sample: WorkgroupSample | None = None
    """Assignment of the workgroups of the launch to `traces`; None reuses the traces in turn. `sample.chosen[k]` is the linear
    id of the workgroup of `traces[k]`, `sample.representatives[i]` the index in `traces` of the trace that stands for workgroup
    i (a traced workgroup has its own), and `sample.scale[i]` its wavefront instructions relative to that trace (1.0 if equal).
    Workgroup i runs on XCD i % xcds; some traces are of neighbours i and i + xcds, assigned to neighbours as well."""
    workgroup_counts: NDArray[np.void] | None = None
    """(workgroups) of :data:`~rocm_perf_lab.emulator.timing.strata.WORKGROUP_COUNTS`: exact counts of every workgroup."""

    @property
    def representatives(self) -> NDArray[np.int64]:
        """Index into `traces` for every workgroup, (workgroups)."""
        if self.sample is not None:
            return self.sample.representatives
        return np.arange(self.workgroups, dtype=np.int64) % len(self.traces)

    @property
    def scale(self) -> NDArray[np.float64]:
        """Wavefront instructions of every workgroup relative to its representative, (workgroups)."""
        return np.ones(self.workgroups) if self.sample is None else self.sample.scale


@dataclass(frozen=True)
class TimingEstimate:
    """Estimated time; `counters` are scaled from one compute unit to the launch, the arrays (n_instructions) are of that unit."""

    duration_ns: int
    cycles: float
    counters: Mapping[str, float]
    hits: NDArray[np.uint64]
    latency_cycles: NDArray[np.float64]
    """Includes `stall_cycles`; `idle_cycles` precede it."""
    stall_cycles: NDArray[np.float64]
    idle_cycles: NDArray[np.float64]
    thread_trace: tuple[TracedWave, ...] = ()


def estimate(runtime: Runtime, launch: TracedLaunch, target: Target, *, thread_trace: bool = False) -> TimingEstimate:
    """Estimate the time of one launch; equal launches have equal estimates.

    Args:
        runtime: C runtime.
        launch: Results of the functional run.
        target: Target GPU.
        thread_trace: Also record single wavefronts, in a second replay that does not change the estimate.

    Raises:
        TimingUnavailable: The target has no timing parameters, or too little memory is left.
    """
    timing = target.timing
    if timing is None:
        raise TimingUnavailable(
            f"target {target.name} has no timing parameters",
            where="target.timing",
            hint="Use target=mi300x, or add a section `timing` to the YAML of the target.",
        )
    active_units = min(target.compute_units, launch.workgroups)
    per_unit = ceil(launch.workgroups / target.compute_units)
    simulated = min(per_unit, _ROUNDS_IN_DETAIL * max(launch.resident_workgroups, 1))
    words = stabilise(launch.traces, launch.buffers)
    unit = _simulate(runtime, launch, words, target, timing, simulated, active_units)
    waves: tuple[TracedWave, ...] = ()
    if thread_trace:
        per_workgroup = max(1, int(unit.hits.sum()) // simulated)
        traced = max(1, min(simulated, _TRACED_INSTRUCTIONS // per_workgroup))
        with ThreadTraceRecorder(runtime, traced, launch.waves_per_workgroup) as recorder:
            _simulate(runtime, launch, words, target, timing, simulated, active_units, recorder)
            waves = recorder.waves()
    clock_ghz = target.max_clock_mhz / 1000
    scale = launch.workgroups / simulated
    cycles = max(
        _extrapolated(unit.finish_cycles, simulated, per_unit),
        contention_cycles(launch.program, words, workgroups=launch.workgroups, cycles_per_request=timing.atomic_cycles),
        _drain_cycles(unit.counters.dram_writes * scale, timing, clock_ghz),
    )
    return TimingEstimate(
        duration_ns=round(cycles / clock_ghz) + timing.launch_overhead_ns,
        cycles=cycles,
        counters=hardware_counters(unit.counters, scale=scale, cycles=cycles, active_units=active_units, target=target),
        hits=unit.hits,
        latency_cycles=unit.latency_cycles,
        stall_cycles=unit.stall_cycles,
        idle_cycles=unit.idle_cycles,
        thread_trace=waves,
    )


@dataclass(frozen=True)
class _UnitResult:
    finish_cycles: NDArray[np.float64]
    hits: NDArray[np.uint64]
    latency_cycles: NDArray[np.float64]
    stall_cycles: NDArray[np.float64]
    idle_cycles: NDArray[np.float64]
    counters: CuCounters


def _simulate(
    runtime: Runtime,
    launch: TracedLaunch,
    words: Sequence[Sequence[NDArray[np.uint64]]],
    target: Target,
    timing: TimingParameters,
    workgroups: int,
    active_units: int,
    recorder: ThreadTraceRecorder | None = None,
) -> _UnitResult:
    flat = [np.ascontiguousarray(wave) for group in words for wave in group]
    waves = (TimedWave * len(flat))(*(TimedWave(wave.ctypes.data, len(wave)) for wave in flat))
    instructions, blocks = instruction_table(launch.program, timing), block_table(launch.program)
    parameters = _parameters(target, timing, active_units)
    count = len(instructions)
    result = _UnitResult(np.zeros(workgroups), np.zeros(count, np.uint64), *_zeros(count), CuCounters())
    run = CuRun(
        instructions=ctypes.addressof(instructions),
        blocks=ctypes.addressof(blocks),
        waves=ctypes.addressof(waves),
        sampled_workgroups=len(words),
        waves_per_workgroup=launch.waves_per_workgroup,
        workgroups=workgroups,
        resident=max(launch.resident_workgroups, 1),
        cu=ctypes.addressof(parameters),
        finish_cycles=result.finish_cycles.ctypes.data,
        hits=result.hits.ctypes.data,
        latency_cycles=result.latency_cycles.ctypes.data,
        stall_cycles=result.stall_cycles.ctypes.data,
        idle_cycles=result.idle_cycles.ctypes.data,
        counters=ctypes.addressof(result.counters),
        thread_trace=recorder.address if recorder else None,
    )
    if runtime.library.rpl_time_compute_unit(ctypes.byref(run)) or (recorder and not recorder.is_complete):
        raise TimingUnavailable("too little memory for the timing engine", hint="Lower device.traced_workgroups.")
    return result


def _zeros(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    return np.zeros(count), np.zeros(count), np.zeros(count)


def _parameters(target: Target, timing: TimingParameters, active_units: int) -> CuParameters:
    caches, clock_ghz = target.caches, target.max_clock_mhz / 1000
    units_per_xcd = max(1, ceil(active_units / target.xcds))

    def share(gb_per_s: float) -> float:
        return min(timing.l2_bytes_per_clock_per_cu, gb_per_s / clock_ghz / active_units)

    return CuParameters(
        simds=target.simds_per_cu,
        barrier_cycles=timing.barrier_cycles,
        scalar_load_latency=timing.scalar_load_latency,
        lds_latency=timing.lds_latency,
        l1_latency=timing.vector_l1_latency,
        l2_latency=timing.l2_latency,
        mall_latency=timing.mall_latency,
        dram_latency=timing.dram_latency,
        l1_lines=caches.vector_l1_bytes // _LINE_BYTES,
        l2_lines=caches.l2_bytes_per_xcd // _LINE_BYTES // units_per_xcd,
        mall_lines=caches.mall_bytes // _LINE_BYTES // active_units,
        workgroup_launch_cycles=timing.workgroup_launch_cycles,
        l1_bytes=timing.vector_l1_bytes_per_clock,
        l2_bytes=share(timing.achievable_l2_gb_per_s),
        mall_bytes=share(timing.achievable_mall_gb_per_s),
        dram_bytes=share(timing.achievable_dram_gb_per_s),
    )


def _drain_cycles(writes: float, timing: TimingParameters, clock_ghz: float) -> float:
    """Return the clocks that memory needs for all stores, for which the dispatch waits but no wavefront does."""
    return writes * _WRITE_BYTES / (timing.achievable_dram_gb_per_s / clock_ghz)


def _extrapolated(finish_cycles: NDArray[np.float64], simulated: int, workgroups: int) -> float:
    """Return the end of the last workgroup, extrapolated beyond those simulated at the mean rate of their second half."""
    ends = np.sort(finish_cycles)
    if workgroups == simulated:
        return float(ends[-1])
    half = simulated // 2
    pace = (ends[-1] - ends[half - 1]) / (simulated - half)
    return float(ends[-1] + pace * (workgroups - simulated))


def contention_cycles(
    program: Program, traces: Sequence[Sequence[NDArray[np.uint64]]], *, workgroups: int, cycles_per_request: int
) -> float:
    """Return the clocks that the busiest segment of 64 bytes needs for its atomics.

    Compute units are replayed one at a time and do not see the requests of others. Read-modify-writes of one segment are serial
    across the GPU, so a launch takes at least as long as all those to the busiest segment.

    Args:
        program: Program whose instructions the records name.
        traces: Stable traces, [sampled workgroup][wave] -> (n_words); bit 0 of an address is set if workgroups share its line.
        workgroups: Workgroups of the launch; a shared segment receives the average number of requests from each.
        cycles_per_request: Clocks per instruction of a wavefront and segment.
    """
    is_atomic = np.array(["ATOMIC" in i.mnemonic and i.encoding != "DS" for i in program.instructions], dtype=bool)
    words = np.concatenate([np.zeros(0, np.uint64), *(wave for group in traces for wave in group)])
    if cycles_per_request == 0 or not is_atomic.any() or not len(words):
        return 0.0
    tags = words >> _TAG_SHIFT
    record = np.maximum.accumulate(np.where(tags != 0, np.arange(len(words)), 0))
    named = np.minimum(words[record] & _INSTRUCTION, np.uint64(len(is_atomic) - 1)).astype(np.int64)
    of_atomics = (tags == 0) & (tags[record] == _VMEM_TAG) & is_atomic[named]
    segments, requests = np.unique(words[of_atomics], return_counts=True)
    if not len(segments):
        return 0.0
    scale = np.where(segments & _SHARED, workgroups / len(traces), 1.0)
    return float((requests * scale).max()) * cycles_per_request
