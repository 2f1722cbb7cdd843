"""Discovery of decoded thread traces below rocprofv3's output directory, and selection by kernel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.att.code import read_code
from rocm_perf_lab.rocprof.att.content import AttError
from rocm_perf_lab.rocprof.att.reader import DIRECTORY, read_directory
from rocm_perf_lab.rocprof.att.source_lines import with_source_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.rocprof.att.code import Code
    from rocm_perf_lab.rocprof.att.model import AttTrace

CODE_FILE = "code.json"
_SAVED_CODE = "*code_object_id_*.out"
_NAMED = 3
_DIRECTORY_REMEDY = "pass the output directory of rocprofv3 --att -d"


def find_directories(path: Path) -> tuple[Path, ...]:
    """Return the decoded directories at or below `path`, by dispatch and name.

    Raises:
        AttError: There is none.
    """
    if path.name == CODE_FILE and path.is_file():
        return (path.parent,)
    if path.is_file():
        raise AttError("this is a file, not the directory of a thread trace", where=str(path), hint=_DIRECTORY_REMEDY)
    if not path.is_dir():
        raise AttError("no such directory", where=str(path), hint=_DIRECTORY_REMEDY)
    if (path / CODE_FILE).exists():
        return (path,)
    if found := {code.parent for code in path.rglob(CODE_FILE)}:
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


def read_kernel_trace(path: Path | Sequence[Path], symbol: str, *, code_objects: Sequence[Path] = ()) -> AttTrace:
    """Return the trace of one kernel among the decoded directories at or below `path`.

    The name may be mangled, or demangled as in CSV, with or without parameters. Of several directories with wavefronts of the
    kernel, the earliest dispatch is omitted, because its caches and translations are cold, and the one with the median cycles of
    the others is used; a note names the rest. If no directory names the kernel, the first with any wavefronts is used.
    Wavefronts of the other directories, timelines and curves are not read, and unreadable directories are ignored. Source lines
    that the decoder did not write come from code objects: those next to the directory, then `code_objects`.

    Args:
        path: Output directory of rocprofv3, a decoded directory or its code.json; or several decoded directories.
        symbol: Name of the kernel.
        code_objects: Further code objects of the run.

    Raises:
        AttError: There is no decoded directory, or none is readable.
    """
    codes: dict[Path, Code] = {}
    refused: list[AttError] = []
    directories = find_directories(path) if isinstance(path, Path) else sorted(path, key=_order)
    for directory in directories:
        try:
            codes[directory] = read_code(directory / CODE_FILE)
        except AttError as error:
            refused.append(error)
    if not codes:
        raise refused[0]
    kernel = symbol.removesuffix(".kd")
    short = kernel.partition("(")[0]
    of_kernel = [f for f, code in codes.items() if any(one.mangled_name.removesuffix(".kd") == kernel for one in code.kernels)]
    of_name = [f for f, code in codes.items() if any(one.name.partition("(")[0] == short for one in code.kernels)]
    alike = of_kernel or of_name
    candidates = _by_preference({directory: codes[directory] for directory in alike or codes}, is_known=bool(alike))
    used, chosen = candidates[0], read_directory(candidates[0], curves=False)
    for directory in candidates[1:] if not chosen.waves else ():
        other = read_directory(directory, curves=False)
        if other.waves:
            used, chosen = directory, other
            break
    beside = sorted(used.parent.glob(_SAVED_CODE))
    return _noted(with_source_lines(chosen, (*beside, *code_objects)), alike, refused)


def _by_preference(codes: Mapping[Path, Code], *, is_known: bool) -> list[Path]:
    """Return the directories in the order in which they are tried; see :func:`read_kernel_trace`."""
    if not is_known:
        return list(codes)
    cycles = {directory: sum(row.cycles for row in code.rows) for directory, code in codes.items()}
    traced = [directory for directory in codes if cycles[directory]]
    warm = sorted(traced[1:] or traced, key=lambda directory: (cycles[directory], _order(directory)))
    preferred = warm[(len(warm) - 1) // 2 :][:1]
    return [*preferred, *(directory for directory in codes if directory not in preferred)]


def _noted(trace: AttTrace, alike: Sequence[Path], refused: Sequence[AttError]) -> AttTrace:
    notes = [f"ignored: {error.what} ({error.where})" for error in refused]
    if len(alike) > 1:
        others = [directory.name for directory in alike if directory.name != trace.provenance.directory]
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        notes.append(
            f"{len(alike)} directories belong to this kernel; using {trace.provenance.directory}"
            f" (also: {', '.join(others[:_NAMED])}{more})"
        )
    return replace(trace, notes=(*trace.notes, *notes)) if notes else trace


def _order(directory: Path) -> tuple[int, str]:
    match = DIRECTORY.search(directory.name)
    return (int(match["dispatch"]) if match else -1), directory.name
