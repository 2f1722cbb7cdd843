"""Runs the profiling passes of one launch on a device and reads what came back.

A deterministic device counts without disturbing its times: one pass gives both. A GPU gets a pass for times alone, then
as many as its counters need. Every pass has a folder of its own, so a result can never come from an older database.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.errors import LabError
from rocm_perf_lab.profiling.counter_passes import plan_passes
from rocm_perf_lab.rocprof.reader import read_database

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Device, DeviceRun, Finding, Launch
    from rocm_perf_lab.rocprof.trace import Trace

DATABASE_NAME = "run_results.db"


@dataclass(frozen=True)
class PassResults:
    """What the passes left: outputs and times of the first, counters of the others, and why some failed."""

    outputs: Mapping[str, NDArray[np.generic]]
    trace: Trace
    counter_traces: tuple[Trace, ...]
    failures: tuple[str, ...]
    findings: tuple[Finding, ...] = ()


def run_passes(device: Device, launch: Launch, *, folder: Path, runs: int, counters: Sequence[str]) -> PassResults:
    """Dispatch `launch` in every pass; a failing counter pass costs its counters only.

    Raises:
        LabError: The pass that gives the times failed.
    """
    if device.deterministic:
        run = _run(device, launch, folder / "trace", 1, counters)
        trace = read_database(run.database)
        return PassResults(run.outputs, trace, (), _uncollected(device, counters, (trace,)), run.findings)
    timed = _run(device, launch, folder / "trace", runs, ())
    trace = read_database(timed.database)
    traces: list[Trace] = []
    failures: list[str] = []
    for number, group in enumerate(plan_passes(launch.code_object.architecture, counters), start=1):
        try:
            run = _run(device, launch, folder / f"counters_{number}", 1, group)
            trace_of_group = read_database(run.database)
            traces.append(trace_of_group)
            failures.extend(_uncollected(device, group, (trace_of_group,)))
        except LabError as error:
            failures.append(f"counter pass {number} ({', '.join(group)}) failed: {error.what}")
    return PassResults(timed.outputs, trace, tuple(traces), tuple(failures))


def _uncollected(device: Device, counters: Sequence[str], traces: Sequence[Trace]) -> tuple[str, ...]:
    """Counters that were asked for and never came: unknown to the device, or lost."""
    collected = {name for trace in traces for name in trace.counters}
    missing = [name for name in counters if name not in collected]
    return (f"{device.identity.name} has no counter named {', '.join(missing)}",) if missing else ()


def _run(device: Device, launch: Launch, folder: Path, runs: int, counters: Sequence[str]) -> DeviceRun:
    folder.mkdir(parents=True, exist_ok=True)
    database = folder / DATABASE_NAME
    database.unlink(missing_ok=True)
    return device.run(launch, database=database, runs=runs, counters=counters)
