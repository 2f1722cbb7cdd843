"""Workload directories of rocprof-compute (omniperf): one run of the application per table, which are fused to one run.

The tables of a directory repeat the same dispatches: `timestamps.csv` with their times, `pmc_perf_<n>.csv`, `SQ_*.csv` and
`results_*.csv` with the counters of one pass, and `pmc_perf.csv` with a join of them.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.csv_columns import CsvError
from rocm_perf_lab.rocprof.csv_files import is_joined
from rocm_perf_lab.rocprof.csv_reader import read_csv_processes
from rocm_perf_lab.rocprof.csv_times import is_about_precision
from rocm_perf_lab.rocprof.merging import merge
from rocm_perf_lab.rocprof.trace import CounterValues, Dispatches, is_about_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.trace import Trace

_LARGEST_TABLE = 20_000_000
"""Most dispatches times counters for which dispatches are compared by their counters."""


def read_workload(tables: Sequence[Path]) -> tuple[Trace, tuple[Trace, ...]]:
    """Return the dispatches of a workload with their times, and its other passes, each with counters of the same dispatches.

    A damaged table, which a killed profiler leaves, only loses its own pass.

    Raises:
        CsvError: No table can be read.
    """
    traces: list[Trace] = []
    refused: list[CsvError] = []
    for file in sorted(tables, key=lambda path: (is_joined(path), path.name)):
        try:
            traces += _passes_in_table(merge(read_csv_processes([file])), file)
        except CsvError as error:
            refused.append(error)
    if not traces:
        raise refused[0]
    traces = _without_repeated(traces)
    timing = _timing(traces)
    others = tuple(trace for trace in traces if trace is not timing and trace.counters)
    ignored = (f"{Path(error.where or '').name} was ignored: {error.what}" for error in refused)
    return replace(timing, notes=(*_notes(timing, others), *ignored)), others


def _timing(traces: Sequence[Trace]) -> Trace:
    """Return the pass with the most trustworthy times: without counters, else the first with times, else the first."""
    timed = [trace for trace in traces if trace.dispatches.end_ns.any()]
    undisturbed = [trace for trace in timed if not trace.counters]
    return (undisturbed or timed or [trace for trace in traces if len(trace.dispatches)] or list(traces))[0]


def _without_repeated(traces: Sequence[Trace]) -> list[Trace]:
    """Leave out a joined table if the tables of the passes contain all of its counters."""
    known = {name for trace in traces if not is_joined(trace.path) for name in trace.counters}
    return [trace for trace in traces if not is_joined(trace.path) or not set(trace.counters) <= known or not known]


def _notes(timing: Trace, others: Sequence[Trace]) -> tuple[str, ...]:
    notes = [*timing.notes]
    if others:
        times = f": times are those of {timing.path.name}" if timing.dispatches.end_ns.any() else ""
        notes.append(f"the tables are of {len(others) + 1} runs of the application{times}")
    if different := [trace for trace in others if len(trace.dispatches) != len(timing.dispatches)]:
        counts = sorted({len(trace.dispatches) for trace in different})
        notes.append(
            f"{len(different)} of the passes have {', '.join(map(str, counts))} dispatches instead of {len(timing.dispatches)}"
        )
    more = [note for trace in others for note in trace.notes if not is_about_times(note) and not is_about_precision(note)]
    return tuple(dict.fromkeys((*notes, *more)))


def _passes_in_table(trace: Trace, file: Path) -> list[Trace]:
    """Separate passes in one table whose dispatches have other numbers in every pass.

    The dispatches of each pass have the same counters, run the same kernels in the same order, and do not overlap in time with
    those of another pass.
    """
    trace = replace(trace, path=file)
    count = len(trace.dispatches)
    if trace.replays or not 0 < count * len(trace.counters) <= _LARGEST_TABLE:
        return [trace]
    collected = np.zeros((count, len(trace.counters)), bool)
    for index, column in enumerate(trace.counters.values()):
        collected[column.dispatch, index] = True
    _, first, group = np.unique(collected, axis=0, return_index=True, return_inverse=True)
    groups = [np.flatnonzero(group.ravel() == number) for number in np.argsort(first, kind="stable")]
    if len(groups) < 2 or not _repeat_each_other(trace, groups):
        return [trace]
    return [_part(trace, rows) for rows in groups]


def _repeat_each_other(trace: Trace, groups: Sequence[NDArray[np.int64]]) -> bool:
    dispatches = trace.dispatches
    kernels = [dispatches.kernel[rows] for rows in groups]
    if any(len(one) != len(kernels[0]) or np.any(one != kernels[0]) for one in kernels):
        return False
    spans = sorted((int(dispatches.start_ns[rows].min()), int(dispatches.end_ns[rows].max())) for rows in groups)
    return all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def _part(trace: Trace, rows: NDArray[np.int64]) -> Trace:
    """Return a trace of some of the dispatches."""
    position = np.full(len(trace.dispatches), -1, np.int64)
    position[rows] = np.arange(len(rows))
    counters = {}
    for name, column in trace.counters.items():
        own = position[column.dispatch] >= 0
        if own.any():
            counters[name] = CounterValues(position[column.dispatch[own]], column.value[own])
    columns = {name: column[rows] for name, column in trace.dispatches.columns().items() if len(column)}
    return replace(trace, dispatches=Dispatches(**columns), counters=counters)
