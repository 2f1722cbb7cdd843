"""A database together with its write-ahead log, as one file.

The content of `results.db-wal` is part of the database, and SQLite would write to the directory to read it. Both files are copied
to a private directory and merged there; the user's files are not touched.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.dialects import DatabaseError, database_error

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG_HEADER_BYTES = 32


def log_of(path: Path) -> Path | None:
    """Return the write-ahead log of a database; None if it does not exist or is empty."""
    log = path.with_name(f"{path.name}-wal")
    try:
        return log if log.stat().st_size > _LOG_HEADER_BYTES else None
    except OSError:
        return None


@contextmanager
def settled(path: Path) -> Iterator[Path]:
    """Yield the file itself, or a private copy that includes its log, for the duration of the block.

    Raises:
        DatabaseError: The log does not fit the file, or its writer is still running.
    """
    log = log_of(path)
    if log is None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as directory:
        copy = Path(directory, path.name)
        before = _state(path, log)
        try:
            shutil.copyfile(path, copy)
            shutil.copyfile(log, copy.with_name(log.name))
        except OSError as error:
            raise DatabaseError(f"cannot copy the database and its log: {error.strerror}", where=str(path)) from error
        if _state(path, log) != before:
            raise DatabaseError(
                f"the database is locked or partial: {log.name} next to it is being written",
                where=str(path),
                hint="wait until its writer finishes",
            )
        try:
            connection = sqlite3.connect(copy)
            try:
                connection.execute("PRAGMA journal_mode = DELETE").fetchone()
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise database_error(path, error) from error
        yield copy


def _state(*paths: Path) -> list[tuple[int, int]]:
    return [(path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
