"""Runs a translated kernel over all workgroups: `execute(runtime, dispatch, registry) -> Execution`.

Threads run contiguous ranges of workgroups (ctypes releases the GIL). Each thread has its own machine state and counters,
which are summed at the end; the number of threads does not change any counter.
"""

from __future__ import annotations

import ctypes
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.emulator.branch_coverage import merged_words
from rocm_perf_lab.emulator.footprint import FootprintRecorder
from rocm_perf_lab.emulator.probes import PROBE_WORDS
from rocm_perf_lab.emulator.structures import (
    LANES,
    AllocationEntry,
    ChecksRecord,
    FaultKind,
    FaultRecord,
    LaunchRecord,
    MachineState,
    MemoryCounters,
    RunNumber,
    WaveTrace,
)
from rocm_perf_lab.emulator.timing.strata import WORKGROUP_COUNTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rocm_perf_lab.core.geometry import Geometry
    from rocm_perf_lab.emulator.build import Runtime
    from rocm_perf_lab.emulator.footprint import LineFootprint
    from rocm_perf_lab.emulator.host_services import LaunchServices
    from rocm_perf_lab.emulator.initial_state import InitialState
    from rocm_perf_lab.emulator.tiers import TieredCode

LDS_POISON = 0xFFC0DEAD
"""A NaN as float, so that uninitialised LDS shows in the result."""
_SLICE_INSTRUCTIONS = 100_000
_SHARING_SLICE_INSTRUCTIONS = 1000
"""Slice if workgroups may fetch work from a queue, so that all of them receive some."""
_RESIDENT_BYTES = 256 << 20
_WAVE_BYTES = 140_000
_CHECKED_LDS_FACTOR = 17  # a cell of 60 bytes and a mask per dword of LDS


@dataclass(frozen=True)
class Dispatch:
    """Parameters of one launch; `vgpr_rows` and `agpr_rows` are the registers that the kernel may read."""

    code: TieredCode
    geometry: Geometry
    state: InitialState
    lds_bytes: int
    scratch_bytes: int
    vgpr_rows: int
    agpr_rows: int
    block_count: int
    probe_count: int
    max_instructions: int
    threads: int
    deadline: float | None = None
    """Value of the monotonic clock at which the instruction budget is withdrawn; None never withdraws it."""
    cooperative: bool = False
    """Whether workgroups may wait for each other, so that all of them are resident at the same time."""
    shares_work: bool = False
    """Workgroups may fetch work from a queue: those that fit run at the same pace."""
    traced_workgroups: tuple[int, ...] = ()
    """Linear ids, ascending."""
    chosen_workgroups: tuple[int, ...] | None = None
    """Linear ids of the workgroups to run; None runs all of them."""
    xcds: int = 1
    """Number of XCDs, to which workgroups are distributed round-robin."""
    load_address: int = 0
    """Device address of address 0 of the code object."""
    has_half_lines: bool = False
    """Lines of the vector L1 have 64 bytes instead of 128."""
    records_lines: bool = False
    """Record a sample of the accessed lines, for the model of the shared caches."""
    run: RunNumber = RunNumber.ONLY
    """Whether device memory is copied for a second run, or this is that run."""
    checks: ChecksRecord | None = None
    lds_content: int = LDS_POISON
    """First dword of LDS before a workgroup starts."""
    lds_step: int = 0
    """Difference of each dword of LDS from the previous one before a workgroup starts."""
    services: LaunchServices | None = None
    """Host services of the kernel; such a launch runs on one thread."""

    @property
    def workgroups(self) -> int:
        """Number of workgroups in the grid."""
        return prod(self.geometry.grid)

    @property
    def waves_per_workgroup(self) -> int:
        """Wavefronts of a whole workgroup with at least one work-item."""
        return -(-prod(self.geometry.block) // self.state.wave_size)


@dataclass(frozen=True)
class Execution:
    """Result of a run; `fault` is that of the first faulting workgroup, or None.

    `block_executions` and `block_active_lanes` are (n_blocks). `traces` holds, for every traced workgroup, the words of each
    of its wavefronts, empty for wavefronts that a partial workgroup lacks. `workgroup_counts` is (n_workgroups) of
    :data:`~rocm_perf_lab.emulator.timing.strata.WORKGROUP_COUNTS` in linear order, zero for workgroups that did not run; empty if
    chosen workgroups ran without traces.
    """

    block_executions: NDArray[np.uint64]
    block_active_lanes: NDArray[np.uint64]
    counters: dict[str, int]
    traces: list[list[NDArray[np.uint64]]]
    workgroup_counts: NDArray[np.void]
    fault: FaultRecord | None
    probe_words: NDArray[np.uint64]
    """Outcomes and operands of the probes, (n_probes, PROBE_WORDS)."""
    footprint: LineFootprint | None = None
    """Sampled lines that all workgroups accessed; None unless `records_lines`."""


def execute(runtime: Runtime, dispatch: Dispatch, registry: ctypes.Array[AllocationEntry]) -> Execution:
    """Run the chosen workgroups, by default all of them, once.

    Args:
        runtime: C runtime.
        dispatch: Parameters of the launch.
        registry: Allocations sorted by address, which must not change during the run.
    """
    chosen = np.array(() if dispatch.chosen_workgroups is None else dispatch.chosen_workgroups, dtype=np.uint64)
    count = dispatch.workgroups if dispatch.chosen_workgroups is None else len(chosen)
    threads = max(1, min(dispatch.threads, count))
    counted = dispatch.chosen_workgroups is None or bool(dispatch.traced_workgroups)
    counts = np.zeros(dispatch.workgroups if counted else 0, dtype=WORKGROUP_COUNTS)
    block_words = np.zeros((threads, dispatch.block_count + PROBE_WORDS * dispatch.probe_count), dtype=np.uint64)
    executions = block_words[:, : dispatch.block_count]  # the words of the probes follow those of the blocks
    active_lanes = np.zeros((threads, dispatch.block_count), dtype=np.uint64)
    traces = (WaveTrace * max(1, len(dispatch.traced_workgroups) * dispatch.waves_per_workgroup))()
    sampled = (ctypes.c_uint64 * max(1, len(dispatch.traced_workgroups)))(*dispatch.traced_workgroups)
    budget = ctypes.c_int64(dispatch.max_instructions)
    states = [_machine_state(registry, dispatch, concurrent=threads > 1) for _ in range(threads)]
    if dispatch.services is not None:
        dispatch.services.begin(registry, states[0], dispatch.checks)

    def run_range(thread: int) -> None:
        launch = _launch_record(dispatch)
        launch.block_executions = executions[thread].ctypes.data
        launch.block_active_lanes = active_lanes[thread].ctypes.data
        launch.sampled, launch.sampled_count = ctypes.addressof(sampled), len(dispatch.traced_workgroups)
        launch.traces, launch.budget = ctypes.addressof(traces), ctypes.addressof(budget)
        launch.counts = counts.ctypes.data if counted else None
        launch.chosen = None if dispatch.chosen_workgroups is None else chosen.ctypes.data
        first, last = (count * t // threads for t in (thread, thread + 1))
        with dispatch.code.running(launch, executions[thread]):
            runtime.library.rpl_run(
                ctypes.byref(launch), ctypes.byref(states[thread]), ctypes.c_uint64(first), ctypes.c_uint64(last)
            )

    with FootprintRecorder(
        runtime, threads, dispatch.workgroups, registry, xcds=dispatch.xcds, enabled=dispatch.records_lines
    ) as recorder:
        for thread, state in enumerate(states):
            state.footprint = recorder.address(thread)
        with _withdrawn_at(dispatch.deadline, budget):
            if threads == 1:
                run_range(0)
            else:
                with ThreadPoolExecutor(threads) as pool:
                    list(pool.map(run_range, range(threads)))
        footprint = recorder.result()
    words = _take_traces(runtime, traces, dispatch)
    fault = next((state.fault for state in states if state.fault.kind != FaultKind.NONE), None)
    return Execution(
        executions.sum(axis=0, dtype=np.uint64),
        active_lanes.sum(axis=0, dtype=np.uint64),
        _sum_counters([state.counters for state in states]),
        words,
        counts,
        fault,
        merged_words(block_words[:, dispatch.block_count :].reshape(threads, dispatch.probe_count, PROBE_WORDS)),
        footprint,
    )


@contextmanager
def _withdrawn_at(deadline: float | None, budget: ctypes.c_int64) -> Iterator[None]:
    """Withdraw the budget of a launch that still runs at the deadline: every thread ends at its next check."""
    if deadline is None:
        yield
        return
    timer = threading.Timer(max(0.0, deadline - time.monotonic()), lambda: setattr(budget, "value", -1))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _machine_state(registry: ctypes.Array[AllocationEntry], dispatch: Dispatch, *, concurrent: bool) -> MachineState:
    return MachineState(
        allocations=ctypes.addressof(registry),
        allocation_count=len(registry),
        concurrent=int(concurrent),
        run=dispatch.run,
        has_half_lines=int(dispatch.has_half_lines),
    )


def _launch_record(dispatch: Dispatch) -> LaunchRecord:
    state, geometry = dispatch.state, dispatch.geometry
    lds_bytes = dispatch.lds_bytes * (_CHECKED_LDS_FACTOR if dispatch.checks is not None else 1)
    group_bytes = dispatch.waves_per_workgroup * (_WAVE_BYTES + dispatch.scratch_bytes * LANES) + lds_bytes
    resident = dispatch.workgroups if dispatch.cooperative else max(1, _RESIDENT_BYTES // group_bytes)
    together = dispatch.shares_work and dispatch.services is None and dispatch.workgroups <= resident
    record = LaunchRecord(
        grid=geometry.grid,
        block=geometry.block,
        remainder=geometry.remainder,
        user_sgpr_count=len(state.user_sgprs),
        system_sgprs=state.system_sgprs,
        work_item_id_dims=state.work_item_id_dims,
        work_item_id_rows=state.work_item_id_rows,
        wave_size=state.wave_size,
        mode=state.mode,
        lds_bytes=dispatch.lds_bytes,
        lds_poison=dispatch.lds_content,
        lds_step=dispatch.lds_step,
        scratch_bytes=dispatch.scratch_bytes,
        vgpr_rows=dispatch.vgpr_rows,
        agpr_rows=dispatch.agpr_rows,
        slice_instructions=_SHARING_SLICE_INSTRUCTIONS if together else _SLICE_INSTRUCTIONS,
        resident_workgroups=resident,
        starts_together=together,
        checks=None if dispatch.checks is None else ctypes.addressof(dispatch.checks),
        host=None if dispatch.services is None else ctypes.addressof(dispatch.services.record),
        load_address=dispatch.load_address,
    )
    record.user_sgprs[: len(state.user_sgprs)] = state.user_sgprs
    return record


def _take_traces(runtime: Runtime, traces: ctypes.Array[WaveTrace], dispatch: Dispatch) -> list[list[NDArray[np.uint64]]]:
    waves = dispatch.waves_per_workgroup
    words = [[_words(traces[group * waves + wave]) for wave in range(waves)] for group in range(len(dispatch.traced_workgroups))]
    runtime.library.rpl_traces_free(ctypes.byref(traces), ctypes.c_uint64(len(traces)))
    return words


def _words(trace: WaveTrace) -> NDArray[np.uint64]:
    if not trace.count:
        return np.zeros(0, dtype=np.uint64)
    return np.ctypeslib.as_array(trace.words, shape=(trace.count,)).copy()


def _sum_counters(counters: list[MemoryCounters]) -> dict[str, int]:
    per_thread = [entry.as_dict() for entry in counters]
    totals = {name: sum(entry[name] for entry in per_thread) for name in per_thread[0]}
    return totals | {"full_waves": totals["waves"] - totals["partial_waves"]}
