"""Estimates the duration of a launch on the target: `estimate(...) -> TimingEstimate`.

The traces of sampled workgroups are replayed on a model of one compute unit (`runtime/timing.c`). If workgroups are alike, the
launch lasts as long as the compute unit with the most of them; otherwise their times are scheduled on all compute units. See
`docs/timing-model.md`.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from math import ceil, log
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.emulator.errors import EmulationError
from rocm_perf_lab.emulator.timing.instruction_table import block_table, instruction_table
from rocm_perf_lab.emulator.timing.memory_counters import hardware_counters
from rocm_perf_lab.emulator.timing.shared_cache_structures import RequestKind
from rocm_perf_lab.emulator.timing.stable_traces import stabilise
from rocm_perf_lab.emulator.timing.structures import CuCounters, CuParameters, CuRun, LineSources, TimedWave
from rocm_perf_lab.emulator.timing.thread_trace import ThreadTraceRecorder
from rocm_perf_lab.target.timing_errors import NO_EMULATED_TIME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.build import Runtime
    from rocm_perf_lab.emulator.program import Program
    from rocm_perf_lab.emulator.timing.shared_caches import SharedMemoryProfile
    from rocm_perf_lab.emulator.timing.strata import WorkgroupSample
    from rocm_perf_lab.emulator.timing.thread_trace import TracedWave
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.target.timing import TimingParameters

_LINE_BYTES = 128
_SMALL_LINE_BYTES = 64
"""Lines of the scalar and instruction caches."""
_ROUNDS_IN_DETAIL = 4
"""Rounds of resident workgroups; later ones are extrapolated at the rate of the second half."""
_UNEVEN = 1.05
"""Longest time of a workgroup relative to the mean, above which workgroups are scheduled one by one."""
_SAME_TRAFFIC, _LEAST_FACTOR = 0.05, 1e-3
"""Logarithm of the traffic beyond L2 relative to that of the model of the shared caches, within which both agree; its least."""
_DIRTY_SHARE = 0.6
"""Part of L2 that can hold dirty lines at the end of a launch: fills of 134 MB write about 20 MB back afterwards."""
_TRACED_INSTRUCTIONS = 500_000
"""Approximate size of a thread trace, which holds at least one workgroup."""
_TAG_SHIFT, _LINE_SHIFT, _VMEM_TAG, _DETAIL_TAG = np.uint64(56), np.uint64(7), np.uint64(2), np.uint64(5)
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
    """Number of workgroups that fit on one compute unit."""
    sample: WorkgroupSample | None = None
    """Assignment of the workgroups of the launch to `traces`; None reuses the traces in turn. `sample.chosen[k]` is the linear
    id of the workgroup of `traces[k]`, `sample.representatives[i]` the index in `traces` of the trace that stands for workgroup
    i (a traced workgroup has its own), and `sample.scale[i]` its wavefront instructions relative to that trace (1.0 if equal).
    Workgroup i runs on XCD i % xcds; some traces are of neighbours i and i + xcds, assigned to neighbours as well."""
    workgroup_counts: NDArray[np.void] | None = None
    """(workgroups) of :data:`~rocm_perf_lab.emulator.timing.strata.WORKGROUP_COUNTS`: exact counts of every workgroup."""
    memory: SharedMemoryProfile | None = None
    """Levels that serve the requests beyond the vector L1; with None the compute unit has equal shares of L2 and MALL."""
    counters: Mapping[str, int] | None = None
    """Counters of the functional run, from which counters of the timing model are derived."""

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
    is_thread_trace_partial: bool = False
    """Whether later wavefronts of the compute unit are missing in the thread trace."""


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
            f"{NO_EMULATED_TIME}: target {target.name} has no timing parameters",
            where="target.timing",
            hint="Use target=mi300x, or add a section `timing` to the YAML of the target.",
        )
    replay = _Replay(runtime, launch, target, timing)
    per_unit = ceil(launch.workgroups / target.compute_units)
    simulated = min(per_unit, _ROUNDS_IN_DETAIL * replay.resident)
    unit = replay.settled(_spread(launch, simulated))
    waves: tuple[TracedWave, ...] = ()
    traced = per_unit
    if thread_trace:
        per_workgroup = max(1, int(unit.hits.sum()) // simulated)
        traced = max(1, min(simulated, _TRACED_INSTRUCTIONS // per_workgroup))
        with ThreadTraceRecorder(runtime, traced, launch.waves_per_workgroup) as recorder:
            replay.run(unit.order, recorder=recorder)
            waves = recorder.waves()
    scale = launch.workgroups / simulated
    cycles = max(
        replay.launch_cycles(unit, per_unit),
        contention_cycles(launch.program, replay.words, launch.representatives, launch.scale),
    )
    return TimingEstimate(
        duration_ns=round(
            cycles / replay.clock_ghz + timing.launch_overhead_ns + timing.dispatch_record_ns + replay.write_back_ns(unit, scale)
        ),
        cycles=cycles,
        counters=hardware_counters(
            unit.counters,
            scale=scale,
            cycles=cycles,
            active_units=replay.active_units,
            target=target,
            executed=launch.counters,
            memory=launch.memory,
        ),
        hits=unit.hits,
        latency_cycles=unit.latency_cycles,
        stall_cycles=unit.stall_cycles,
        idle_cycles=unit.idle_cycles,
        thread_trace=waves,
        is_thread_trace_partial=traced < per_unit,
    )


def _spread(launch: TracedLaunch, count: int) -> NDArray[np.uint32]:
    """Return the traces of `count` workgroups at equal distances in the order of their work, in launch order: (count).

    Positions at equal distances in launch order would all be idle in a launch whose even workgroups are.
    """
    places = (2 * np.arange(count) + 1) * launch.workgroups // (2 * count)
    if launch.workgroup_counts is not None and launch.sample is not None and launch.sample.strata.any():
        places = np.sort(np.argsort(launch.workgroup_counts["instructions"], kind="stable")[places])
    return launch.representatives[places].astype(np.uint32)


@dataclass(frozen=True)
class _UnitResult:
    order: NDArray[np.uint32]
    begin_cycles: NDArray[np.float64]
    finish_cycles: NDArray[np.float64]
    hits: NDArray[np.uint64]
    latency_cycles: NDArray[np.float64]
    stall_cycles: NDArray[np.float64]
    idle_cycles: NDArray[np.float64]
    counters: CuCounters


class _Replay:
    """Traces of one launch on the model of one compute unit."""

    def __init__(self, runtime: Runtime, launch: TracedLaunch, target: Target, timing: TimingParameters) -> None:
        self._runtime, self._launch, self._target, self._timing = runtime, launch, target, timing
        self.active_units = min(target.compute_units, launch.workgroups)
        self.resident = max(launch.resident_workgroups, 1)
        self.clock_ghz = target.max_clock_mhz / 1000
        self.words = stabilise(launch.traces, launch.buffers)
        self._flat = [np.ascontiguousarray(wave) for group in self.words for wave in group]
        self._waves = (TimedWave * len(self._flat))(*(TimedWave(wave.ctypes.data, len(wave)) for wave in self._flat))
        self._instructions = instruction_table(launch.program, timing)
        self._blocks = block_table(launch.program)
        self._parameters = _parameters(target, timing, self.active_units, launch.waves_per_workgroup, launch.memory)
        self._sources = None if launch.memory is None else _line_sources(launch.memory, launch.representatives, len(self.words))

    def run(
        self, order: NDArray[np.uint32], resident: int | None = None, recorder: ThreadTraceRecorder | None = None
    ) -> _UnitResult:
        """Replay the traces `order`, (n_workgroups), on one compute unit that holds `resident` at once."""
        count = len(self._instructions)
        result = _UnitResult(
            order, np.zeros(len(order)), np.zeros(len(order)), np.zeros(count, np.uint64), *_zeros(count), CuCounters()
        )
        run = CuRun(
            instructions=ctypes.addressof(self._instructions),
            blocks=ctypes.addressof(self._blocks),
            waves=ctypes.addressof(self._waves),
            sources=None if self._sources is None else ctypes.addressof(self._sources),
            order=order.ctypes.data,
            traces=len(self.words),
            waves_per_workgroup=self._launch.waves_per_workgroup,
            workgroups=len(order),
            resident=resident or self.resident,
            cu=ctypes.addressof(self._parameters),
            begin_cycles=result.begin_cycles.ctypes.data,
            finish_cycles=result.finish_cycles.ctypes.data,
            hits=result.hits.ctypes.data,
            latency_cycles=result.latency_cycles.ctypes.data,
            stall_cycles=result.stall_cycles.ctypes.data,
            idle_cycles=result.idle_cycles.ctypes.data,
            counters=ctypes.addressof(result.counters),
            thread_trace=recorder.address if recorder else None,
        )
        if self._runtime.library.rpl_time_compute_unit(ctypes.byref(run)) or (recorder and not recorder.is_complete):
            raise TimingUnavailable("too little memory for the timing engine", hint="Lower device.traced_workgroups.")
        return result

    def settled(self, order: NDArray[np.uint32]) -> _UnitResult:
        """Replay traces with the traffic beyond L2 that the model of the shared caches found.

        The replay reads other lines again than that model does, because its wavefronts evict each other's lines from the vector
        L1: the first replay counts the lines that come from memory, which corrects their part for the second.
        """
        unit, memory = self.run(order), self._launch.memory
        if memory is None or not unit.counters.dram_reads:
            return unit
        loads = memory.shares(RequestKind.LOAD)
        expected = loads.requests * (1 - loads.l1) * (loads.mall + loads.hbm) * len(order) / self._launch.workgroups
        factor = expected / unit.counters.dram_reads
        if abs(log(max(factor, _LEAST_FACTOR))) < _SAME_TRAFFIC:
            return unit
        self._sources = _line_sources(memory, self._launch.representatives, len(self.words), factor)
        return self.run(order)

    def launch_cycles(self, unit: _UnitResult, per_unit: int) -> float:
        """Return the clocks of the launch from the start of its first workgroup.

        Args:
            unit: Replay of `len(unit.order)` of the workgroups of a compute unit.
            per_unit: Most workgroups that one compute unit runs.
        """
        even = _extrapolated(unit.finish_cycles, len(unit.order), per_unit)
        sample = self._launch.sample
        if sample is None or not sample.strata.any():
            return even
        together = min(self.resident, per_unit)
        means = self._means(unit, together)
        durations = means[self._launch.representatives] * self._launch.scale
        if durations.max() <= _UNEVEN * durations.mean():
            return even
        # The replay ran some of the workgroups evenly; schedules determine how much longer all of them take than average ones.
        mean, units = float(durations.mean()), self._target.compute_units
        longer = self._scheduled(durations, units * together) - self._scheduled(np.full(len(durations), mean), units * together)
        of_replayed = self._scheduled(means[unit.order], together)
        return even * self._scheduled(np.full(len(unit.order), mean), together) / of_replayed + longer

    def _means(self, unit: _UnitResult, together: int) -> NDArray[np.float64]:
        """Return the mean clocks of the workgroups that run each trace, (traces), `together` on a compute unit."""
        traces = len(self.words)
        survey = unit
        if len(np.unique(unit.order)) < traces:
            survey = self.run(np.arange(max(traces, together), dtype=np.uint32) % traces, together)
        lasted = survey.finish_cycles - survey.begin_cycles
        times = np.bincount(survey.order, weights=lasted, minlength=traces)
        means: NDArray[np.float64] = times / np.maximum(np.bincount(survey.order, minlength=traces), 1)
        return means

    def _scheduled(self, durations: NDArray[np.float64], places: int) -> float:
        """Return the time at which workgroups end that start in order as soon as one of some places is free."""
        end = ctypes.c_double()
        tasks = np.ascontiguousarray(durations)
        slots = ctypes.c_uint64(places)
        count = ctypes.c_uint64(len(tasks))
        if self._runtime.library.rpl_makespan(ctypes.c_void_p(tasks.ctypes.data), count, slots, ctypes.byref(end)):
            raise TimingUnavailable("too little memory to schedule the workgroups", hint="Free memory of the host.")
        return end.value

    def write_back_ns(self, unit: _UnitResult, scale: float) -> float:
        """Return the time in which L2 writes its dirty lines back at the end of the launch."""
        held = _DIRTY_SHARE * self._target.caches.l2_bytes_per_xcd * self._target.xcds
        memory = self._launch.memory
        written = unit.counters.l2_writes * _SMALL_LINE_BYTES * scale if memory is None else memory.traffic.dirty_bytes_at_end
        return min(written, held) / self._timing.write_back_gb_per_s


def _line_sources(
    memory: SharedMemoryProfile, representatives: NDArray[np.int64], traces: int, beyond_l2: float = 1.0
) -> ctypes.Array[LineSources]:
    """Return the levels that serve the requests of the workgroups that each trace represents.

    `beyond_l2` scales the parts of loads that L2 does not serve.
    """
    replaced = _replaced_share(memory)
    to_mall = 1 - min(1.0, memory.traffic.dram_write_bytes / max(1.0, memory.traffic.mall_write_bytes))
    sources = (LineSources * traces)()
    for trace in range(traces):
        workgroups = np.flatnonzero(representatives == trace)
        loads, atomics = memory.shares(RequestKind.LOAD, workgroups), memory.shares(RequestKind.ATOMIC, workgroups)
        beyond = min(beyond_l2, 1 / max(1 - loads.l2, _LEAST_FACTOR))
        sources[trace] = LineSources(
            load_l2=1 - beyond * (1 - loads.l2),
            load_pending=beyond * loads.pending,
            load_mall=beyond * loads.mall,
            store_l2=1 - replaced,
            store_mall=replaced * to_mall,
            atomic_l2=atomics.l2 + atomics.pending,
            atomic_mall=atomics.mall,
        )
    return sources


def _replaced_share(memory: SharedMemoryProfile) -> float:
    """Return the bytes that L2 writes to memory during the launch per byte that it receives."""
    received = float(memory.channels["writes"].sum()) * _SMALL_LINE_BYTES
    written = memory.traffic.mall_write_bytes - memory.traffic.dirty_bytes_at_end
    return min(1.0, max(0.0, written / received)) if received else 0.0


def _zeros(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    return np.zeros(count), np.zeros(count), np.zeros(count)


def _parameters(
    target: Target,
    timing: TimingParameters,
    active_units: int,
    waves_per_workgroup: int,
    memory: SharedMemoryProfile | None,
) -> CuParameters:
    caches, clock_ghz = target.caches, target.max_clock_mhz / 1000
    units_per_xcd = max(1, ceil(active_units / target.xcds))
    units_per_engine = max(1, ceil(active_units / target.shader_engines))

    channel_load = 1.0 if memory is None else memory.l2_imbalance
    memory_load = 1.0 if memory is None else memory.memory_imbalance

    def share(gb_per_s: float, busiest: float = 1.0) -> float:
        return min(timing.l2_bytes_per_clock_per_cu, gb_per_s / clock_ghz / active_units / busiest)

    same = {
        name: getattr(timing, name)
        for name in (
            "barrier_cycles", "branch_taken_cycles", "branch_straddling_cycles", "scalar_cached_latency", "scalar_latency",
            "scalar_cold_latency", "lds_latency", "l2_latency", "mall_latency", "dram_latency", "store_latency",
            "atomic_latency", "outstanding_lines", "vector_queue", "lds_queue_cycles", "lds_issue_cycles",
            "valu_to_memory_cycles", "valu_to_scalar_cycles", "scalar_to_branch_cycles", "matrix_to_wait_cycles",
            "fetch_block_cycles", "first_fetch_cycles", "wave_start_cycles", "instruction_miss_cycles", "tlb_entries",
            "tlb_miss_cycles", "tlb_cold_cycles", "l2_burst_cycles", "store_cycles", "lds_write_latency", "lds_write_factor",
        )
    }  # fmt: skip
    return CuParameters(
        **same,
        simds=target.simds_per_cu,
        l1_latency=timing.vector_l1_latency,
        l1_lines=caches.vector_l1_bytes // _LINE_BYTES,
        l1_ways=caches.vector_l1_ways,
        l2_lines=caches.l2_bytes_per_xcd // _LINE_BYTES // units_per_xcd,
        mall_lines=caches.mall_bytes // _LINE_BYTES // active_units,
        scalar_lines=caches.scalar_l1_bytes // _SMALL_LINE_BYTES,
        instruction_lines=caches.instruction_l1_bytes // _SMALL_LINE_BYTES,
        launch_cycles=(timing.wave_launch_cycles * waves_per_workgroup + timing.workgroup_launch_cycles) * units_per_engine,
        replace_cycles=timing.workgroup_replace_cycles,
        tlb_page_shift=timing.tlb_page_bytes.bit_length() - 1,
        l2_port_bytes=timing.l2_bytes_per_clock_per_cu,
        l2_bytes=share(timing.achievable_l2_gb_per_s, channel_load),
        mall_bytes=share(timing.achievable_mall_gb_per_s, memory_load),
        mall_write_bytes=share(timing.achievable_mall_write_gb_per_s, memory_load),
        dram_bytes=share(timing.achievable_dram_gb_per_s, memory_load),
        dram_write_bytes=share(timing.achievable_dram_write_gb_per_s, memory_load),
    )


def _extrapolated(finish_cycles: NDArray[np.float64], simulated: int, workgroups: int) -> float:
    """Return the end of the last workgroup, extrapolated beyond those simulated at the mean rate of their second half."""
    ends = np.sort(finish_cycles)
    if workgroups == simulated:
        return float(ends[-1])
    half = simulated // 2
    pace = (ends[-1] - ends[half - 1]) / (simulated - half)
    return float(ends[-1] + pace * (workgroups - simulated))


def contention_cycles(
    program: Program,
    traces: Sequence[Sequence[NDArray[np.uint64]]],
    representatives: NDArray[np.int64],
    scale: NDArray[np.float64],
) -> float:
    """Return the clocks that the busiest line of 128 bytes needs for its atomics.

    Compute units are replayed one at a time and do not see the requests of others. Read-modify-writes of one line are serial
    across the GPU, so a launch lasts at least as long as all those to the busiest line.

    Args:
        program: Program whose instructions the records name.
        traces: Stable traces, [trace][wave] -> (n_words); bit 0 of a line is set if workgroups share it.
        representatives: (workgroups) -> trace.
        scale: (workgroups) -> work relative to that of the trace.
    """
    is_atomic = np.array(["ATOMIC" in i.mnemonic and i.encoding != "DS" for i in program.instructions], dtype=bool)
    if not is_atomic.any():
        return 0.0
    weights = np.bincount(representatives, weights=scale, minlength=len(traces))
    lines, cycles = [np.zeros(0, np.uint64)], [np.zeros(0)]
    for weight, group in zip(weights, traces, strict=True):
        touched, serial = _serial_cycles(np.concatenate([np.zeros(0, np.uint64), *group]), is_atomic)
        lines.append(touched)
        cycles.append(serial * np.where(touched & _SHARED, weight, 1.0))
    _, line_of = np.unique(np.concatenate(lines) >> _LINE_SHIFT, return_inverse=True)
    return float(np.bincount(line_of, weights=np.concatenate(cycles)).max()) if len(line_of) else 0.0


def _serial_cycles(words: NDArray[np.uint64], is_atomic: NDArray[np.bool_]) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """Return the lines of all atomics of a trace and the clocks that each occupies its line, both (n_accesses)."""
    tags = words >> _TAG_SHIFT
    record = np.maximum.accumulate(np.where((tags != 0) & (tags != _DETAIL_TAG), np.arange(len(words)), 0))
    named = np.minimum(words[record] & _INSTRUCTION, np.uint64(len(is_atomic) - 1)).astype(np.int64)
    place = np.flatnonzero((tags == 0) & (tags[record] == _VMEM_TAG) & is_atomic[named])
    heads = record[place]
    lines_of_record = (words[heads] >> np.uint64(32) & np.uint64(0xFFFFFF)) - np.uint64(1)
    serial = words[heads + 1] >> np.uint64(16) & np.uint64(0xFFFF)
    return words[place], serial / np.maximum(lines_of_record, 1)
