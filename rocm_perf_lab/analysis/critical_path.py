"""Critical path of a run: the longest chain of dependent work, the slack of everything else, and what-if predictions.

Uses the graph of :mod:`rocm_perf_lab.analysis.dependencies`, which defines the rule of dependence. Near linear in the number
of dispatches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.analysis.chains import heaviest_from, heaviest_to
from rocm_perf_lab.analysis.dependencies import DEFAULT_MAX_GAP_NS, NONE, Graph, Pairs, dependencies
from rocm_perf_lab.analysis.overlaps import DEFAULT_MAX_OVERLAP_NS
from rocm_perf_lab.analysis.timeline import busy_ns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.trace import Dispatches, MemoryCopies, Regions

    Integers = NDArray[np.int64]
    Edge = tuple[int, int]


@dataclass(frozen=True)
class CriticalPath:
    """Chain with the longest total time of dispatches and copies; waiting between them does not count."""

    length_ns: int
    graph: Graph
    nodes: Integers
    """Nodes of the graph on the path, in order of time; one chain of several equally long ones."""
    node_slack_ns: Integers
    """Time by which each node could be extended without a longer path."""

    @cached_property
    def dispatches(self) -> tuple[int, ...]:
        """Dispatches on the path, by position in the trace, in order of time."""
        identity = self.graph.identity[self.nodes]
        return tuple(identity[identity < self.graph.dispatches].tolist())

    @cached_property
    def slack_ns(self) -> Integers:
        """Slack of each dispatch, by position in the trace."""
        by_identity = np.empty(len(self.graph), np.int64)
        by_identity[self.graph.identity] = self.node_slack_ns
        return by_identity[: self.graph.dispatches]

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """Edges (earlier, later) by position in the trace; copies follow the dispatches."""
        return tuple((before, after) for before, after in self.graph.edges().tolist())

    @cached_property
    def busy_ns(self) -> int:
        """Time in which at least one dispatch or copy ran."""
        return busy_ns(self.graph.start_ns, self.graph.end_ns)

    @property
    def notes(self) -> tuple[str, ...]:
        """Corrections of the recorded times, as sentences."""
        count = self.graph.clamped
        if not count:
            return ()
        overlap = "1 dispatch overlaps" if count == 1 else f"{count} dispatches overlap"
        return (
            f"{overlap} the next one of the same queue and stream by less than 1 us: the timestamps are inexact, "
            "the dispatches are ordered",
        )

    @property
    def wall_ns(self) -> int:
        """Time from the first start to the last end."""
        return int(self.graph.end_ns.max() - self.graph.start_ns[0]) if len(self.graph) else 0


@dataclass(frozen=True)
class WhatIf:
    """Predicted run if some dispatches were faster; all waits between a node and its last predecessor stay the same."""

    wall_ns: float
    """Predicted time from the first start to the last end."""
    wall_speedup: float


def critical_path(
    dispatches: Dispatches,
    copies: MemoryCopies | None = None,
    regions: Regions | None = None,
    *,
    max_gap_ns: int = DEFAULT_MAX_GAP_NS,
    max_overlap_ns: int = DEFAULT_MAX_OVERLAP_NS,
) -> CriticalPath:
    """Return the critical path. Dispatches that end before they start count as 0 ns."""
    graph = dependencies(dispatches, copies, regions, max_gap_ns=max_gap_ns, max_overlap_ns=max_overlap_ns)
    duration = graph.duration_ns
    to = _longest_to(duration, graph.in_pairs)
    length = int(to.max(initial=0))
    after = _longest_from(duration, graph.in_pairs)
    return CriticalPath(length, graph, _path(to, graph), length - (to + after - duration))


def contribution_ns(path: CriticalPath, dispatches: Dispatches) -> dict[int, int]:
    """Return the time of each kernel (by index in the trace) on the critical path."""
    identity = path.graph.identity[path.nodes]
    of_dispatches = identity < path.graph.dispatches
    spent = path.graph.duration_ns[path.nodes[of_dispatches]]
    kernels, place = np.unique(dispatches.kernel[identity[of_dispatches]], return_inverse=True)
    total = np.zeros(len(kernels), np.int64)
    np.add.at(total, place.ravel(), spent)
    return dict(zip(kernels.tolist(), total.tolist(), strict=True))


def copies_on_path_ns(path: CriticalPath) -> int:
    """Return the time of memory copies on the critical path."""
    nodes = path.nodes[path.graph.identity[path.nodes] >= path.graph.dispatches]
    return int(path.graph.duration_ns[nodes].sum())


def what_if(path: CriticalPath, faster: NDArray[np.bool_], times: float) -> WhatIf:
    """Predict the run if the dispatches selected by `faster` (one entry per dispatch) took 1 / `times` of their time."""
    delayed = path.graph.delay_ns + _faster(path, faster, times)
    wall_ns = float(_longest_to(delayed, path.graph.in_pairs).max(initial=0.0))
    return WhatIf(wall_ns, path.wall_ns / wall_ns if wall_ns else 1.0)


def length_if(path: CriticalPath, faster: NDArray[np.bool_], times: float) -> float:
    """Return the length of the critical path in ns if the selected dispatches took 1 / `times` of their time."""
    return float(_longest_to(_faster(path, faster, times), path.graph.in_pairs).max(initial=0.0))


def _faster(path: CriticalPath, faster: NDArray[np.bool_], times: float) -> NDArray[np.float64]:
    graph = path.graph
    chosen = np.concatenate([faster, np.zeros(len(graph) - len(faster), bool)])[graph.identity]
    return np.where(chosen, graph.duration_ns / times, graph.duration_ns)


def _longest_to(weight: NDArray[Any], pairs: Pairs) -> NDArray[Any]:
    """Return the weight of the heaviest chain that ends with each node, including the node."""
    found = heaviest_to(_spread(weight, pairs), pairs.first, pairs.second)
    return found[pairs.node + 1].astype(weight.dtype)


def _longest_from(weight: Integers, pairs: Pairs) -> Integers:
    """Return the weight of the heaviest chain that starts with each node, including the node."""
    found = heaviest_from(_spread(weight, pairs), pairs.first, pairs.second)
    return found[pairs.node + 1].astype(np.int64)


def _spread(weight: NDArray[Any], pairs: Pairs) -> NDArray[np.float64]:
    """Return the weight of each node of `pairs`; helper nodes have weight 0. Sums of ns are exact up to 104 days."""
    spread = np.zeros(len(pairs.first))
    spread[pairs.node] = weight
    return spread


def _path(longest: Integers, graph: Graph) -> Integers:
    if len(longest) == 0:
        return np.empty(0, np.int64)
    best, reached = np.full(len(graph), NONE), np.full(len(graph), -1)
    for waited_for in graph.predecessors:
        here = np.where(waited_for == NONE, -1, longest[waited_for])
        best, reached = np.where(here > reached, waited_for, best), np.maximum(here, reached)
    earlier, later = graph.joins.T
    farther = longest[earlier] > reached[later]
    np.maximum.at(reached, later[farther], longest[earlier[farther]])
    farthest = farther & (longest[earlier] == reached[later])
    best[later[farthest]] = earlier[farthest]
    back = best.data  # a list of all nodes would be slower: few are on the path
    path = []
    node = int(longest.argmax())
    while node != NONE:
        path.append(node)
        node = back[node]
    return np.array(path[::-1], np.int64)
