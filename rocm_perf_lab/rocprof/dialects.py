"""Opening of rocpd databases, and identification of files that are something else.

Files are opened read-only and recognised by content: neither name nor directory matter. Other formats with the suffix `.db`
(rocprof v1, RPD, rocprofiler-compute) are recognised by their tables.
"""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING
from urllib.parse import quote

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.rocprof.schema import KNOWN_MAJOR_VERSIONS

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

SQLITE_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_LOG_MODE = 2
UNFINISHED = "contains an unfinished transaction"
_BUSY_TIMEOUT_S = 1.0
_COLLECT = "collect it with: rocprofv3 --kernel-trace -f rocpd -- APP"
_DIALECTS: tuple[tuple[str, frozenset[str]], ...] = (
    ("an RPD trace (rocmProfileData)", frozenset({"rocpd_op", "rocpd_api"})),
    ("a rocprofiler-compute analysis database", frozenset({"compute_workload"})),
    ("a rocprof v1 results database", frozenset({"A"})),
    ("a rocprof v1 results database", frozenset({"OPS", "HSA"})),
    ("a tracking database of MLflow", frozenset({"experiments", "runs", "alembic_version"})),
    ("a study database of Optuna", frozenset({"studies", "trials"})),
    ("an Nsight Systems export", frozenset({"StringIds", "TARGET_INFO_GPU"})),
)
"""Description of a file whose tables include all of a set."""


_CANNOT_LOCK = ("locking protocol", "disk I/O error", "unable to open database file")
"""SQLite's messages on file systems without locks, or without permission to write a lock file."""


UNREADABLE = (sqlite3.Error, UnicodeError)
"""Exceptions from reading a damaged file; the message about a damaged name cannot be decoded either."""


class DatabaseError(LabError):
    """A file that cannot be read as a rocpd database."""


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open a read-only connection to an intact SQLite file.

    Raises:
        DatabaseError: The file is missing, empty, truncated, locked or not SQLite.
    """
    in_log_mode = _check_file(path)
    _check_neighbours(path)
    try:
        # Reading a database in write-ahead mode would create two files next to it, unless it is declared immutable.
        return _connected(uri_of(path) if in_log_mode else f"{_plain_uri(path)}?mode=ro")
    except UNREADABLE as error:
        if not any(text in str(error) for text in _CANNOT_LOCK):
            raise database_error(path, error) from error
    try:
        return _connected(uri_of(path))
    except UNREADABLE as error:
        raise database_error(path, error) from error


def uri_of(path: Path) -> str:
    """Return a read-only URI without locks, for a further connection while an open one keeps writers out."""
    return f"{_plain_uri(path)}?mode=ro&immutable=1"


def _plain_uri(path: Path) -> str:
    return f"file:{quote(str(path.resolve()))}"


def _connected(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_TIMEOUT_S)
    # Command lines may contain any bytes, which is not a reason to reject a trace.
    connection.text_factory = lambda text: text.decode(errors="replace")
    try:
        connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except UNREADABLE:
        connection.close()
        raise
    return connection


def names_in(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the names of its tables, views and indexes."""
    return frozenset(str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master"))


def check_dialect(path: Path, tables: Collection[str]) -> None:
    """Reject a database without rocpd metadata, and identify its tool.

    Raises:
        DatabaseError: The file is not a rocpd database.
    """
    names = set(tables)
    for dialect, marks in _DIALECTS:
        if marks <= names:
            raise DatabaseError(f"this is {dialect}, not a rocpd database", where=str(path), hint=_COLLECT)
    if not any(name.startswith("rocpd_metadata") for name in names):
        shown = ", ".join(sorted(names)[:6]) or "none"
        raise DatabaseError(f"this SQLite file is not a rocpd database; its tables: {shown}", where=str(path), hint=_COLLECT)


def check_version(path: Path, version: object) -> str:
    """Return the schema version if its major number is supported.

    Raises:
        DatabaseError: The version is missing or not supported.
    """
    if version is None:
        raise DatabaseError("the rocpd metadata has no schema_version", where=str(path), hint=_COLLECT)
    if str(version).partition(".")[0] not in KNOWN_MAJOR_VERSIONS:
        known = " and ".join(f"{major}.x" for major in sorted(KNOWN_MAJOR_VERSIONS))
        raise DatabaseError(
            f"rocpd schema version {version} is not supported; supported versions: {known}",
            where=str(path),
            hint="update rocm-perf-lab, or convert the database with the rocpd tool of its ROCm release",
        )
    return str(version)


def database_error(path: Path, error: Exception) -> DatabaseError:
    """Convert an error of a query to a message for the user."""
    text = "a name in its schema is not text" if isinstance(error, UnicodeError) else str(error)
    if "locked" in text or "busy" in text:
        return DatabaseError(
            "the database is locked: its writer is still running", where=str(path), hint="wait until it finishes"
        )
    if "no such table" in text or "no such column" in text:
        return DatabaseError(f"the rocpd database is incomplete: {text}", where=str(path), hint=_COLLECT)
    return DatabaseError(f"the database is damaged: {text}", where=str(path), hint=_COLLECT)


def _check_neighbours(path: Path) -> None:
    """Reject a database with a non-empty rollback journal or write-ahead log, because the file alone is incomplete."""
    for ending in ("-journal", "-wal"):
        neighbour = path.with_name(path.name + ending)
        try:
            # A journal with a zero header is from a completed transaction.
            with neighbour.open("rb") as source:
                unfinished = any(source.read(28))
        except OSError:
            continue
        if unfinished:
            raise DatabaseError(
                f"the database is locked or partial: {neighbour.name} next to it {UNFINISHED}",
                where=str(path),
                hint="wait until its writer finishes; if it was killed, collect it again",
            )


def _check_file(path: Path) -> bool:
    """Return True if an intact SQLite file is in write-ahead mode."""
    try:
        with path.open("rb") as source:
            header = source.read(_HEADER_BYTES)
            size = os.fstat(source.fileno()).st_size
    except OSError as error:
        raise DatabaseError(f"cannot open the database: {error.strerror}", where=str(path)) from error
    if not header:
        raise DatabaseError(
            "the database is empty: the profiled process ended before it was written",
            where=str(path),
            hint=_COLLECT,
        )
    if not header.startswith(SQLITE_MAGIC):
        raise DatabaseError(_other_format(path, header), where=str(path), hint=_COLLECT)
    expected = _declared_bytes(header)
    if size < expected:
        raise DatabaseError(
            f"the database is truncated: {size} bytes of {expected}", where=str(path), hint="copy or collect it again"
        )
    return header[18] == _LOG_MODE


def _other_format(path: Path, header: bytes) -> str:
    """Return a description of a file that is not a database."""
    if header.lstrip()[:1] in (b"{", b"["):
        return "this is JSON (rocprofv3 -f json writes it), not an SQLite file"
    ending = next((name for name in (".pftrace", ".otf2", ".proto") if path.name.endswith(name)), None)
    return f"this is a viewer trace ({ending}), not an SQLite file" if ending else "this is not an SQLite file"


def _declared_bytes(header: bytes) -> int:
    """Return the file size stated in the SQLite header; a truncated file is smaller."""
    if len(header) < _HEADER_BYTES:
        return _HEADER_BYTES
    page_bytes = int.from_bytes(header[16:18]) or 1
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    change_counter, pages, valid_for = (int.from_bytes(header[at : at + 4]) for at in (24, 28, 92))
    return pages * page_bytes if change_counter == valid_for else _HEADER_BYTES
