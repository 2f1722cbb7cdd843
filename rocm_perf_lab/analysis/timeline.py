"""Time line of a run: busy, overlapping and idle time, and launch delays.

Works on starts and ends sorted by start and returns sums and the longest gaps, without inferred dependencies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rocm_perf_lab.analysis.dependencies import Graph
    from rocm_perf_lab.rocprof.trace import Regions

    Integers = NDArray[np.int64]

LONGEST_GAPS = 10


@dataclass(frozen=True)
class Gap:
    """Idle interval; `before` and `after` are the graph nodes around it."""

    start_ns: int
    duration_ns: int
    before: int
    after: int


@dataclass(frozen=True)
class Launches:
    """API calls that launched kernels. A graph launch counts once; copies are excluded (a synchronous copy waits for itself).

    `overhead_ns` is the time inside the calls, `latency` the time from the call to the start of its first kernel.
    """

    count: int
    overhead_ns: int
    median_overhead_ns: float
    median_latency_ns: float
    p90_latency_ns: float
    late: int
    """Launches after all dependencies of the kernel had ended, so that the GPU waited for the host."""


@dataclass(frozen=True)
class Timeline:
    """Sums over the run in ns. `wall = busy + idle`; `work` counts overlapping time more than once."""

    wall_ns: int
    busy_ns: int
    idle_ns: int
    work_ns: int
    overlap_ns: int
    """Time in which at least two nodes ran."""
    most_at_once: int
    gaps: tuple[Gap, ...]
    """Longest gaps, longest first."""
    gap_count: int
    launches: Launches | None
    """None if the trace contains no API calls."""


def timeline(graph: Graph, regions: Regions | None = None) -> Timeline:
    """Return the time line of a graph's nodes."""
    start, end = graph.start_ns, graph.end_ns
    if len(graph) == 0:
        return Timeline(0, 0, 0, 0, 0, 0, (), 0, None)
    reached = np.maximum.accumulate(end)
    gap = start[1:] - reached[:-1]
    gaps = np.flatnonzero(gap > 0)
    longest = gaps[np.argsort(-gap[gaps], kind="stable")[:LONGEST_GAPS]]
    # The node with the latest end so far precedes the gap.
    last = np.maximum.accumulate(np.where(end == reached, np.arange(len(end)), 0))
    overlap, most = _overlap(start, end)
    wall, busy = int(reached[-1] - start[0]), busy_ns(start, end)
    return Timeline(
        wall_ns=wall,
        busy_ns=busy,
        idle_ns=wall - busy,
        work_ns=int((end - start).sum()),
        overlap_ns=overlap,
        most_at_once=most,
        gaps=tuple(Gap(int(reached[i]), int(gap[i]), int(last[i]), int(i) + 1) for i in longest),
        gap_count=len(gaps),
        launches=_launches(graph, regions) if regions is not None else None,
    )


def busy_ns(start: Integers, end: Integers) -> int:
    """Return the time in which at least one interval is active; `start` is sorted."""
    if len(start) == 0:
        return 0
    reached = np.maximum.accumulate(end)
    begin = np.concatenate([start[:1], np.maximum(start[1:], reached[:-1])])
    return int(np.maximum(end - begin, 0).sum())


def _overlap(start: Integers, end: Integers) -> tuple[int, int]:
    """Return the time in which at least two intervals are active, and the maximum number of active intervals."""
    times = np.concatenate([np.sort(end), start])
    order = np.argsort(times, kind="stable")
    # At equal times ends come first: intervals that touch do not overlap.
    running = np.cumsum(np.where(order < len(end), -1, 1))
    length = np.diff(times[order], append=times[order[-1]])
    counted = running[length > 0]
    return int(length[running >= 2].sum()), int(counted.max(initial=0))


def _launches(graph: Graph, regions: Regions) -> Launches | None:
    """Return statistics of the calls that launched kernels; for a graph launch, its first kernel counts."""
    nodes = np.flatnonzero((graph.launched_by >= 0) & (graph.identity < graph.dispatches))
    if len(nodes) == 0:
        return None
    call, first = np.unique(graph.launched_by[nodes], return_index=True)
    nodes = nodes[first]
    overhead = np.maximum(regions.end_ns[call] - regions.start_ns[call], 0)
    latency = graph.start_ns[nodes] - regions.start_ns[call]
    ready = (graph.start_ns - graph.delay_ns)[nodes]
    return Launches(
        count=len(nodes),
        overhead_ns=int(overhead.sum()),
        median_overhead_ns=float(np.median(overhead)),
        median_latency_ns=float(np.median(latency)),
        p90_latency_ns=float(np.quantile(latency, 0.9)),
        late=int(np.count_nonzero(regions.start_ns[call] >= ready)),
    )
