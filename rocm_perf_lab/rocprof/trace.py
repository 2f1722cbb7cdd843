"""What a profiled run left, in columns: dispatches, kernels, agents, copies, API calls, counters.

Identifiers of a database are unique only within one process (its guid), so every cross-reference here is an index into
the tuples of the same :class:`Trace`; queues and streams keep their ids and mean something only with their process.
Times are nanoseconds of one clock per machine; only differences mean something.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

MARKED_RANGE = "roctx: "
"""Before the text of a range that the user marked: it may be called like an API call, and is none."""
NO_TIMES = "counters were collected without times, so that durations are unknown"


@dataclass(frozen=True)
class TracedProcess:
    """One profiled process. Times of one `machine` have nothing in common with those of another; empty where unknown."""

    guid: str
    pid: int
    command: str
    machine: str = ""


@dataclass(frozen=True)
class TracedAgent:
    """One CPU or GPU of a process; `properties` is what the runtime reports of it."""

    process: int
    id: int
    kind: str
    name: str
    product_name: str
    properties: Mapping[str, Any]


@dataclass(frozen=True)
class TracedKernel:
    """One kernel symbol. Register counts are allocations, with granules and padding; see `rocprof/registers.py`."""

    process: int
    name: str
    mangled_name: str
    arch_vgpr_count: int
    accum_vgpr_count: int
    sgpr_count: int
    static_lds_bytes: int
    static_scratch_bytes: int


@dataclass(frozen=True)
class Dispatches:
    """One row per dispatch, in order of start. `process`, `agent`, `kernel` index the tuples of the trace. A `queue` or
    `stream` of -1 is unknown.

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
    """Id that a dispatch shares with the API call that launched it, within its process; -1 where unknown. Empty where the
    source has none."""

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def duration_ns(self) -> Integers:
        """End minus start."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class MemoryCopy:
    """One copy between agents; `direction` as the runtime names it, e.g. MEMORY_COPY_HOST_TO_DEVICE."""

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
    """A queue or a stream of a process, and what the runtime calls it."""

    process: int
    id: int
    name: str


def no_dispatches() -> Dispatches:
    """No dispatch."""
    none = np.empty(0, np.int64)
    sizes = np.empty((0, 3), np.int64)
    return Dispatches(none, none, none, none, none, none, none, none, none, workgroup=sizes, grid=sizes)


def no_copies() -> MemoryCopies:
    """No memory copy."""
    none = np.empty(0, np.int64)
    return MemoryCopies(none, none, none, none, none, none, none, none, none, none, directions=())


def no_regions() -> Regions:
    """No API call."""
    none = np.empty(0, np.int64)
    return Regions(none, none, none, none, none, none, names=())


@dataclass(frozen=True)
class CounterValues:
    """One counter: device totals (summed over instances) of the dispatches where it was collected."""

    dispatch: Integers
    value: NDArray[np.float64]


@dataclass(frozen=True)
class TraceProvenance:
    """Where the numbers come from. Only a device of the lab states `emulated`; anything else was measured."""

    device: str
    emulated: bool
    versions: Mapping[str, str]

    @property
    def time_kind(self) -> str:
        """The word that goes with a time."""
        return "emulated" if self.emulated else "measured"


@dataclass(frozen=True)
class Trace:
    """One run, read: of one database, or of several merged."""

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
    """What was odd in the data, and what was done about it."""
    paths: tuple[Path, ...] = ()
    """Of all files that were merged."""
    replays: tuple[Mapping[str, CounterValues], ...] = ()
    """Counters of further executions of the same dispatches (kernel replay), one mapping per pass after that of `counters`.
    What several passes collect is in each: cycles of one do not go with those of another."""

    @property
    def passes(self) -> tuple[Mapping[str, CounterValues], ...]:
        """Counters by pass: of the dispatches themselves, then of their replays."""
        return (self.counters, *self.replays)

    def counters_of(self, dispatch: int) -> dict[str, float]:
        """Counter values of one dispatch, by name; what several passes collected is of the first."""
        found: dict[str, float] = {}
        for counters in self.passes:
            for name, column in counters.items():
                (position,) = (column.dispatch == dispatch).nonzero()
                if len(position):
                    found.setdefault(name, float(column.value[position[0]]))
        return found
