"""Discovery of rocpd databases in directories, by content: names and suffixes do not matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.dialects import (
    SQLITE_MAGIC,
    UNFINISHED,
    UNREADABLE,
    DatabaseError,
    check_dialect,
    names_in,
    open_read_only,
)
from rocm_perf_lab.rocprof.write_ahead import settled

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_SCHEMA_BYTES = 1 << 18
"""Upper bound of the size of a rocpd schema at the start of a file."""


def database_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the given files, and the databases in the given directories.

    Raises:
        DatabaseError: There is no database.
    """
    files: dict[Path, None] = {}
    for path in paths:
        files.update(dict.fromkeys(find_databases(path) if path.is_dir() else (path,)))
    if not files:
        raise DatabaseError("no database was specified", where="database_files")
    return tuple(files)


def find_databases(directory: Path) -> tuple[Path, ...]:
    """Return the rocpd databases in a directory tree, recognised by content.

    Raises:
        DatabaseError: There is no database.
    """
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    found = tuple(path for path in files if is_rocpd(path))
    if not found:
        shown = ", ".join(str(path.relative_to(directory)) for path in files[:5]) or "nothing"
        raise DatabaseError(
            f"no rocpd database among {len(files)} files: {shown}",
            where=str(directory),
            hint="collect one with: rocprofv3 --kernel-trace -f rocpd -d DIRECTORY -- APP",
        )
    return found


def begins_as_sqlite(path: Path) -> bool:
    """Return True if a file starts like an SQLite file; False if it cannot be opened."""
    try:
        with path.open("rb") as source:
            return source.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError:
        return False


def is_rocpd(path: Path) -> bool:
    """Return True if a file is a rocpd database by its schema, or by its first pages if it cannot be opened."""
    try:
        with path.open("rb") as source:
            begin = source.read(len(SQLITE_MAGIC))
            if begin != SQLITE_MAGIC:
                return False
            begin = source.read(_SCHEMA_BYTES)
    except OSError:
        return False
    try:
        with settled(path) as file:
            return _has_tables_of_rocpd(file)
    except DatabaseError as error:
        # The type of a truncated or damaged file is unknown: better an error about it than data silently missing.
        return b"rocpd_metadata" in begin or UNFINISHED not in error.what


def _has_tables_of_rocpd(path: Path) -> bool:
    connection = open_read_only(path)
    try:
        check_dialect(path, names_in(connection))
    except DatabaseError:
        return False
    except UNREADABLE:
        return True
    finally:
        connection.close()
    return True
