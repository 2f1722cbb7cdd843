"""Writer for rocpd 3.0.0 databases: `write_database(path, run)`, or row by row `open_database(path, ...)`.

Databases are written atomically to one SQLite file each. See :class:`~rocm_perf_lab.rocprof.database_stream.DatabaseStream` for
the rows.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.rocprof import schema
from rocm_perf_lab.rocprof.database_stream import DatabaseStream
from rocm_perf_lab.rocprof.recording import HostRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.recording import AgentRecord, ProcessRecord, RecordedRun


class DatabaseWriteError(LabError):
    """A database cannot be written: no permission, no space, or an inconsistent run."""


def write_database(path: Path, run: RecordedRun) -> None:
    """Write `run` to `path`, replacing an existing file; on failure `path` is unchanged.

    Raises:
        DatabaseWriteError: The file cannot be written, or a dispatch names an unknown kernel.
    """
    _check(run)
    counters = sorted({name for dispatch in run.dispatches for name in dispatch.counters})
    with open_database(path, agents=(run.agent,), process=run.process, host=run.host, guid=run.guid, counters=counters) as stream:
        for code in run.code_objects:
            stream.add_code_object(code)
        for kernel in run.kernels:
            stream.add_kernel(kernel)
        for dispatch in run.dispatches:
            stream.add_dispatch(dispatch)


@contextmanager
def open_database(
    path: Path,
    *,
    agents: Sequence[AgentRecord],
    process: ProcessRecord,
    host: HostRecord | None = None,
    guid: str | None = None,
    counters: Sequence[str] = (),
) -> Iterator[DatabaseStream]:
    """Open a database for rows; it replaces `path` at the end of the block, unless an error occurs.

    Args:
        path: Path of the database.
        agents: GPUs of the process.
        process: The profiled process.
        host: Its machine; this one by default.
        guid: Identifier of the database; a new one by default.
        counters: Counters to describe first.

    Raises:
        DatabaseWriteError: The file cannot be written.
    """
    host = host or HostRecord.current()
    guid = guid or schema.make_guid(time.time_ns() // 1_000_000, f"{host.hostname} {process.pid}")
    temporary = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(temporary, isolation_level=None)
        try:
            # The file is discarded if anything fails, so a journal would only cost time.
            connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + schema.creation_sql(guid))
            connection.execute("BEGIN")
            stream = DatabaseStream(connection, guid, agents=agents, process=process, host=host, counters=counters)
            yield stream
            stream.finish()
            connection.execute("COMMIT")
        finally:
            connection.close()
        temporary.replace(path)
    except (OSError, sqlite3.Error) as error:
        raise DatabaseWriteError(
            f"cannot write the rocpd database: {error}",
            where=str(path),
            hint="free some space, or choose an output directory that can be written",
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _check(run: RecordedRun) -> None:
    known = {kernel.id for kernel in run.kernels}
    for index, dispatch in enumerate(run.dispatches):
        if dispatch.kernel_id not in known:
            raise DatabaseWriteError(
                f"dispatch {index} is of kernel {dispatch.kernel_id}, which the run does not describe",
                where="RecordedRun.dispatches",
                hint=f"known kernels: {sorted(known)}",
            )
