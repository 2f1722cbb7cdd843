"""Profiling passes of one launch on a device.

A deterministic device counts without disturbing its times: one pass yields both. A GPU gets a timing pass, then as many passes
as its counters need. Every pass has its own directory, so a result never comes from an older database.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.profiling.counter_passes import counters_for, plan_passes
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.target.timing_errors import NO_EMULATED_TIME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from rocm_perf_lab.core.printed import PrintedPiece
    from rocm_perf_lab.device.instruction_counts import ExecutionCount
    from rocm_perf_lab.device.protocol import Device, DeviceRun, Finding, Launch
    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.rocprof.trace import Trace

DATABASE_NAME = "run_results.db"
NO_THREAD_TRACE = "no thread trace was taken (passes=deep enables it)"


@dataclass(frozen=True)
class PassResults:
    """Outputs and times of the timing pass, counters of the others, and the reasons for failures."""

    outputs: Mapping[str, NDArray[np.generic]]
    trace: Trace
    counter_traces: tuple[Trace, ...]
    failures: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    att: AttTrace | None = None
    att_reason: str | None = NO_THREAD_TRACE
    """Reason for a missing thread trace."""
    instruction_counts: tuple[ExecutionCount, ...] = ()
    printed: tuple[PrintedPiece, ...] = ()


def run_passes(
    device: Device, launch: Launch, *, directory: Path, runs: int, counters: Sequence[str], att: Path | None = None
) -> PassResults:
    """Dispatch `launch` in every pass. A failing counter or thread trace pass only loses its own results.

    Args:
        device: Device to run on.
        launch: Launch to run.
        directory: Parent of the pass directories.
        runs: Dispatches of the timing pass.
        counters: Counters to collect.
        att: Directory for a thread trace; None disables it.

    Raises:
        LabError: The timing pass failed.
    """
    if att is not None:
        shutil.rmtree(att, ignore_errors=True)
    if device.deterministic:
        wanted = counters_for(launch.code_object.architecture, counters)
        # The emulator counts some instructions for which the hardware has no counter.
        run = _run(device, launch, directory / "trace", 1, tuple(dict.fromkeys((*wanted, *counters))), att)
        trace = read_database(run.database)
        notes = (*_uncollected(device, wanted, (trace,)), *run.notes)
        thread_trace, reason = _read_att(att, launch.symbol) if device.identity.has_times else (None, NO_EMULATED_TIME)
        return PassResults(run.outputs, trace, (), notes, run.findings, thread_trace, reason, run.instruction_counts, run.printed)
    timed = _run(device, launch, directory / "trace", runs, ())
    trace = read_database(timed.database)
    traces: list[Trace] = []
    failures: list[str] = []
    for number, group in enumerate(plan_passes(launch.code_object.architecture, counters), start=1):
        try:
            run = _run(device, launch, directory / f"counters_{number}", 1, group)
            trace_of_group = read_database(run.database)
            traces.append(trace_of_group)
            failures.extend(_uncollected(device, group, (trace_of_group,)))
        except LabError as error:
            failures.append(f"counter pass {number} ({', '.join(group)}) failed: {error.what}")
    thread_trace, att_reason = _trace_threads(device, launch, directory / "att", att)
    if att is not None and att_reason is not None:
        failures.append(f"the thread trace failed: {att_reason}")
    return PassResults(
        timed.outputs, trace, tuple(traces), tuple(failures), timed.findings, att=thread_trace, att_reason=att_reason
    )


def _trace_threads(device: Device, launch: Launch, directory: Path, att: Path | None) -> tuple[AttTrace | None, str | None]:
    """Run a separate pass: tracing disturbs times and counters."""
    try:
        if att is not None:
            _run(device, launch, directory, 1, (), att)
    except LabError as error:
        return None, error.what
    return _read_att(att, launch.symbol)


def _read_att(att: Path | None, symbol: str) -> tuple[AttTrace | None, str | None]:
    """Return the first trace with wavefronts of the kernel, or the reason if there is none."""
    if att is None:
        return None, NO_THREAD_TRACE
    from rocm_perf_lab.rocprof.att.content import AttError
    from rocm_perf_lab.rocprof.att.directories import read_kernel_trace

    try:
        return read_kernel_trace(att, symbol), None
    except AttError as error:
        return None, error.what


def _uncollected(device: Device, counters: Sequence[str], traces: Sequence[Trace]) -> tuple[str, ...]:
    """Return a note on requested counters that were not collected: unknown to the device, or lost."""
    collected = {name for trace in traces for counters in trace.passes for name in counters}
    missing = [name for name in counters if name not in collected]
    return (f"{device.identity.name} has no counter named {', '.join(missing)}",) if missing else ()


def _run(
    device: Device, launch: Launch, directory: Path, runs: int, counters: Sequence[str], att: Path | None = None
) -> DeviceRun:
    directory.mkdir(parents=True, exist_ok=True)
    database = directory / DATABASE_NAME
    database.unlink(missing_ok=True)
    return device.run(launch, database=database, runs=runs, counters=counters, att=att)
