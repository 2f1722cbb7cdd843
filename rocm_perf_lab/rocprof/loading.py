"""Reading of discovered recordings: runs with their counter passes and related files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.rocprof.csv_files import csv_content, is_of_workload, prefix_of
from rocm_perf_lab.rocprof.csv_reader import read_csv_processes
from rocm_perf_lab.rocprof.dialects import DatabaseError
from rocm_perf_lab.rocprof.discovery import DiscoveryError, Recording, Unused, discover
from rocm_perf_lab.rocprof.finding import begins_as_sqlite
from rocm_perf_lab.rocprof.grouping import LoadedRun as LoadedRun
from rocm_perf_lab.rocprof.grouping import group_runs, merge_ranks
from rocm_perf_lab.rocprof.merging import merge
from rocm_perf_lab.rocprof.native_counters import with_native_counters
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.workloads import read_workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.trace import Trace

_SYSINFO = "sysinfo.csv"
_RESULTS = ("_results.db", "_results.json", "_results.json.gz")


@dataclass(frozen=True)
class LoadedRecording:
    """Content of a recording. Thread traces and PC samples are directories and files, which are read for one kernel."""

    files: Recording
    runs: tuple[LoadedRun, ...]
    """Different launches of an application, or of several; empty if there are only thread traces or PC samples."""
    thread_traces: tuple[Path, ...]
    pc_samples: tuple[Path, ...]
    roofline: Path | None
    code_objects: tuple[Path, ...]
    sources: tuple[Path, ...]
    notes: tuple[str, ...]
    """Assumptions and omissions, without duplicates."""


def load_recording(paths: Sequence[Path]) -> LoadedRecording:
    """Return the content of the given files and directories.

    Raises:
        LabError: Nothing can be analysed, or a file is damaged.
    """
    try:
        files = discover(paths)
    except DiscoveryError:
        if len(paths) == 1 and paths[0].is_file():
            _refuse(paths[0])
        raise
    return load(files)


def load(files: Recording) -> LoadedRecording:
    """Return the content of the discovered files. Damaged files become notes if others can be read.

    Raises:
        LabError: All files are damaged.
    """
    reader = _Reader(files)
    runs = reader.runs()
    if reader.refused and not runs and not files.thread_traces and not files.pc_samples:
        raise next(iter(reader.refused.values()))
    damaged = tuple(Unused(path, error.what) for path, error in reader.refused.items())
    files = replace(
        files, unused=(*files.unused, *damaged), found=tuple(one for one in files.found if one[1] not in reader.refused)
    )
    unused = [f"{one.path.name} is not used: {one.reason}" for one in files.unused]
    return LoadedRecording(
        files=files,
        runs=runs,
        thread_traces=files.thread_traces,
        pc_samples=files.pc_samples,
        roofline=next(iter(files.rooflines), None),
        code_objects=files.code_objects,
        sources=files.sources,
        notes=tuple(dict.fromkeys((*reader.notes, *unused))),
    )


def read_counter_passes(path: Path) -> tuple[Trace, ...]:
    """Return each pass at or below a path that collected counters as a separate trace: passes are different runs.

    Traces with the same counters are processes, or repetitions, of one pass.

    Raises:
        LabError: No readable output, or no counters.
    """
    passes: dict[tuple[str, ...], list[Trace]] = {}
    for run in load_recording([path]).runs:
        for trace in run.traces:
            if trace.counters:
                passes.setdefault(tuple(sorted(trace.counters)), []).append(trace)
    if not passes:
        raise DatabaseError(
            "no counters were collected", where=str(path), hint="collect some with: rocprofv3 --pmc SQ_WAVES -f rocpd -- APP"
        )
    return tuple(merge(group) for group in passes.values())


def _refuse(path: Path) -> None:
    """Raise the error of the reader of a file, which describes more than its kind."""
    from rocm_perf_lab.rocprof.json_files import is_json
    from rocm_perf_lab.rocprof.json_reader import read_results

    if path.name.endswith((".csv", ".csv.gz")):
        read_csv_processes([path])
    elif is_json(path):
        read_results(path)
    elif begins_as_sqlite(path) or path.suffix == ".db":
        read_database(path)


class _Reader:
    """Reads the most complete form of each run: databases before JSON before CSV, and dispatches before empty files."""

    def __init__(self, files: Recording) -> None:
        self._files = files
        self.notes: list[str] = []
        self.refused: dict[Path, LabError] = {}
        """Damaged files and the reasons."""

    def runs(self) -> tuple[LoadedRun, ...]:
        """Return all runs of readable files."""
        traces = [trace for path in self._files.databases for trace in self._tried(_of_database, path)]
        read = [trace for trace in traces if len(trace.dispatches)]
        from_json = self._json([path for path in self._files.json_results if not _is_another_form(path, read)])
        read += [trace for trace in from_json if len(trace.dispatches)]
        tables = [path for path in self._files.tables if not _is_another_form(path, read)]
        from_csv, workloads = self._tables(tables)
        kept = self._without_other_forms([*traces, *from_json, *from_csv])
        runs = (*(group_runs(kept) if kept else ()), *merge_ranks(workloads))
        place = {path: index for index, (_, path) in enumerate(self._files.found)}
        in_order = sorted(runs, key=lambda run: min(place.get(path, len(place)) for path in (*run.trace.paths, run.trace.path)))
        used = tuple(run for run in in_order if len(run.trace.dispatches))
        if not used:
            return runs
        self.notes += [f"{run.label} is not used: it has no dispatches" for run in runs if run not in used]
        return used

    def _json(self, paths: Sequence[Path]) -> list[Trace]:
        if not paths:
            return []
        from rocm_perf_lab.rocprof.json_reader import read_results

        return [trace for path in paths for trace in self._tried(read_results, path)]

    def _tried(self, read: Callable[[Path], Iterable[Trace]], path: Path) -> Iterable[Trace]:
        """Return the traces of a file; none if it is damaged, which is recorded."""
        try:
            return read(path)
        except LabError as error:
            self.refused[path] = error
            return ()

    def _tables(self, paths: Sequence[Path]) -> tuple[list[Trace], list[tuple[Path, LoadedRun]]]:
        """Return the traces of processes, and the runs of workload directories."""
        by_directory: dict[Path, list[Path]] = {}
        for path in paths:
            by_directory.setdefault(path.parent, []).append(path)
        traces: list[Trace] = []
        workloads: list[tuple[Path, LoadedRun]] = []
        for directory, tables in by_directory.items():
            in_workload = _tables_of_workload(directory, tables)
            if in_workload:
                try:
                    timing, passes = read_workload(in_workload)
                    workloads.append((directory.resolve(), LoadedRun(timing, passes)))
                except LabError as error:
                    self.refused |= dict.fromkeys(in_workload, error)
            others = [path for path in tables if path not in in_workload]
            if any(_has_dispatches(path) for path in others):
                try:
                    traces += read_csv_processes(others)
                except LabError as error:
                    self.refused |= dict.fromkeys(others, error)
            else:
                self.notes += [f"{path.name} is not used: no dispatches belong to it" for path in others]
        return traces, workloads

    def _without_other_forms(self, traces: Sequence[Trace]) -> list[Trace]:
        """Leave out traces with the same dispatches as an earlier one: converted files, or another output format."""
        first_of: dict[tuple[object, ...], Trace] = {}
        kept = []
        for trace in traces:
            other = first_of.setdefault(_identity(trace), trace)
            if other is trace or other.sha256 == trace.sha256:
                kept.append(trace)  # files of equal content are merged, with a note
            else:
                self.notes.append(f"{trace.path.name} has the same dispatches as {other.path.name} and is not used")
        return kept


def _of_database(path: Path) -> list[Trace]:
    return [with_native_counters(read_database(path))]


def _identity(trace: Trace) -> tuple[object, ...]:
    """Return the same value for traces of the same dispatches in several forms, or a unique one if there are none."""
    dispatches = trace.dispatches
    if not len(dispatches) or not dispatches.end_ns.any():
        return (trace.sha256,)
    names = tuple(sorted({trace.kernels[kernel].name for kernel in np.unique(dispatches.kernel).tolist()}))
    first, last = int(dispatches.start_ns[0]), int(dispatches.end_ns.max())
    return len(dispatches), first, last, int(dispatches.duration_ns.sum()), names if len(names) < 2 else len(names)


def _is_another_form(path: Path, read: Iterable[Trace]) -> bool:
    """Return True if output of the same process in another form was read: an equal prefix, or a database of a pass below."""
    prefix = _prefix(path)
    for trace in read:
        for other in trace.paths:
            if other.parent == path.parent and _prefix(other) == prefix:
                return True
            if path.parent in other.parents and (path.parent / _SYSINFO).is_file():
                return True
            if "native_counter_collection" in path.name and path.parent in other.parents:
                return True
    return False


def _prefix(path: Path) -> str:
    """Return the part of a name that the files of one process have in common: `run` of `run_results.db`."""
    ending = next((ending for ending in _RESULTS if path.name.endswith(ending)), None)
    if ending is not None:
        return path.name.removesuffix(ending)
    return prefix_of(path)


def _tables_of_workload(directory: Path, tables: Sequence[Path]) -> list[Path]:
    """Return the tables of a workload directory of rocprof-compute; empty for another directory."""
    dispatches = [path for path in tables if _has_dispatches(path)]
    if (directory / _SYSINFO).is_file():
        return dispatches
    return [path for path in dispatches if is_of_workload(path)]


def _has_dispatches(path: Path) -> bool:
    content = csv_content(path)
    return content is not None and content.has_dispatches
