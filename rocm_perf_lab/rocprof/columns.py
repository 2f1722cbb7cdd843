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
_SUFFIX = re.compile(r"_[0-9a-f]{8}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{12}$")
_ARROW_PAYS_FROM_BYTES = 16 << 20
"""Importing it takes a tenth of a second."""


@dataclass(frozen=True)
class _Table:
    name: str
    declared: tuple[str, ...]


class Tables:
    """The base tables of one database, by their plain names."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._members: dict[str, list[_Table]] = {}
        self._arrow: ArrowColumns | None = None
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        suffixed = {_SUFFIX.sub("", name) for name in names if _SUFFIX.search(name)}
        for name in names:
            plain = _SUFFIX.sub("", name)
            if name.startswith("rocpd_") and (plain != name or plain not in suffixed):
                self._members.setdefault(plain, []).append(self._described(name))

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
        for member in self._members.get(plain, [_Table(plain, ())]):
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

    def _described(self, name: str) -> _Table:
        rows = self._connection.execute(f'PRAGMA main.table_info("{name}")').fetchall()
        return _Table(name, tuple(row[1] for row in rows))

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
                raise self._no_number(table.name, f"one of {', '.join(integers)}")
            columns.update((name, np.ascontiguousarray(table_of[:, index])) for index, name in enumerate(integers))
            for name in reals:
                rows = self._connection.execute(f"SELECT {name} FROM {source} WHERE guid = ? ORDER BY id", (guid,))
                try:
                    columns[name] = np.array([np.nan if value is None else value for (value,) in rows], np.float64)
                except (TypeError, ValueError) as error:
                    raise self._no_number(table.name, error) from error
            yield guid, columns

    def _no_number(self, table: str, error: Exception | str) -> DatabaseError:
        return DatabaseError(
            f"{_SUFFIX.sub('', table)} holds a value that is no whole number: {error}",
            where=str(self._path),
            remedy="collect it again",
        )
