"""Large tables of a rocpd database as columns of a trace: dispatches, copies, API calls and counter values.

Up to schema 3 every row names its process, agent, queue and stream; from schema 4 on it names a track that does.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.rocprof.counter_values import per_dispatch
from rocm_perf_lab.rocprof.merging import in_order
from rocm_perf_lab.rocprof.references import UNKNOWN, Index, Names, looked_up
from rocm_perf_lab.rocprof.trace import (
    MARKED_RANGE,
    CounterValues,
    Dispatches,
    MemoryCopies,
    Regions,
    never_timed,
    no_copies,
    no_dispatches,
    no_regions,
    timed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.columns import Tables
    from rocm_perf_lab.rocprof.information import Information

    Integers = NDArray[np.int64]
    Columns = dict[str, NDArray[Any]]

_SIZES = tuple(f"{what}_size_{axis}" for what in ("workgroup", "grid") for axis in "xyz")
_LANE = ("pid", "agent_id", "queue_id", "stream_id")
_THREAD = ("pid", "tid")
_MARKS = "roctx"
_SUMMED_PASSES = (
    "counters are from kernel replay, whose passes a database does not separate: a counter of several passes may be"
    " their sum; collect with rocprofv3 -f json"
)


class Records:
    """Reads the tables of one database. Read `dispatches` first, because the counters refer to them."""

    def __init__(self, tables: Tables, information: Information, path: Path) -> None:
        self._tables = tables
        self._information = information
        self._path = path
        self._correlation_of_event: dict[str, tuple[Integers, Integers]] = {}
        self._dispatch_of_event: dict[str, tuple[Integers, Integers]] = {}
        self._tracks = self._read_tracks()
        self.notes: list[str] = []
        # Correlation ids serve to find the API call that launched a dispatch: without API calls they are not read.
        if "rocpd_event" in tables and tables.has_rows("rocpd_region"):
            for guid, columns in tables.read("rocpd_event", ("id",), optional={"stack_id": UNKNOWN}):
                stack = columns["stack_id"]
                self._correlation_of_event[guid] = (columns["id"], np.where(stack == 0, UNKNOWN, stack))

    def dispatches(self) -> Dispatches:
        """Return all dispatches, without untimed ones among timed ones."""
        parts: list[dict[str, Integers]] = []
        events: list[tuple[str, Integers]] = []
        # Only API calls and counters refer to the events of dispatches.
        has_events = bool(self._correlation_of_event) or self._tables.has_rows("rocpd_pmc_event")
        for guid, columns in self._owned(
            "rocpd_kernel_dispatch",
            _LANE,
            ("id", "kernel_id", "start", "end", *_SIZES),
            optional={"group_segment_size": 0, "private_segment_size": 0} | ({"event_id": UNKNOWN} if has_events else {}),
        ):
            columns = self._timed(columns)
            process = self._information.process_at.find(guid, columns["pid"])
            part = {
                "process": process,
                "agent": self._information.agent_at.find(guid, columns["agent_id"]),
                "kernel": self._information.kernels_at(guid, columns["kernel_id"], process),
                "queue": columns["queue_id"],
                "stream": columns["stream_id"],
                "start_ns": columns["start"],
                "end_ns": columns["end"],
                "lds_bytes": columns["group_segment_size"],
                "scratch_bytes": columns["private_segment_size"],
                "workgroup": _in_rows([columns.pop(name) for name in _SIZES[:3]]),
                "grid": _in_rows([columns.pop(name) for name in _SIZES[3:]]),
            }
            if has_events:
                part["correlation"] = self._correlation(guid, columns["event_id"])
                events.append((guid, columns["event_id"]))
            else:
                part["correlation"] = np.full(len(process), UNKNOWN, np.int64)
            parts.append(part)
        if not parts:
            return no_dispatches()
        ordered, order = in_order(parts)
        parts.clear()
        self._dispatch_of_event = _positions_of_events(events, order) if has_events else {}
        return Dispatches(**ordered)

    def copies(self) -> MemoryCopies:
        """Return all memory copies."""
        if "rocpd_memory_copy" not in self._tables:
            return no_copies()
        names = Names(self._tables)
        optional = dict.fromkeys(("src_agent_id", "dst_agent_id", "event_id"), UNKNOWN)
        parts = [
            {
                "process": self._information.process_at.find(guid, columns["pid"]),
                "direction": names.number(guid, columns["name_id"]),
                "size_bytes": columns["size"],
                "start_ns": columns["start"],
                "end_ns": columns["end"],
                "source": self._information.agent_at.find(guid, columns["src_agent_id"], optional=True),
                "destination": self._information.agent_at.find(guid, columns["dst_agent_id"], optional=True),
                "queue": columns["queue_id"],
                "stream": columns["stream_id"],
                "correlation": self._correlation(guid, columns["event_id"]),
            }
            for guid, columns in self._owned(
                "rocpd_memory_copy",
                ("pid", "queue_id", "stream_id"),
                ("id", "start", "end"),
                optional={**optional, "name_id": UNKNOWN, "size": 0},
            )
        ]
        return MemoryCopies(**in_order(parts)[0], directions=names.texts) if parts else no_copies()

    def regions(self) -> Regions:
        """Return all API calls and marked ranges; ranges by the user's text."""
        if "rocpd_region" not in self._tables:
            return no_regions()
        names = Names(self._tables)
        parts = []
        for guid, columns in self._owned(
            "rocpd_region", _THREAD, ("id", "start", "end"), optional={"name_id": UNKNOWN, "event_id": UNKNOWN}
        ):
            name = names.number(guid, columns["name_id"])
            self._name_marks(guid, columns["event_id"], name, names)
            parts.append({
                "process": self._information.process_at.find(guid, columns["pid"]),
                "thread": self._information.threads(guid, columns["tid"]),
                "name": name,
                "start_ns": columns["start"],
                "end_ns": columns["end"],
                "correlation": self._correlation(guid, columns["event_id"]),
            })  # fmt: skip
        return Regions(**in_order(parts)[0], names=names.texts) if parts else no_regions()

    def counters(self) -> dict[str, CounterValues]:
        """Return one value per dispatch. Streaming samples (`sample_id` set, schema 3.0.3) are ignored."""
        if "rocpd_pmc_event" not in self._tables or "rocpd_info_pmc" not in self._tables:
            return {}
        rows = self._tables.rows("rocpd_info_pmc", ("id",), ("name",))
        names = sorted({name for _, _, name in rows})
        number = {name: index for index, name in enumerate(names)}
        row_of = Index(self._path, [row[:2] for row in rows])
        name_of_row = np.array([number[name] for _, _, name in rows] or [0], np.int64)
        parts = [
            self._counter_rows(row_of, name_of_row, guid, columns)
            for guid, columns in self._tables.read(
                "rocpd_pmc_event", ("id", "pmc_id"), reals=("value",), optional={"event_id": UNKNOWN, "sample_id": UNKNOWN}
            )
        ]
        if not parts:
            return {}
        name, dispatch, value = (np.concatenate(column) for column in zip(*parts, strict=True))
        counters, notes = per_dispatch(names, name, dispatch, value, rows_are_channels=True)
        self.notes.extend(notes)
        if counters and self._information.is_replayed:
            self.notes.append(_SUMMED_PASSES)
        return counters

    def _counter_rows(
        self, row_of: Index, name_of_row: Integers, guid: str, columns: Mapping[str, NDArray[Any]]
    ) -> tuple[Integers, Integers, NDArray[np.float64]]:
        """Return name, dispatch and value of each row of a dispatch. A counter has the agent of its dispatch."""
        events, positions = self._dispatch_of_event.get(guid, (np.empty(0, np.int64), np.empty(0, np.int64)))
        row = row_of.find(guid, columns["pmc_id"], optional=True)
        position = looked_up(events, positions, columns["event_id"])
        counted = columns["sample_id"] == UNKNOWN
        belongs = counted & (position != UNKNOWN)
        if stray := int(np.count_nonzero(counted & ~belongs)):
            self.notes.append(f"{stray} counter values belong to no dispatch; ignored")
        if unknown := int(np.count_nonzero(belongs & (row == UNKNOWN))):
            self.notes.append(f"{unknown} counter values belong to counters that the database does not describe; ignored")
        belongs &= row != UNKNOWN
        return name_of_row[row[belongs]], position[belongs], columns["value"][belongs]

    def _owned(
        self, plain: str, owner: Sequence[str], integers: Sequence[str], *, optional: Mapping[str, int]
    ) -> Iterator[tuple[str, Columns]]:
        """Yield the columns of a table, with those of `owner`, which identify the owner of a row: its own, or its track's."""
        fills = dict.fromkeys(owner, UNKNOWN)
        kinds = (
            {"nullable": {"track_id": UNKNOWN}, "optional": {**optional, **fills}}
            if self._tracks
            else {"nullable": fills, "optional": optional}
        )
        for guid, columns in self._tables.read(plain, integers, **kinds):
            if guid in self._tracks:
                ids, of_tracks = self._tracks[guid]
                for name in owner:
                    of_track = looked_up(ids, of_tracks[name], columns["track_id"])
                    columns[name] = np.where(columns[name] == UNKNOWN, of_track, columns[name])
            yield guid, columns

    def _read_tracks(self) -> dict[str, tuple[Integers, Columns]]:
        if not self._tables.declares("rocpd_kernel_dispatch", "track_id"):
            return {}
        tracks = {}
        for guid, columns in self._tables.read("rocpd_track", ("id",), optional=dict.fromkeys({*_LANE, *_THREAD}, UNKNOWN)):
            tracks[guid] = (columns.pop("id"), columns)
        return tracks

    def _timed(self, columns: Columns) -> Columns:
        kept = timed(columns["start"], columns["end"])
        if kept.all():
            return columns
        self.notes.append(never_timed(len(kept) - int(kept.sum())))
        return {name: column[kept] for name, column in columns.items()}

    def _correlation(self, guid: str, events: Integers) -> Integers:
        """Return the internal correlation id of each event, or -1 if there is none."""
        ids, correlation = self._correlation_of_event.get(guid, (np.empty(0, np.int64), np.empty(0, np.int64)))
        return looked_up(ids, correlation, events)

    def _name_marks(self, guid: str, events: Integers, number: Integers, names: Names) -> None:
        """Replace the API call of marked ranges by the text in their events."""
        marks = [index for index, text in enumerate(names.texts) if text.startswith(_MARKS)]
        for row in np.flatnonzero(np.isin(number, marks)).tolist():
            extdata = self._tables.text("rocpd_event", "extdata", guid, int(events[row]))
            message = _message(extdata)
            if message:
                number[row] = names.number_of(f"{MARKED_RANGE}{message}")


def _positions_of_events(events: Sequence[tuple[str, Integers]], order: Integers) -> dict[str, tuple[Integers, Integers]]:
    """Return, per guid, the sorted ids of the dispatches' events and the positions of these dispatches after `order`."""
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    found = {}
    last = 0
    for guid, event in events:
        own = position[last : last + len(event)]
        last += len(event)
        if not np.all(event[1:] > event[:-1]):
            by_event = np.argsort(event, kind="stable")
            event, own = event[by_event], own[by_event]
        known = int(np.searchsorted(event, UNKNOWN, "right"))
        found[guid] = (event[known:], own[known:])
    return found


def _in_rows(columns: Sequence[Integers]) -> Integers:
    """Return the columns as rows, shape (n, len(columns)); equal rows take the memory of one."""
    if all((column == column[:1]).all() for column in columns):
        return np.broadcast_to(np.array([column[:1] for column in columns]).T, (len(columns[0]), len(columns)))
    return np.stack(columns, axis=1)


def _message(extdata: str) -> str:
    try:
        stated = json.loads(extdata)
    except json.JSONDecodeError:
        return ""
    return str(stated.get("message") or "") if isinstance(stated, dict) else ""
