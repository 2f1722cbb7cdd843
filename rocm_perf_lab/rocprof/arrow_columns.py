"""Columns of large SQLite tables as arrays, read with Arrow's SQLite driver (ADBC) without one Python object per value.

The standard library's driver creates an object per value, which takes 3 s for the dispatches of a large trace; this module
takes a third of that. Arrow columns have one type: values that do not fit raise :class:`Unsuited`, and the standard library's
driver then reads the table and reports what is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Columns = dict[str, NDArray[Any]]

_MAPPED_BYTES = 1 << 40
"""The whole file is mapped, so its pages need not be copied."""
_ROWS_AT_ONCE = 16384
"""Small enough for the arrays to be freed and reused instead of being mapped again."""


class Unsuited(Exception):
    """Columns that Arrow cannot return as numbers."""


class ArrowColumns:
    """Reads whole columns of one database that has no writers."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def read(self, table: str, integers: Sequence[str], reals: Sequence[str], *, null: int) -> tuple[str, Columns]:
        """Return the guid of all rows (empty for zero rows) and the columns sorted by id.

        Args:
            table: Name of the table.
            integers: Integer columns; NULL becomes `null`.
            reals: Other numeric columns; NULL becomes NaN.
            null: Replacement for NULL in integer columns.

        Raises:
            Unsuited: The rows have several guids, or values are not numbers.
        """
        import adbc_driver_sqlite
        from adbc_driver_manager import AdbcConnection, Error
        from pyarrow import ArrowException

        try:
            with adbc_driver_sqlite.connect(self._uri) as database, AdbcConnection(database) as connection:
                for _ in _batches(connection, f"PRAGMA mmap_size = {_MAPPED_BYTES}"):
                    pass
                (first,) = _batches(
                    connection,
                    f'SELECT count(*), (SELECT guid FROM "{table}" ORDER BY id LIMIT 1) FROM "{table}"',
                )
                count, guid = (column[0].as_py() for column in first.columns)
                if count and not (guid and isinstance(guid, str)):
                    raise Unsuited("no guid")
                columns: Columns = {name: np.empty(count, np.int64) for name in integers}
                columns |= {name: np.empty(count, np.float64) for name in reals}
                chosen = ", ".join(f'"{name}"' for name in columns)
                filled = 0
                for batch in _batches(
                    connection, f'SELECT {chosen}, guid IS NOT {_literal(guid or "")} FROM "{table}" ORDER BY id'
                ):
                    _fill(columns, batch, filled, null)
                    filled += batch.num_rows
        except (Error, ArrowException, OSError) as error:
            raise Unsuited(str(error)) from error
        if filled != count:
            raise Unsuited(f"{filled} rows of {count}")
        return guid or "", columns


def _batches(connection: Any, query: str) -> Iterator[Any]:
    """Yield the record batches of a query."""
    from adbc_driver_manager import AdbcStatement
    from pyarrow import RecordBatchReader

    with AdbcStatement(connection) as statement:
        statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_ROWS_AT_ONCE)})
        statement.set_sql_query(query)
        stream, _ = statement.execute_query()
        with RecordBatchReader._import_from_c(stream.address) as reader:
            yield from reader


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _fill(columns: Columns, batch: Any, at: int, null: int) -> None:
    """Copy one record batch to row `at` and after. Its last column is non-zero for rows of another guid."""
    if not batch.num_rows:
        return
    if _numbers(batch.column(batch.num_columns - 1), "guid").any():
        raise Unsuited("several guids in one table")
    for position, (name, into) in enumerate(columns.items()):
        values = batch.column(position)
        found = _numbers(values, name)
        if into.dtype == np.int64 and found.dtype != np.int64:
            raise Unsuited(f"{name} holds {values.type}")
        there = into[at : at + batch.num_rows]
        there[:] = found
        if values.null_count:
            there[_absent(values)] = null if into.dtype == np.int64 else np.nan


def _numbers(values: Any, name: str) -> NDArray[Any]:
    """Return the memory of an Arrow array; NULL entries are undefined. Arrow's `to_numpy` would import pandas (0.5 s or more)."""
    import pyarrow

    kind = {pyarrow.int64(): np.int64, pyarrow.float64(): np.float64}.get(values.type)
    if kind is None:
        raise Unsuited(f"{name} holds {values.type}")
    _, data = values.buffers()
    return np.frombuffer(data, kind, count=len(values), offset=values.offset * np.dtype(kind).itemsize)


def _absent(values: Any) -> NDArray[np.intp]:
    """Return the positions of NULL: Arrow keeps one validity bit per entry, 0 for NULL."""
    bits = np.unpackbits(np.frombuffer(values.buffers()[0], np.uint8), bitorder="little")
    return np.flatnonzero(bits[values.offset : values.offset + len(values)] == 0)
