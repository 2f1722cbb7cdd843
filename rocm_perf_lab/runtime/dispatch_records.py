"""Records of an application's dispatches, written by the emulated driver (`driver/service.h`).

`DetailedDispatch.parse` reads the message that requests the duration of a dispatch. `read_records` reads the file of a process
entry by entry, so that memory does not grow with the number of dispatches.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.geometry import Geometry
from rocm_perf_lab.emulator.footprint import LINE_ACCESS, WINDOWS, LineFootprint
from rocm_perf_lab.emulator.structures import MemoryCounters
from rocm_perf_lab.emulator.timing.strata import WORKGROUP_COUNTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    from numpy.typing import DTypeLike, NDArray

    from rocm_perf_lab.core.geometry import Dim3

    Structure = TypeVar("Structure", bound=ctypes.Structure)


class EntryKind(IntEnum):
    """enum rpl_entry_kind."""

    PROCESS = 1
    COUNTS = 2
    DISPATCH = 3
    COPY = 4


class RecordError(LabError):
    """Record of the driver with an invalid layout."""


class DispatchHeader(ctypes.Structure):
    """struct rpl_dispatch_record."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("id", "queue", "gpu", "block_count")),
        *((name, ctypes.c_uint64) for name in ("dispatch", "workgroups", "instructions")),
        *((name, ctypes.c_uint32 * 3) for name in ("grid", "block", "remainder")),
        *(
            (name, ctypes.c_uint32)
            for name in (
                "lds_bytes", "scratch_bytes", "waves_per_workgroup", "traced_workgroups", "range_count", "xcds",
                "channel_bits", "sampling_shift", "footprint_is_truncated", "trace_is_truncated", "reserved",
            )
        ),
        ("line_accesses", ctypes.c_uint64),
    )  # fmt: skip


class DurationAnswer(ctypes.Structure):
    """struct rpl_duration."""

    _fields_ = (
        ("nanoseconds", ctypes.c_uint64),
        ("fixed_ns", ctypes.c_uint64),
        ("record", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


class EntryHeader(ctypes.Structure):
    """struct rpl_entry."""

    _fields_ = (("kind", ctypes.c_uint32), ("bytes", ctypes.c_uint32))


class ProcessHeader(ctypes.Structure):
    """struct rpl_process_entry."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("protocol", "pid", "parent", "reserved")),
        ("start_ns", ctypes.c_uint64),
    )


class CountsHeader(ctypes.Structure):
    """struct rpl_counts_entry."""

    _fields_ = tuple((name, ctypes.c_uint32) for name in ("number", "id", "block_count", "reserved"))


class DispatchEntry(ctypes.Structure):
    """struct rpl_dispatch_entry."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("id", "gpu", "queue", "counts")),
        *((name, ctypes.c_uint64) for name in ("dispatch", "submitted_ns", "start_ns", "end_ns")),
        *((name, ctypes.c_uint32 * 3) for name in ("grid", "block", "remainder")),
        *((name, ctypes.c_uint32) for name in ("lds_bytes", "scratch_bytes", "record")),
    )


class CopyEntry(ctypes.Structure):
    """struct rpl_copy_entry."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("gpu", "queue", "from_gpu", "to_gpu")),
        *((name, ctypes.c_uint64) for name in ("bytes", "start_ns", "end_ns")),
    )


@dataclass(frozen=True)
class DetailedDispatch:
    """One dispatch with all inputs of the timing model.

    `block_executions` and `block_active_lanes` are (block_count), `workgroup_counts` is (workgroups), empty for a very large
    grid. `ranges` are (address, bytes) of the memory that the GPU can access, by address. `traces[k][wave]` are the words of one
    wavefront of workgroup `traced[k]`.
    """

    kernel: int
    queue: int
    gpu: int
    dispatch: int
    geometry: Geometry
    """Launch geometry without dynamic LDS, which the record does not distinguish from static LDS."""
    lds_bytes: int
    scratch_bytes: int
    instructions: int
    waves_per_workgroup: int
    block_executions: NDArray[np.uint64]
    block_active_lanes: NDArray[np.uint64]
    memory: dict[str, int]
    """Counters of the runtime."""
    workgroup_counts: NDArray[np.void]
    ranges: tuple[tuple[int, int], ...]
    traced: tuple[int, ...]
    traces: list[list[NDArray[np.uint64]]]
    has_whole_traces: bool
    footprint: LineFootprint | None

    @property
    def workgroups(self) -> int:
        """Number of workgroups in the grid."""
        return prod(self.geometry.grid)

    @classmethod
    def parse(cls, content: bytes | bytearray | memoryview) -> DetailedDispatch:
        """Parse a message.

        Raises:
            RecordError: The message is too short, or too long.
        """
        reader = _Reader(content)
        header = reader.structure(DispatchHeader)
        executions = reader.array(np.uint64, header.block_count)
        lanes = reader.array(np.uint64, header.block_count)
        counters = reader.structure(MemoryCounters).as_dict()
        counts = reader.array(WORKGROUP_COUNTS, header.workgroups)
        ends = reader.array(np.uint64, 2 * header.range_count).reshape(-1, 2).tolist()
        traced = reader.array(np.uint64, header.traced_workgroups).tolist()
        traces = [[reader.trace() for _ in range(header.waves_per_workgroup)] for _ in traced]
        ranges = tuple((int(begin), int(end) - int(begin)) for begin, end in ends)
        footprint = _footprint(reader, header, ranges) if header.workgroups else None
        reader.require_end()
        return cls(
            kernel=header.id,
            queue=header.queue,
            gpu=header.gpu,
            dispatch=header.dispatch,
            geometry=Geometry(_triple(header.grid), _triple(header.block), 0, _triple(header.remainder)),
            lds_bytes=header.lds_bytes,
            scratch_bytes=header.scratch_bytes,
            instructions=header.instructions,
            waves_per_workgroup=header.waves_per_workgroup,
            block_executions=executions,
            block_active_lanes=lanes,
            memory=counters | {"full_waves": counters["waves"] - counters["partial_waves"]},
            workgroup_counts=counts,
            ranges=ranges,
            traced=tuple(traced),
            traces=traces,
            has_whole_traces=not header.trace_is_truncated,
            footprint=footprint,
        )


@dataclass(frozen=True)
class RecordedProcess:
    """Process of the application; times are nanoseconds of the emulated GPU."""

    pid: int
    parent: int
    executable: str
    start_ns: int


@dataclass(frozen=True)
class RecordedCounts:
    """Counts of dispatches of one kernel with equal work; see :class:`DetailedDispatch`."""

    number: int
    kernel: int
    block_executions: NDArray[np.uint64]
    block_active_lanes: NDArray[np.uint64]
    memory: dict[str, int]


@dataclass(frozen=True)
class RecordedDispatch:
    """One dispatch. `counts` is the number of its :class:`RecordedCounts`, `estimate` that of its estimate; 0 for none."""

    kernel: int
    gpu: int
    queue: int
    counts: int
    estimate: int
    dispatch: int
    submitted_ns: int
    start_ns: int
    end_ns: int
    geometry: Geometry
    lds_bytes: int
    scratch_bytes: int


@dataclass(frozen=True)
class RecordedCopy:
    """One copy by an SDMA queue."""

    gpu: int
    queue: int
    from_gpu: bool
    to_gpu: bool
    size_bytes: int
    start_ns: int
    end_ns: int


RecordedEntry = RecordedProcess | RecordedCounts | RecordedDispatch | RecordedCopy


def read_records(path: Path) -> Iterator[RecordedEntry]:
    """Read the entries of the file of one process, in the order in which they were written.

    An incomplete last entry, from a killed process, is omitted.

    Args:
        path: File `records.PID.NUMBER` of a session.

    Raises:
        RecordError: The file cannot be read, or has an unknown entry.
    """
    try:
        with path.open("rb") as source:
            yield from _entries(source, path)
    except OSError as error:
        raise RecordError(f"the records of the application cannot be read: {error.strerror}", where=str(path)) from error


def _entries(source: BinaryIO, path: Path) -> Iterator[RecordedEntry]:
    while len(head := source.read(ctypes.sizeof(EntryHeader))) == ctypes.sizeof(EntryHeader):
        header = EntryHeader.from_buffer_copy(head)
        if not header.kind:
            return
        content = source.read(header.bytes)
        if len(content) < header.bytes:
            return
        yield _entry(header.kind, content, path)


def _entry(kind: int, content: bytes, path: Path) -> RecordedEntry:
    reader = _Reader(content)
    match kind:
        case EntryKind.PROCESS:
            process = reader.structure(ProcessHeader)
            name = content[ctypes.sizeof(ProcessHeader) :].split(b"\0")[0].decode(errors="replace")
            return RecordedProcess(process.pid, process.parent, name, process.start_ns)
        case EntryKind.COUNTS:
            counts = reader.structure(CountsHeader)
            executions, lanes = (reader.array(np.uint64, counts.block_count) for _ in range(2))
            memory = reader.structure(MemoryCounters).as_dict()
            memory |= {"full_waves": memory["waves"] - memory["partial_waves"]}
            return RecordedCounts(counts.number, counts.id, executions, lanes, memory)
        case EntryKind.DISPATCH:
            return _dispatch(reader.structure(DispatchEntry))
        case EntryKind.COPY:
            copy = reader.structure(CopyEntry)
            return RecordedCopy(
                copy.gpu, copy.queue, bool(copy.from_gpu), bool(copy.to_gpu), copy.bytes, copy.start_ns, copy.end_ns
            )
    raise RecordError(f"unknown entry {kind} in the records of the application", where=str(path))


def _dispatch(entry: DispatchEntry) -> RecordedDispatch:
    return RecordedDispatch(
        kernel=entry.id,
        gpu=entry.gpu,
        queue=entry.queue,
        counts=entry.counts,
        estimate=entry.record,
        dispatch=entry.dispatch,
        submitted_ns=entry.submitted_ns,
        start_ns=entry.start_ns,
        end_ns=entry.end_ns,
        geometry=Geometry(_triple(entry.grid), _triple(entry.block), 0, _triple(entry.remainder)),
        lds_bytes=entry.lds_bytes,
        scratch_bytes=entry.scratch_bytes,
    )


class _Reader:
    """Reads structures and arrays one after the other; arrays are views of the content."""

    def __init__(self, content: bytes | bytearray | memoryview) -> None:
        self._content = memoryview(content)
        self._at = 0

    def structure(self, kind: type[Structure]) -> Structure:
        return kind.from_buffer_copy(self._take(ctypes.sizeof(kind)))

    def array(self, dtype: DTypeLike, count: int) -> NDArray[Any]:
        kind = np.dtype(dtype)
        return np.frombuffer(self._take(kind.itemsize * count), kind)

    def trace(self) -> NDArray[np.uint64]:
        return self.array(np.uint64, int(self.array(np.uint64, 1)[0]))

    def require_end(self) -> None:
        if self._at != len(self._content):
            raise RecordError(f"a record of the driver has {len(self._content) - self._at} bytes too many")

    def _take(self, count: int) -> memoryview:
        part = self._content[self._at : self._at + count]
        if len(part) < count:
            raise RecordError(f"a record of the driver ends {count - len(part)} bytes too early")
        self._at += count
        return part


def _footprint(reader: _Reader, header: DispatchHeader, ranges: tuple[tuple[int, int], ...]) -> LineFootprint:
    accesses = reader.array(LINE_ACCESS, header.line_accesses)
    channels = 1 << header.channel_bits
    windows = reader.array(np.uint32, header.xcds * WINDOWS * channels).reshape(header.xcds, WINDOWS, channels)
    memory_instructions = reader.array(np.uint32, header.workgroups)
    order = np.argsort(accesses["workgroup"].astype(np.uint64) << np.uint64(32) | accesses["time"], kind="stable")
    accesses = accesses[order]
    first = np.append(0, np.bincount(accesses["workgroup"], minlength=header.workgroups).cumsum())
    return LineFootprint(
        accesses=accesses,
        first=first.astype(np.uint64),
        memory_instructions=memory_instructions,
        sampling=1 << header.sampling_shift,
        allocations=ranges,
        channel_windows=windows.astype(np.uint64),
        is_complete=not header.footprint_is_truncated,
    )


def _triple(values: ctypes.Array[ctypes.c_uint32]) -> Dim3:
    x, y, z = values
    return int(x), int(y), int(z)
