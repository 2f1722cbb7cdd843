"""Reads rocpd 3.x databases, of rocprofv3 or of the lab's own devices, into a :class:`Trace`.

Files are never altered: read-only connection, temporary views only. Columns are taken by name, further columns and
tables are accepted; every suffixed set of tables (one per process) is read, and ids are kept apart by guid.
"""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.rocprof.columns import Tables
from rocm_perf_lab.rocprof.counter_values import per_dispatch
from rocm_perf_lab.rocprof.described import KERNEL_SIZES, provenance_of, traced_kernel
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
from rocm_perf_lab.rocprof.merging import in_order, merge
from rocm_perf_lab.rocprof.trace import (
    CounterValues,
    Dispatches,
    MemoryCopies,
    Regions,
    Trace,
    TracedAgent,
    TracedKernel,
    TracedLane,
    TracedProcess,
    no_copies,
    no_dispatches,
    no_regions,
)
from rocm_perf_lab.rocprof.write_ahead import log_of, settled

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

_AXES = ("x", "y", "z")
_SIZES = tuple(f"{what}_size_{axis}" for what in ("workgroup", "grid") for axis in _AXES)
_UNKNOWN = -1


def read_database(path: Path) -> Trace:
    """Everything the lab uses of one database, and of the write-ahead log that lies beside it.

    Raises:
        DatabaseError: Not a rocpd database, of an unknown version, damaged, locked or incomplete.
    """
    log = log_of(path)
    if log is None:
        return _read(path)
    with settled(path) as copy:
        trace = _read(copy)
    digests = f"{_sha256(path)}{_sha256(log)}"
    note = f"what {log.name} holds was read too; its writer may not have ended"
    return replace(
        trace, path=path, paths=(path,), sha256=hashlib.sha256(digests.encode()).hexdigest(), notes=(note, *trace.notes)
    )


def _read(path: Path) -> Trace:
    connection = open_read_only(path)
    try:
        check_dialect(path, names_in(connection))
        # A transaction keeps writers out while the file's pages are read.
        connection.execute("BEGIN")
        tables = Tables(connection, path)
        tables.give_plain_names()
        connection.execute("SELECT COUNT(*) FROM rocpd_metadata").fetchone()
        tables.use_arrow(uri_of(path))
        with ThreadPoolExecutor(1) as beside:
            digest = beside.submit(_sha256, path)
            return _Reader(connection, tables, path).read(digest.result)
    except UNREADABLE as error:
        raise database_error(path, error) from error
    except json.JSONDecodeError as error:
        raise DatabaseError(f"an extdata column holds no JSON: {error}", where=str(path)) from error
    finally:
        connection.close()


def read_databases(paths: Iterable[Path]) -> Trace:
    """All databases of one run, merged: every process of every file. A folder stands for the databases in it.

    Raises:
        DatabaseError: One of them cannot be read, or they do not belong to one run.
    """
    return merge([read_database(path) for path in database_files(paths)])


class _Index:
    """Position in the trace of each row of a small table, by (guid, id)."""

    def __init__(self, path: Path, keys: Sequence[tuple[str, int]]) -> None:
        self._path = path
        self._of_guid: dict[str, tuple[Integers, Integers]] = {}
        rows: dict[str, list[tuple[int, int]]] = {}
        for position, (guid, row_id) in enumerate(keys):
            rows.setdefault(guid, []).append((row_id, position))
        for guid, pairs in rows.items():
            table = np.array(sorted(pairs), np.int64)
            self._of_guid[guid] = (table[:, 0].copy(), table[:, 1].copy())

    def find(self, guid: str, ids: Integers, *, optional: bool = False) -> Integers:
        """The positions of `ids`; an id that is not there is an error, or -1 where that may be."""
        known, position = self._of_guid.get(guid, (np.empty(0, np.int64), np.empty(0, np.int64)))
        if len(known) == 0:
            there = np.zeros(len(ids), bool)
            found = np.full(len(ids), _UNKNOWN, np.int64)
        else:
            at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
            there = known[at] == ids
            found = np.where(there, position[at], _UNKNOWN)
        if not optional and not there.all():
            row_id = int(ids[~there][0])
            raise DatabaseError(
                f"the rocpd database contradicts itself: row {row_id} of process {guid} is referred to, but not there",
                where=str(self._path),
                remedy="collect it again",
            )
        return found

    def find_one(self, guid: str, row_id: int) -> int:
        """The position of one row."""
        return int(self.find(guid, np.array([row_id], np.int64))[0])


class _Reader:
    """One pass over the tables: small ones into tuples with their positions by (guid, id), large ones into columns."""

    def __init__(self, connection: sqlite3.Connection, tables: Tables, path: Path) -> None:
        self._connection = connection
        self._tables = tables
        self._path = path
        self._notes: list[str] = []
        self._correlation_of_event: dict[str, tuple[Integers, Integers]] = {}

    def read(self, sha256: Callable[[], str]) -> Trace:
        """The trace."""
        metadata = dict(self._connection.execute("SELECT tag, value FROM rocpd_metadata").fetchall())
        version = check_version(self._path, metadata.get("schema_version"))
        processes, self._processes = self._read_processes()
        agents, self._agents = self._read_agents()
        kernels, self._kernels = self._read_kernels()
        self._read_events()
        dispatches, events = self._read_dispatches()
        return Trace(
            path=self._path,
            sha256=sha256(),
            schema_version=version,
            provenance=provenance_of(agents),
            processes=processes,
            agents=agents,
            kernels=kernels,
            dispatches=dispatches,
            memory_copies=self._read_copies(),
            counters=self._read_counters(events),
            regions=self._read_regions(),
            queues=self._read_lanes("rocpd_info_queue"),
            streams=self._read_lanes("rocpd_info_stream"),
            notes=tuple(self._notes),
            paths=(self._path,),
        )

    def _read_processes(self) -> tuple[tuple[TracedProcess, ...], _Index]:
        rows = self._tables.rows("rocpd_info_process", ("id", "pid"), ("command",))
        processes = tuple(TracedProcess(guid, pid, command) for guid, _, pid, command in rows)
        return processes, _Index(self._path, [row[:2] for row in rows])

    def _read_agents(self) -> tuple[tuple[TracedAgent, ...], _Index]:
        rows = self._tables.rows("rocpd_info_agent", ("id", "pid"), ("type", "name", "product_name", "extdata"))
        agents = []
        for guid, row_id, pid, kind, name, product, extdata in rows:
            process = self._processes.find_one(guid, pid)
            agents.append(TracedAgent(process, row_id, kind, name, product, _properties(extdata)))
        return tuple(agents), _Index(self._path, [row[:2] for row in rows])

    def _read_kernels(self) -> tuple[tuple[TracedKernel, ...], _Index]:
        rows = self._tables.rows("rocpd_info_kernel_symbol", ("id", "pid", *KERNEL_SIZES), ("display_name", "kernel_name"))
        kernels = [
            traced_kernel(self._processes.find_one(guid, pid), symbol, display, sizes)
            for guid, _, pid, *sizes, display, symbol in rows
        ]
        return tuple(kernels), _Index(self._path, [row[:2] for row in rows])

    def _read_lanes(self, table: str) -> tuple[TracedLane, ...]:
        rows = self._tables.rows(table, ("id", "pid"), ("name",)) if table in self._tables else []
        return tuple(TracedLane(self._processes.find_one(guid, pid), row_id, name) for guid, row_id, pid, name in rows)

    def _read_events(self) -> None:
        if "rocpd_event" in self._tables:
            for guid, columns in self._tables.read("rocpd_event", ("id",), optional={"stack_id": _UNKNOWN}):
                stack = columns["stack_id"]
                self._correlation_of_event[guid] = (columns["id"], np.where(stack == 0, _UNKNOWN, stack))

    def _correlation(self, guid: str, events: Integers) -> Integers:
        """The internal correlation id of each event; -1 where there is none."""
        if guid not in self._correlation_of_event:
            return np.full(len(events), _UNKNOWN, np.int64)
        ids, correlation = self._correlation_of_event[guid]
        at = np.minimum(np.searchsorted(ids, events), len(ids) - 1)
        return np.where(ids[at] == events, correlation[at], _UNKNOWN)

    def _read_dispatches(self) -> tuple[Dispatches, dict[str, tuple[Integers, Integers]]]:
        """The dispatches, and per guid the ids of their events with their positions."""
        parts: list[dict[str, Integers]] = []
        events: list[tuple[str, Integers]] = []
        position_of_event: dict[str, tuple[Integers, Integers]] = {}
        for guid, columns in self._tables.read(
            "rocpd_kernel_dispatch",
            ("id", "pid", "agent_id", "kernel_id", "queue_id", "stream_id", "start", "end", *_SIZES),
            optional={"event_id": _UNKNOWN, "group_segment_size": 0, "private_segment_size": 0},
        ):
            part = {
                "process": self._processes.find(guid, columns["pid"]),
                "agent": self._agents.find(guid, columns["agent_id"]),
                "kernel": self._kernels.find(guid, columns["kernel_id"]),
                "queue": columns["queue_id"],
                "stream": columns["stream_id"],
                "start_ns": columns["start"],
                "end_ns": columns["end"],
                "lds_bytes": columns["group_segment_size"],
                "scratch_bytes": columns["private_segment_size"],
                "workgroup": np.stack([columns[name] for name in _SIZES[:3]], axis=1),
                "grid": np.stack([columns[name] for name in _SIZES[3:]], axis=1),
                "correlation": self._correlation(guid, columns["event_id"]),
            }
            parts.append(part)
            events.append((guid, columns["event_id"]))
        if not parts:
            return no_dispatches(), {}
        columns, order = in_order(parts)
        parts.clear()
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        last = 0
        for guid, event in events:
            own = position[last : last + len(event)]
            last += len(event)
            if not np.all(event[1:] > event[:-1]):
                by_event = np.argsort(event, kind="stable")
                event, own = event[by_event], own[by_event]
            known = _first_after(event, _UNKNOWN)
            position_of_event[guid] = (event[known:], own[known:])
        return Dispatches(**columns), position_of_event

    def _read_copies(self) -> MemoryCopies:
        if "rocpd_memory_copy" not in self._tables:
            return no_copies()
        names = _Names(self._connection)
        agents = ("src_agent_id", "dst_agent_id")
        optional = dict.fromkeys((*agents, "queue_id", "stream_id", "event_id"), _UNKNOWN)
        parts = [
            {
                "process": self._processes.find(guid, columns["pid"]),
                "direction": names.number(guid, columns["name_id"]),
                "size_bytes": columns["size"],
                "start_ns": columns["start"],
                "end_ns": columns["end"],
                "source": self._agents.find(guid, columns["src_agent_id"], optional=True),
                "destination": self._agents.find(guid, columns["dst_agent_id"], optional=True),
                "queue": columns["queue_id"],
                "stream": columns["stream_id"],
                "correlation": self._correlation(guid, columns["event_id"]),
            }
            for guid, columns in self._tables.read(
                "rocpd_memory_copy", ("id", "pid", "name_id", "start", "end", "size"), optional=optional
            )
        ]
        return MemoryCopies(**in_order(parts)[0], directions=names.texts) if parts else no_copies()

    def _read_regions(self) -> Regions:
        if "rocpd_region" not in self._tables:
            return no_regions()
        names = _Names(self._connection)
        parts = [
            {
                "process": self._processes.find(guid, columns["pid"]),
                "thread": columns["tid"],
                "name": names.number(guid, columns["name_id"]),
                "start_ns": columns["start"],
                "end_ns": columns["end"],
                "correlation": self._correlation(guid, columns["event_id"]),
            }
            for guid, columns in self._tables.read(
                "rocpd_region", ("id", "pid", "tid", "name_id", "start", "end"), optional={"event_id": _UNKNOWN}
            )
        ]
        return Regions(**in_order(parts)[0], names=names.texts) if parts else no_regions()

    def _read_counters(self, dispatch_of_event: Mapping[str, tuple[Integers, Integers]]) -> dict[str, CounterValues]:
        """One value per dispatch. Streaming samples (schema 3.0.3, `sample_id` set) belong to no dispatch: left out."""
        if "rocpd_pmc_event" not in self._tables or "rocpd_info_pmc" not in self._tables:
            return {}
        rows = self._tables.rows("rocpd_info_pmc", ("id",), ("name",))
        names = sorted({name for _, _, name in rows})
        number = {name: index for index, name in enumerate(names)}
        row_of = _Index(self._path, [row[:2] for row in rows])
        name_of_row = np.array([number[name] for _, _, name in rows] or [0], np.int64)
        parts = [
            self._counter_rows(row_of, name_of_row, guid, columns, dispatch_of_event[guid])
            for guid, columns in self._tables.read(
                "rocpd_pmc_event", ("id", "pmc_id"), reals=("value",), optional={"event_id": _UNKNOWN, "sample_id": _UNKNOWN}
            )
            if guid in dispatch_of_event
        ]
        if not parts:
            return {}
        name, dispatch, value = (np.concatenate(column) for column in zip(*parts, strict=True))
        counters, notes = per_dispatch(names, name, dispatch, value)
        self._notes.extend(notes)
        return counters

    def _counter_rows(
        self,
        row_of: _Index,
        name_of_row: Integers,
        guid: str,
        columns: Mapping[str, NDArray[Any]],
        dispatch_of_event: tuple[Integers, Integers],
    ) -> tuple[Integers, Integers, NDArray[np.float64]]:
        """Name, dispatch and value of each row that belongs to a dispatch. The dispatch has one agent, so has its counter."""
        events, positions = dispatch_of_event
        row = row_of.find(guid, columns["pmc_id"], optional=True)
        at = np.minimum(np.searchsorted(events, columns["event_id"]), max(len(events) - 1, 0))
        belongs = (columns["sample_id"] == _UNKNOWN) & (len(events) > 0)
        if len(events):
            belongs &= events[at] == columns["event_id"]
        if unknown := int(np.count_nonzero(belongs & (row == _UNKNOWN))):
            self._notes.append(f"{unknown} counter values are of counters that the database does not describe; left out")
        belongs &= row != _UNKNOWN
        return name_of_row[row[belongs]], positions[at[belongs]], columns["value"][belongs]


class _Names:
    """Numbers for the texts that rows refer to, over all processes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._number: dict[str, int] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        """The text of each number."""
        return tuple(self._number)

    def number(self, guid: str, ids: Integers) -> Integers:
        """A number for each string id of a process; an id without a string is the empty text."""
        used, at = np.unique(ids, return_inverse=True)
        numbers = []
        for string_id in used.tolist():
            row = self._connection.execute(
                "SELECT string FROM rocpd_string WHERE id = ? AND guid = ?", (string_id, guid)
            ).fetchone()
            numbers.append(self._number.setdefault(str(row[0]) if row else "", len(self._number)))
        return np.array(numbers, np.int64)[at.ravel()]


def _first_after(ascending: Integers, bound: int) -> int:
    return int(np.searchsorted(ascending, bound, "right"))


def _properties(extdata: str) -> dict[str, Any]:
    """What the runtime reports of an agent; nothing where it is no JSON object."""
    properties = json.loads(extdata or "{}")
    return properties if isinstance(properties, dict) else {}


def _sha256(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
