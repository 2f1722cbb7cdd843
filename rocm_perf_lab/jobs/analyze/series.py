"""`rocm-perf analyze --series`: history of the kernels of an application over many runs."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from datetime import datetime
from os.path import commonpath
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from rocm_perf_lab.analysis.series import RunPoint, run_point, series_of
from rocm_perf_lab.analysis.series_document import SERIES, series_document
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import require_existing, write_text
from rocm_perf_lab.jobs.analyze.series_screen import show_series
from rocm_perf_lab.rocprof.loading import load_recording

if TYPE_CHECKING:
    from collections.abc import Sequence

_MIN_RUNS = 2
_HIDDEN = "."
_PROCESS = re.compile(r"\d+_")


class SeriesError(LabError):
    """Input that is not a series of runs."""


@dataclass(frozen=True)
class SeriesRequest:
    """Arguments and options of `rocm-perf analyze --series`. `kernel` is a regular expression."""

    paths: tuple[Path, ...]
    kernel: str | None = None
    output: Path | None = None
    as_json: bool = False
    quiet: bool = False


def run_series(request: SeriesRequest) -> None:
    """Read the runs, write series.json, and print the histories, or the document.

    Raises:
        LabError: A file does not exist, fewer than two runs were found, or a regular expression is invalid.
    """
    for path in request.paths:
        require_existing(path, "the profile data")
    pattern = _pattern(request.kernel)
    console = Console(highlight=False, quiet=request.as_json or request.quiet)
    with console.status("reading"):
        runs, notes = read_runs(request.paths)
    if len(runs) < _MIN_RUNS:
        raise SeriesError(
            f"a series needs two or more runs with dispatches, found {len(runs)}",
            where=", ".join(str(path) for path in request.paths),
            hint="pass one file or directory per run; processes that ran at the same time are one run",
        )
    series = series_of(runs)
    document = series_document(series, notes)
    if pattern is not None:
        kept = tuple(one for one in document.kernels if pattern.search(one.name) or pattern.search(one.mangled_name))
        if not kept:
            names = ", ".join(dict.fromkeys(one.name for one in document.kernels[:5]))
            raise SeriesError(f"no kernel matches {request.kernel!r}", hint=f"kernels, largest share first: {names}")
        document = document.model_copy(update={"kernels": kept})
    directory = request.output or Path("outputs") / f"{datetime.now():%Y-%m-%d/%H-%M-%S-%f}-series"
    text = document.model_dump_json(indent=2) + "\n"
    try:
        write_text(directory / SERIES, text)
    except OSError as error:
        raise SeriesError(f"cannot write {SERIES}: {error.strerror or error}", where=str(directory)) from error
    if request.as_json:
        sys.stdout.write(text)
        return
    show_series(console, document)
    console.print(f"[bold]files[/]    {directory / SERIES}", soft_wrap=True)
    if request.quiet:
        sys.stdout.write(f"{sum(len(one.changes) for one in document.kernels)} changes\n")


def read_runs(paths: Sequence[Path]) -> tuple[list[RunPoint], tuple[str, ...]]:
    """Return the runs in files and directories, one point per run, and notes on omitted files.

    Args:
        paths: Each directory is one run, or contains a directory per run. Files of one directory are one recording.

    Raises:
        LabError: No file can be read.
    """
    units = [unit for path in paths for unit in _units(path)]
    grouped = _files_by_directory(units)
    points: list[tuple[Path, RunPoint]] = []
    notes: list[str] = []
    failures: list[LabError] = []
    for group in grouped:
        try:
            recording = load_recording(group)
        except LabError as error:
            notes.append(f"{', '.join(path.name for path in group)} is omitted: {error.what}")
            failures.append(error)
            continue
        for run in recording.runs:
            if len(run.trace.dispatches):
                place = group[0] if len(group) == 1 and len(recording.runs) == 1 else run.trace.path
                points.append((place, run_point("", run.trace, run.counter_passes)))
    if not points and failures:
        raise failures[0]
    labels = _labels([place for place, _ in points])
    named = [
        RunPoint(label, point.begin_ns, point.machines, point.processes, point.kernels, point.emulated)
        for label, (_, point) in zip(labels, points, strict=True)
    ]
    kinds = {point.emulated for point in named}
    if len(kinds) > 1:
        raise SeriesError(
            "emulated and measured runs cannot be compared", where=", ".join(map(str, paths)), hint="pass runs of one kind"
        )
    return named, (*notes, *_notes_on_runs(named))


def _notes_on_runs(runs: Sequence[RunPoint]) -> list[str]:
    """Return notes on runs without times, and on runs of different GPUs."""
    timeless = [run.label for run in runs if not any(kernel.median_ns > 0 for kernel in run.kernels)]
    gpus = sorted({kernel.facts.gpu for run in runs for kernel in run.kernels} - {""})
    notes = [f"{', '.join(timeless)}: no dispatch has a duration"] if timeless else []
    return [*notes, f"the runs are of different GPUs: {', '.join(gpus)}"] if len(gpus) > 1 else notes


def _units(path: Path) -> list[Path]:
    """Return the run directories in a directory: its subdirectories, unless these are the hosts of one run."""
    if not path.is_dir():
        return [path]
    inside = [one for one in sorted(path.iterdir()) if not one.name.startswith(_HIDDEN)]
    directories = [one for one in inside if one.is_dir()]
    if len(directories) < _MIN_RUNS or any(one.is_file() and one.suffix in (".db", ".json", ".csv", ".gz") for one in inside):
        return [path]
    if any(_is_viewer_output(one) for one in directories) or _are_hosts(directories):
        return [path]
    return directories


def _is_viewer_output(directory: Path) -> bool:
    return (directory / "code.json").exists()


def _are_hosts(directories: Sequence[Path]) -> bool:
    """Return whether the file names are those of rocprofv3 for the processes of one run, `<host>/<pid>_results.db`."""
    files = [file.name for one in directories for file in one.iterdir() if file.is_file()]
    return bool(files) and all(_PROCESS.match(name) for name in files)


def _files_by_directory(units: Sequence[Path]) -> list[list[Path]]:
    """Group files by directory, since files of one directory may be from processes of one run."""
    groups: dict[Path, list[Path]] = {}
    for unit in dict.fromkeys(units):
        groups.setdefault(unit if unit.is_dir() else unit.parent, []).append(unit)
    return [[path for path in group if path.is_dir()] or group for group in groups.values()]


def _labels(places: Sequence[Path]) -> list[str]:
    """Return the shortest unique parts of the paths."""
    resolved = [place.resolve() for place in places]
    if len(set(resolved)) < len(resolved) or len(resolved) < _MIN_RUNS:
        return [f"{place.name} ({number})" for number, place in enumerate(places, start=1)]
    common = commonpath(resolved)
    return [str(place.relative_to(common)) for place in resolved]


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise SeriesError(f"invalid regular expression {text!r}: {error}", where="--kernel") from error
