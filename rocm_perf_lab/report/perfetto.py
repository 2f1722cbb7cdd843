"""Export of a run to ui.perfetto.dev, in Perfetto's native format.

There is one track per queue, per stream with copies and per host thread, a track with the critical path alone, and a track per
counter. Arrows follow the critical path and lead from a launch to its kernel. Overlapping kernels of one queue get separate
tracks, because slices of one track must not cross.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_bytes
from rocm_perf_lab.report.protobuf import Message
from rocm_perf_lab.toolchain.demangle import demangle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.analysis.critical_path import CriticalPath
    from rocm_perf_lab.rocprof.trace import Trace

    Integers = NDArray[np.int64]

DEFAULT_MAX_SLICES = 200_000
_SEQUENCE = 1
_CLEARED, _NEEDS_INTERNED = 1, 2
_BEGIN, _END, _COUNTER = 1, 2, 4
_LAUNCH_FLOW = 1 << 62


class PerfettoError(LabError):
    """The trace cannot be written."""


def write_perfetto(path: Path, trace: Trace, critical: CriticalPath, *, max_slices: int = DEFAULT_MAX_SLICES) -> int:
    """Write the trace.

    Args:
        path: The file, by convention `*.perfetto-trace`.
        trace: The run.
        critical: Its critical path.
        max_slices: Maximum number of dispatches and copies (the longest), and of API calls.

    Returns:
        Number of omitted dispatches, copies and API calls.

    Raises:
        PerfettoError: The file cannot be written.
    """
    content, left_out = perfetto_trace(trace, critical, max_slices=max_slices)
    try:
        write_bytes(path, content)
    except OSError as error:
        raise PerfettoError(
            f"cannot write the Perfetto trace: {error.strerror or error}",
            where=str(path),
            hint="free some space, or choose an output directory that can be written",
        ) from error
    return left_out


def perfetto_trace(trace: Trace, critical: CriticalPath, *, max_slices: int = DEFAULT_MAX_SLICES) -> tuple[bytes, int]:
    """Return the content of the file, and the number of omitted dispatches, copies and API calls."""
    writer = _Writer(trace, critical, max_slices)
    return writer.content(), writer.left_out


class _Writer:
    def __init__(self, trace: Trace, critical: CriticalPath, max_slices: int) -> None:
        self._trace = trace
        self._graph = critical.graph
        self._critical = critical
        count = len(self._graph)
        kept = np.argsort(-self._graph.duration_ns, kind="stable")[:max_slices]
        self._shown = np.zeros(count, bool)
        self._shown[kept] = True
        self._calls = np.sort(np.argsort(trace.regions.start_ns - trace.regions.end_ns, kind="stable")[:max_slices])
        self.left_out = count - len(kept) + len(trace.regions) - len(self._calls)
        starts = [column.start_ns.min() for column in (trace.dispatches, trace.memory_copies, trace.regions) if len(column)]
        self._origin = int(min(starts, default=0))
        self._names: dict[str, int] = {}
        self._packets: list[bytes] = []
        self._tracks = 0
        self._kernel_names = [demangle(kernel.name) for kernel in trace.kernels]
        self._flows = self._critical_flows()

    def content(self) -> bytes:
        """Return the whole file."""
        self._packet(Message().integer(13, _CLEARED))
        processes = [self._process_track(index) for index in range(len(self._trace.processes))]
        self._critical_track()
        self._queue_tracks(processes)
        self._copy_tracks(processes)
        self._counter_tracks(processes)
        self._host_tracks(processes)
        return b"".join(self._packets)

    def _critical_flows(self) -> dict[int, list[int]]:
        """Return the flow ids of each shown node of the critical path: one arrow to the next node."""
        flows: dict[int, list[int]] = {}
        nodes = [node for node in self._critical.nodes.tolist() if self._shown[node]]
        for number, (before, after) in enumerate(pairwise(nodes), start=1):
            flows.setdefault(before, []).append(number)
            flows.setdefault(after, []).append(number)
        return flows

    # Tracks

    def _process_track(self, index: int) -> int:
        process = self._trace.processes[index]
        name = process.command[:200] or f"process {process.pid}"
        if sum(other.pid == process.pid for other in self._trace.processes) > 1:
            # Equal pids of different machines or containers must not be merged into one process.
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
            track = self._track("Critical path")
            for node in nodes.tolist():
                self._slice(track, self._label(node), int(self._graph.start_ns[node]), int(self._graph.end_ns[node]))

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
        start, end = self._graph.start_ns[nodes].tolist(), self._graph.end_ns[nodes].tolist()
        for number, members in enumerate(_without_overlap(start, end), start=1):
            track = self._track(title if number == 1 else f"{title}, overlapping {number}", parent=parent)
            for member in members:
                node = int(nodes[member])
                flows = [*self._flows.get(node, ()), *([_LAUNCH_FLOW + node] if self._graph.launched_by[node] >= 0 else ())]
                self._slice(track, self._label(node), start[member], end[member], self._facts(node), flows)

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
                for member in members.tolist():
                    row = int(column.dispatch[member])
                    self._count(track, int(dispatches.start_ns[row]), float(column.value[member]))
                    self._count(track, max(int(dispatches.end_ns[row]), int(dispatches.start_ns[row])), 0.0)

    def _host_tracks(self, processes: Sequence[int]) -> None:
        regions = self._trace.regions
        launched = np.flatnonzero((self._graph.launched_by >= 0) & self._shown)
        flows: dict[int, list[int]] = {}
        for node, call in zip(launched.tolist(), self._graph.launched_by[launched].tolist(), strict=True):
            flows.setdefault(call, []).append(_LAUNCH_FLOW + node)
        keys = np.stack([regions.process[self._calls], regions.thread[self._calls]], axis=1)
        for (process, thread), members in _groups(keys, self._calls):
            start, end = regions.start_ns[members].tolist(), np.maximum(regions.start_ns, regions.end_ns)[members].tolist()
            for number, rows in enumerate(_nested(start, end), start=1):
                title = f"Host thread {thread}" + (f", overlapping {number}" if number > 1 else "")
                track = self._track(title, parent=processes[process])
                for kind, row in rows:
                    call = int(members[row])
                    if kind == _BEGIN:
                        self._begin(track, regions.names[int(regions.name[call])], start[row], (), flows.get(call, ()))
                    else:
                        self._end(track, end[row])

    # Events

    def _label(self, node: int) -> str:
        identity = int(self._graph.identity[node])
        if identity < self._graph.dispatches:
            return self._kernel_names[int(self._trace.dispatches.kernel[identity])]
        copies = self._trace.memory_copies
        return copies.directions[int(copies.direction[identity - self._graph.dispatches])]

    def _facts(self, node: int) -> Iterator[tuple[str, Any]]:
        identity = int(self._graph.identity[node])
        yield "slack_ns", int(self._critical.node_slack_ns[node])
        if identity < self._graph.dispatches:
            dispatches = self._trace.dispatches
            yield "grid", " x ".join(map(str, dispatches.grid[identity].tolist()))
            yield "workgroup", " x ".join(map(str, dispatches.workgroup[identity].tolist()))
            yield "stream", int(dispatches.stream[identity])
        else:
            yield "bytes", int(self._trace.memory_copies.size_bytes[identity - self._graph.dispatches])

    def _slice(
        self,
        track: int,
        name: str,
        start: int,
        end: int,
        facts: Iterable[tuple[str, Any]] = (),
        flows: Sequence[int] = (),
    ) -> None:
        self._begin(track, name, start, facts, flows)
        self._end(track, end)

    def _begin(self, track: int, name: str, time: int, facts: Iterable[tuple[str, Any]], flows: Sequence[int]) -> None:
        event = Message().integer(9, _BEGIN).integer(11, track)
        interned = None
        if name not in self._names:
            self._names[name] = len(self._names) + 1
            interned = Message().message(2, Message().integer(1, self._names[name]).text(2, name))
        event.integer(10, self._names[name])
        for flow in flows:
            event.fixed(47, flow)
        for key, value in facts:
            annotation = Message().text(10, key)
            event.message(4, annotation.integer(4, value) if isinstance(value, int) else annotation.text(6, str(value)))
        packet = self._timed(time)
        if interned is not None:
            packet.message(12, interned)
        self._packet(packet.integer(13, _NEEDS_INTERNED).message(11, event))

    def _end(self, track: int, time: int) -> None:
        self._packet(self._timed(time).message(11, Message().integer(9, _END).integer(11, track)))

    def _count(self, track: int, time: int, value: float) -> None:
        self._packet(self._timed(time).message(11, Message().integer(9, _COUNTER).integer(11, track).real(44, value)))

    def _timed(self, time: int) -> Message:
        return Message().integer(8, time - self._origin)

    def _packet(self, packet: Message) -> None:
        self._packets.append(Message().message(1, packet.integer(10, _SEQUENCE)).content)


def _groups(keys: Integers, members: Integers) -> Iterator[tuple[tuple[int, ...], Integers]]:
    """Group members by equal rows of keys, in order of the keys."""
    if len(keys) == 0:
        return
    values, group = np.unique(keys, axis=0, return_inverse=True)
    group = group.ravel()
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(1, len(values)))
    for value, rows in zip(values.tolist(), np.split(order, bounds), strict=True):
        yield tuple(value), members[rows]


def _without_overlap(start: Sequence[int], end: Sequence[int]) -> list[list[int]]:
    """Distribute positions (sorted by start) to the fewest tracks without overlap."""
    from heapq import heappop, heappush

    tracks: list[list[int]] = []
    free: list[tuple[int, int]] = []
    for position, begin in enumerate(start):
        if free and free[0][0] <= begin:
            _, track = heappop(free)
        else:
            track = len(tracks)
            tracks.append([])
        tracks[track].append(position)
        heappush(free, (end[position], track))
    return tracks


def _nested(start: Sequence[int], end: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Return begin and end events on tracks whose slices nest."""
    tracks: list[list[tuple[int, int]]] = []
    stacks: list[list[int]] = []
    for position in sorted(range(len(start)), key=lambda p: (start[p], -end[p])):
        for track, stack in zip(tracks, stacks, strict=True):
            while stack and end[stack[-1]] <= start[position]:
                track.append((_END, stack.pop()))
            if not stack or end[position] <= end[stack[-1]]:
                break
        else:
            track, stack = [], []
            tracks.append(track)
            stacks.append(stack)
        track.append((_BEGIN, position))
        stack.append(position)
    for track, stack in zip(tracks, stacks, strict=True):
        track.extend((_END, position) for position in reversed(stack))
    return tracks
