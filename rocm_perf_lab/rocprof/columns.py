"""Large tables of a rocpd database as columns, separated by guid.

Every process has its own set of tables, suffixed with its guid; a merged file has several. The base tables are read instead of
the views, because `kernels` and `counters_collection` join seven tables per row. Columns of large files are read with Arrow
(:mod:`rocm_perf_lab.rocprof.arrow_columns`), of small files with the standard library; both return the same values.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.rocprof.arrow_columns import ArrowColumns, Unsuited
from rocm_perf_lab.rocprof.dialects import DatabaseError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Columns = dict[str, NDArray[Any]]

NULL = int(np.iinfo(np.int64).min)
"""Replacement for NULL in integer columns."""
_METADATA = "rocpd_metadata"
_LZ4_MARK = b"LZ4F"
_GUID = re.compile(r"_[0-9a-f]{8}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{12}$", re.IGNORECASE)
_ARROW_PAYS_FROM_BYTES = 16 << 20
"""Below this size the import of Arrow (0.1 s) costs more than it saves."""


@dataclass(frozen=True)
class _Table:
    name: str
    plain: str
    declared: tuple[str, ...]


class Tables:
    """Base tables of one database, by name without suffix."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._members: dict[str, list[_Table]] = {}
        self._arrow: ArrowColumns | None = None
        query = "SELECT name FROM sqlite_master WHERE type = ? ORDER BY name"
        names, views = ([str(name) for (name,) in connection.execute(query, (kind,))] for kind in ("table", "view"))
        plain_of = {name: _plain(name, names) for name in names if name.startswith("rocpd_")}
        suffixed = {plain for name, plain in plain_of.items() if plain != name}
        for name, plain in plain_of.items():
            if plain != name or plain not in suffixed:
                self._members.setdefault(plain, []).append(self._described(name, plain))
        # If tables have other names, only the views with the plain names identify them.
        for view in views:
            if view.startswith("rocpd_") and view not in self._members:
                self._members[view] = [self._described(view, view)]

    def __contains__(self, plain: str) -> bool:
        return plain in self._members

    def declares(self, plain: str, column: str) -> bool:
        """Return True if any process has that column in that table."""
        return any(column in member.declared for member in self._members.get(plain, ()))

    def give_plain_names(self) -> None:
        """Create temporary views over all suffixed tables: a merged file is read whole, and missing views do not matter.

        If processes were recorded with different schemas, a column that one of them lacks is NULL there.
        """
        for plain, members in self._members.items():
            if members[0].name == plain:
                continue
            columns = dict.fromkeys(column for member in members for column in member.declared)
            union = " UNION ALL ".join(
                f'SELECT {_chosen(columns, member.declared)} FROM main."{member.name}"' for member in members
            )
            self._connection.execute(f'CREATE TEMP VIEW "{plain}" AS {union}')

    def use_arrow(self, uri: str) -> None:
        """Read large tables through a separate connection. This connection must be in a transaction that keeps writers out."""
        if self._path.stat().st_size >= _ARROW_PAYS_FROM_BYTES:
            keep_freed_memory()
            self._arrow = ArrowColumns(uri)

    def read(
        self,
        plain: str,
        integers: Sequence[str],
        *,
        reals: Sequence[str] = (),
        nullable: Mapping[str, int] | None = None,
        optional: Mapping[str, int] | None = None,
    ) -> Iterator[tuple[str, Columns]]:
        """Yield guid and columns of every process, sorted by id; processes without rows are skipped.

        Args:
            plain: Name of the table without suffix.
            integers: Integer columns.
            reals: Other numeric columns; NULL becomes NaN.
            nullable: Integer columns that may be NULL, with the replacement.
            optional: Integer columns that may be NULL or missing, with the replacement.

        Raises:
            DatabaseError: A value is not a number, or a required value is NULL.
            sqlite3.Error: A table or column is missing, or the file is damaged.
        """
        fills = {**(nullable or {}), **(optional or {})}
        for member in self._members.get(plain, [_Table(plain, plain, ())]):
            there = [name for name in fills if name in (nullable or {}) or name in member.declared]
            for guid, columns in self._read(member, (*integers, *there), tuple(reals)):
                if any(np.any(columns[name] == NULL) for name in integers):
                    raise self._no_number(plain, "NULL in a column that must not have it")
                count = len(columns["id"])
                for name, fill in fills.items():
                    if name not in there:
                        columns[name] = np.full(count, fill, np.int64)
                    elif (absent := columns[name] == NULL).any():
                        columns[name] = np.where(absent, fill, columns[name])
                if count:
                    yield guid, columns

    def rows(
        self, plain: str, integers: Sequence[str], texts: Sequence[str], *, optional: Sequence[str] = ()
    ) -> list[tuple[Any, ...]]:
        """Return guid, integers (NULL is 0) and texts (NULL is empty) of a small table, sorted by guid and id.

        Args:
            plain: Name of the table without suffix.
            integers: Required integer columns.
            texts: Text columns; a missing one is empty.
            optional: Further integer columns, placed after the others; a missing one is 0.

        Raises:
            DatabaseError: A value has another type.
            sqlite3.Error: A table or column is missing, or the file is damaged.
        """
        declared = {column for member in self._members.get(plain, ()) for column in member.declared}
        numbered = (*integers, *optional)
        chosen = ", ".join(
            ("guid", *integers, _chosen((*optional, *texts), declared)) if optional or texts else ("guid", *integers)
        )
        rows = []
        for guid, *values in self._connection.execute(f'SELECT {chosen} FROM "{plain}" ORDER BY guid, id'):
            numbers = [value or 0 for value in values[: len(numbered)]]
            if other := next((number for number in numbers if not isinstance(number, int)), None):
                raise self._no_number(plain, f"{str(other)[:40]!r} in one of {', '.join(numbered)}")
            rows.append((str(guid), *numbers, *(_text(value) for value in values[len(numbered) :])))
        return rows

    def has_rows(self, plain: str) -> bool:
        """Return whether a table exists and has a row."""
        return plain in self and self._connection.execute(f'SELECT EXISTS (SELECT 1 FROM "{plain}")').fetchone()[0] == 1

    def text(self, plain: str, column: str, guid: str, row_id: int) -> str:
        """Return a text of one row; empty if the row does not exist."""
        query = f'SELECT "{column}" FROM "{plain}" WHERE id = ? AND guid = ?'
        row = self._connection.execute(query, (row_id, guid)).fetchone()
        return _text(row[0]) if row else ""

    def _described(self, name: str, plain: str) -> _Table:
        rows = self._connection.execute(f'PRAGMA main.table_info("{name}")').fetchall()
        return _Table(name, plain, tuple(str(row[1]) for row in rows))

    def _read(self, table: _Table, integers: Sequence[str], reals: Sequence[str]) -> Iterator[tuple[str, Columns]]:
        try:
            if self._arrow is None or not {*integers, *reals, "guid"} <= set(table.declared):
                raise Unsuited("a small file, or a column that is not there")
            found = self._arrow.read(table.name, integers, reals, null=NULL)
        except Unsuited:
            yield from self._by_queries(table, integers, reals)
        else:
            yield found

    def _by_queries(self, table: _Table, integers: Sequence[str], reals: Sequence[str]) -> Iterator[tuple[str, Columns]]:
        source = f'"{table.name}"'
        for (guid,) in self._connection.execute(f"SELECT DISTINCT guid FROM {source} ORDER BY guid").fetchall():
            columns: Columns = {}
            chosen = ", ".join(f"ifnull({name}, {NULL})" for name in integers)
            rows = self._connection.execute(f"SELECT {chosen} FROM {source} WHERE guid = ? ORDER BY id", (guid,))
            table_of = np.array(rows.fetchall())
            if table_of.dtype != np.int64:
                raise self._no_number(table.plain, f"one of {', '.join(integers)}")
            columns.update((name, np.ascontiguousarray(table_of[:, index])) for index, name in enumerate(integers))
            for name in reals:
                rows = self._connection.execute(f"SELECT {name} FROM {source} WHERE guid = ? ORDER BY id", (guid,))
                try:
                    columns[name] = np.array([np.nan if value is None else value for (value,) in rows], np.float64)
                except (TypeError, ValueError) as error:
                    raise self._no_number(table.plain, error) from error
            yield str(guid), columns

    def _no_number(self, plain: str, error: Exception | str) -> DatabaseError:
        return DatabaseError(
            f"{plain} contains a value that is not an integer: {error}",
            where=str(self._path),
            hint="collect it again",
        )


def _plain(name: str, names: Sequence[str]) -> str:
    """Return the name of a table without its suffix: the suffix of a metadata table, or else a guid."""
    suffixes = (other.removeprefix(_METADATA) for other in names if other.startswith(_METADATA) and other != _METADATA)
    return next((name.removesuffix(suffix) for suffix in suffixes if name.endswith(suffix)), _GUID.sub("", name))


def _chosen(columns: Iterable[str], declared: Collection[str]) -> str:
    return ", ".join(f'"{column}"' if column in declared else f'NULL AS "{column}"' for column in columns)


def _text(value: object) -> str:
    """Return a value as text, decompressed if necessary (schema 4)."""
    if isinstance(value, bytes):
        return _unpacked(value).decode(errors="replace")
    return "" if value is None else str(value)


def _unpacked(value: bytes) -> bytes:
    """Decompress LZ4: a magic number and the decompressed size, 4 bytes each, then the frame."""
    if not value.startswith(_LZ4_MARK):
        return value
    import pyarrow

    length, begin = int.from_bytes(value[4:8], "little"), 8
    try:
        return bytes(pyarrow.decompress(value[begin:], decompressed_size=length, codec="lz4"))
    except (pyarrow.ArrowException, OSError):
        return value


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt(3)."""
_LIMIT_BYTES = 1 << 30


def keep_freed_memory() -> None:
    """Keep freed memory in this process from now on. Does nothing if the C library has no such setting."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
            mallopt(parameter, _LIMIT_BYTES)
