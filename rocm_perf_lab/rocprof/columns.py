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
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Columns = dict[str, NDArray[Any]]

NULL = int(np.iinfo(np.int64).min)
"""What stands for NULL in a column of integers."""
_METADATA = "rocpd_metadata"
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
        query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        names = [str(name) for (name,) in connection.execute(query)]
        plain_of = {name: _plain(name, names) for name in names if name.startswith("rocpd_")}
        suffixed = {plain for name, plain in plain_of.items() if plain != name}
        for name, plain in plain_of.items():
            if plain != name or plain not in suffixed:
                self._members.setdefault(plain, []).append(self._described(name, plain))

    def __contains__(self, plain: str) -> bool:
        return plain in self._members

    def give_plain_names(self) -> None:
        """Temporary views over all suffixed tables: a merged file is read whole, and a missing view does not matter."""
        for plain, members in self._members.items():
            union = " UNION ALL ".join(f'SELECT * FROM main."{member.name}"' for member in members)
            if members[0].name != plain:
                self._connection.execute(f'CREATE TEMP VIEW "{plain}" AS {union}')

    def use_arrow(self, uri: str) -> None:
        """Read large tables through a connection of its own. This one must be in a transaction that keeps writers out."""
        if self._path.stat().st_size >= _ARROW_PAYS_FROM_BYTES:
            keep_freed_memory()
            self._arrow = ArrowColumns(uri)

    def read(
        self, plain: str, integers: Sequence[str], *, reals: Sequence[str] = (), optional: Mapping[str, int] | None = None
    ) -> Iterator[tuple[str, Columns]]:
        """Guid and columns of every process; rows by rising id, none of zero rows.

        Args:
            plain: Name of the table without suffix.
            integers: Columns of whole numbers.
            reals: Columns of other numbers; NULL is not a number.
            optional: Columns of whole numbers that may be NULL or missing -> what stands in then.

        Raises:
            DatabaseError: A value that is no number, or NULL where there must be one.
            sqlite3.Error: No such table or column, or a damaged file.
        """
        for member in self._members.get(plain, [_Table(plain, plain, ())]):
            fills = dict(optional or {})
            there = [name for name in fills if name in member.declared]
            for guid, columns in self._read(member, (*integers, *there), tuple(reals)):
                count = len(columns["id"])
                if any(np.any(columns[name] == NULL) for name in integers):
                    raise self._no_number(plain, "NULL in a column that must not have it")
                for name, fill in fills.items():
                    found = columns.setdefault(name, np.full(count, fill, np.int64))
                    if name in there:
                        columns[name] = np.where(found == NULL, fill, found) if (found == NULL).any() else found
                if count:
                    yield guid, columns

    def rows(self, plain: str, integers: Sequence[str], texts: Sequence[str]) -> list[tuple[Any, ...]]:
        """Guid, whole numbers (NULL is 0) and texts (NULL is empty) of a small table, by guid and id.

        Raises:
            DatabaseError: A value of another type.
            sqlite3.Error: No such table or column, or a damaged file.
        """
        chosen = ", ".join(("guid", *integers, *texts))
        rows = []
        for guid, *values in self._connection.execute(f"SELECT {chosen} FROM {plain} ORDER BY guid, id"):
            numbers = [value or 0 for value in values[: len(integers)]]
            if other := next((number for number in numbers if not isinstance(number, int)), None):
                raise self._no_number(plain, f"{str(other)[:40]!r} in one of {', '.join(integers)}")
            rows.append((str(guid), *numbers, *(_text(value) for value in values[len(integers) :])))
        return rows

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
            remedy="collect it again",
        )


def _plain(name: str, names: Sequence[str]) -> str:
    """The name of a table without its suffix: what stands behind the name of a metadata table, or else a guid."""
    suffixes = (other.removeprefix(_METADATA) for other in names if other.startswith(_METADATA) and other != _METADATA)
    return next((name.removesuffix(suffix) for suffix in suffixes if name.endswith(suffix)), _GUID.sub("", name))


def _text(value: object) -> str:
    return "" if value is None else str(value)
