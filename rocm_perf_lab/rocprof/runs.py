"""Reader for the output of a rocprofv3 run in any form: databases, JSON or CSV, files and directories mixed."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.csv_files import find_csv
from rocm_perf_lab.rocprof.csv_reader import read_csv_processes
from rocm_perf_lab.rocprof.dialects import DatabaseError
from rocm_perf_lab.rocprof.finding import begins_as_sqlite, database_files, is_rocpd
from rocm_perf_lab.rocprof.merging import merge
from rocm_perf_lab.rocprof.native_counters import with_native_counters
from rocm_perf_lab.rocprof.reader import read_database

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.trace import Trace


def read_run(paths: Sequence[Path]) -> Trace:
    """Return one run as a trace. In a directory databases take precedence over CSV.

    Raises:
        DatabaseError: No readable output; names the files and reasons.
    """
    return merge(_traces(paths))


def read_passes(paths: Sequence[Path]) -> tuple[Trace, tuple[Trace, ...]]:
    """Return the timed run, and the counter passes next to it, which are other runs of the same command.

    `rocprofv3 --pmc A --pmc B` writes a database, or CSV files, for each pass. Merged, they would count every dispatch twice, and
    divide counters of one run by those of another. Passes are distinguished from processes of one run by their counters, which
    differ, their commands and kernels, which do not, and their times, which do not overlap.

    Raises:
        DatabaseError: No readable output; names the files and reasons.
    """
    traces = _traces(paths)
    groups: dict[tuple[str, ...], list[Trace]] = {}
    for trace in traces:
        if len(trace.dispatches):
            groups.setdefault(tuple(sorted(trace.counters)), []).append(trace)
    if len(groups) < 2:
        return merge(traces), ()
    runs = [merge(group) for _, group in sorted(groups.items(), key=lambda item: len(item[0]) > 0)]
    if not _are_passes(runs):
        return merge(traces), ()
    note = f"{len(runs)} runs with different counters are here: times are those of {runs[0].path.name}"
    return replace(runs[0], notes=(*runs[0].notes, note)), tuple(runs[1:])


def _are_passes(runs: Sequence[Trace]) -> bool:
    commands = {frozenset(process.command for process in run.processes) for run in runs}
    spans = sorted((int(run.dispatches.start_ns.min()), int(run.dispatches.end_ns.max())) for run in runs)
    apart = all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    # A pass may have counted only some kernels.
    kernels = sorted(({run.kernels[k].name for k in np.unique(run.dispatches.kernel)} for run in runs), key=len)
    alike = all(fewer <= more for fewer, more in itertools.pairwise(kernels))
    return len(commands) == 1 and apart and alike


def read_counter_passes(path: Path) -> tuple[Trace, ...]:
    """Return each pass below a directory that collected counters as a separate trace: passes are different runs.

    Databases with the same counters are processes, or repetitions, of one pass.

    Raises:
        DatabaseError: No readable output, or no counters.
    """
    traces = _traces([path])
    passes: dict[tuple[str, ...], list[Trace]] = {}
    for trace in traces:
        if trace.counters:
            passes.setdefault(tuple(sorted(trace.counters)), []).append(trace)
    if not passes:
        raise DatabaseError(
            "no counters were collected", where=str(path), hint="collect some with: rocprofv3 --pmc SQ_WAVES -f rocpd -- APP"
        )
    return tuple(merge(group) for group in passes.values())


def _traces(paths: Sequence[Path]) -> list[Trace]:
    """Return one trace per database, or per process of JSON or CSV. A directory is read in its most complete form."""
    forms = {form: [path for path in paths if _form_of(path) == form] for form in ("database", "json", "csv")}
    if sum(map(bool, forms.values())) > 1:
        raise DatabaseError(
            "these are several forms of output: " + ", ".join(f"{p.name} ({form})" for form, ps in forms.items() for p in ps[:2]),
            where=str(paths[0].parent),
            hint="pass one form of the run; pass counters of another run with --counters",
        )
    if forms["json"]:
        from rocm_perf_lab.rocprof.json_files import find_results
        from rocm_perf_lab.rocprof.json_reader import read_results

        files = [file for path in paths for file in (find_results(path) if path.is_dir() else (path,))]
        return [trace for file in dict.fromkeys(files) for trace in read_results(file)]
    if forms["csv"]:
        return read_csv_processes(paths)
    return [with_native_counters(read_database(path)) for path in database_files(paths)]


def _form_of(path: Path) -> str:
    """Return the form of a file by content; CSV, which has no signature, by elimination."""
    if path.is_dir():
        if _has_database(path):
            return "database"
        if _has_json(path):
            return "json"
        return "csv" if find_csv(path) else "database"
    if path.name.endswith((".csv", ".csv.gz")):
        return "csv"
    return "json" if _is_json(path) else "database"


def _has_database(directory: Path) -> bool:
    return any(is_rocpd(path) for path in sorted(directory.rglob("*")) if path.is_file())


def _has_json(directory: Path) -> bool:
    from rocm_perf_lab.rocprof.json_files import find_results

    return bool(find_results(directory))


def _is_json(path: Path) -> bool:
    if not path.is_file() or begins_as_sqlite(path):
        return False
    from rocm_perf_lab.rocprof.json_files import is_json

    return is_json(path)
