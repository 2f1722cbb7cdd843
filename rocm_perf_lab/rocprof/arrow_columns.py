"""Columns of large SQLite tables as arrays, by Arrow's SQLite driver (ADBC): no Python object per value.

The driver of the standard library makes an object of every value, 3 s for the dispatches of a large trace; this takes a
third. Takes the URI of a database, gives columns. Arrow columns have one type: what does not fit raises :class:`Unsuited`,
and is left to the standard library's driver, which says what is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Columns = dict[str, NDArray[Any]]

_MAPPED_BYTES = 1 << 40
"""As much of the file as there is: its pages need not be copied."""
_ROWS_AT_ONCE = 16384
"""Few enough for their arrays to be freed and used again, instead of being mapped anew."""


class Unsuited(Exception):
    """Columns that Arrow does not give as numbers."""


class ArrowColumns:
    """Reads whole columns of one database that nobody writes to."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def read(self, table: str, integers: Sequence[str], reals: Sequence[str], *, null: int) -> tuple[str, Columns]:
        """The guid of all rows, empty where there are none, and the columns by rising id.

        Args:
            table: Its name.
            integers: Columns of whole numbers; NULL becomes `null`.
            reals: Columns of other numbers; NULL is not a number.
            null: What stands for NULL among whole numbers.

        Raises:
            Unsuited: Several guids, or values that are no numbers.
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
    """The record batches of a query."""
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
    """Copy one record batch to row `at` and after. Its last column is not 0 where the guid is another."""
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
    """The memory of an Arrow array, what stands for NULL undefined. Its own `to_numpy` imports pandas: most of a second."""
    import pyarrow

    kind = {pyarrow.int64(): np.int64, pyarrow.float64(): np.float64}.get(values.type)
    if kind is None:
        raise Unsuited(f"{name} holds {values.type}")
    _, data = values.buffers()
    return np.frombuffer(data, kind, count=len(values), offset=values.offset * np.dtype(kind).itemsize)


def _absent(values: Any) -> NDArray[np.intp]:
    """Where an array that has NULLs has them: Arrow keeps a bit of each entry, 0 for NULL."""
    bits = np.unpackbits(np.frombuffer(values.buffers()[0], np.uint8), bitorder="little")
    return np.flatnonzero(bits[values.offset : values.offset + len(values)] == 0)
