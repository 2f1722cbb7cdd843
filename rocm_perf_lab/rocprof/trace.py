"""What a rocpd database holds, in columns: dispatches, kernels, agents, copies, counters.

Identifiers of a database are unique only within one process (its guid), so every cross-reference here is an index into
the tuples of the same :class:`Trace`. Times are nanoseconds of one clock per process; only differences mean something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]


@dataclass(frozen=True)
class TracedProcess:
    """One profiled process."""

    guid: str
    pid: int
    command: str


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
    """One row per dispatch, in order of start. `process`, `agent`, `kernel` index the tuples of the trace.

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
    """One database, read."""

    path: Path
    sha256: str
    schema_version: str
    provenance: TraceProvenance
    processes: tuple[TracedProcess, ...]
    agents: tuple[TracedAgent, ...]
    kernels: tuple[TracedKernel, ...]
    dispatches: Dispatches
    memory_copies: tuple[MemoryCopy, ...]
    counters: Mapping[str, CounterValues]

    def counters_of(self, dispatch: int) -> dict[str, float]:
        """Counter values of one dispatch, by name."""
        found = {}
        for name, column in self.counters.items():
            (position,) = (column.dispatch == dispatch).nonzero()
            if len(position):
                found[name] = float(column.value[position[0]])
        return found
