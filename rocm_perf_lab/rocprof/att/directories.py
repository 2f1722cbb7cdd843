"""Discovery of decoded thread traces below rocprofv3's output directory, and selection by kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.att.code import read_code
from rocm_perf_lab.rocprof.att.content import AttError
from rocm_perf_lab.rocprof.att.reader import DIRECTORY, read_directory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.att.model import AttTrace, KernelLabel

_DIRECTORY_REMEDY = "pass the output directory of rocprofv3 --att -d"


def find_directories(path: Path) -> tuple[Path, ...]:
    """Return the decoded directories at or below `path`, by dispatch and name.

    Raises:
        AttError: There is none.
    """
    if path.is_file():
        raise AttError("this is a file, not the directory of a thread trace", where=str(path), hint=_DIRECTORY_REMEDY)
    if not path.is_dir():
        raise AttError("no such directory", where=str(path), hint=_DIRECTORY_REMEDY)
    if (path / "code.json").exists():
        return (path,)
    if found := {code.parent for code in path.rglob("code.json")}:
        return tuple(sorted(found, key=_order))
    if any(path.rglob("*.att")):
        raise AttError(
            "the directory contains raw traces (*.att) that were not decoded",
            where=str(path),
            hint="install rocprof-trace-decoder and trace again, or decode them with the trace viewer",
        )
    raise AttError(
        "the directory contains no decoded thread trace (no code.json)",
        where=str(path),
        hint="pass a directory ui_output_agent_<agent>_dispatch_<dispatch>, or its parent",
    )


def read_kernel_trace(path: Path, symbol: str) -> AttTrace:
    """Return the trace of one kernel among the decoded directories at or below `path`.

    The name may be mangled, or demangled as in CSV, with or without parameters. Of several directories the first with wavefronts
    of the kernel is used and noted; if no directory names the kernel, the first with any wavefronts. Wavefronts of the other
    directories, timelines and curves are not read, and unreadable directories are ignored.

    Raises:
        AttError: There is no decoded directory, or none is readable.
    """
    labels: dict[Path, Sequence[KernelLabel]] = {}
    refused: list[AttError] = []
    for directory in find_directories(path):
        try:
            labels[directory] = read_code(directory / "code.json").kernels
        except AttError as error:
            refused.append(error)
    if not labels:
        raise refused[0]
    kernel = symbol.removesuffix(".kd")
    short = kernel.partition("(")[0]
    of_kernel = [f for f, own in labels.items() if any(one.mangled_name.removesuffix(".kd") == kernel for one in own)]
    of_name = [f for f, own in labels.items() if any(one.name.partition("(")[0] == short for one in own)]
    candidates = of_kernel or of_name or list(labels)
    chosen = first = read_directory(candidates[0], curves=False)
    for directory in candidates[1:]:
        if chosen.waves:
            break
        chosen = read_directory(directory, curves=False)
    return _noted(chosen if chosen.waves else first, candidates if of_kernel or of_name else (), refused)


def _noted(trace: AttTrace, alike: Sequence[Path], refused: Sequence[AttError]) -> AttTrace:
    notes = [f"ignored: {error.what} ({error.where})" for error in refused]
    if len(alike) > 1:
        notes.append(f"{len(alike)} directories belong to this kernel; using {trace.provenance.directory}")
    return replace(trace, notes=(*trace.notes, *notes)) if notes else trace


def _order(directory: Path) -> tuple[int, str]:
    match = DIRECTORY.search(directory.name)
    return (int(match["dispatch"]) if match else -1), directory.name
