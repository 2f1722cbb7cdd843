"""A profiled run in columns: dispatches, kernels, agents, copies, API calls, counters.

Identifiers of a database are unique only within one process (its guid), so every cross-reference here is an index into the
tuples of the same :class:`Trace`. Queues and streams keep their ids, which are unique within their process. Times are
nanoseconds of one clock per machine; only differences are meaningful.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

MARKED_RANGE = "roctx: "
"""Prefix of the text of a marked range, which may have the name of an API call."""
NO_TIMES = "counters were collected without times: durations are unknown"
NO_KERNEL_TRACE = "there is no kernel trace: "


@dataclass(frozen=True)
class TracedProcess:
    """One profiled process. Clocks of different `machine` values are unrelated; empty if unknown."""

    guid: str
    pid: int
    command: str
    machine: str = ""
    parent: int = 0
    """Process id of the parent; 0 if unknown."""
    begin_ns: int = 0
    end_ns: int = 0
    """Lifetime on the clock of the dispatches; 0 if unknown."""


@dataclass(frozen=True)
class TracedAgent:
    """One CPU or GPU of a process; `properties` are those that the runtime reports."""

    process: int
    id: int
    kind: str
    name: str
    product_name: str
    properties: Mapping[str, Any]


@dataclass(frozen=True)
class TracedKernel:
    """One kernel symbol. Register counts are allocations, including granules and padding; see `rocprof/registers.py`."""

    process: int
    name: str
    mangled_name: str
    arch_vgpr_count: int
    accum_vgpr_count: int
    sgpr_count: int
    static_lds_bytes: int
    static_scratch_bytes: int
    code_object: str = ""
    """File and size of its code object, equal for equal code in different processes; empty if unknown."""


@dataclass(frozen=True)
class Dispatches:
    """One row per dispatch, in order of start. `process`, `agent`, `kernel` index the tuples of the trace. A `queue` or `stream`
    of -1 is unknown.

    `workgroup` and `grid` have shape (n, 3), the grid in work-items; all other columns have shape (n,).
    """

    process: Integers
    agent: Integers
    kernel: Integers
    queue: Integers
    stream: Integers
    start_ns: Integers
    end_ns: Integers
    lds_bytes: Integers
    scratch_bytes: Integers
    workgroup: Integers
    grid: Integers
    correlation: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    """Id that a dispatch shares with the API call that launched it, within its process; -1 if unknown. Empty if the source has
    none."""

    def __len__(self) -> int:
        return len(self.start_ns)

    def columns(self) -> dict[str, Integers]:
        """Return the stored columns by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @cached_property
    def duration_ns(self) -> Integers:
        """End minus start."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class MemoryCopy:
    """One copy between agents; `direction` is the runtime's name, for example MEMORY_COPY_HOST_TO_DEVICE."""

    process: int
    direction: str
    size_bytes: int
    start_ns: int
    end_ns: int
    queue: int | None
    stream: int | None


@dataclass(frozen=True)
class MemoryCopies:
    """One row per copy, in order of start. `direction` indexes `directions`; -1: unknown agent, queue or stream."""

    process: Integers
    direction: Integers
    size_bytes: Integers
    start_ns: Integers
    end_ns: Integers
    source: Integers
    destination: Integers
    queue: Integers
    stream: Integers
    correlation: Integers
    directions: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start_ns)

    def __iter__(self) -> Iterator[MemoryCopy]:
        for index in range(len(self)):
            queue, stream = int(self.queue[index]), int(self.stream[index])
            yield MemoryCopy(
                process=int(self.process[index]),
                direction=self.directions[int(self.direction[index])],
                size_bytes=int(self.size_bytes[index]),
                start_ns=int(self.start_ns[index]),
                end_ns=int(self.end_ns[index]),
                queue=None if queue < 0 else queue,
                stream=None if stream < 0 else stream,
            )


@dataclass(frozen=True)
class Regions:
    """One row per API call or marked range, in order of start. `name` indexes `names`, `thread` is the system's id."""

    process: Integers
    thread: Integers
    name: Integers
    start_ns: Integers
    end_ns: Integers
    correlation: Integers
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True)
class TracedLane:
    """A queue or a stream of a process, and the runtime's name for it."""

    process: int
    id: int
    name: str


def no_dispatches() -> Dispatches:
    """Return an empty table of dispatches."""
    none = np.empty(0, np.int64)
    sizes = np.empty((0, 3), np.int64)
    return Dispatches(none, none, none, none, none, none, none, none, none, workgroup=sizes, grid=sizes)


def no_copies() -> MemoryCopies:
    """Return an empty table of memory copies."""
    none = np.empty(0, np.int64)
    return MemoryCopies(none, none, none, none, none, none, none, none, none, none, directions=())


def no_regions() -> Regions:
    """Return an empty table of API calls."""
    none = np.empty(0, np.int64)
    return Regions(none, none, none, none, none, none, names=())


@dataclass(frozen=True)
class CounterValues:
    """One counter: device totals (summed over instances) of the dispatches for which it was collected."""

    dispatch: Integers
    value: NDArray[np.float64]


@dataclass(frozen=True)
class TraceProvenance:
    """Origin of the numbers. Only a device of rocm-perf-lab can be `emulated`; everything else was measured."""

    device: str
    emulated: bool
    versions: Mapping[str, str]
    sample_seed: int | None = None
    """Seed that chose the workgroups from which an emulated time was estimated."""
    has_times: bool = True
    """False if the emulator has no timing model for the GPU: all stamps are zero."""

    @property
    def time_kind(self) -> str:
        """`emulated` or `measured`."""
        return "emulated" if self.emulated else "measured"


@dataclass(frozen=True)
class Trace:
    """One run, read from one database or merged from several."""

    path: Path
    sha256: str
    schema_version: str
    provenance: TraceProvenance
    processes: tuple[TracedProcess, ...]
    agents: tuple[TracedAgent, ...]
    kernels: tuple[TracedKernel, ...]
    dispatches: Dispatches
    memory_copies: MemoryCopies
    counters: Mapping[str, CounterValues]
    regions: Regions = field(default_factory=no_regions)
    queues: tuple[TracedLane, ...] = ()
    streams: tuple[TracedLane, ...] = ()
    notes: tuple[str, ...] = ()
    """Oddities in the data, and how they were handled."""
    paths: tuple[Path, ...] = ()
    """All merged files."""
    replays: tuple[Mapping[str, CounterValues], ...] = ()
    """Counters of further executions of the same dispatches (kernel replay), one mapping per pass after that of `counters`.
    Counters of several passes are in each of them: cycles of different passes must not be combined."""

    @property
    def passes(self) -> tuple[Mapping[str, CounterValues], ...]:
        """Counters by pass: of the dispatches themselves, then of their replays."""
        return (self.counters, *self.replays)

    def counters_of(self, dispatch: int) -> dict[str, float]:
        """Return the counter values of one dispatch by name; for counters of several passes the first."""
        found: dict[str, float] = {}
        for counters in self.passes:
            for name, column in counters.items():
                (position,) = (column.dispatch == dispatch).nonzero()
                if len(position):
                    found.setdefault(name, float(column.value[position[0]]))
        return found


def is_about_times(note: str) -> bool:
    """Return True for a note on the origin of the times."""
    return note.startswith((NO_TIMES, NO_KERNEL_TRACE))


def never_timed(count: int) -> str:
    """Return a note on dispatches without times."""
    return f"{count} dispatches have no times and were ignored"


def timed(start_ns: Integers, end_ns: Integers) -> NDArray[np.bool_]:
    """Return a mask of the rows with times. If none has, all are kept: the run was not timed, and its order is meaningless.

    A single dispatch from 0 to 0 would precede all others by hours, and the run would seem to be idle in between.
    """
    has_times: NDArray[np.bool_] = (start_ns != 0) | (end_ns != 0)
    return has_times if has_times.any() else np.ones(len(start_ns), bool)
