"""Busy, exposed and hidden time of a run, against counting every nanosecond, and in a recording of a GPU."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.analysis.application import ApplicationOverview, application_overview
from rocm_perf_lab.analysis.critical_path import critical_path
from rocm_perf_lab.analysis.timeline import timeline
from rocm_perf_lab.profiling.selection import rank_kernels
from rocm_perf_lab.rocprof.trace import (
    Dispatches,
    MemoryCopies,
    Trace,
    TracedAgent,
    TracedKernel,
    TracedProcess,
    TraceProvenance,
)
from tests.builders.recordings import read_run

RECORDING = Path(__file__).parents[1] / "data/recorded/rocprofv3_json/908_results.json.gz"
NAMES = ("gemm", "relu", "ncclDevKernel_Generic_1")
COMMUNICATION = 2
Row = tuple[int, int, int, int]
"""Start, length, GPU, kernel; of a copy without kernel."""


def traced(dispatches: list[Row], copies: list[Row]) -> Trace:
    dispatches, copies = sorted(dispatches), sorted(copies)
    start, length, agent, kernel = (np.array([row[i] for row in dispatches], np.int64) for i in range(4))
    zeros, ones = np.zeros(len(dispatches), np.int64), np.ones((len(dispatches), 3), np.int64)
    copied, took, gpu = (np.array([row[i] for row in copies], np.int64) for i in range(3))
    none, unknown = np.zeros(len(copies), np.int64), np.full(len(copies), -1)
    return Trace(
        path=Path("x.db"),
        sha256="",
        schema_version="3",
        provenance=TraceProvenance("rocm", emulated=False, versions={}),
        processes=(TracedProcess("a", 1, "./app"),),
        agents=tuple(TracedAgent(0, number, "GPU", "gfx942", "", MappingProxyType({})) for number in range(2)),
        kernels=tuple(TracedKernel(0, name, name, 8, 0, 16, 0, 0) for name in NAMES),
        # One queue per dispatch: they are unordered, so overlaps stay.
        dispatches=Dispatches(
            zeros, agent, kernel, np.arange(len(dispatches)), zeros, start, start + length, zeros, zeros, ones, ones
        ),
        memory_copies=MemoryCopies(
            none, none, 8 + none, copied, copied + took, unknown, gpu, unknown, unknown, unknown, directions=("H2D",)
        ),
        counters={},
    )


def overview(trace: Trace) -> ApplicationOverview:
    path = critical_path(trace.dispatches, trace.memory_copies)
    return application_overview(trace, rank_kernels(trace), path, timeline(path.graph), {})


def active(rows: list[Row], gpu: int, time: int) -> list[Row]:
    return [row for row in rows if row[2] == gpu and row[0] <= time < row[0] + row[1]]


def test_communication_is_hidden_by_compute_and_not_by_copies() -> None:
    # NCCL 0 to 100 ns, a GEMM 60 to 150 ns, a copy 10 to 30 ns and, on its own, 200 to 220 ns.
    found = overview(traced([(0, 100, 0, COMMUNICATION), (60, 90, 0, 0)], [(10, 20, 0, 0), (200, 20, 0, 0)]))

    assert found.communication is not None
    assert (found.communication.total_ns, found.communication.exposed_ns) == (100, 60)
    assert found.copies is not None
    assert (found.copies.count, found.copies.total_ns, found.copies.exposed_ns, found.copies.size_bytes) == (2, 40, 20, 16)
    (gpu,) = found.gpus
    assert (gpu.busy_ns, found.wall_ns, found.longest_gap_ns) == (170, 220, 50)
    assert {kernel.name: kernel.exposed_ns for kernel in found.kernels} == {NAMES[COMMUNICATION]: 60, "gemm": 50}


ROWS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(0, 1), st.integers(0, 2)), max_size=8)


@settings(max_examples=150, deadline=None)
@given(dispatches=ROWS.filter(bool), copies=ROWS)
def test_the_overview_equals_counting_every_nanosecond(dispatches: list[Row], copies: list[Row]) -> None:
    found = overview(traced(dispatches, copies))

    busy: dict[int, int] = {0: 0, 1: 0}
    alone = dict.fromkeys(range(3), 0)
    running = dict.fromkeys(range(3), 0)
    communication, exposed_copies = 0, 0
    for time in range(60):
        for gpu in (0, 1):
            kernels = {row[3] for row in active(dispatches, gpu, time)}
            copying = bool(active(copies, gpu, time))
            busy[gpu] += bool(kernels) or copying
            for kernel in kernels:
                running[kernel] += 1
                alone[kernel] += kernels == {kernel}
            communication += kernels == {COMMUNICATION}
            exposed_copies += copying and not kernels
    if found.wall_ns is None:
        assert sum(running.values()) == 0
        return
    with_work = {gpu for _, _, gpu, _ in (*dispatches, *copies)}
    assert sorted(gpu.busy_ns for gpu in found.gpus) == sorted(busy[gpu] for gpu in with_work)
    for use in found.kernels:
        number = NAMES.index(use.name)
        assert (use.exposed_ns, use.active_ns) == (alone[number], running[number])
    assert (found.communication.exposed_ns if found.communication else 0) == communication
    assert (found.copies.exposed_ns if found.copies else 0) == exposed_copies


def test_dispatches_without_durations_have_no_times_in_any_line() -> None:
    found = overview(traced([(100, 0, 0, 0), (500, 0, 0, 1)], []))

    assert found.wall_ns is None
    assert found.critical_path_ns is None
    assert found.longest_gap_ns is None


def test_the_communication_of_a_training_job_is_that_of_its_raw_rows() -> None:
    trace = read_run([RECORDING])
    table = trace.dispatches
    is_communication = np.array(["nccl" in kernel.name for kernel in trace.kernels])[table.kernel]
    # The communication runs on one queue without overlap: its exposed time is the rest outside of compute intervals.
    compute = sorted(zip(table.start_ns[~is_communication].tolist(), table.end_ns[~is_communication].tolist(), strict=True))
    merged: list[list[int]] = []
    for start, end in compute:
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    starts, ends = (np.array([interval[side] for interval in merged]) for side in (0, 1))
    covered = 0
    for start, end in zip(table.start_ns[is_communication].tolist(), table.end_ns[is_communication].tolist(), strict=True):
        inside = slice(np.searchsorted(ends, start), np.searchsorted(starts, end))
        covered += int((np.minimum(ends[inside], end) - np.maximum(starts[inside], start)).sum())
    total = int(table.duration_ns[is_communication].sum())

    found = overview(trace).communication

    assert found is not None
    assert (found.count, found.total_ns, found.active_ns) == (int(is_communication.sum()), total, total)
    assert found.exposed_ns == total - covered
