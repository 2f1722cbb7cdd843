"""Waiting in collectives: which process enters last, and how long the others wait for it.

The n-th call of a collective in each process is one exchange. Processes of one machine share a clock: the one that starts last is
late. On several machines it is the one with the shortest kernel, because a collective ends everywhere at about the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.analysis.collectives import is_communication
from rocm_perf_lab.analysis.dependencies import symbol_of_kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.trace import Trace, TracedAgent

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

_CLOCK_ERROR_NS = 1_000
_MATCHED = 0.9
"""Minimum share of calls in which all processes are in the kernel at the same time, for calls to be matched."""
_SIGNIFICANT = 0.01
_ABOVE_ITS_PART = 1.5


@dataclass(frozen=True)
class PeerWaits:
    """Waiting of the processes of a run in their collectives."""

    peers: int
    """Number of processes, or of GPUs if processes use several."""
    calls: int
    """Number of exchanges with all of them."""
    waited_ns: float
    """Mean time per call in ns that a process waits for the last one."""
    late: str | None
    """Process that enters last significantly more often than the others; None if there is none."""
    late_calls: float
    """Share of the calls in which it enters last."""
    late_share: float
    """Share of the waiting that it causes."""


def peer_waits(trace: Trace) -> PeerWaits | None:
    """Return how processes wait for each other; None for one process, or if their calls cannot be matched."""
    symbols, symbol_of_kernel = symbol_of_kernels(trace.kernels)
    collective = np.array([is_communication(name) for name in symbols], bool)
    symbol = symbol_of_kernel[trace.dispatches.kernel]
    rows = np.flatnonzero(collective[symbol]) if len(symbol) else np.empty(0, np.int64)
    peers = np.unique(trace.dispatches.agent[rows])
    if len(peers) < 2:
        return None
    one_clock = len({trace.processes[trace.agents[peer].process].machine for peer in peers.tolist()}) == 1
    waits = [_of_symbol(trace, rows[symbol[rows] == one], peers, one_clock) for one in np.unique(symbol[rows]).tolist()]
    found = np.concatenate([wait for wait in waits if wait is not None] or [np.empty((0, len(peers)))])
    return _summary(trace, found, peers) if len(found) else None


def _of_symbol(trace: Trace, rows: Integers, peers: Integers, one_clock: bool) -> Floats | None:
    """Return the waiting of each peer in each call in ns, shape (calls, peers); None if the calls cannot be matched."""
    agent = trace.dispatches.agent[rows]
    own = [rows[agent == peer] for peer in peers]
    if len({len(one) for one in own}) > 1:
        return None
    start, end = (times[np.stack(own, axis=1)] for times in (trace.dispatches.start_ns, trace.dispatches.end_ns))
    if not one_clock:
        length = end - start
        shorter: Floats = (length - length.min(axis=1, keepdims=True)).astype(np.float64)
        return shorter
    matched = start.max(axis=1) <= end.min(axis=1) + _CLOCK_ERROR_NS
    if matched.mean() < _MATCHED:
        return None
    waited: Floats = (start.max(axis=1, keepdims=True) - start)[matched].astype(np.float64)
    return waited


def _summary(trace: Trace, waits: Floats, peers: Integers) -> PeerWaits:
    last = waits.argmin(axis=1)
    of_others = waits.sum(axis=1) / (len(peers) - 1)
    caused = np.bincount(last, weights=of_others, minlength=len(peers))
    worst = int(caused.argmax())
    calls, share = int(np.count_nonzero(last == worst)), float(caused[worst] / caused.sum()) if caused.any() else 0.0
    is_late = share >= _ABOVE_ITS_PART / len(peers) and _is_significant(calls, len(waits), len(peers))
    agents = [trace.agents[peer] for peer in peers.tolist()]
    return PeerWaits(
        peers=len(peers),
        calls=len(waits),
        waited_ns=float(of_others.mean()),
        late=_labels(trace, agents)[worst] if is_late else None,
        late_calls=calls / len(waits),
        late_share=share,
    )


def _is_significant(calls: int, of_calls: int, peers: int) -> bool:
    from scipy.stats import binom

    return bool(peers * binom.sf(calls - 1, of_calls, 1 / peers) < _SIGNIFICANT)


def _labels(trace: Trace, agents: list[TracedAgent]) -> list[str]:
    """Return names of the processes that differ: by process id, then machine, then file, then agent."""
    processes = [trace.processes[agent.process] for agent in agents]
    labels = [f"process {process.pid}" if process.pid else process.guid.rpartition("/")[2] for process in processes]
    machines = [f" on machine {process.machine[:12]}" if process.machine else "" for process in processes]
    for parts in (machines, [f" on agent {agent.id}" for agent in agents]):
        if len(set(parts)) > 1:
            labels = [label if labels.count(label) == 1 else label + part for label, part in zip(labels, parts, strict=True)]
    return labels
