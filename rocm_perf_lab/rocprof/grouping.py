"""Grouping of traces into runs: processes of one launch are merged with its counter passes, other launches are separate.

Processes of one launch live at the same time, or are parent and child. Passes run the same command and kernels one after another
with different counters; when the counters repeat, the next session begins. Everything else is a series of runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.csv_files import is_of_workload
from rocm_perf_lab.rocprof.merging import merge

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.trace import Trace

_RANK = re.compile(r"^(rank[_-]?)?\d+$", re.IGNORECASE)
"""Directory of one rank of an MPI job."""


_NO_LAUNCHER = frozenset({0, 1})
"""Process ids that say nothing about a common launch: unknown, and the first process of a machine or container."""


@dataclass(frozen=True)
class LoadedRun:
    """One launch of the application: the timed run of all its processes, and repetitions of it that collected counters."""

    trace: Trace
    counter_passes: tuple[Trace, ...] = ()

    @property
    def label(self) -> str:
        """Name of the file, or of the directory of several files."""
        path = self.trace.path
        return path.parent.name if is_of_workload(path) else path.name

    @property
    def traces(self) -> tuple[Trace, ...]:
        """All repetitions, the timed one first."""
        return (self.trace, *self.counter_passes)


def group_runs(traces: Sequence[Trace]) -> tuple[LoadedRun, ...]:
    """Return the runs of traces of single processes, in order of their first trace.

    Raises:
        DatabaseError: Traces contradict each other.
    """
    launches = [merge(group) for group in _launches(_distinct(traces))]
    by_command: dict[tuple[object, ...], list[Trace]] = {}
    for launch in launches:
        commands = tuple(sorted({process.command for process in launch.processes}))
        by_command.setdefault((commands, _machines(launch), launch.provenance.emulated), []).append(launch)
    runs = [run for same in by_command.values() for run in _sessions(same)]
    place = {id(launch): index for index, launch in enumerate(launches)}
    return tuple(_with_note(run) for run in sorted(runs, key=lambda run: min(place[id(trace)] for trace in run.traces)))


def merge_ranks(runs: Sequence[tuple[Path, LoadedRun]]) -> tuple[LoadedRun, ...]:
    """Merge runs in directories that are named like the ranks of an MPI job, if they have the same parent.

    Args:
        runs: Directory of each run, and the run.

    Raises:
        DatabaseError: Traces contradict each other.
    """
    groups: dict[Path, list[LoadedRun]] = {}
    for directory, run in runs:
        ranks = [one for one in (directory, directory.parent) if _RANK.match(one.name)]
        groups.setdefault(ranks[-1].parent if ranks else directory, []).append(run)
    return tuple(_merged(group) for group in groups.values())


def _merged(runs: Sequence[LoadedRun]) -> LoadedRun:
    if len(runs) == 1:
        return runs[0]
    passes: dict[tuple[str, ...], list[Trace]] = {}
    for run in runs:
        for trace in run.counter_passes:
            passes.setdefault(_counters(trace), []).append(trace)
    return LoadedRun(merge([run.trace for run in runs]), tuple(merge(group) for group in passes.values()))


def _distinct(traces: Sequence[Trace]) -> list[Trace]:
    """Merge files of equal content, which leaves a note."""
    same: dict[str, list[Trace]] = {}
    for trace in traces:
        same.setdefault(trace.sha256, []).append(trace)
    return [merge(group) for group in same.values()]


def _launches(traces: Sequence[Trace]) -> list[list[Trace]]:
    """Return the traces of each launch."""
    groups: list[list[Trace]] = []
    # Processes without dispatches have no times of their own: they join a launch that exists.
    for trace in sorted(traces, key=lambda trace: not len(trace.dispatches)):
        own = [group for group in groups if any(_is_one_launch(trace, other) for other in group)]
        if not own and not len(trace.dispatches) and len(groups) == 1 and _is_one_device(trace, groups[0][0]):
            own = groups[:1]
        merged = [one for group in own for one in group]
        groups = [group for group in groups if group not in own]
        groups.append([*merged, trace])
    place = {id(trace): index for index, trace in enumerate(traces)}
    ordered = [sorted(group, key=lambda trace: place[id(trace)]) for group in groups]
    return sorted(ordered, key=lambda group: place[id(group[0])])


def _is_one_launch(one: Trace, other: Trace) -> bool:
    machines = _machines(one), _machines(other)
    if not _is_one_device(one, other):
        return False
    if all(machines) and machines[0] != machines[1]:
        # Clocks of different machines cannot be compared: ranks of a job run the same command in one directory tree.
        same = _commands(one) == _commands(other) and _counters(one) == _counters(other)
        return same and _is_near(one.path, other.path)
    # Emulated runs of one process, such as the proposals of an optimization, have a common parent but are different runs.
    if set(one.paths) & set(other.paths) or (not one.provenance.emulated and _are_related(one, other)):
        return True
    first, second = sorted((_span(one), _span(other)))
    return second[0] < first[1]


def _is_one_device(one: Trace, other: Trace) -> bool:
    return one.provenance.emulated == other.provenance.emulated


def _is_near(one: Path, other: Path) -> bool:
    """Return True for files of rocprofv3's default layout, `<directory>/<host>/<pid>_results.db`."""
    return one.resolve().parents[1:2] == other.resolve().parents[1:2]


def _are_related(one: Trace, other: Trace) -> bool:
    """Return True if a process of one trace is the parent of one of the other, or a script ran both after each other."""
    parents = [{process.parent for process in trace.processes} - _NO_LAUNCHER for trace in (one, other)]
    pids = [{process.pid for process in trace.processes} for trace in (one, other)]
    if parents[0] & pids[1] or parents[1] & pids[0]:
        return True
    commands = _commands(one), _commands(other)
    return bool(parents[0] & parents[1]) and all(commands) and not commands[0] & commands[1]


def _span(trace: Trace) -> tuple[int, int]:
    """Return the begin of the first and the end of the last process, or of their dispatches if the lifetime is unknown."""
    begins = [process.begin_ns for process in trace.processes if process.begin_ns > 0]
    ends = [process.end_ns for process in trace.processes if process.end_ns > 0]
    if len(trace.dispatches):
        begins.append(int(trace.dispatches.start_ns.min()))
        ends.append(int(trace.dispatches.end_ns.max()))
    return (min(begins), max(ends)) if begins and ends else (0, 0)


def _machines(trace: Trace) -> frozenset[str]:
    return frozenset(process.machine for process in trace.processes) - {""}


def _commands(trace: Trace) -> frozenset[str]:
    return frozenset(process.command for process in trace.processes) - {""}


def _counters(trace: Trace) -> tuple[str, ...]:
    return tuple(sorted(trace.counters))


def _sessions(launches: Sequence[Trace]) -> list[LoadedRun]:
    """Return runs of one command: a session ends when counters repeat, or when other kernels run."""
    sessions: list[list[Trace]] = []
    for launch in sorted(launches, key=_span):
        current = sessions[-1] if sessions else None
        if current is not None and _is_next_pass(launch, current):
            current.append(launch)
        else:
            sessions.append([launch])
    return [_session(session) for session in sessions]


def _is_next_pass(launch: Trace, session: Sequence[Trace]) -> bool:
    new = _counters(launch) not in {_counters(one) for one in session}
    return new and all(_run_alike(launch, one) for one in session)


def _session(passes: Sequence[Trace]) -> LoadedRun:
    timed, *others = sorted(passes, key=lambda trace: len(trace.counters) > 0)
    return LoadedRun(timed, tuple(others))


def _run_alike(one: Trace, other: Trace) -> bool:
    """Return True if the kernels of one run are among those of the other: a pass may have counted only some kernels."""
    fewer, more = sorted(({trace.kernels[k].name for k in np.unique(trace.dispatches.kernel)} for trace in (one, other)), key=len)
    return bool(fewer) and fewer <= more


def _with_note(run: LoadedRun) -> LoadedRun:
    if not run.counter_passes:
        return run
    note = f"{len(run.traces)} runs with different counters are here: times are those of {run.label}"
    return replace(run, trace=replace(run.trace, notes=(*run.trace.notes, note)))
