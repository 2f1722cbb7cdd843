"""Large tables of a rocpd database as columns, apart by guid.

Every process has its own set of tables, with its guid as suffix; a merged file has several. The base tables are read, not
the views over them: `kernels` and `counters_collection` join seven tables for each row. Of a large file columns are read
with Arrow (:mod:`rocm_perf_lab.rocprof.arrow_columns`), else by the standard library; both give the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.rocprof.arrow_columns import ArrowColumns, Unsuited
from rocm_perf_lab.rocprof.dialects import DatabaseError
from rocm_perf_lab.rocprof.large_arrays import keep_freed_memory

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Columns = dict[str, NDArray[Any]]

NULL = int(np.iinfo(np.int64).min)
"""What stands for NULL in a column of integers."""
_METADATA = "rocpd_metadata"
_LZ4_MARK = b"LZ4F"
_GUID = re.compile(r"_[0-9a-f]{8}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{12}$", re.IGNORECASE)
_ARROW_PAYS_FROM_BYTES = 16 << 20
"""Importing it takes a tenth of a second."""


@dataclass(frozen=True)
class _Table:
    name: str
    plain: str
    declared: tuple[str, ...]


class Tables:
    """The base tables of one database, by their plain names."""

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
        # Where tables are called otherwise, the views with the plain names are all that tells what they are.
        for view in views:
            if view.startswith("rocpd_") and view not in self._members:
                self._members[view] = [self._described(view, view)]

    def __contains__(self, plain: str) -> bool:
        return plain in self._members

    def declares(self, plain: str, column: str) -> bool:
        """Whether any process has that column in that table."""
        return any(column in member.declared for member in self._members.get(plain, ()))

    def give_plain_names(self) -> None:
        """Temporary views over all suffixed tables: a merged file is read whole, and a missing view does not matter.

        Where processes were recorded with different schemas, a column that one lacks is NULL there.
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
        """Read large tables through a connection of its own. This one must be in a transaction that keeps writers out."""
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
        """Guid and columns of every process; rows by rising id, none of zero rows.

        Args:
            plain: Name of the table without suffix.
            integers: Columns of whole numbers.
            reals: Columns of other numbers; NULL is not a number.
            nullable: Columns of whole numbers that may be NULL -> what stands in then.
            optional: Columns of whole numbers that may be NULL or missing -> what stands in then.

        Raises:
            DatabaseError: A value that is no number, or NULL where there must be one.
            sqlite3.Error: No such table or column, or a damaged file.
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
        """Guid, whole numbers (NULL is 0) and texts (NULL is empty) of a small table, by guid and id.

        Args:
            plain: Name of the table without suffix.
            integers: Columns of whole numbers that have to be there.
            texts: Columns of texts; one that is not there is empty.
            optional: Further columns of whole numbers, behind the others; one that is not there is 0.

        Raises:
            DatabaseError: A value of another type.
            sqlite3.Error: No such table or column, or a damaged file.
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

    def text(self, plain: str, column: str, guid: str, row_id: int) -> str:
        """A text of one row; empty where there is no such row."""
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
            f"{plain} holds a value that is no whole number: {error}",
            where=str(self._path),
            hint="collect it again",
        )


def _plain(name: str, names: Sequence[str]) -> str:
    """The name of a table without its suffix: what stands behind the name of a metadata table, or else a guid."""
    suffixes = (other.removeprefix(_METADATA) for other in names if other.startswith(_METADATA) and other != _METADATA)
    return next((name.removesuffix(suffix) for suffix in suffixes if name.endswith(suffix)), _GUID.sub("", name))


def _chosen(columns: Iterable[str], declared: Collection[str]) -> str:
    return ", ".join(f'"{column}"' if column in declared else f'NULL AS "{column}"' for column in columns)


def _text(value: object) -> str:
    """As text; what is compressed (schema 4 may be) unpacked."""
    if isinstance(value, bytes):
        return _unpacked(value).decode(errors="replace")
    return "" if value is None else str(value)


def _unpacked(value: bytes) -> bytes:
    """LZ4 frames stand behind a mark and the length of what is in them, 4 bytes each."""
    if not value.startswith(_LZ4_MARK):
        return value
    import pyarrow

    length, begin = int.from_bytes(value[4:8], "little"), 8
    try:
        return bytes(pyarrow.decompress(value[begin:], decompressed_size=length, codec="lz4"))
    except (pyarrow.ArrowException, OSError):
        return value
