"""Dependency graph of a run, inferred from its times.

Returns the few nodes for which each dispatch and memory copy waited. O(n log n), in arrays.

Rule of dependence. A lane is a queue and stream of one agent and process; the copies of one stream form a separate lane. A
dispatch or copy waits for

1. `lane`: the node of its lane that ended last before it started (overlapping work of one lane is independent);
2. `stream`: a dispatch for the copy of its stream that ended last before it started, a copy for the dispatch of its stream;
   omitted if the `lane` predecessor already waited for it;
3. `near`: the last node of other lanes of its process that ended before it started, if that was after its `lane` predecessor
   ended and at most `max_gap_ns` before its start. A trace does not record events and barriers between queues: work that
   starts as soon as other work ends is assumed to have waited for it. If its lane was idle during that time (`max_gap_ns`, or
   from start to end of the predecessor), branches join: it waits for the last node of every other lane that ended since its
   `lane` predecessor did (or in the last `max_gap_ns` before its start if it has none);
4. `host`: if the trace contains API calls, the last work of the process, and of every other lane of it, that ended while the
   launching thread was in the last blocking call (a synchronisation or a synchronous copy) before the call that launched it.

Dispatches of one queue and stream that overlap by less than `max_overlap_ns` ran one after the other: the earlier one
ends when the later one starts, and `Graph.clamped` counts them (see :mod:`rocm_perf_lab.analysis.overlaps`).

Dispatches of different processes never wait for each other. Work that ends before it starts counts as 0 ns. Equal times are
ordered by start, end and position, so the graph is acyclic.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.analysis.overlaps import DEFAULT_MAX_OVERLAP_NS, order_of_intervals, without_small_overlaps
from rocm_perf_lab.rocprof.trace import no_copies, no_regions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.trace import Dispatches, MemoryCopies, Regions

    Integers = NDArray[np.int64]
    from collections.abc import Sequence

    from rocm_perf_lab.rocprof.trace import TracedKernel

DEFAULT_MAX_GAP_NS = 10_000
NONE = -1
_MOST_LANES = 64
"""Maximum number of lanes in a process for complete joins; with more, a join only waits for the last node."""
_COPY = -2
"""Replaces agent and queue in the lane of copies."""
_BLOCKING = re.compile(
    r"^hip(Device|Stream|Event|Ctx)Synchronize|^hipMemcpy(?!.*Async)|^hipFree$|^hsa_signal_wait|^hsa_amd_signal_wait"
)


@dataclass(frozen=True)
class Pairs:
    """Graph in which a node has at most two predecessors; nodes with more are preceded by helper nodes of zero duration.

    Entry 0 means "no predecessor"; the nodes of this graph count from 1.
    """

    first: Integers
    second: Integers
    node: Integers
    """Number of each node of the original graph, from 0 as in the columns."""


@dataclass(frozen=True)
class Graph:
    """Dispatches and copies as nodes, sorted by start. Arrays have one entry per node unless stated otherwise."""

    identity: Integers
    """Position of the dispatch in the trace; for a copy its position plus the number of dispatches."""
    dispatches: int
    """Nodes with a smaller `identity` are dispatches."""
    start_ns: Integers
    end_ns: Integers
    """Never before the start, without overlaps within an in-order queue."""
    predecessors: tuple[Integers, ...]
    """Predecessors by `lane`, `stream` and `near`: earlier nodes, or -1."""
    joins: Integers
    """All other dependencies as pairs (earlier, later), sorted by the later node, shape (n_joins, 2)."""
    launched_by: Integers
    """Position of the API call that launched the node, or -1."""
    clamped: int = 0
    """Number of nodes whose end was moved to the start of the next dispatch of their queue and stream."""

    def __len__(self) -> int:
        return len(self.identity)

    @cached_property
    def duration_ns(self) -> Integers:
        """End minus start."""
        return self.end_ns - self.start_ns

    @cached_property
    def delay_ns(self) -> Integers:
        """Time from the end of the last predecessor (or the first start of the run) to the start."""
        if len(self) == 0:
            return np.empty(0, np.int64)
        ready = np.full(len(self), self.start_ns[0])
        for waited_for in self.predecessors:
            ready = np.maximum(ready, np.where(waited_for == NONE, ready, self.end_ns[waited_for]))
        np.maximum.at(ready, self.joins[:, 1], self.end_ns[self.joins[:, 0]])
        delay: Integers = self.start_ns - ready
        return delay

    @cached_property
    def in_pairs(self) -> Pairs:
        """Return an equivalent graph with at most two predecessors per node."""
        return _in_pairs(self.predecessors, self.joins)

    def edges(self) -> Integers:
        """Return all edges (earlier, later) by identity, shape (n_edges, 2), sorted by the later node."""
        edges: Integers = self.identity[self.edges_to(np.arange(len(self)))]
        return edges

    def edges_to(self, nodes: Integers) -> Integers:
        """Return the edges (earlier, later) of these nodes (sorted), shape (n_edges, 2), sorted by the later node."""
        columns = [np.stack([column[nodes], nodes], axis=1) for column in self.predecessors]
        wanted = np.zeros(len(self), bool)
        wanted[nodes] = True
        pairs = np.concatenate([*columns, self.joins[wanted[self.joins[:, 1]]]])
        pairs = pairs[pairs[:, 0] != NONE]
        ordered: Integers = pairs[np.argsort(pairs[:, 1], kind="stable")]
        return ordered


def dependencies(
    dispatches: Dispatches,
    copies: MemoryCopies | None = None,
    regions: Regions | None = None,
    *,
    max_gap_ns: int = DEFAULT_MAX_GAP_NS,
    max_overlap_ns: int = DEFAULT_MAX_OVERLAP_NS,
) -> Graph:
    """Build the graph by the rule above."""
    copies = no_copies() if copies is None else copies
    regions = no_regions() if regions is None else regions
    start = np.concatenate([dispatches.start_ns, copies.start_ns])
    end = np.maximum(start, np.concatenate([dispatches.end_ns, copies.end_ns]))
    process = np.concatenate([dispatches.process, copies.process])
    stream = np.concatenate([dispatches.stream, copies.stream])
    copy = np.full(len(copies), _COPY)
    lane = _group(process, np.concatenate([dispatches.agent, copy]), np.concatenate([dispatches.queue, copy]), stream)
    is_copy = np.arange(len(start)) >= len(dispatches)
    end, clamped = without_small_overlaps(start, end, lane, np.concatenate([dispatches.queue, copy]) >= 0, max_overlap_ns)
    order = order_of_intervals(start, end)
    start, end, process, stream, lane = (column[order] for column in (start, end, process, stream, lane))
    is_copy = is_copy[order]
    ended = _Ended(start, end)
    own = ended.last_of(lane, lane)
    found = [own]
    if len(copies):
        side = _group(process, stream, is_copy)
        other_side = _other_side(process, stream, is_copy, side)
        of_stream = ended.last_of(side, other_side)
        already = (own != NONE) & ended.had_ended(of_stream, own)
        found.append(np.where(already, NONE, of_stream))
    near = ended.last_of_another(process, lane)
    near_end = np.where(near == NONE, 0, end[near])
    waited = (near != NONE) & (start - near_end <= max_gap_ns) & ((own == NONE) | (near_end > np.where(own == NONE, 0, end[own])))
    found.append(_without(np.where(waited, near, NONE), *found))
    own_end = np.where(own == NONE, start - max_gap_ns - 1, end[own])
    idle = waited & ((start - own_end > max_gap_ns) | (start[near] >= own_end))
    joined = ended.last_of_lanes(np.flatnonzero(idle), own_end + 1, ended.before, process, lane)
    launched_by = np.full(len(start), NONE)
    if len(regions):
        launched_by = _launches(regions, process, np.concatenate([_correlation(dispatches), copies.correlation])[order])
        joined = np.concatenate([joined, _waited_on_the_host(regions, launched_by, process, lane, ended)])
    return Graph(
        identity=order,
        dispatches=len(dispatches),
        start_ns=start,
        end_ns=end,
        predecessors=tuple(waited_for for index, waited_for in enumerate(found) if index == 0 or np.any(waited_for != NONE)),
        joins=_new_pairs(joined, found, len(start)),
        launched_by=launched_by,
        clamped=clamped,
    )


def _in_pairs(predecessors: tuple[Integers, ...], joins: Integers) -> Pairs:
    count = len(predecessors[0])
    edges = sum(((column != NONE).astype(np.int64) for column in predecessors), np.bincount(joins[:, 1], minlength=count))
    helpers = np.maximum(edges - 2, 0)
    node = np.arange(count) + np.cumsum(helpers)
    begin = node - helpers
    first = np.zeros(count + int(helpers.sum()), np.int64)
    second = np.zeros_like(first)
    known = np.zeros(count, np.int64)

    def put(earlier: Integers, later: Integers, number: Integers) -> None:
        """Chain entries: the first two belong to the first entry, each other one to an entry that follows the one before."""
        entry = begin[later] + np.maximum(number - 1, 0)
        is_first, is_further = number == 0, number >= 2
        first[entry[is_first]] = node[earlier[is_first]] + 1
        second[entry[~is_first]] = node[earlier[~is_first]] + 1
        first[entry[is_further]] = entry[is_further]

    for column in predecessors:
        later = np.flatnonzero(column != NONE)
        put(column[later], later, known[later])
        known[later] += 1
    later = joins[:, 1]
    group = np.flatnonzero(np.diff(later, prepend=-1))
    put(joins[:, 0], later, known[later] + np.arange(len(later)) - np.repeat(group, np.diff(group, append=len(later))))
    return Pairs(first, second, node)


class _Ended:
    """Nodes sorted by end, and the number of them that had ended when each node started."""

    def __init__(self, start: Integers, end: Integers) -> None:
        self._count = len(start)
        self._end_of_node = end
        self.node = np.argsort(end, kind="stable")
        """Sorted by end, then by start: the nodes are sorted by start."""
        self.end = end[self.node]
        self._rank = np.empty(len(start), np.int64)
        self._rank[self.node] = np.arange(len(start))
        # A node of zero duration ends at its own start: only earlier nodes can precede it.
        self.before = np.where(start == end, self._rank, np.searchsorted(self.end, start, "right"))

    def last_of(self, group: Integers, wanted: Integers, before: Integers | None = None) -> Integers:
        """Return the node of group `wanted` that ended last, per query; -1 if `wanted` is -1 or no node had ended."""
        ranks = self._last_rank(group[self.node], wanted, self.before if before is None else before)
        return self._nodes(ranks)

    def had_ended(self, node: Integers, at_start_of: Integers) -> NDArray[np.bool_]:
        """Return whether a node precedes another one, including nodes of zero duration at the same time; undefined for -1."""
        precedes: NDArray[np.bool_] = self._rank[node] < self.before[at_start_of]
        return precedes

    def end_of(self, node: Integers) -> Integers:
        """Return the end of a node; undefined for -1."""
        return self._end_of_node[node]

    def last_of_another(self, process: Integers, lane: Integers) -> Integers:
        """Return the node of the same process, but of another lane, that ended last."""
        process_of, lane_of = process[self.node], lane[self.node]
        by_process = np.argsort(process_of, kind="stable")
        place = np.empty(self._count, np.int64)
        place[by_process] = np.arange(self._count)
        lanes = lane_of[by_process]
        new_run = np.diff(lanes, prepend=-1) != 0
        run_start = np.maximum.accumulate(np.where(new_run, np.arange(self._count), 0))
        last = self._last_rank(process_of, process, self.before)
        same = (last != NONE) & (lane_of[last] == lane)
        # A run of one lane is preceded by another lane of the same or of the previous process.
        earlier = run_start[place[last]] - 1
        earlier_rank = by_process[np.maximum(earlier, 0)] if self._count else earlier
        usable = (earlier >= 0) & (process_of[earlier_rank] == process) if self._count else earlier >= 0
        return self._nodes(np.where(same, np.where(usable, earlier_rank, NONE), last))

    def last_of_lanes(self, nodes: Integers, since: Integers, before: Integers, process: Integers, lane: Integers) -> Integers:
        """Return pairs (earlier, node): for each node, the last node of every other lane of its process that ended since then.

        `since` and `before` have an entry per node of the graph: the first time that counts, and the rank of the first end that
        does not. Shape (n_pairs, 2).
        """
        pairs = [np.empty((0, 2), np.int64)]
        nodes = nodes[before[nodes] - np.searchsorted(self.end, since[nodes], "left") > 1]
        lane_of_rank, process_of_node = lane[self.node], process[nodes]
        for one in np.unique(process_of_node).tolist():
            queries = nodes[process_of_node == one]
            lanes = np.unique(lane[process == one])
            for other in lanes.tolist() if len(lanes) <= _MOST_LANES else ():
                ranks = np.flatnonzero(lane_of_rank == other)
                of_others = queries[lane[queries] != other]
                at = np.searchsorted(ranks, before[of_others]) - 1
                last = self.node[ranks[np.maximum(at, 0)]]
                valid = (at >= 0) & (self._end_of_node[last] >= since[of_others])
                pairs.append(np.stack([last[valid], of_others[valid]], axis=1))
        return np.concatenate(pairs)

    def _last_rank(self, group_of_rank: Integers, wanted: Integers, before: Integers) -> Integers:
        if self._count == 0:
            return np.full(len(wanted), NONE)
        if group_of_rank.max() == 0 and wanted.min() == 0:
            return before - 1
        stride = self._count + 1
        by_group = np.argsort(_narrow(group_of_rank), kind="stable")
        keys = group_of_rank[by_group] * stride + by_group
        # Sorted queries keep the search in the cache.
        queries = np.argsort(_narrow(wanted), kind="stable")
        at = np.searchsorted(keys, wanted[queries] * stride + before[queries]) - 1
        found = by_group[np.maximum(at, 0)]
        ranks = np.empty(len(wanted), np.int64)
        ranks[queries] = np.where((at >= 0) & (group_of_rank[found] == wanted[queries]), found, NONE)
        return ranks

    def _nodes(self, ranks: Integers) -> Integers:
        return np.where(ranks == NONE, NONE, self.node[ranks]) if self._count else ranks


def _group(*columns: NDArray[np.generic]) -> Integers:
    """Return one number per row, dense from 0; equal rows have equal numbers."""
    group = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        if high - low < 1 << 16:
            code, size = column.astype(np.int64) - low, high - low + 1
        else:
            values, code = np.unique(column, return_inverse=True)
            size = len(values)
        if size > 1:
            group = group * size + code
        if group.max(initial=0) >= 1 << 20:
            group = np.unique(group, return_inverse=True)[1].ravel()
    used = np.zeros(int(group.max(initial=0)) + 1, bool)
    used[group] = True
    return (np.cumsum(used) - 1)[group]


def _other_side(process: Integers, stream: Integers, is_copy: NDArray[np.bool_], side: Integers) -> Integers:
    """Return for each node its stream's number in `side`: of the copies for a dispatch, of the dispatches for a copy."""
    stream_of = _group(process, stream)
    number = np.full((int(stream_of.max(initial=0)) + 1, 2), NONE)
    number[stream_of, is_copy.astype(np.int64)] = side
    other: Integers = number[stream_of, 1 - is_copy.astype(np.int64)]
    # A copy without a stream (-1) is ordered by its lane and by time only.
    return np.where(stream < 0, NONE, other)


def _launches(regions: Regions, process: Integers, correlation: Integers) -> Integers:
    """Return the API call with a node's correlation id; of nested calls the outermost."""
    calls = np.flatnonzero(regions.correlation >= 0)
    found = np.full(len(correlation), NONE)
    known = np.flatnonzero(correlation >= 0)
    if len(calls) == 0 or len(known) == 0:
        return found
    both = _group(
        np.concatenate([regions.process[calls], process[known]]), np.concatenate([regions.correlation[calls], correlation[known]])
    )
    call_of = np.full(int(both.max()) + 1, NONE)
    # Calls are sorted by start: writing backwards keeps the first.
    call_of[both[: len(calls)][::-1]] = calls[::-1]
    found[known] = call_of[both[len(calls) :]]
    return found


def _waited_on_the_host(regions: Regions, launched_by: Integers, process: Integers, lane: Integers, ended: _Ended) -> Integers:
    """Return the dependencies of rule 4 as pairs (earlier, later)."""
    blocking_name = np.array([bool(_BLOCKING.search(name)) for name in regions.names] or [False])
    blocking = np.flatnonzero(blocking_name[regions.name])
    blocking = blocking[np.argsort(regions.end_ns[blocking], kind="stable")]
    launched = np.flatnonzero(launched_by != NONE)
    if len(blocking) == 0 or len(launched) == 0:
        return np.empty((0, 2), np.int64)
    thread = _group(regions.process, regions.thread)
    call = launched_by[launched]
    stride = len(blocking) + 1
    by_thread = np.argsort(thread[blocking], kind="stable")
    keys = thread[blocking[by_thread]] * stride + by_thread
    before = np.searchsorted(regions.end_ns[blocking], regions.start_ns[call], "right")
    at = np.searchsorted(keys, thread[call] * stride + before) - 1
    block = blocking[by_thread[np.maximum(at, 0)]]
    valid = (at >= 0) & (thread[block] == thread[call])
    done = np.minimum(np.searchsorted(ended.end, regions.end_ns[block], "right"), ended.before[launched])
    since, before_node = np.zeros(len(launched_by), np.int64), np.zeros(len(launched_by), np.int64)
    wanted = np.full(len(launched_by), NONE)
    since[launched], before_node[launched], wanted[launched] = regions.start_ns[block], done, process[launched]
    last = ended.last_of(process, wanted, before_node)[launched]
    valid &= (last != NONE) & (ended.end_of(last) >= regions.start_ns[block])
    waiting = launched[valid]
    return np.concatenate(
        [np.stack([last[valid], waiting], axis=1), ended.last_of_lanes(waiting, since, before_node, process, lane)]
    )


def _new_pairs(pairs: Integers, known: list[Integers], count: int) -> Integers:
    """Return the unique pairs (earlier, later) that no known column of the graph contains, sorted by the later node."""
    for column in known:
        pairs = pairs[column[pairs[:, 1]] != pairs[:, 0]]
    keys = np.sort(pairs[:, 1] * count + pairs[:, 0])
    later, earlier = np.divmod(keys[np.diff(keys, prepend=-1) != 0], max(count, 1))
    return np.stack([earlier, later], axis=1)


def _correlation(dispatches: Dispatches) -> Integers:
    if len(dispatches.correlation) == len(dispatches):
        return dispatches.correlation
    return np.full(len(dispatches), NONE)


def _without(found: Integers, *known: Integers) -> Integers:
    """Return `found` without entries that repeat `known`."""
    for other in known:
        found = np.where(found == other, NONE, found)
    return found


def _narrow(numbers: Integers) -> NDArray[np.integer]:
    """Narrow the type: NumPy sorts small integers in linear time."""
    return numbers.astype(np.int16) if numbers.max(initial=0) < 1 << 15 else numbers


def symbol_of_kernels(kernels: Sequence[TracedKernel]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the distinct mangled names, and the index of the name of each kernel of the trace."""
    number: dict[str, int] = {}
    numbers = [number.setdefault(kernel.mangled_name, len(number)) for kernel in kernels]
    return tuple(number), np.array(numbers, np.int64)
