"""Reading of everything that was discovered: runs with their counter passes, and the files that belong to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.discovery import Recording, discover
from rocm_perf_lab.rocprof.runs import read_passes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.trace import Trace


@dataclass(frozen=True)
class LoadedRun:
    """One launch of the application: the timed run of all its processes, and repetitions of it that collected counters."""

    trace: Trace
    counter_passes: tuple[Trace, ...] = ()


@dataclass(frozen=True)
class LoadedRecording:
    """Content of a recording. Thread traces and PC samples are directories and files, which are read for one kernel."""

    files: Recording
    runs: tuple[LoadedRun, ...]
    """In order of time; empty if there are only thread traces or PC samples."""
    thread_traces: tuple[Path, ...]
    pc_samples: tuple[Path, ...]
    roofline: Path | None
    code_objects: tuple[Path, ...]
    sources: tuple[Path, ...]
    notes: tuple[str, ...]
    """What was assumed or left out; each note once."""


def load_recording(paths: Sequence[Path]) -> LoadedRecording:
    """Return the content of the given files and directories.

    Raises:
        LabError: Nothing can be analysed, or a file is damaged.
    """
    return load(discover(paths))


def load(files: Recording) -> LoadedRecording:
    """Return the content of the discovered files.

    Raises:
        LabError: A file is damaged.
    """
    runs: tuple[LoadedRun, ...] = ()
    tables = files.databases or files.json_results or files.tables
    if tables:
        trace, passes = read_passes(tables)
        runs = (LoadedRun(trace, passes),)
    notes = tuple(f"{one.path.name} is not used: {one.reason}" for one in files.unused)
    return LoadedRecording(
        files=files,
        runs=runs,
        thread_traces=files.thread_traces,
        pc_samples=files.pc_samples,
        roofline=next(iter(files.rooflines), None),
        code_objects=files.code_objects,
        sources=files.sources,
        notes=tuple(dict.fromkeys(notes)),
    )
