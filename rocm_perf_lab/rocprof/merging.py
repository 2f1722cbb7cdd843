"""Merging of the traces of one run: processes, agents and kernels are concatenated, rows sorted by start.

Equal ids of different processes stay separate, because every row refers to its process by position. The traces must belong to
one run: no process may occur twice, and emulated and measured times must not be mixed.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.rocprof.dialects import DatabaseError
from rocm_perf_lab.rocprof.trace import (
    CounterValues,
    Dispatches,
    MemoryCopies,
    Regions,
    Trace,
    TracedProcess,
    TraceProvenance,
    no_copies,
    no_dispatches,
    no_regions,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

_UNKNOWN = -1


def in_order(parts: Sequence[Mapping[str, NDArray[Any]]]) -> tuple[dict[str, NDArray[Any]], Integers]:
    """Return the rows of all parts sorted by start, end and original order, and the permutation."""
    columns = {name: np.concatenate([part[name] for part in parts]) if len(parts) > 1 else parts[0][name] for name in parts[0]}
    start, end = columns["start_ns"], columns["end_ns"]
    order = np.argsort(start, kind="stable")
    ordered = start[order]
    equal = ordered[1:] == ordered[:-1]
    if equal.any():  # few starts are equal: only those are sorted by end too
        in_group = np.append(equal, False) | np.append(False, equal)
        tied = order[in_group]
        order[in_group] = tied[np.lexsort((end[tied], start[tied]))]
    # One column at a time, so that only one is in memory twice.
    return {name: _taken(columns.pop(name), order) for name in tuple(columns)}, order


def _taken(column: NDArray[Any], order: Integers) -> NDArray[Any]:
    """Return the rows of a column in an order. A constant column, such as the agent of most runs, takes the memory of one row."""
    if len(column) and (column == column[0]).all():
        return np.broadcast_to(column[0].copy(), column.shape)
    return np.take(column, order, axis=0)


def merge(traces: Sequence[Trace]) -> Trace:
    """Return one trace of all; files with equal content count once.

    Raises:
        DatabaseError: The traces are not from one run.
    """
    notes: list[str] = []
    first_of: dict[str, Trace] = {}
    for trace in traces:
        first = first_of.setdefault(trace.sha256, trace)
        if first is not trace:
            notes.append("{} equals {} and was ignored".format(*_told_apart(trace.path, first.path)))
    kept = tuple(first_of.values())
    if len(kept) == 1:
        return replace(kept[0], notes=(*kept[0].notes, *notes))
    _check(kept)
    offsets = _Offsets(kept)
    dispatches, positions = _dispatches(kept, offsets)
    nothing: dict[str, CounterValues] = {}
    counters, *replays = (
        _counters(of_pass, positions) for of_pass in zip_longest(*(trace.passes for trace in kept), fillvalue=nothing)
    )
    directory = _common_directory([trace.path for trace in kept])
    return Trace(
        path=directory,
        sha256=hashlib.sha256("".join(sorted(trace.sha256 for trace in kept)).encode()).hexdigest(),
        schema_version=", ".join(sorted({trace.schema_version for trace in kept})),
        provenance=_provenance(kept),
        processes=tuple(process for trace in kept for process in trace.processes),
        agents=tuple(
            replace(agent, process=agent.process + offset)
            for trace, offset in zip(kept, offsets.process, strict=True)
            for agent in trace.agents
        ),
        kernels=tuple(
            replace(kernel, process=kernel.process + offset)
            for trace, offset in zip(kept, offsets.process, strict=True)
            for kernel in trace.kernels
        ),
        dispatches=dispatches,
        memory_copies=_copies(kept, offsets),
        counters=counters,
        regions=_regions(kept, offsets),
        queues=tuple(
            replace(lane, process=lane.process + offset)
            for trace, offset in zip(kept, offsets.process, strict=True)
            for lane in trace.queues
        ),
        streams=tuple(
            replace(lane, process=lane.process + offset)
            for trace, offset in zip(kept, offsets.process, strict=True)
            for lane in trace.streams
        ),
        notes=(*_notes(kept), *notes),
        paths=tuple(path for trace in kept for path in trace.paths),
        replays=tuple(replays),
    )


def _common_directory(paths: Sequence[Path]) -> Path:
    return Path(os.path.commonpath([path.resolve().parent for path in paths]))


def _told_apart(*paths: Path) -> list[str]:
    """Return file names, with the directories in which they differ if the names are equal (run_results.db)."""
    names = [path.name for path in paths]
    if len(set(names)) == len(names):
        return names
    directory = _common_directory(paths)
    return [str(path.resolve().relative_to(directory)) for path in paths]


def several_machines(processes: Sequence[TracedProcess]) -> tuple[str, ...]:
    """Return a note if processes ran on machines with unrelated clocks."""
    machines = {process.machine for process in processes} - {""}
    if len(machines) < 2:
        return ()
    return (f"the processes ran on {len(machines)} machines, whose clocks differ: their times cannot be compared",)


def _notes(traces: Sequence[Trace]) -> tuple[str, ...]:
    """Return the notes of all traces, with the name of the file unless several files have the same note."""
    of_all = several_machines([process for trace in traces for process in trace.processes])
    counts = Counter(note for trace in traces for note in set(trace.notes))
    own = [
        note if counts[note] > 1 else f"{trace.path.name}: {note}"
        for trace in traces
        for note in trace.notes
        if note not in of_all
    ]
    return (*dict.fromkeys(own), *of_all)


class _Offsets:
    """Offsets of the positions of each trace."""

    def __init__(self, traces: Sequence[Trace]) -> None:
        self.process = _sums([len(trace.processes) for trace in traces])
        self.agent = _sums([len(trace.agents) for trace in traces])
        self.kernel = _sums([len(trace.kernels) for trace in traces])


def _sums(counts: Sequence[int]) -> list[int]:
    return [sum(counts[:index]) for index in range(len(counts))]


def _check(traces: Sequence[Trace]) -> None:
    owner: dict[str, Trace] = {}
    for trace in traces:
        for process in trace.processes:
            other = owner.setdefault(process.guid, trace)
            if other is not trace:
                raise DatabaseError(
                    f"process {process.pid} ({process.guid}) is in {other.path.name} and again in {trace.path.name}",
                    where=str(trace.path),
                    hint="pass either the merged database or its parts, and each run separately",
                )
    emulated = {trace.provenance.emulated for trace in traces}
    if len(emulated) > 1:
        raise DatabaseError(
            "emulated and measured times cannot belong to one run",
            where=", ".join(trace.path.name for trace in traces),
            hint="read the databases of each run separately",
        )


def _dispatches(traces: Sequence[Trace], offsets: _Offsets) -> tuple[Dispatches, list[Integers]]:
    """Return the dispatches of all traces, and the new positions of those of each trace."""
    parts = []
    for index, trace in enumerate(traces):
        columns = trace.dispatches.columns()
        columns["process"] = columns["process"] + offsets.process[index]
        columns["agent"] = columns["agent"] + offsets.agent[index]
        columns["kernel"] = columns["kernel"] + offsets.kernel[index]
        if len(columns["correlation"]) != len(trace.dispatches):
            columns["correlation"] = np.full(len(trace.dispatches), _UNKNOWN, np.int64)
        parts.append(columns)
    counts = [len(trace.dispatches) for trace in traces]
    if sum(counts) == 0:
        return no_dispatches(), [np.empty(0, np.int64) for _ in traces]
    columns, order = in_order(parts)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    return Dispatches(**columns), np.split(position, np.cumsum(counts)[:-1])


def _copies(traces: Sequence[Trace], offsets: _Offsets) -> MemoryCopies:
    directions: dict[str, int] = {}
    parts = []
    for index, trace in enumerate(traces):
        columns = {name: column for name, column in vars(trace.memory_copies).items() if name != "directions"}
        columns["process"] = columns["process"] + offsets.process[index]
        for agent in ("source", "destination"):
            columns[agent] = np.where(columns[agent] < 0, _UNKNOWN, columns[agent] + offsets.agent[index])
        columns["direction"] = _renumbered(columns["direction"], trace.memory_copies.directions, directions)
        parts.append(columns)
    if sum(len(trace.memory_copies) for trace in traces) == 0:
        return no_copies()
    return MemoryCopies(**in_order(parts)[0], directions=tuple(directions))


def _regions(traces: Sequence[Trace], offsets: _Offsets) -> Regions:
    names: dict[str, int] = {}
    parts = []
    for index, trace in enumerate(traces):
        columns = {name: column for name, column in vars(trace.regions).items() if name != "names"}
        columns["process"] = columns["process"] + offsets.process[index]
        columns["name"] = _renumbered(columns["name"], trace.regions.names, names)
        parts.append(columns)
    if sum(len(trace.regions) for trace in traces) == 0:
        return no_regions()
    return Regions(**in_order(parts)[0], names=tuple(names))


def _renumbered(numbers: Integers, texts: Sequence[str], known: dict[str, int]) -> Integers:
    new = [known.setdefault(text, len(known)) for text in texts]
    return np.array(new or [0], np.int64)[numbers]


def _counters(of_traces: Sequence[Mapping[str, CounterValues]], positions: Sequence[Integers]) -> dict[str, CounterValues]:
    merged = {}
    for name in sorted({name for counters in of_traces for name in counters}):
        having = [(c[name], position) for c, position in zip(of_traces, positions, strict=True) if name in c]
        dispatch = np.concatenate([position[column.dispatch] for column, position in having])
        value = np.concatenate([column.value for column, _ in having])
        order = np.argsort(dispatch, kind="stable")
        merged[name] = CounterValues(dispatch[order], value[order])
    return merged


def _provenance(traces: Sequence[Trace]) -> TraceProvenance:
    devices = sorted({trace.provenance.device for trace in traces})
    versions: dict[str, str] = {}
    for trace in traces:
        versions.update(trace.provenance.versions)
    seeds = {trace.provenance.sample_seed for trace in traces}
    return TraceProvenance(
        ", ".join(devices),
        traces[0].provenance.emulated,
        versions,
        seeds.pop() if len(seeds) == 1 else None,
        all(trace.provenance.has_times for trace in traces),
    )
