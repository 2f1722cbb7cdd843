"""One CSV file of a ROCm profiler as columns, under rocprofv3's column names.

Releases and tools use different names for the same column: `Group_Segment_Size` (rocprofv3 6.x), `Lds_Block_Size` (rocpd
convert), `LDS_Per_Workgroup` (rocprof-compute, rocprofv2), `lds` (rocprof). Files that end in `.gz` are decompressed.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.rocprof.csv_columns import CsvColumn, CsvError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Cells = dict[str, CsvColumn]
    """Columns by name."""
    ProcessRows = tuple[str, str]
    """CsvColumn that identifies the process of a row, and the value of one process."""

NAMES = (
    "Accum_VGPR_Count", "Agent_Id", "Agent_Type", "Correlation_Id", "Counter_Name", "Counter_Value", "Destination_Agent_Id",
    "Direction", "Dispatch_Id", "Domain", "End_Timestamp", "Function", "Grid_Size", "Grid_Size_X", "Grid_Size_Y", "Grid_Size_Z",
    "Guid", "Kernel_Id", "Kernel_Name", "Kind", "LDS_Block_Size", "Logical_Node_Id", "Name", "Node_Id", "Process_Id",
    "Product_Name", "Queue_Id", "SGPR_Count", "Scratch_Size", "Size", "Source_Agent_Id", "Start_Timestamp", "Stream_Id",
    "Thread_Id", "VGPR_Count", "Workgroup_Size", "Workgroup_Size_X", "Workgroup_Size_Y", "Workgroup_Size_Z",
)  # fmt: skip
_OTHERNAMES = {
    "group_segment_size": "LDS_Block_Size",
    "private_segment_size": "Scratch_Size",
    "lds_per_workgroup": "LDS_Block_Size",
    "scratch_per_workitem": "Scratch_Size",
    "arch_vgpr": "VGPR_Count",
    "accum_vgpr": "Accum_VGPR_Count",
    "sgpr": "SGPR_Count",
    "gpu_id": "Agent_Id",
    "pid": "Process_Id",
    "tid": "Thread_Id",
    # rocprof, and rocprofv2 with its first file plugin
    "index": "Dispatch_Id",
    "kernelname": "Kernel_Name",
    "gpu-id": "Agent_Id",
    "queue-id": "Queue_Id",
    "grd": "Grid_Size",
    "wgr": "Workgroup_Size",
    "lds": "LDS_Block_Size",
    "scr": "Scratch_Size",
    "vgpr": "VGPR_Count",
    "beginns": "Start_Timestamp",
    "endns": "End_Timestamp",
    # traces of rocprofv2
    "stop_timestamp": "End_Timestamp",
}
_CANONICAL = {name.lower(): name for name in NAMES} | _OTHERNAMES


_ARROW_PAYS_FROM_BYTES = 1 << 20
_INTEGERS = frozenset(
    name
    for name in NAMES
    if name.endswith(("_Count", "_Id", "_Size", "_X", "_Y", "_Z", "_Timestamp")) and name not in ("Agent_Id", "Process_Id")
) - {"Source_Agent_Id", "Destination_Agent_Id"}
_REPEATED = frozenset({"Kernel_Name", "Agent_Id", "Counter_Name", "Domain", "Function", "Guid"})
"""Columns of few texts, which are stored once."""
_UNUSED = frozenset({"Kind", "Kernel_Id"})
_PROCESS_COLUMNS = ("Guid", "Process_Id")
"""Columns that identify the process of a row, the more reliable one first."""


def read_cells(file: Path, needed: Sequence[str], process: ProcessRows | None = None) -> Cells:
    """Return all columns of a file.

    Args:
        file: Path of the file.
        needed: Required columns.
        process: Return only rows of this process, if the file states the process of each row in that column.

    Raises:
        CsvError: The file cannot be opened, is not CSV, is truncated, lacks a required column, or contains several processes.
    """
    header = header_of(file) if _is_large(file) else ()
    columns = _arrow_columns(file, header) if header else None
    if columns is None:
        data = content_of(file)
        header = tuple(_header(file, data))
    missing = [name for name in needed if name not in header]
    if missing:
        found = ", ".join(header[:6]) or "nothing"
        raise CsvError(
            f"no column {', '.join(missing)}; the file starts with: {found}",
            where=str(file),
            hint="pass the file as the profiler wrote it",
        )
    if columns is None:
        columns = dict(zip(header, _columns(file, data, len(header)), strict=True))
    cells = {name: CsvColumn(file, name, column) for name, column in columns.items()}
    if process is not None and process[0] in cells:
        codes, texts = cells[process[0]].codes()
        own = np.flatnonzero(codes == texts.index(process[1])) if process[1] in texts else np.empty(0, np.int64)
        cells = {name: column.take(own) for name, column in cells.items()}
    if any(len(cells[name].codes()[1]) > 1 for name in _PROCESS_COLUMNS if name in cells):
        raise CsvError(
            "the rows belong to several processes, whose ids are ambiguous in CSV",
            where=str(file),
            hint="read the database that it was converted from",
        )
    return cells


def processes_in(file: Path) -> tuple[ProcessRows, ...]:
    """Return the processes in a file, in order of their first row; empty if the file does not state them.

    Raises:
        CsvError: The file cannot be read.
    """
    header = header_of(file)
    name = next((name for name in _PROCESS_COLUMNS if name in header), None)
    if name is None:
        return ()
    columns = _arrow_columns(file, header, only=name) if _is_large(file) else None
    if columns is None:
        columns = {name: _columns(file, content_of(file), len(header))[header.index(name)]}
    return tuple((name, value) for value in CsvColumn(file, name, columns[name]).codes()[1] if value)


def header_of(file: Path) -> tuple[str, ...]:
    """Return the column names; empty if the file cannot be read."""
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as source:
            line = source.readline(1 << 20)
    except (OSError, EOFError, zlib.error):
        return ()
    try:
        return tuple(canonical(name) for name in next(csv.reader([line.decode("utf-8-sig", errors="replace")]), []))
    except csv.Error:
        return ()


def content_of(file: Path) -> bytes:
    """Return the content of a file, decompressed if its name ends in `.gz`.

    Raises:
        CsvError: The file cannot be read.
    """
    try:
        content = file.read_bytes()
        return gzip.decompress(content) if file.suffix == ".gz" else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CsvError(f"the file cannot be decompressed: {error}", where=str(file), hint="copy it again") from error
    except OSError as error:
        raise CsvError(f"cannot open the file: {error.strerror}", where=str(file)) from error


def _header(file: Path, data: bytes) -> list[str]:
    line = data[: data.find(b"\n") + 1] or data
    try:
        return [canonical(name) for name in next(csv.reader([_text(line)]), [])]
    except csv.Error as error:
        raise CsvError(f"the file is not CSV: {error}", where=str(file), hint="collect it again") from error


def _columns(file: Path, data: bytes, width: int) -> list[Any]:
    """Return the columns below the header."""
    try:
        rows = [row for row in csv.reader(io.StringIO(_text(data), newline="")) if row][1:]
    except csv.Error as error:
        raise CsvError(f"the file is not CSV: {error}", where=str(file), hint="collect it again") from error
    short = next((line for line, row in enumerate(rows, start=2) if len(row) != width), None)
    if short is not None:
        raise CsvError(
            f"row {short} does not have {width} columns: is the file truncated?", where=str(file), hint="collect it again"
        )
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]


def _is_large(file: Path) -> bool:
    try:
        return file.stat().st_size >= _ARROW_PAYS_FROM_BYTES
    except OSError:
        return False


def _arrow_columns(file: Path, header: Sequence[str], only: str | None = None) -> dict[str, Any] | None:
    """Read the used columns, or one, with Arrow, in a tenth of the time; None if it fails: the other way explains errors."""
    import pyarrow
    from pyarrow import csv as arrow

    names = [str(number) for number in range(len(header))]
    # Of columns with equal names the last one is used.
    wanted = {name: number for name, number in zip(header, names, strict=True) if name not in _UNUSED and only in (None, name)}
    text, repeated = pyarrow.string(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    types = {name: repeated if name in _REPEATED else text for name in wanted}
    for numbers in ({name: pyarrow.int64() for name in wanted if name in _INTEGERS}, {}):
        try:
            table = arrow.read_csv(
                str(file),
                read_options=arrow.ReadOptions(column_names=names, skip_rows=1),
                parse_options=arrow.ParseOptions(newlines_in_values=True),
                convert_options=arrow.ConvertOptions(
                    column_types={number: {**types, **numbers}[name] for name, number in wanted.items()},
                    include_columns=list(wanted.values()),
                ),
            )
            return {name: table.column(number) for name, number in wanted.items()}
        except (pyarrow.ArrowException, ValueError, OSError):
            continue
    return None


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", errors="replace")


def canonical(name: str) -> str:
    """Return rocprofv3's name of a column."""
    return _CANONICAL.get(name.strip().lower(), name.strip())
