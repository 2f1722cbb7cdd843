"""One CSV file of a ROCm profiler as columns, under the names that rocprofv3 gives them.

Releases and tools call the same column differently: `Group_Segment_Size` (rocprofv3 6.x), `Lds_Block_Size` (rocpd convert),
`LDS_Per_Workgroup` (rocprof-compute, rocprofv2), `lds` (rocprof). Files that end in `.gz` are unpacked on the way.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.dialects import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Cells = dict[str, list[str]]
    """The texts of each column."""

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
}
_CANONICAL = {name.lower(): name for name in NAMES} | _OTHERNAMES


_ARROW_PAYS_FROM_BYTES = 1 << 20


class CsvError(DatabaseError):
    """CSV files that cannot be read as output of rocprofv3."""


def read_cells(file: Path, needed: Sequence[str], guid: str | None = None) -> Cells:
    """All columns of a file.

    Args:
        file: Its path.
        needed: Columns that it must have.
        guid: Only the rows of that process, where the file says which is whose.

    Raises:
        CsvError: It cannot be opened, is no CSV, is cut short, lacks a column of `needed`, or is of several processes.
    """
    data = content_of(file)
    header = _header(file, data)
    missing = [name for name in needed if name not in header]
    if missing:
        found = ", ".join(header[:6]) or "nothing"
        raise CsvError(
            f"no column {', '.join(missing)}; the file begins with: {found}",
            where=str(file),
            hint="give the file as rocprofv3 wrote it",
        )
    columns = _arrow_columns(data, len(header)) if len(data) >= _ARROW_PAYS_FROM_BYTES else None
    cells = dict(zip(header, columns or _columns(file, data, len(header)), strict=True))
    if guid is not None and "Guid" in cells:
        own = [row for row, one in enumerate(cells["Guid"]) if one == guid]
        cells = {name: [column[row] for row in own] for name, column in cells.items()}
    if any(len(set(cells.get(name, ()))) > 1 for name in ("Guid", "Process_Id")):
        raise CsvError(
            "the rows are of several processes, whose ids CSV does not keep apart",
            where=str(file),
            hint="read the database that it was converted from",
        )
    return cells


def guids_of(file: Path) -> tuple[str, ...]:
    """The processes that a file of `rocpd convert` is of, in order of their first row; none where it does not say.

    Raises:
        CsvError: It cannot be read.
    """
    header = header_of(file)
    if "Guid" not in header:
        return ()
    place = header.index("Guid")
    rows = csv.reader(io.StringIO(content_of(file).decode("utf-8-sig", errors="replace"), newline=""))
    next(rows)
    try:
        return tuple(dict.fromkeys(row[place] for row in rows if len(row) > place and row[place]))
    except csv.Error:
        return ()


def header_of(file: Path) -> tuple[str, ...]:
    """The names of its columns; none where it cannot be read."""
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as source:
            line = source.readline(1 << 20)
    except (OSError, EOFError, zlib.error):
        return ()
    try:
        return tuple(_canonical(name) for name in next(csv.reader([line.decode("utf-8-sig", errors="replace")]), []))
    except csv.Error:
        return ()


def content_of(file: Path) -> bytes:
    """The bytes of a file, unpacked where its name ends in `.gz`.

    Raises:
        CsvError: It cannot be read.
    """
    try:
        content = file.read_bytes()
        return gzip.decompress(content) if file.suffix == ".gz" else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CsvError(f"the file cannot be unpacked: {error}", where=str(file), hint="copy it again") from error
    except OSError as error:
        raise CsvError(f"cannot open the file: {error.strerror}", where=str(file)) from error


def integers(file: Path, name: str, texts: Sequence[str]) -> NDArray[np.int64]:
    """The values of a column of whole numbers.

    Raises:
        CsvError: One of them is none.
    """
    try:
        return np.array(list(map(int, texts)), np.int64)
    except (ValueError, OverflowError):
        pass
    try:
        # Nothing was there, or the table went through a data frame, which may make "12.0" of whole numbers.
        return np.array([int(text.removesuffix(".0") or 0) for text in texts], np.int64)
    except (ValueError, OverflowError) as error:
        raise CsvError(f"column {name} holds a value that is no whole number: {error}", where=str(file)) from error


def reals(file: Path, name: str, texts: Sequence[str]) -> NDArray[np.float64]:
    """The values of a column of numbers; infinite ones and those that are no number included.

    Raises:
        CsvError: A text that is none of these.
    """
    try:
        return np.array([float(text) for text in texts], np.float64)
    except ValueError as error:
        raise CsvError(f"column {name} holds a value that is no number: {error}", where=str(file)) from error


def _header(file: Path, data: bytes) -> list[str]:
    line = data[: data.find(b"\n") + 1] or data
    try:
        return [_canonical(name) for name in next(csv.reader([_text(line)]), [])]
    except csv.Error as error:
        raise CsvError(f"the file is no CSV: {error}", where=str(file), hint="collect it again") from error


def _columns(file: Path, data: bytes, width: int) -> list[list[str]]:
    """The columns below the header."""
    try:
        rows = [row for row in csv.reader(io.StringIO(_text(data), newline="")) if row][1:]
    except csv.Error as error:
        raise CsvError(f"the file is no CSV: {error}", where=str(file), hint="collect it again") from error
    short = next((line for line, row in enumerate(rows, start=2) if len(row) != width), None)
    if short is not None:
        raise CsvError(f"row {short} has not {width} columns: cut short?", where=str(file), hint="collect it again")
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]


def _arrow_columns(data: bytes, width: int) -> list[list[str]] | None:
    """The same by Arrow, in a tenth of the time; None where it objects to something, which the other way says better."""
    import pyarrow
    from pyarrow import csv as arrow

    names = [str(number) for number in range(width)]
    try:
        table = arrow.read_csv(
            io.BytesIO(data),
            read_options=arrow.ReadOptions(column_names=names, skip_rows=1),
            parse_options=arrow.ParseOptions(newlines_in_values=True),
            convert_options=arrow.ConvertOptions(column_types=dict.fromkeys(names, pyarrow.string())),
        )
        return [table.column(name).to_pylist() for name in names]
    except (pyarrow.ArrowException, ValueError):
        return None


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", errors="replace")


def _canonical(name: str) -> str:
    return _CANONICAL.get(name.strip().lower(), name.strip())
