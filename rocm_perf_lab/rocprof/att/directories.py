"""The decoded folders below what rocprofv3 was told to write into, and which of them is of a kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.att.code import read_code
from rocm_perf_lab.rocprof.att.content import AttError
from rocm_perf_lab.rocprof.att.reader import FOLDER, read_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.att.model import AttTrace, KernelLabel

_FOLDER_REMEDY = "give the folder that rocprofv3 --att -d wrote"


def find_folders(path: Path) -> tuple[Path, ...]:
    """Decoded folders at or below `path`, by dispatch and name.

    Raises:
        AttError: There is none.
    """
    if path.is_file():
        raise AttError("a file, and not the folder of a thread trace", where=str(path), hint=_FOLDER_REMEDY)
    if not path.is_dir():
        raise AttError("no such folder", where=str(path), hint=_FOLDER_REMEDY)
    if (path / "code.json").exists():
        return (path,)
    if found := {code.parent for code in path.rglob("code.json")}:
        return tuple(sorted(found, key=_order))
    if any(path.rglob("*.att")):
        raise AttError(
            "the folder holds raw traces (*.att) that were not decoded",
            where=str(path),
            hint="install rocprof-trace-decoder and trace again, or decode them with the trace viewer",
        )
    raise AttError(
        "the folder holds no decoded thread trace (no code.json)",
        where=str(path),
        hint="give a folder ui_output_agent_<agent>_dispatch_<dispatch>, or the one that holds them",
    )


def read_kernel_trace(path: Path, symbol: str) -> AttTrace:
    """The trace of one kernel among the decoded folders at or below `path`.

    The name may be mangled, or demangled as CSV has it, with or without its parameters. Of several folders the first that has
    wavefronts of the kernel, which is noted; where none names it, the first with any wavefronts. The wavefronts of the others
    are not read, and a folder among them that cannot be read is left out; nor are timelines and curves read.

    Raises:
        AttError: No decoded folder, or none that can be read.
    """
    labels: dict[Path, Sequence[KernelLabel]] = {}
    refused: list[AttError] = []
    for folder in find_folders(path):
        try:
            labels[folder] = read_code(folder / "code.json").kernels
        except AttError as error:
            refused.append(error)
    if not labels:
        raise refused[0]
    kernel = symbol.removesuffix(".kd")
    short = kernel.partition("(")[0]
    of_kernel = [f for f, own in labels.items() if any(one.mangled_name.removesuffix(".kd") == kernel for one in own)]
    of_name = [f for f, own in labels.items() if any(one.name.partition("(")[0] == short for one in own)]
    candidates = of_kernel or of_name or list(labels)
    chosen = first = read_folder(candidates[0], curves=False)
    for folder in candidates[1:]:
        if chosen.waves:
            break
        chosen = read_folder(folder, curves=False)
    return _noted(chosen if chosen.waves else first, candidates if of_kernel or of_name else (), refused)


def _noted(trace: AttTrace, alike: Sequence[Path], refused: Sequence[AttError]) -> AttTrace:
    notes = [f"left out: {error.what} ({error.where})" for error in refused]
    if len(alike) > 1:
        notes.append(f"{len(alike)} folders are of this kernel; this is {trace.provenance.folder}")
    return replace(trace, notes=(*trace.notes, *notes)) if notes else trace


def _order(folder: Path) -> tuple[int, str]:
    match = FOLDER.search(folder.name)
    return (int(match["dispatch"]) if match else -1), folder.name
