"""Reader for rocpd databases of rocprofv3 and of rocm-perf-lab's devices; returns a :class:`Trace`.

Files are never changed: the connection is read-only and views are temporary. Columns are found by name; additional columns
and tables are accepted. Every suffixed set of tables (one per process) is read, and ids are separated by guid.
"""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.rocprof.columns import Tables
from rocm_perf_lab.rocprof.descriptions import provenance_of
from rocm_perf_lab.rocprof.dialects import (
    UNREADABLE,
    DatabaseError,
    check_dialect,
    check_version,
    database_error,
    names_in,
    open_read_only,
    uri_of,
)
from rocm_perf_lab.rocprof.finding import database_files
from rocm_perf_lab.rocprof.information import Information
from rocm_perf_lab.rocprof.merging import merge, several_machines
from rocm_perf_lab.rocprof.records import Records
from rocm_perf_lab.rocprof.trace import Trace
from rocm_perf_lab.rocprof.write_ahead import log_of, settled

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable
    from pathlib import Path


def read_database(path: Path) -> Trace:
    """Return the content of one database and of its write-ahead log.

    Raises:
        DatabaseError: The file is not a rocpd database, has an unsupported version, or is damaged, locked or incomplete.
    """
    log = log_of(path)
    if log is None:
        return _read(path)
    with settled(path) as copy:
        trace = _read(copy)
    digests = f"{_sha256(path)}{_sha256(log)}"
    note = f"the content of {log.name} was read too; its writer may still be running"
    return replace(
        trace, path=path, paths=(path,), sha256=hashlib.sha256(digests.encode()).hexdigest(), notes=(note, *trace.notes)
    )


def _read(path: Path) -> Trace:
    connection = open_read_only(path)
    try:
        check_dialect(path, names_in(connection))
        # A transaction keeps writers out while the pages of the file are read.
        connection.execute("BEGIN")
        tables = Tables(connection, path)
        tables.give_plain_names()
        connection.execute("SELECT COUNT(*) FROM rocpd_metadata").fetchone()
        tables.use_arrow(uri_of(path))
        with ThreadPoolExecutor(1) as beside:
            digest = beside.submit(_sha256, path)
            return _trace(connection, tables, path, digest.result)
    except UNREADABLE as error:
        raise database_error(path, error) from error
    except json.JSONDecodeError as error:
        raise DatabaseError(f"an extdata column does not contain JSON: {error}", where=str(path)) from error
    finally:
        connection.close()


def read_databases(paths: Iterable[Path]) -> Trace:
    """Return all databases of one run, merged: every process of every file. A directory means the databases in it.

    Raises:
        DatabaseError: A database cannot be read, or the databases are not from one run.
    """
    return merge([read_database(path) for path in database_files(paths)])


def _trace(connection: sqlite3.Connection, tables: Tables, path: Path, sha256: Callable[[], str]) -> Trace:
    metadata = dict(connection.execute("SELECT tag, value FROM rocpd_metadata").fetchall())
    version = check_version(path, metadata.get("schema_version"))
    information = Information(tables, path)
    records = Records(tables, information, path)
    dispatches = records.dispatches()
    copies, counters, regions = records.copies(), records.counters(), records.regions()
    return Trace(
        path=path,
        sha256=sha256(),
        schema_version=version,
        provenance=provenance_of(information.agents),
        processes=information.processes,
        agents=information.agents,
        kernels=information.kernels,
        dispatches=dispatches,
        memory_copies=copies,
        counters=counters,
        regions=regions,
        queues=information.lanes("rocpd_info_queue"),
        streams=information.lanes("rocpd_info_stream"),
        notes=(*records.notes, *several_machines(information.processes)),
        paths=(path,),
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
