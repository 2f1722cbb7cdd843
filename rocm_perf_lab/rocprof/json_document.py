"""One process of rocprofv3's JSON output: its records, read one at a time into columns of numbers.

Records refer to agents, counters and queues by handles, and to names by numbers of kinds and operations. They stay unresolved
here, because the tables that define them may follow later in the document.
"""

from __future__ import annotations

from array import array
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.rocprof.descriptions import described_code_object
from rocm_perf_lab.rocprof.json_stream import JsonError, JsonStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Record = Mapping[str, Any]

UNKNOWN = -1
_WRAP = 1 << 64
_NOT_UNDERSTOOD = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
_DISPATCH_LISTS = ("kernel_dispatch", "kernel_dispatches")
_COPY_LISTS = ("memory_copy", "memory_copies")
_DISPATCH_COLUMNS = (
    "id", "agent", "kernel", "queue", "stream", "start_ns", "end_ns", "lds_bytes", "scratch_bytes",
    "workgroup_x", "workgroup_y", "workgroup_z", "grid_x", "grid_y", "grid_z", "correlation",
)  # fmt: skip
_COPY_COLUMNS = ("direction", "size_bytes", "start_ns", "end_ns", "source", "destination", "stream", "correlation")
_REGION_COLUMNS = ("thread", "name", "start_ns", "end_ns", "correlation")
_MARKERS = "MARKER"


class Rows:
    """Rows of named 64-bit integers."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._numbers = array("q")

    def __len__(self) -> int:
        return len(self._numbers) // len(self._names)

    def add(self, row: Sequence[int]) -> None:
        """Append one row."""
        before = len(self._numbers)
        try:
            self._numbers.extend(row)
        except OverflowError:
            del self._numbers[before:]
            self._numbers.extend([signed(number) for number in row])
        except TypeError:
            del self._numbers[before:]
            raise

    def taken(self) -> dict[str, Integers]:
        """Return one array per name and clear the rows."""
        table = np.frombuffer(self._numbers, np.int64).reshape(-1, len(self._names))
        columns = {name: np.array(table[:, index]) for index, name in enumerate(self._names)}
        self._numbers = array("q")
        return columns


class ProcessDocument:
    """Content of the object of one process."""

    def __init__(self, path: Path, stream: JsonStream) -> None:
        self._path = path
        self._operations: Sequence[Any] = ()
        self.metadata: Record = {}
        self.agents: list[Record] = []
        self.symbols: list[Record] = []
        """Kernel symbols with their `kernel_id`; entries without kernel are omitted."""
        self.code_objects: dict[int, str] = {}
        """File and size of the code objects by id."""
        self.counter_names: dict[int, str] = {}
        """By handle."""
        self.messages: dict[int, str] = {}
        """Text of a marked range, by its correlation id."""
        self.dispatches = Rows(_DISPATCH_COLUMNS)
        self.counted = Rows(_DISPATCH_COLUMNS)
        """Dispatches that counter records refer to."""
        self.copies = Rows(_COPY_COLUMNS)
        self.directions: dict[tuple[Any, Any], int] = {}
        """Number of each kind and operation in `copies`."""
        self.regions = Rows(_REGION_COLUMNS)
        self.names: dict[tuple[Any, Any], int] = {}
        """Number of each kind and operation in `regions`."""
        self.instances = Rows(("counter", "dispatch", "pass"))
        self.values = array("d")
        """One value per entry of `instances`."""
        self._read(stream)

    def operation(self, kind: Any, operation: Any) -> str:
        """Return the name of an operation from the numbers of its kind and itself; a text is already a name."""
        if isinstance(operation, str):
            return operation
        try:
            return str(self._operations[kind]["operations"][operation] or "")
        except (LookupError, TypeError):
            return ""

    def is_mark(self, kind: Any) -> bool:
        """Return True if records of this kind are marks of the user."""
        try:
            return str(self._operations[kind]["kind"]).startswith(_MARKERS)
        except (LookupError, TypeError):
            return False

    @contextmanager
    def understood(self, what: str, record: object) -> Iterator[None]:
        """Report failures caused by the content of `record` as errors of the file."""
        try:
            yield
        except _NOT_UNDERSTOOD as error:
            raise self._not_as_written(what, record, error) from error

    def _read(self, stream: JsonStream) -> None:
        read: Mapping[str, Callable[[JsonStream], None]] = {
            "metadata": self._read_metadata,
            "agents": lambda stream: self.agents.extend(_objects(stream.values())),
            "counters": self._read_counter_names,
            "strings": self._read_strings,
            "code_objects": self._read_code_objects,
            "kernel_symbols": lambda stream: self.symbols.extend(_numbered(stream.values())),
            "callback_records": self._read_callback_records,
            "buffer_records": self._read_buffer_records,
        }
        for key in stream.members():
            read.get(key, JsonStream.skip)(stream)

    def _read_metadata(self, stream: JsonStream) -> None:
        metadata = stream.value()
        self.metadata = metadata if isinstance(metadata, dict) else {}

    def _read_counter_names(self, stream: JsonStream) -> None:
        for counter in _objects(stream.values()):
            with self.understood("counters", counter):
                self.counter_names[handle(counter["id"])] = str(counter["name"])

    def _read_code_objects(self, stream: JsonStream) -> None:
        for record in _objects(stream.values()):
            number, size = record.get("code_object_id"), record.get("load_size")
            if isinstance(number, int):
                text = described_code_object(str(record.get("uri") or ""), size if isinstance(size, int) else 0)
                self.code_objects[number] = text

    def _read_strings(self, stream: JsonStream) -> None:
        for key in stream.members():
            if key == "buffer_records":
                self._operations = list(stream.values())
            elif key == "marker_api":
                # A map of numbers is written as a list of pairs.
                for pair in _objects(stream.values()):
                    with self.understood("strings.marker_api", pair):
                        self.messages[int(pair["key"])] = str(pair["value"])
            else:
                stream.skip()

    def _read_callback_records(self, stream: JsonStream) -> None:
        for key in stream.members():
            if key != "counter_collection":
                stream.skip()
                continue
            for record in stream.values():
                with self.understood(key, record):
                    data = record["dispatch_data"]
                    self.counted.add(_dispatch_row(data, record, len(self.counted) + 1))
                    dispatch = _dispatch_id(data["dispatch_info"], len(self.counted))
                    # Kernel replay executes a dispatch once per group of counters, under one id.
                    replayed = int(record.get("replay_pass", record.get("n", 0)))
                    for value in record["records"]:
                        number = float(value["value"])
                        self.instances.add((handle(value["counter_id"]), dispatch, replayed))
                        self.values.append(number)

    def _read_buffer_records(self, stream: JsonStream) -> None:
        for key in stream.members():
            read = self._reader_of_records(key)
            if read is None:
                stream.skip()
                continue
            record = None
            try:
                for record in stream.values():
                    read(record)
            except _NOT_UNDERSTOOD as error:
                raise self._not_as_written(key, record, error) from error

    def _reader_of_records(self, key: str) -> Callable[[Record], None] | None:
        if key in _DISPATCH_LISTS:
            return lambda record: self.dispatches.add(_dispatch_row(record, record, len(self.dispatches) + 1))
        if key in _COPY_LISTS:
            return self._read_copy
        return self._read_call if key.endswith("_api") else None

    def _read_copy(self, record: Record) -> None:
        direction = (record.get("kind"), record.get("operation"))
        self.copies.add((
            self.directions.setdefault(direction, len(self.directions)), record.get("bytes", 0),
            record["start_timestamp"], record["end_timestamp"],
            handle(record["src_agent_id"]), handle(record["dst_agent_id"]),
            handle(record.get("stream_id", 0)), _correlation(record),
        ))  # fmt: skip

    def _read_call(self, record: Record) -> None:
        start, end = record["start_timestamp"], record["end_timestamp"]
        if start != end:
            name = (record.get("kind"), record.get("operation"))
            number = self.names.setdefault(name, len(self.names))
            self.regions.add((record.get("thread_id", 0), number, start, end, _correlation(record)))

    def _not_as_written(self, what: str, record: object, error: Exception) -> JsonError:
        why = f"no {error.args[0]}" if isinstance(error, KeyError) else str(error)
        return JsonError(
            f"a record of {what} differs from rocprofv3's format: {why}: {str(record)[:80]}",
            where=str(self._path),
            hint="collect it again; if it is of a newer ROCm, update rocm-perf-lab",
        )


def _dispatch_row(record: Record, holder: Record, number: int) -> tuple[int, ...]:
    """Return one row of `_DISPATCH_COLUMNS`; the stream is in the tool's record around that of the SDK."""
    info = record["dispatch_info"]
    workgroup, grid = info["workgroup_size"], info["grid_size"]
    return (
        _dispatch_id(info, number), handle(info["agent_id"]), info["kernel_id"], handle(info["queue_id"]),
        handle(holder.get("stream_id", 0)), record.get("start_timestamp", 0), record.get("end_timestamp", 0),
        info.get("group_segment_size", 0), info.get("private_segment_size", 0),
        workgroup["x"], workgroup["y"], workgroup["z"], grid["x"], grid["y"], grid["z"], _correlation(record),
    )  # fmt: skip


def _dispatch_id(info: Record, number: int) -> int:
    return int(info.get("dispatch_id", number))


def handle(value: Any) -> int:
    """Return the number of a handle, which is an object with one number."""
    return int(value["handle"] if isinstance(value, dict) else value)


def _correlation(record: Record) -> int:
    """Return the internal correlation id, or -1 if there is none."""
    ids = record.get("correlation_id")
    internal = ids.get("internal") if isinstance(ids, dict) else ids
    return int(internal) if internal else UNKNOWN


def _objects(values: Iterable[Any]) -> Iterator[Record]:
    return (value for value in values if isinstance(value, dict))


def _numbered(values: Iterable[Any]) -> Iterator[Record]:
    """Yield kernel symbols with their ids. The list has one entry per id; entries without kernel are empty."""
    for position, symbol in enumerate(values):
        if isinstance(symbol, dict) and (symbol.get("kernel_name") or symbol.get("formatted_kernel_name")):
            yield {**symbol, "kernel_id": symbol.get("kernel_id") or position}


def signed(number: int) -> int:
    """Wrap an unsigned handle to a signed 64-bit integer."""
    return (number + _WRAP // 2) % _WRAP - _WRAP // 2
