"""Export of a run to ui.perfetto.dev, in Perfetto's native format.

There is one track per queue, per stream with copies and per host thread, a track with the critical path alone, and a track per
counter; a thread trace adds a track per slot of wavefronts. Arrows follow the critical path and lead from a launch to its kernel.
Overlapping kernels of one queue get separate tracks, because slices of one track must not cross.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_bytes
from rocm_perf_lab.report.perfetto_events import BEGIN, COUNTER, END, NO_FLOW, Events, encoded, slices
from rocm_perf_lab.report.perfetto_waves import STATE_NAMES, TITLE, slot_timelines
from rocm_perf_lab.report.protobuf import Message
from rocm_perf_lab.toolchain.demangle import demangle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.analysis.critical_path import CriticalPath
    from rocm_perf_lab.report.perfetto_waves import SlotTimeline
    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.rocprof.trace import Trace

    Integers = NDArray[np.int64]

DEFAULT_MAX_SLICES = 200_000
_SEQUENCE = 1
_CLEARED, _NEEDS_INTERNED = 1, 2
_LAUNCH_FLOW = 1 << 62
_MOST_LAUNCHES = 6
"""Maximum number of arrows from one API call; a graph may launch more kernels."""


class PerfettoError(LabError):
    """Perfetto trace that cannot be written."""


def write_perfetto(
    path: Path, trace: Trace, critical: CriticalPath, *, att: AttTrace | None = None, max_slices: int = DEFAULT_MAX_SLICES
) -> int:
    """Write the trace.

    Args:
        path: The file, by convention `*.perfetto-trace`.
        trace: The run.
        critical: Its critical path.
        att: Thread trace of a kernel, whose wavefronts get separate tracks.
        max_slices: Maximum number of dispatches and copies (the longest), of API calls, and of states of wavefronts.

    Returns:
        Number of omitted dispatches, copies, API calls and states.

    Raises:
        PerfettoError: The file cannot be written.
    """
    content, left_out = perfetto_trace(trace, critical, att=att, max_slices=max_slices)
    try:
        write_bytes(path, content)
    except OSError as error:
        raise PerfettoError(
            f"cannot write the Perfetto trace: {error.strerror or error}",
            where=str(path),
            hint="free some space, or choose an output directory that can be written",
        ) from error
    return left_out


def perfetto_trace(
    trace: Trace, critical: CriticalPath, *, att: AttTrace | None = None, max_slices: int = DEFAULT_MAX_SLICES
) -> tuple[bytes, int]:
    """Return the content of the file, and the number of omitted dispatches, copies, API calls and states of wavefronts."""
    writer = _Writer(trace, critical, max_slices)
    timelines, omitted = slot_timelines(att, max_states=max_slices) if att is not None else ([], 0)
    return writer.content(timelines), writer.left_out + omitted


class _Writer:
    def __init__(self, trace: Trace, critical: CriticalPath, max_slices: int) -> None:
        self._trace = trace
        self._graph = critical.graph
        self._critical = critical
        count = len(self._graph)
        self._shown = _largest(self._graph.duration_ns, max_slices)
        self._calls = np.flatnonzero(_largest(trace.regions.end_ns - trace.regions.start_ns, max_slices))
        self.left_out = count - int(self._shown.sum()) + len(trace.regions) - len(self._calls)
        starts = [column.start_ns.min() for column in (trace.dispatches, trace.memory_copies, trace.regions) if len(column)]
        self._origin = int(min(starts, default=0))
        self._names: dict[str, int] = {}
        self._packets: list[bytes] = []
        self._tracks = 0
        self._flows = self._arrows()
        self._packet(Message().integer(13, _CLEARED))
        self._node_names = self._names_of_nodes()

    def content(self, wavefronts: Sequence[SlotTimeline] = ()) -> bytes:
        """Return the whole file, with the timelines of wavefronts."""
        processes = [self._process_track(index) for index in range(len(self._trace.processes))]
        self._critical_track()
        self._queue_tracks(processes)
        self._copy_tracks(processes)
        self._counter_tracks(processes)
        self._host_tracks(processes)
        self._wavefront_tracks(wavefronts)
        return b"".join(self._packets)

    def _arrows(self) -> Integers:
        """Return the arrow ids of each node, shape (n_nodes, 3): critical path from its predecessor, to its successor, launch."""
        arrows = np.full((len(self._graph), 3), NO_FLOW, np.int64)
        path = self._critical.nodes[self._shown[self._critical.nodes]]
        arrows[path[1:], 0] = np.arange(1, len(path))
        arrows[path[:-1], 1] = np.arange(1, len(path))
        launched = self._graph.launched_by >= 0
        arrows[launched, 2] = _LAUNCH_FLOW + np.flatnonzero(launched)
        return arrows

    # Tracks

    def _process_track(self, index: int) -> int:
        process = self._trace.processes[index]
        name = process.command[:200] or f"process {process.pid}"
        if sum(other.pid == process.pid for other in self._trace.processes) > 1:
            # Processes of different machines or containers may have equal pids.
            return self._track(f"{name} (process {process.pid}, {process.guid[:8]})")
        return self._track(described=Message().message(3, Message().integer(1, process.pid).text(6, name)))

    def _track(self, name: str | None = None, *, parent: int | None = None, described: Message | None = None) -> int:
        self._tracks += 1
        descriptor = Message().integer(1, self._tracks)
        if name is not None:
            descriptor.text(2, name)
        if parent is not None:
            descriptor.integer(5, parent)
        self._packet(Message().message(60, descriptor.extend(described)))
        return self._tracks

    def _critical_track(self) -> None:
        nodes = self._critical.nodes[self._shown[self._critical.nodes]]
        if len(nodes):
            times = (self._graph.start_ns[nodes] - self._origin, self._graph.end_ns[nodes] - self._origin)
            self._packets.append(encoded(slices(self._track("Critical path"), *times, self._node_names[nodes])))

    def _queue_tracks(self, processes: Sequence[int]) -> None:
        dispatches = self._trace.dispatches
        nodes = np.flatnonzero(self._shown & (self._graph.identity < self._graph.dispatches))
        rows = self._graph.identity[nodes]
        keys = np.stack([dispatches.process[rows], dispatches.agent[rows], dispatches.queue[rows]], axis=1)
        parents: dict[int, int] = {}
        for (process, agent, queue), members in _groups(keys, nodes):
            if agent not in parents:
                found = self._trace.agents[agent]
                title = f"{found.kind or 'Agent'} {found.id} {found.name}".strip()
                parents[agent] = self._track(title, parent=processes[process])
            self._node_tracks(f"Queue {queue}", parents[agent], members)

    def _copy_tracks(self, processes: Sequence[int]) -> None:
        copies = self._trace.memory_copies
        nodes = np.flatnonzero(self._shown & (self._graph.identity >= self._graph.dispatches))
        rows = self._graph.identity[nodes] - self._graph.dispatches
        for (process, stream), members in _groups(np.stack([copies.process[rows], copies.stream[rows]], axis=1), nodes):
            title = "Memory copies" + (f", stream {stream}" if stream >= 0 else "")
            self._node_tracks(title, processes[process], members)

    def _node_tracks(self, title: str, parent: int, nodes: Integers) -> None:
        start, end = self._graph.start_ns[nodes] - self._origin, self._graph.end_ns[nodes] - self._origin
        detail, details, numbers = self._details(nodes)
        for number, members in enumerate(_without_overlap(start, end), start=1):
            track = self._track(title if number == 1 else f"{title}, overlapping {number}", parent=parent)
            own = nodes[members]
            events = slices(
                track,
                start[members],
                end[members],
                self._node_names[own],
                detail=detail[members],
                details=details,
                flows=self._flows[own],
                numbers={key: values[members] for key, values in numbers.items()},
            )
            self._packets.append(encoded(events))

    def _counter_tracks(self, processes: Sequence[int]) -> None:
        dispatches = self._trace.dispatches
        # If several passes collected a counter, use the first.
        for name, column in {name: c for counters in reversed(self._trace.passes) for name, c in counters.items()}.items():
            for (process, agent), members in _groups(
                np.stack([dispatches.process[column.dispatch], dispatches.agent[column.dispatch]], axis=1),
                np.arange(len(column.dispatch)),
            ):
                found = self._trace.agents[agent]
                track = self._track(
                    f"{name}, agent {found.id}", parent=processes[process], described=Message().message(8, Message())
                )
                rows = column.dispatch[members]
                start = dispatches.start_ns[rows]
                events = slices(track, start, np.maximum(dispatches.end_ns[rows], start), np.zeros(len(rows), np.int64))
                values = np.stack([column.value[members], np.zeros(len(rows))], axis=1).ravel()
                counted = replace(events, kind=np.full(len(values), COUNTER), time=events.time - self._origin, value=values)
                self._packets.append(encoded(counted))

    def _host_tracks(self, processes: Sequence[int]) -> None:
        regions = self._trace.regions
        launched = np.flatnonzero((self._graph.launched_by >= 0) & self._shown)
        calls, place, counts = np.unique(self._graph.launched_by[launched], return_inverse=True, return_counts=True)
        # The n-th kernel that a call launched is in column n.
        order = np.argsort(place.ravel(), kind="stable")
        column = np.arange(len(launched)) - np.repeat(np.cumsum(counts) - counts, counts)
        flows = np.full((len(regions), min(int(counts.max(initial=0)), _MOST_LAUNCHES)), NO_FLOW, np.int64)
        fits = column < flows.shape[1]
        flows[calls[place.ravel()[order]][fits], column[fits]] = _LAUNCH_FLOW + launched[order][fits]
        names = self._interned(regions.names)[regions.name] if len(regions) else np.zeros(0, np.int64)
        keys = np.stack([regions.process[self._calls], regions.thread[self._calls]], axis=1)
        for (process, thread), members in _groups(keys, self._calls):
            start, end = regions.start_ns[members], np.maximum(regions.start_ns, regions.end_ns)[members]
            times = np.stack([end, start], axis=1) - self._origin
            for number, found in enumerate(_nested(start.tolist(), end.tolist()), start=1):
                title = f"Host thread {thread}" + (f", overlapping {number}" if number > 1 else "")
                track = self._track(title, parent=processes[process])
                kind, row = np.array(found, np.int64).T
                own = members[row]
                begins = (kind == BEGIN).astype(np.int64)
                nothing = np.zeros(len(row), np.int64)
                self._packets.append(encoded(Events(track, kind, times[row, begins], names[own], nothing, flows=flows[own])))

    def _wavefront_tracks(self, timelines: Sequence[SlotTimeline]) -> None:
        if not timelines:
            return
        above, names, simds = self._track(TITLE), self._interned(STATE_NAMES), dict[str, int]()
        for one in timelines:
            if one.simd not in simds:
                simds[one.simd] = self._track(one.simd, parent=above)
            track = self._track(one.slot, parent=simds[one.simd])
            numbers = {"wavefront": one.wavefront}
            self._packets.append(encoded(slices(track, one.begin, one.end, names[one.state], numbers=numbers)))

    # Names and details

    def _interned(self, names: Sequence[str]) -> Integers:
        """Return the number of each name, and define new ones."""
        numbers = np.zeros(len(names), np.int64)
        for position, name in enumerate(names):
            if name not in self._names:
                self._names[name] = len(self._names) + 1
                defined = Message().message(2, Message().integer(1, self._names[name]).text(2, name))
                self._packet(Message().message(12, defined).integer(13, _NEEDS_INTERNED))
            numbers[position] = self._names[name]
        return numbers

    def _names_of_nodes(self) -> Integers:
        """Return the number of the name of each node: its kernel, or the direction of a copy."""
        dispatches, copies = self._trace.dispatches, self._trace.memory_copies
        kernels = self._interned([demangle(kernel.name) for kernel in self._trace.kernels])
        directions = self._interned(copies.directions)
        by_identity = np.concatenate([kernels[dispatches.kernel], directions[copies.direction]])
        numbers: Integers = by_identity[self._graph.identity]
        return numbers

    def _details(self, nodes: Integers) -> tuple[Integers, list[bytes], dict[str, Integers]]:
        """Return the number of each node's annotations, the annotations, and those that are single numbers by name."""
        dispatches, copies = self._trace.dispatches, self._trace.memory_copies
        identity = self._graph.identity[nodes]
        numbers = {"slack_ns": self._critical.node_slack_ns[nodes]}
        if len(identity) and identity[0] >= self._graph.dispatches:
            numbers["bytes"] = copies.size_bytes[identity - self._graph.dispatches]
            return np.zeros(len(nodes), np.int64), [b""], numbers
        columns = [*dispatches.grid[identity].T, *dispatches.workgroup[identity].T, dispatches.stream[identity]]
        detail, first = _numbered(columns)
        details = []
        for row in identity[first].tolist():
            grid, workgroup = (" x ".join(map(str, sizes[row].tolist())) for sizes in (dispatches.grid, dispatches.workgroup))
            details.append(_annotated(grid=grid, workgroup=workgroup, stream=int(dispatches.stream[row])))
        return detail, details, numbers

    def _packet(self, packet: Message) -> None:
        self._packets.append(Message().message(1, packet.integer(10, _SEQUENCE)).content)


def _groups(keys: Integers, members: Integers) -> Iterator[tuple[tuple[int, ...], Integers]]:
    """Group members by equal rows of keys, in order of the keys."""
    if len(keys) == 0:
        return
    group, first = _numbered(tuple(keys.T))
    order = np.argsort(group.astype(np.int16) if len(first) < 1 << 15 else group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(1, len(first)))
    for value, rows in zip(keys[first].tolist(), np.split(order, bounds), strict=True):
        yield tuple(value), members[rows]


def _largest(values: Integers, count: int) -> NDArray[np.bool_]:
    """Return a mask of the `count` largest values; of equal values, the first are selected."""
    if len(values) <= count:
        return np.ones(len(values), bool)
    least = np.partition(values, len(values) - count)[len(values) - count] if count else np.iinfo(np.int64).max
    chosen: NDArray[np.bool_] = values > least
    chosen[np.flatnonzero(values == least)[: count - int(chosen.sum())]] = True
    return chosen


def _numbered(columns: Sequence[Integers]) -> tuple[Integers, Integers]:
    """Number the distinct rows of a table; return the number of each row, and the index of the first row of each number."""
    numbers = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        if len(column) and column.min() != column.max():
            values, place = np.unique(column, return_inverse=True)
            _, numbers = np.unique(numbers * len(values) + place.ravel(), return_inverse=True)
            numbers = numbers.ravel()
    _, first = np.unique(numbers, return_index=True)
    return numbers, first


def _annotated(**facts: int | str) -> bytes:
    """Return annotations of an event."""
    event = Message()
    for key, value in facts.items():
        annotation = Message().text(10, key)
        event.message(4, annotation.integer(4, value) if isinstance(value, int) else annotation.text(6, value))
    return event.content


def _without_overlap(start: Integers, end: Integers) -> list[Integers]:
    """Distribute positions (sorted by start) to the fewest tracks without overlap."""
    from heapq import heappop, heappush

    if np.all(end[:-1] <= start[1:]):
        return [np.arange(len(start))]
    ends = end.tolist()
    tracks: list[list[int]] = []
    free: list[tuple[int, int]] = []
    for position, begin in enumerate(start.tolist()):
        if free and free[0][0] <= begin:
            _, track = heappop(free)
        else:
            track = len(tracks)
            tracks.append([])
        tracks[track].append(position)
        heappush(free, (ends[position], track))
    return [np.array(track) for track in tracks]


def _nested(start: Sequence[int], end: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Return begin and end events on tracks whose slices nest."""
    tracks: list[list[tuple[int, int]]] = []
    stacks: list[list[int]] = []
    for position in sorted(range(len(start)), key=lambda p: (start[p], -end[p])):
        for track, stack in zip(tracks, stacks, strict=True):
            while stack and end[stack[-1]] <= start[position]:
                track.append((END, stack.pop()))
            if not stack or end[position] <= end[stack[-1]]:
                break
        else:
            track, stack = [], []
            tracks.append(track)
            stacks.append(stack)
        track.append((BEGIN, position))
        stack.append(position)
    for track, stack in zip(tracks, stacks, strict=True):
        track.extend((END, position) for position in reversed(stack))
    return tracks
