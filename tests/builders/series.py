"""Databases of many runs of one application, with changes at known runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.schema import make_guid
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rocpd import REDUCE, VEC_COPY, dispatch, recorded_run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.rocprof.recording import KernelSymbolRecord

SPREAD = (0, 60, -40, 20, -60, 40, 10, -20)
"""Deviations of eight dispatches in ns."""
LEVELS = (0, 30, -20, 10, -30, 25, 5, -10, 15, -5, 20, -15)
"""Deviations of runs in ns."""
RUN_NS = 10**12


@dataclass(frozen=True)
class SimulatedRun:
    """Times in ns of the copy and of the reduction in one run; `groups` are the workgroups of the copy."""

    copy_ns: int = 10_000
    reduce_ns: int = 5_000
    copy: KernelSymbolRecord = VEC_COPY
    groups: int = 4096
    counters: Mapping[str, float] | None = None


def write_run(path: Path, number: int, run: SimulatedRun, process: int = 0) -> Path:
    """Write the database of one run, which begins `number` times 1,000 s after the first one."""
    rows, clock = [], (number + 1) * RUN_NS
    for deviation in SPREAD:
        for kernel, time, groups in ((run.copy, run.copy_ns, run.groups), (REDUCE, run.reduce_ns, 4096)):
            end = clock + time + deviation + LEVELS[number % len(LEVELS)]
            one = dispatch(clock, end, kernel=kernel, counters=run.counters if kernel is run.copy else None)
            rows.append(replace(one, grid=(groups * 256, 1, 1)))
            clock += 100_000
    path.parent.mkdir(parents=True, exist_ok=True)
    guid = make_guid(1_700_000_000_000 + number, f"series {process}")
    record = recorded_run(load_target("mi300x"), rows, emulated=False, kernels=(run.copy, REDUCE), guid=guid)
    write_database(path, record)
    return path
