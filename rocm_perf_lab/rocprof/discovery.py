"""Discovery of recorded files: contents of the given files and of all files in given directories.

Files are classified by content; names decide only where the content is ambiguous. A directory with a decoded thread trace or with
PC samples of the trace viewer is one item.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.rocprof.csv_files import CsvContent, csv_content
from rocm_perf_lab.rocprof.dialects import SQLITE_MAGIC, DatabaseError, check_dialect, names_in, open_read_only
from rocm_perf_lab.rocprof.finding import is_rocpd
from rocm_perf_lab.rocprof.write_ahead import settled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CODE = "code.json"
"""Instructions of a decoded thread trace, or of PC samples in the form of the viewer."""
EXPECTED = "expected: output of rocprofv3 (.db, .json, .csv, ui_output_*), rocprof, rocprofv2 or rocprof-compute"
PASSES = ".rocpd_profile"
"""Directory of the databases in a run of rocm-perf-lab; other hidden directories are skipped."""
_ELF_MAGIC, _BUNDLE_MAGICS = b"\x7fELF", (b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB")
_CODE_ENDINGS = (".out", ".hsaco", ".co", ".elf", ".o", ".so")
_SOURCE_ENDINGS = frozenset({".hip", ".cu", ".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".cuh", ".inc", ".py", ".s", ".cl"})
_SAVED_CODE = "*code_object_id_*.out"
_RAW_TRACE = ".att"
_SUMS = "sums over dispatches or instructions"
_HEAD_BYTES = 1 << 12
_ELF_MACHINE, _AMDGPU = slice(18, 20), (224).to_bytes(2, "little")
_SHOWN = 5


class FileKind(StrEnum):
    """Content of a recorded file or directory."""

    DATABASE = "rocpd database"
    JSON = "rocprofv3 JSON"
    TABLE = "CSV table"
    THREAD_TRACE = "decoded thread trace"
    PC_SAMPLES = "PC samples"
    ROOFLINE = "measured peaks"
    SYSTEM = "description of the machine"
    CODE_OBJECT = "code object"
    SOURCE = "source file"


class DiscoveryError(LabError):
    """Paths without anything that can be analysed."""


@dataclass(frozen=True)
class Unused:
    """A file that is not analysed, and the reason."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Recording:
    """Files of a recording by content, each kind in order of the path."""

    paths: tuple[Path, ...]
    """Files and directories as given."""
    found: tuple[tuple[FileKind, Path], ...]
    unused: tuple[Unused, ...] = ()
    other_files: int = field(default=0, compare=False)
    """Number of files that no profiler writes."""

    def of_kind(self, kind: FileKind) -> tuple[Path, ...]:
        """Return the files, or directories of thread traces, of one kind."""
        return tuple(path for found, path in self.found if found is kind)

    @property
    def databases(self) -> tuple[Path, ...]:
        """rocpd databases."""
        return self.of_kind(FileKind.DATABASE)

    @property
    def json_results(self) -> tuple[Path, ...]:
        """JSON results of rocprofv3."""
        return self.of_kind(FileKind.JSON)

    @property
    def tables(self) -> tuple[Path, ...]:
        """CSV files with dispatches, counters, copies or API calls."""
        return self.of_kind(FileKind.TABLE)

    @property
    def thread_traces(self) -> tuple[Path, ...]:
        """Directories with a decoded thread trace (`ui_output_*`)."""
        return self.of_kind(FileKind.THREAD_TRACE)

    @property
    def pc_samples(self) -> tuple[Path, ...]:
        """CSV files with PC samples, and directories in the form of the viewer. JSON and databases may contain more."""
        return self.of_kind(FileKind.PC_SAMPLES)

    @property
    def rooflines(self) -> tuple[Path, ...]:
        """Tables of measured peaks (roofline.csv)."""
        return self.of_kind(FileKind.ROOFLINE)

    @property
    def systems(self) -> tuple[Path, ...]:
        """Descriptions of machines: sysinfo.csv, *agent_info.csv."""
        return self.of_kind(FileKind.SYSTEM)

    @property
    def code_objects(self) -> tuple[Path, ...]:
        """Code objects, those in directories of thread traces included."""
        return self.of_kind(FileKind.CODE_OBJECT)

    @property
    def sources(self) -> tuple[Path, ...]:
        """Source files next to the recording, without the snapshots of thread traces."""
        return self.of_kind(FileKind.SOURCE)


def discover(paths: Sequence[Path]) -> Recording:
    """Return the content of the given files and directories.

    Raises:
        DiscoveryError: A path does not exist, or nothing can be analysed.
    """
    found: dict[Path, FileKind] = {}
    unused: dict[Path, str] = {}
    others = 0
    for path in paths:
        if not path.exists():
            raise DiscoveryError("no such file or directory", where=str(path), hint="check the path")
        given = path.parent if path.name == CODE else path
        for item in (*_items(given), *_saved_code(given)):
            if item in found or item in unused:
                continue
            kind = _kind_of(item, given=item == given)
            if isinstance(kind, FileKind):
                found[item] = kind
            elif kind is not None:
                unused[item] = kind
            else:
                others += 1
    _forget_expected(found, unused)
    recording = Recording(
        tuple(paths),
        tuple((kind, path) for path, kind in found.items()),
        tuple(Unused(path, reason) for path, reason in unused.items()),
        others,
    )
    _require_content(recording)
    return recording


def _items(path: Path) -> Iterator[Path]:
    """Yield files, and directories that are one item, at or below a path."""
    if not path.is_dir():
        yield path
        return
    for directory, directories, files in os.walk(path):
        here = Path(directory)
        directories[:] = sorted(name for name in directories if not name.startswith(".") or name == PASSES)
        if CODE in files and _is_viewer_directory(here):
            yield here
            files = [name for name in files if name.endswith(_CODE_ENDINGS)]
        yield from (here / name for name in sorted(files))


def _saved_code(path: Path) -> list[Path]:
    """Return the code objects that rocprofv3 saved next to a given file, or next to a given thread trace."""
    is_alone = not path.is_dir() or (path / CODE).is_file()
    return sorted(path.parent.glob(_SAVED_CODE)) if is_alone else []


def _is_viewer_directory(directory: Path) -> bool:
    return (directory / "filenames.json").is_file() or b'"code"' in _head(directory / CODE)


def _kind_of(path: Path, *, given: bool) -> FileKind | str | None:
    """Return the content of a file or viewer directory, a reason why it is not used, or None for a file of no profiler."""
    if path.is_dir():
        return _kind_of_viewer_directory(path)
    name = path.name.lower()
    if name.endswith((".csv", ".csv.gz")):
        return _kind_of_csv(path, given=given)
    head = _head(path)
    if head.startswith(SQLITE_MAGIC):
        return FileKind.DATABASE if is_rocpd(path) else _reason_of_database(path)
    if head.startswith((_ELF_MAGIC, *_BUNDLE_MAGICS)):
        is_code = head[_ELF_MACHINE] == _AMDGPU if head.startswith(_ELF_MAGIC) else name.endswith(_CODE_ENDINGS)
        return FileKind.CODE_OBJECT if given or is_code else None
    if head.startswith(b"\x1f\x8b") or head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{":
        return _kind_of_json(path, given=given)
    if path.suffix == _RAW_TRACE:
        return "raw thread trace, not decoded"
    if path.suffix.lower() in _SOURCE_ENDINGS:
        return FileKind.SOURCE
    if path.suffix == ".db" or given:
        return _reason_of_database(path)
    return None


def _kind_of_viewer_directory(directory: Path) -> FileKind:
    try:
        names = json.loads((directory / "filenames.json").read_bytes())
    except (OSError, ValueError):
        return FileKind.THREAD_TRACE
    sampled_only = isinstance(names, dict) and names.get("pc_sampling") is True and names.get("thread_trace") is False
    return FileKind.PC_SAMPLES if sampled_only else FileKind.THREAD_TRACE


def _kind_of_csv(path: Path, *, given: bool) -> FileKind | str | None:
    content = csv_content(path)
    match content:
        case CsvContent.ROOFLINE:
            return FileKind.ROOFLINE
        case CsvContent.SYSINFO | CsvContent.AGENT_INFO:
            return FileKind.SYSTEM
        case CsvContent.PC_SAMPLES:
            return FileKind.PC_SAMPLES
        case CsvContent.SUMMARY:
            return _SUMS
        case CsvContent.OPERATIONS:
            return "times of kernels without launch sizes: pass results_*.csv of the same run"
        case None:
            return "not a table of a ROCm profiler" if given else None
        case _:
            return FileKind.TABLE


def _kind_of_json(path: Path, *, given: bool) -> FileKind | str | None:
    from rocm_perf_lab.rocprof.json_files import OWN_DOCUMENT, is_results, other_document

    if is_results(path):
        has_copy = path.suffix == ".gz" and path.with_suffix("").is_file()
        return "compressed copy of the file next to it" if has_copy else FileKind.JSON
    other = other_document(path)
    if other is not None:
        return f"this is {other}" if given or other != OWN_DOCUMENT else None
    return "not JSON of rocprofv3" if given else None


def _reason_of_database(path: Path) -> str:
    """Return the kind of an SQLite file, or the reason why a file cannot be opened as one."""
    try:
        with settled(path) as file:
            connection = open_read_only(file)
            try:
                check_dialect(path, names_in(connection))
            finally:
                connection.close()
    except DatabaseError as error:
        return error.what
    return "not a rocpd database"


def _forget_expected(found: dict[Path, FileKind], unused: dict[Path, str]) -> None:
    """Forget raw traces next to decoded ones, and sums next to dispatches: their use needs no explanation."""
    kinds = set(found.values())
    for path, reason in list(unused.items()):
        is_decoded = path.suffix == _RAW_TRACE and FileKind.THREAD_TRACE in kinds
        is_summed = reason == _SUMS and kinds & {FileKind.DATABASE, FileKind.JSON, FileKind.TABLE, FileKind.THREAD_TRACE}
        if is_decoded or is_summed:
            del unused[path]


def _require_content(recording: Recording) -> None:
    usable = (FileKind.DATABASE, FileKind.JSON, FileKind.TABLE, FileKind.THREAD_TRACE, FileKind.PC_SAMPLES)
    if any(kind in usable for kind, _ in recording.found):
        return
    seen = [f"{path.name} ({kind})" for kind, path in recording.found]
    seen += [f"{one.path.name}: {one.reason}" for one in recording.unused]
    more = f" and {len(seen) - _SHOWN} more" if len(seen) > _SHOWN else ""
    shown = "; ".join(seen[:_SHOWN]) + more or _others(recording.other_files)
    raw = any(one.path.suffix == _RAW_TRACE for one in recording.unused)
    raise DiscoveryError(
        f"there is no recording that can be analysed; found: {shown}",
        where=", ".join(str(path) for path in recording.paths),
        hint="install rocprof-trace-decoder and trace again, or decode the .att files with the trace viewer" if raw else EXPECTED,
    )


def _others(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'} that no profiler writes" if count else "no files"


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as source:
            return source.read(_HEAD_BYTES)
    except OSError:
        return b""
