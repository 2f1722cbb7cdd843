"""Document of the dependency graph (`dag.json`): all nodes of a small run, the critical path of a large one.

Sums and shares always count every dispatch. Only the lists of nodes and edges are limited, to the longest nodes of the
critical path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.analysis.critical_path import copies_on_path_ns
from rocm_perf_lab.analysis.dependencies import DEFAULT_MAX_GAP_NS, symbol_of_kernels
from rocm_perf_lab.analysis.documents import DagDocument, DagGap, DagKernel, DagLaunches, DagNode, DagWhatIf
from rocm_perf_lab.analysis.overlaps import DEFAULT_MAX_OVERLAP_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from rocm_perf_lab.analysis.dependencies import Graph
    from rocm_perf_lab.analysis.diagnosis import Diagnosis
    from rocm_perf_lab.profiling.profile import Profile
    from rocm_perf_lab.rocprof.trace import Trace

MAX_NODES = 5_000
DEPENDENCE_RULE = (
    "A lane is a queue and stream of one agent and process; the copies of a stream form a lane. A dispatch or copy waits for"
    " the last node of its lane that ended before it started, for the last copy (or dispatch) of its stream, and for the last"
    f" node of other lanes of its process that ended at most {DEFAULT_MAX_GAP_NS} ns before it started and after its own lane;"
    " if its lane was idle in between, for the last node of every other lane that ended since its lane's did; if API"
    " calls were traced, also for the last work of every lane that ended while its thread was in a blocking call before the"
    " launch. A dispatch that overlaps the next one of its queue and stream by less than"
    f" {DEFAULT_MAX_OVERLAP_NS} ns ends when that one starts."
)
_NO_LAUNCHES = {
    False: "the trace contains no API calls: collect them with rocprofv3 --hip-trace (or --runtime-trace)",
    True: "emulated dispatches are recorded without API calls",
}
"""Reason by whether times are emulated."""


def dag_document(profile: Profile, diagnosis: Diagnosis, trace: Trace, *, max_nodes: int = MAX_NODES) -> DagDocument:
    """Return `dag.json` with at most `max_nodes` nodes."""
    path, times = diagnosis.critical_path, diagnosis.timeline
    graph = path.graph
    name_of = {kernel.mangled_name: kernel.name for kernel in profile.kernels}
    label = _labels(trace, graph, name_of)
    critical = np.zeros(len(graph), bool)
    critical[path.nodes] = True
    shown = _shown(graph, path.nodes, max_nodes)
    is_shown = np.zeros(len(graph), bool)
    is_shown[graph.identity[shown]] = True
    edges = _edges(graph, shown)
    on_path = graph.identity[path.nodes]
    first_ns = int(graph.start_ns[0]) if len(graph) else 0
    return DagDocument(
        time_kind="emulated" if profile.provenance.trace.emulated else "measured",
        rule=DEPENDENCE_RULE,
        critical_path_ns=path.length_ns,
        wall_ns=times.wall_ns,
        busy_ns=times.busy_ns,
        nodes=_nodes(trace, graph, shown, critical=critical, slack=path.node_slack_ns, label=label),
        edges=tuple((before, after) for before, after in edges.tolist()),
        critical_path=tuple(on_path[is_shown[on_path]].tolist()),
        kernels=_kernels(profile, diagnosis, trace, critical),
        nodes_total=len(graph),
        nodes_left_out=len(graph) - len(shown),
        critical_path_nodes=len(path.nodes),
        copies_on_critical_path_ns=copies_on_path_ns(path),
        idle_ns=times.idle_ns,
        work_ns=times.work_ns,
        overlap_ns=times.overlap_ns,
        most_at_once=times.most_at_once,
        gap_count=times.gap_count,
        longest_gaps=tuple(
            DagGap(
                start_ns=gap.start_ns - first_ns,
                duration_ns=gap.duration_ns,
                before=label(gap.before),
                after=label(gap.after),
            )
            for gap in times.gaps
        ),
        launches=DagLaunches(**vars(times.launches)) if times.launches else None,
        launches_reason=None if times.launches else _NO_LAUNCHES[profile.provenance.trace.emulated],
        clamped_overlaps=graph.clamped,
        notes=path.notes,
        what_if=tuple(
            DagWhatIf(kernel=name_of.get(symbol, symbol), times_faster=times_faster, **vars(found))
            for (symbol, times_faster), found in diagnosis.what_if.items()
        ),
    )


def _shown(graph: Graph, path: NDArray[np.int64], max_nodes: int) -> NDArray[np.int64]:
    """Return all nodes, or the longest nodes of the path, by position in the trace."""
    if len(graph) <= max_nodes:
        return np.argsort(graph.identity)
    longest = path[np.argsort(-graph.duration_ns[path], kind="stable")[:max_nodes]]
    return longest[np.argsort(graph.identity[longest])]


def _edges(graph: Graph, shown: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return edges between shown nodes as (earlier, later), by position in the trace."""
    is_shown = np.zeros(len(graph), bool)
    is_shown[shown] = True
    pairs = graph.edges_to(np.sort(shown))
    edges: NDArray[np.int64] = graph.identity[pairs[is_shown[pairs[:, 0]]]]
    return edges


def _labels(trace: Trace, graph: Graph, name_of: Mapping[str, str]) -> Callable[[int], str]:
    def label(node: int) -> str:
        identity = int(graph.identity[node])
        if identity >= graph.dispatches:
            copies = trace.memory_copies
            return copies.directions[int(copies.direction[identity - graph.dispatches])]
        kernel = trace.kernels[int(trace.dispatches.kernel[identity])]
        return name_of.get(kernel.mangled_name, kernel.name)

    return label


def _nodes(
    trace: Trace,
    graph: Graph,
    shown: NDArray[np.int64],
    *,
    critical: NDArray[np.bool_],
    slack: NDArray[np.int64],
    label: Callable[[int], str],
) -> tuple[DagNode, ...]:
    dispatches, copies = trace.dispatches, trace.memory_copies
    first_ns = int(graph.start_ns[0]) if len(graph) else 0
    nodes = []
    for node in shown.tolist():
        identity = int(graph.identity[node])
        is_copy = identity >= graph.dispatches
        row = identity - graph.dispatches if is_copy else identity
        source = copies if is_copy else dispatches
        agent = int(copies.destination[row] if is_copy else dispatches.agent[row])
        nodes.append(
            DagNode(
                id=identity,
                kind="copy" if is_copy else "dispatch",
                kernel=label(node),
                process=trace.processes[int(source.process[row])].pid,
                agent=trace.agents[agent].id if agent >= 0 else -1,
                queue=int(source.queue[row]),
                stream=int(source.stream[row]),
                start_ns=int(graph.start_ns[node]) - first_ns,
                duration_ns=int(source.end_ns[row] - source.start_ns[row]),
                slack_ns=int(slack[node]),
                critical=bool(critical[node]),
            )
        )
    return tuple(nodes)


def _kernels(profile: Profile, diagnosis: Diagnosis, trace: Trace, critical: NDArray[np.bool_]) -> tuple[DagKernel, ...]:
    """Return every kernel of the critical path by descending share, then the others."""
    path, graph = diagnosis.critical_path, diagnosis.critical_path.graph
    symbols, symbol_of_kernel = symbol_of_kernels(trace.kernels)
    dispatch_node = np.flatnonzero(graph.identity < graph.dispatches)
    symbol = symbol_of_kernel[trace.dispatches.kernel[graph.identity[dispatch_node]]]
    on_path = np.bincount(symbol[critical[dispatch_node]], minlength=len(symbols))
    least_slack = np.full(len(symbols), np.iinfo(np.int64).max)
    np.minimum.at(least_slack, symbol, path.node_slack_ns[dispatch_node])
    position = {name: index for index, name in enumerate(symbols)}
    ranked = sorted(profile.kernels, key=lambda k: (-diagnosis.critical_shares.get(k.mangled_name, 0.0), k.mangled_name))
    return tuple(
        DagKernel(
            kernel=kernel.name,
            critical_path_ns=share * path.length_ns,
            share=share,
            calls=len(kernel.dispatches),
            total_ns=kernel.total_ns,
            critical_calls=int(on_path[position[kernel.mangled_name]]),
            least_slack_ns=int(least_slack[position[kernel.mangled_name]]),
        )
        for kernel in ranked
        for share in [diagnosis.critical_shares.get(kernel.mangled_name, 0.0)]
    )
