"""Reads rocpd 3.x databases, of rocprofv3 or of the lab's own devices, into a :class:`Trace`.

The file is never altered: read-only connection, temporary views only. Columns are taken by name, further columns and
tables are accepted; every suffixed set of tables (one per process) is read, and ids are kept apart by guid.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.dialects import DatabaseError, check_dialect, check_version, database_error, open_read_only
from rocm_perf_lab.rocprof.schema import PROVENANCE_KEY
from rocm_perf_lab.rocprof.trace import (
    CounterValues,
    Dispatches,
    MemoryCopy,
    Trace,
    TracedAgent,
    TracedKernel,
    TracedProcess,
    TraceProvenance,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Keyed = Mapping[tuple[str, int], int]
    """(guid, id) of a row -> its index in the trace."""

_SUFFIX = re.compile(r"_[0-9a-f]{8}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{12}$")

_DISPATCH_COLUMNS = (
    "process", "agent", "kernel", "queue", "stream", "start_ns", "end_ns", "lds_bytes", "scratch_bytes",
)  # fmt: skip


def read_database(path: Path) -> Trace:
    """Everything the lab uses of one database.

    Raises:
        DatabaseError: Not a rocpd database, of an unknown version, damaged, locked or incomplete.
    """
    connection = open_read_only(path)
    try:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        check_dialect(path, tables)
        _give_plain_names(connection, tables)
        return _Reader(connection, path).read()
    except sqlite3.Error as error:
        raise database_error(path, error) from error
    except json.JSONDecodeError as error:
        raise DatabaseError(f"an extdata column holds no JSON: {error}", where=str(path)) from error
    finally:
        connection.close()


def _give_plain_names(connection: sqlite3.Connection, names: Iterable[str]) -> None:
    """Temporary views over all suffixed tables: a merged file is read whole, and a missing view does not matter."""
    sets: dict[str, list[str]] = {}
    for name in sorted(names):
        plain, found = _SUFFIX.subn("", name)
        if found:
            sets.setdefault(plain, []).append(name)
    for plain, members in sets.items():
        union = " UNION ALL ".join(f'SELECT * FROM main."{member}"' for member in members)
        connection.execute(f'CREATE TEMP VIEW "{plain}" AS {union}')


class _Reader:
    """One pass over the tables: small ones into tuples with their positions by (guid, id), large ones into columns."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def read(self) -> Trace:
        """The trace."""
        metadata = dict(self._connection.execute("SELECT tag, value FROM rocpd_metadata"))
        version = check_version(self._path, metadata.get("schema_version"))
        processes, process_at = self._processes()
        agents, agent_at = self._agents(process_at)
        kernels, kernel_at = self._kernels(process_at)
        dispatches, dispatch_at = self._dispatches(process_at, agent_at, kernel_at)
        return Trace(
            path=self._path,
            sha256=_sha256(self._path),
            schema_version=version,
            provenance=_provenance(agents),
            processes=processes,
            agents=agents,
            kernels=kernels,
            dispatches=dispatches,
            memory_copies=self._memory_copies(process_at),
            counters=self._counters(dispatch_at),
        )

    def _processes(self) -> tuple[tuple[TracedProcess, ...], Keyed]:
        rows = self._connection.execute("SELECT guid, id, pid, command FROM rocpd_info_process ORDER BY guid, id")
        at: dict[tuple[str, int], int] = {}
        processes: list[TracedProcess] = []
        for guid, row_id, pid, command in rows:
            at[guid, row_id] = len(processes)
            processes.append(TracedProcess(guid, pid, command or ""))
        return tuple(processes), at

    def _agents(self, process_at: Keyed) -> tuple[tuple[TracedAgent, ...], Keyed]:
        rows = self._connection.execute(
            "SELECT guid, id, pid, type, name, product_name, extdata FROM rocpd_info_agent ORDER BY guid, id"
        )
        at: dict[tuple[str, int], int] = {}
        agents: list[TracedAgent] = []
        for guid, row_id, pid, kind, name, product, extdata in rows:
            at[guid, row_id] = len(agents)
            properties = json.loads(extdata or "{}")
            process = self._find(process_at, guid, pid)
            agents.append(TracedAgent(process, row_id, kind or "", name or "", product or "", properties))
        return tuple(agents), at

    def _kernels(self, process_at: Keyed) -> tuple[tuple[TracedKernel, ...], Keyed]:
        rows = self._connection.execute(
            "SELECT guid, id, pid, display_name, kernel_name, arch_vgpr_count, accum_vgpr_count, sgpr_count,"
            " group_segment_size, private_segment_size FROM rocpd_info_kernel_symbol ORDER BY guid, id"
        )
        at: dict[tuple[str, int], int] = {}
        kernels: list[TracedKernel] = []
        for guid, row_id, pid, display, symbol, *sizes in rows:
            at[guid, row_id] = len(kernels)
            mangled = (symbol or display or "").removesuffix(".kd")
            name = (display or mangled).removesuffix(".kd")
            kernels.append(TracedKernel(self._find(process_at, guid, pid), name, mangled, *(int(size or 0) for size in sizes)))
        return tuple(kernels), at

    def _dispatches(self, process_at: Keyed, agent_at: Keyed, kernel_at: Keyed) -> tuple[Dispatches, Keyed]:
        """The dispatches, and their positions by event."""
        rows = self._connection.execute(
            "SELECT guid, event_id, pid, agent_id, kernel_id, queue_id, stream_id, start, end, group_segment_size,"
            " private_segment_size, workgroup_size_x, workgroup_size_y, workgroup_size_z,"
            " grid_size_x, grid_size_y, grid_size_z FROM rocpd_kernel_dispatch ORDER BY start, end, guid, id"
        ).fetchall()
        at = {(row[0], row[1]): index for index, row in enumerate(rows) if row[1] is not None}
        table = self._integers(
            [
                (
                    self._find(process_at, row[0], row[2]),
                    self._find(agent_at, row[0], row[3]),
                    self._find(kernel_at, row[0], row[4]),
                    *row[5:9],
                    row[9] or 0,
                    row[10] or 0,
                    *row[11:],
                )
                for row in rows
            ],
            columns=15,
        )
        columns = {name: np.ascontiguousarray(table[:, index]) for index, name in enumerate(_DISPATCH_COLUMNS)}
        return Dispatches(**columns, workgroup=table[:, 9:12], grid=table[:, 12:15]), at

    def _integers(self, rows: Sequence[tuple[int, ...]], *, columns: int) -> NDArray[np.int64]:
        """(n_rows, columns)"""
        try:
            return np.array(rows, np.int64).reshape(len(rows), columns)
        except (TypeError, ValueError, OverflowError) as error:
            raise DatabaseError(
                f"rocpd_kernel_dispatch holds a value that is no whole number: {error}",
                where=str(self._path),
                remedy="collect it again",
            ) from error

    def _memory_copies(self, process_at: Keyed) -> tuple[MemoryCopy, ...]:
        rows = self._connection.execute(
            "SELECT c.guid, c.pid, s.string, c.size, c.start, c.end, c.queue_id, c.stream_id FROM rocpd_memory_copy c"
            " LEFT JOIN rocpd_string s ON s.id = c.name_id AND s.guid = c.guid ORDER BY c.start, c.end, c.guid, c.id"
        )
        return tuple(MemoryCopy(self._find(process_at, guid, pid), name or "", *rest) for guid, pid, name, *rest in rows)

    def _counters(self, dispatch_at: Keyed) -> dict[str, CounterValues]:
        """Sums over instances. Streaming samples (schema 3.0.3, `sample_id` set) belong to no dispatch: left out."""
        columns = {row[1] for row in self._connection.execute('PRAGMA table_info("rocpd_pmc_event")')}
        samples_out = "WHERE v.sample_id IS NULL" if "sample_id" in columns else ""
        rows = self._connection.execute(
            "SELECT v.guid, v.event_id, c.name, SUM(v.value) FROM rocpd_pmc_event v"
            f" JOIN rocpd_info_pmc c ON c.id = v.pmc_id AND c.guid = v.guid {samples_out}"
            " GROUP BY v.guid, v.event_id, c.name"
        )
        collected: dict[str, list[tuple[int, float]]] = {}
        for guid, event, name, value in rows:
            dispatch = dispatch_at.get((guid, event))
            if dispatch is not None and value is not None:
                collected.setdefault(name, []).append((dispatch, value))
        counters = {}
        for name, pairs in sorted(collected.items()):
            pairs.sort()
            dispatch_column, values = zip(*pairs, strict=True)
            counters[name] = CounterValues(np.array(dispatch_column, np.int64), np.array(values, np.float64))
        return counters

    def _find(self, positions: Keyed, guid: str, row_id: int) -> int:
        try:
            return positions[guid, row_id]
        except KeyError as error:
            raise DatabaseError(
                f"the rocpd database contradicts itself: row {row_id} of process {guid} is referred to, but not there",
                where=str(self._path),
                remedy="collect it again",
            ) from error


def _provenance(agents: tuple[TracedAgent, ...]) -> TraceProvenance:
    for agent in agents:
        stated = agent.properties.get(PROVENANCE_KEY)
        if isinstance(stated, dict):
            # A device that does not say otherwise is taken for an emulator: never the other way round.
            emulated = bool(stated.get("emulated", True))
            return TraceProvenance(str(stated.get("device", "unknown")), emulated, dict(stated.get("versions", {})))
    return TraceProvenance("rocm", emulated=False, versions={})


def _sha256(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
