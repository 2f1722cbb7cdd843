"""The longest chain of dependent dispatches, and how much slack every other dispatch has.

Takes the dispatches of a trace, gives their dependency graph, the critical path and slack in ns. O(n log n).

Rule of dependence. A lane is a queue and stream of one agent and process. A dispatch depends on the dispatch of its own
lane that ended last before it started (work of one lane that overlaps is independent). Across lanes of one process the
trace states nothing, so it is inferred: a dispatch also depends on the last dispatch of other lanes that ended before
it started, if that was after its own predecessor ended and at most `max_gap_ns` before its start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.trace import Dispatches

    Edge = tuple[int, int]

DEFAULT_MAX_GAP_NS = 10_000


@dataclass(frozen=True)
class CriticalPath:
    """Results by position of the dispatch in the trace."""

    length_ns: int
    dispatches: tuple[int, ...]
    """On the critical path, in order of time; where several are equally long, the one found first."""
    slack_ns: NDArray[np.int64]
    edges: tuple[Edge, ...]
    """(earlier, later)."""
    busy_ns: int
    """Time in which at least one dispatch ran."""
    wall_ns: int
    """From the first start to the last end."""


def critical_path(dispatches: Dispatches, *, max_gap_ns: int = DEFAULT_MAX_GAP_NS) -> CriticalPath:
    """The critical path; dispatches that end before they start take no time."""
    start = dispatches.start_ns.tolist()
    end = np.maximum(dispatches.start_ns, dispatches.end_ns).tolist()
    duration = [e - s for s, e in zip(start, end, strict=True)]
    predecessors = _predecessors(start, end, _lanes(dispatches), dispatches.process.tolist(), max_gap_ns)
    order = sorted(range(len(start)), key=lambda d: (start[d], end[d], d))
    longest_to, previous = _longest_to(order, duration, predecessors)
    longest_from = _longest_from(order, duration, predecessors)
    length = max(longest_to, default=0)
    slack = [length - (to + after - own) for to, after, own in zip(longest_to, longest_from, duration, strict=True)]
    return CriticalPath(
        length_ns=length,
        dispatches=_path(longest_to, previous),
        slack_ns=np.array(slack, np.int64),
        edges=tuple((before, after) for after in order for before in predecessors[after]),
        busy_ns=_busy(order, start, end),
        wall_ns=max(end) - min(start) if start else 0,
    )


def contribution_ns(path: CriticalPath, dispatches: Dispatches) -> dict[int, int]:
    """Time that each kernel (its index in the trace) spends on the critical path."""
    spent: dict[int, int] = {}
    for dispatch in path.dispatches:
        kernel = int(dispatches.kernel[dispatch])
        spent[kernel] = spent.get(kernel, 0) + max(0, int(dispatches.duration_ns[dispatch]))
    return spent


def _lanes(dispatches: Dispatches) -> list[int]:
    keys = np.stack([dispatches.process, dispatches.agent, dispatches.queue, dispatches.stream], axis=1)
    _, lanes = np.unique(keys, axis=0, return_inverse=True)
    numbers: list[int] = lanes.ravel().tolist()
    return numbers


def _predecessors(
    start: Sequence[int], end: Sequence[int], lane: Sequence[int], process: Sequence[int], max_gap_ns: int
) -> list[tuple[int, ...]]:
    """What each dispatch waits for, by one sweep over starts and ends."""
    by_start = sorted(range(len(start)), key=lambda d: (start[d], end[d], d))
    position = {dispatch: index for index, dispatch in enumerate(by_start)}
    by_end = sorted(by_start, key=lambda d: (end[d], position[d]))
    last_of_lane: dict[int, int] = {}
    last_of_process: dict[int, _LastTwo] = {}
    found: list[tuple[int, ...]] = [()] * len(start)
    ended = 0
    for index, dispatch in enumerate(by_start):
        # A dispatch of zero length ends at its own start: only what comes earlier in this order can precede it.
        while end[by_end[ended]] <= start[dispatch] and position[by_end[ended]] < index:
            done = by_end[ended]
            last_of_lane[lane[done]] = done
            last_of_process.setdefault(process[done], _LastTwo()).add(done, lane[done])
            ended += 1
        own = last_of_lane.get(lane[dispatch])
        other = last_of_process.get(process[dispatch], _LastTwo()).of_another_lane(lane[dispatch])
        waited = other is not None and start[dispatch] - end[other] <= max_gap_ns and (own is None or end[other] > end[own])
        found[dispatch] = tuple(d for d, is_one in ((own, own is not None), (other, waited)) if is_one and d is not None)
    return found


class _LastTwo:
    """The dispatch that ended last, and the last one of any other lane."""

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None
        self._other: tuple[int, int] | None = None

    def add(self, dispatch: int, lane: int) -> None:
        if self._last is not None and self._last[1] != lane:
            self._other = self._last
        self._last = (dispatch, lane)

    def of_another_lane(self, lane: int) -> int | None:
        for entry in (self._last, self._other):
            if entry is not None and entry[1] != lane:
                return entry[0]
        return None


def _longest_to(
    order: Sequence[int], duration: Sequence[int], predecessors: Sequence[tuple[int, ...]]
) -> tuple[list[int], list[int | None]]:
    length = list(duration)
    previous: list[int | None] = [None] * len(length)
    for dispatch in order:
        if predecessors[dispatch]:
            best = max(predecessors[dispatch], key=length.__getitem__)
            length[dispatch] += length[best]
            previous[dispatch] = best
    return length, previous


def _longest_from(order: Sequence[int], duration: Sequence[int], predecessors: Sequence[tuple[int, ...]]) -> list[int]:
    tail = [0] * len(duration)
    for dispatch in reversed(order):
        tail[dispatch] += duration[dispatch]
        for before in predecessors[dispatch]:
            tail[before] = max(tail[before], tail[dispatch])
    return tail


def _path(length: Sequence[int], previous: Sequence[int | None]) -> tuple[int, ...]:
    path: list[int] = []
    dispatch = max(range(len(length)), key=length.__getitem__) if length else None
    while dispatch is not None:
        path.append(dispatch)
        dispatch = previous[dispatch]
    return tuple(reversed(path))


def _busy(order: Sequence[int], start: Sequence[int], end: Sequence[int]) -> int:
    busy, reached = 0, None
    for dispatch in order:
        begin = start[dispatch] if reached is None else max(start[dispatch], reached)
        busy += max(0, end[dispatch] - begin)
        reached = end[dispatch] if reached is None else max(reached, end[dispatch])
    return busy
