"""Overview of a run: use of its GPUs, kernels by share, exposed communication and copies, and the critical path.

Time of a kernel is hidden while a dispatch of another kernel runs on its GPU, and exposed otherwise. Communication is hidden
while a kernel computes on its GPU, a copy while any kernel runs on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from rocm_perf_lab.analysis.collectives import is_communication
from rocm_perf_lab.analysis.peer_waits import PeerWaits, peer_waits
from rocm_perf_lab.analysis.timeline import busy_ns
from rocm_perf_lab.profiling.exposure import exclusive_times, gpu_of_agents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.analysis.critical_path import CriticalPath
    from rocm_perf_lab.analysis.timeline import Timeline
    from rocm_perf_lab.profiling.selection import RankedKernel
    from rocm_perf_lab.rocprof.trace import Trace

    Integers = NDArray[np.int64]

WorkKind = Literal["compute", "communication", "copy"]
_COMPUTE_GROUP, _COMMUNICATION_GROUP, _COPY_GROUP = range(3)


@dataclass(frozen=True)
class GpuUse:
    """Use of one GPU during the run. `busy_ns`: at least one dispatch or copy of it was active."""

    name: str
    product_name: str
    dispatches: int
    busy_ns: int


@dataclass(frozen=True)
class KernelUse:
    """All dispatches of one kernel; `exposed_ns` is the part of `total_ns` in which no other kernel ran on the GPU.

    `exposed_ns` can be below `total_ns` for a kernel that only overlaps itself. Times are 0 if the run has no times.
    """

    name: str
    mangled_name: str
    calls: int
    total_ns: int
    median_ns: float
    share: float
    exposed_ns: int
    active_ns: int
    """Time in which at least one dispatch of the kernel ran on each GPU, summed over GPUs."""
    critical_share: float
    is_helper: bool
    kind: WorkKind

    @property
    def exposed_share(self) -> float | None:
        """Share of the active time that is exposed; None without times."""
        return self.exposed_ns / self.active_ns if self.active_ns else None


@dataclass(frozen=True)
class WorkGroup:
    """Communication kernels, or copies: number, summed durations, and the exposed part of their active time."""

    count: int
    total_ns: int
    active_ns: int
    exposed_ns: int
    size_bytes: int | None = None

    @property
    def exposed_share(self) -> float | None:
        """Share of the active time that is exposed; None without times."""
        return self.exposed_ns / self.active_ns if self.active_ns else None


@dataclass(frozen=True)
class ApplicationOverview:
    """Sums over a run. GPUs are sorted by busy time, kernels by total time, both descending.

    `wall_ns` is the time from the first start to the last end; `idle_share` the mean over the GPUs of the time in which they
    were not busy. Both are None if the run has no times.
    """

    processes: int
    gpus: tuple[GpuUse, ...]
    wall_ns: int | None
    idle_share: float | None
    longest_gap_ns: int | None
    kernels: tuple[KernelUse, ...]
    communication: WorkGroup | None
    copies: WorkGroup | None
    critical_path_ns: int | None
    launches_late: int | None
    launches: int | None
    peer_waits: PeerWaits | None = None
    """Waiting of the processes in their collectives; None without times, or for one process."""

    @property
    def calls(self) -> int:
        """Number of dispatches."""
        return sum(kernel.calls for kernel in self.kernels)


def application_overview(
    trace: Trace, ranked: Sequence[RankedKernel], path: CriticalPath, timeline: Timeline, critical_shares: Mapping[str, float]
) -> ApplicationOverview:
    """Return the overview of a run.

    Args:
        trace: The run.
        ranked: Its kernels, see :func:`rocm_perf_lab.profiling.selection.rank_kernels`.
        path: Critical path of the run.
        timeline: Time line of the run.
        critical_shares: Share of the critical path by mangled name.
    """
    work = _Work.of(trace, ranked)
    gpus = _gpus(trace, work)
    timed = timeline.wall_ns > 0 and any(gpu.busy_ns for gpu in gpus)
    # A copy does not hide communication: only computing kernels do.
    by_kernels = np.where(work.group != _COPY_GROUP, work.group, -1)
    kernels = tuple(
        KernelUse(
            name=kernel.name,
            mangled_name=kernel.mangled_name,
            calls=len(kernel.dispatches),
            total_ns=kernel.total_ns,
            median_ns=float(np.median(trace.dispatches.duration_ns[kernel.dispatches])),
            share=kernel.share,
            exposed_ns=kernel.exposed_ns,
            active_ns=_active(work, np.sort(kernel.dispatches)),
            critical_share=critical_shares.get(kernel.mangled_name, 0.0),
            is_helper=kernel.is_helper,
            kind=_kind(kernel),
        )
        for kernel in ranked
    )
    idle = [1 - gpu.busy_ns / timeline.wall_ns for gpu in gpus if gpu.busy_ns] if timed else []
    return ApplicationOverview(
        processes=len(trace.processes),
        gpus=gpus,
        wall_ns=timeline.wall_ns if timed else None,
        idle_share=sum(idle) / len(idle) if idle else None,
        longest_gap_ns=timeline.gaps[0].duration_ns if timed and timeline.gaps else None,
        kernels=kernels,
        communication=_group(work, _COMMUNICATION_GROUP, by_kernels),
        copies=_group(work, _COPY_GROUP, work.group, int(trace.memory_copies.size_bytes.sum())),
        critical_path_ns=path.length_ns if timed else None,
        launches_late=timeline.launches.late if timeline.launches else None,
        launches=timeline.launches.count if timeline.launches else None,
        peer_waits=peer_waits(trace) if timed else None,
    )


def _kind(kernel: RankedKernel) -> WorkKind:
    return "communication" if is_communication(kernel.name) else "compute"


@dataclass(frozen=True)
class _Work:
    """Dispatches, then copies, in columns; `group` is -1 for dispatches that are not ranked."""

    dispatches: int
    agent: Integers
    start_ns: Integers
    end_ns: Integers
    group: Integers

    @classmethod
    def of(cls, trace: Trace, ranked: Sequence[RankedKernel]) -> _Work:
        dispatches, copies = trace.dispatches, trace.memory_copies
        group = np.full(len(dispatches), -1, np.int64)
        for kernel in ranked:
            group[kernel.dispatches] = _COMMUNICATION_GROUP if is_communication(kernel.name) else _COMPUTE_GROUP
        return cls(
            len(dispatches),
            gpu_of_agents(trace)[np.concatenate([dispatches.agent, _gpu_of_copies(trace)])],
            np.concatenate([dispatches.start_ns, copies.start_ns]),
            np.concatenate([np.maximum(dispatches.end_ns, dispatches.start_ns), np.maximum(copies.end_ns, copies.start_ns)]),
            np.concatenate([group, np.full(len(copies), _COPY_GROUP)]),
        )


def _gpu_of_copies(trace: Trace) -> Integers:
    """Return the GPU of each copy: the destination, or the source if that is not a GPU; -1 if unknown."""
    copies = trace.memory_copies
    is_gpu = np.array([*(agent.kind == "GPU" for agent in trace.agents), False])
    return np.where(is_gpu[copies.destination], copies.destination, np.where(is_gpu[copies.source], copies.source, -1))


def _gpus(trace: Trace, work: _Work) -> tuple[GpuUse, ...]:
    """Return the GPUs with work."""
    found = []
    for index in np.flatnonzero(np.bincount(work.agent[work.agent >= 0])).tolist():
        agent, rows = trace.agents[index], np.flatnonzero(work.agent == index)
        count = int(np.count_nonzero(rows < work.dispatches))
        found.append(GpuUse(agent.name, agent.product_name, count, _busy(work, rows)))
    return tuple(sorted(found, key=lambda gpu: -gpu.busy_ns))


def _busy(work: _Work, rows: Integers) -> int:
    order = rows[np.argsort(work.start_ns[rows], kind="stable")]
    return busy_ns(work.start_ns[order], work.end_ns[order])


def _active(work: _Work, rows: Integers) -> int:
    """Return the time in which at least one of the rows is active, summed over GPUs."""
    agents = work.agent[rows]
    if len(rows) and (agents == agents[0]).all():
        return _busy(work, rows)
    return sum(_busy(work, rows[agents == agent]) for agent in np.unique(agents).tolist())


def _group(work: _Work, number: int, group: Integers, size_bytes: int | None = None) -> WorkGroup | None:
    """Return the use of one group of work.

    Args:
        work: All work.
        number: Number of the group.
        group: Group of each row for which only work of another group hides it; negative rows hide nothing.
        size_bytes: Bytes that the group moved.
    """
    rows = np.flatnonzero(work.group == number)
    if len(rows) == 0:
        return None
    total = int((work.end_ns[rows] - work.start_ns[rows]).sum())
    exclusive = exclusive_times(work.agent, work.start_ns, work.end_ns, group, _COPY_GROUP + 1)
    return WorkGroup(len(rows), total, _active(work, rows), int(exclusive[number]), size_bytes)
