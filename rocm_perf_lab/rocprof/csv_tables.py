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

from rocm_perf_lab.rocprof.csv_columns import Column, CsvError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Cells = dict[str, Column]
    """Columns by name."""
    ProcessRows = tuple[str, str]
    """Column that identifies the process of a row, and the value of one process."""

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
    data = content_of(file)
    header = _header(file, data)
    missing = [name for name in needed if name not in header]
    if missing:
        found = ", ".join(header[:6]) or "nothing"
        raise CsvError(
            f"no column {', '.join(missing)}; the file starts with: {found}",
            where=str(file),
            hint="pass the file as the profiler wrote it",
        )
    columns = _arrow_columns(data, len(header)) if len(data) >= _ARROW_PAYS_FROM_BYTES else None
    if columns is None:
        columns = _columns(file, data, len(header))
    cells = {name: Column(file, name, column) for name, column in zip(header, columns, strict=True)}
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
    data, place = content_of(file), header.index(name)
    columns = _arrow_columns(data, len(header), place) if len(data) >= _ARROW_PAYS_FROM_BYTES else None
    if columns is None:
        columns = [_columns(file, data, len(header))[place]]
    return tuple((name, value) for value in Column(file, name, columns[0]).codes()[1] if value)


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


def _arrow_columns(data: bytes, width: int, only: int | None = None) -> list[Any] | None:
    """Read all columns or one with Arrow, in a tenth of the time; None if it fails, since the other way reports errors better."""
    import pyarrow
    from pyarrow import csv as arrow

    names = [str(number) for number in range(width)]
    wanted = names if only is None else [names[only]]
    try:
        table = arrow.read_csv(
            io.BytesIO(data),
            read_options=arrow.ReadOptions(column_names=names, skip_rows=1),
            parse_options=arrow.ParseOptions(newlines_in_values=True),
            convert_options=arrow.ConvertOptions(column_types=dict.fromkeys(names, pyarrow.string()), include_columns=wanted),
        )
        return [table.column(name) for name in wanted]
    except (pyarrow.ArrowException, ValueError):
        return None


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", errors="replace")


def canonical(name: str) -> str:
    """Return rocprofv3's name of a column."""
    return _CANONICAL.get(name.strip().lower(), name.strip())
