"""Exclusive times: how long only one group of dispatches or copies was active on its GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.trace import Trace

    Integers = NDArray[np.int64]
    Sums = NDArray[np.signedinteger[Any]]

_LARGEST_NARROW = np.iinfo(np.int32).max


def gpu_of_agents(trace: Trace) -> Integers:
    """Return for each agent the first agent that is the same GPU, as seen by another process; the last entry is -1."""
    first: dict[tuple[str, int, str], int] = {}
    keys = [(agent.name, agent.id, trace.processes[agent.process].machine) for agent in trace.agents]
    return np.array([*(first.setdefault(key, index) for index, key in enumerate(keys)), -1], np.int64)


def exclusive_times(gpu: Integers, start_ns: Integers, end_ns: Integers, group: Integers, groups: int) -> Integers:
    """Return for each group the time in ns in which only its intervals were active on their GPU, shape (groups,).

    Args:
        gpu: GPU of each interval, shape (n,).
        start_ns: Start of each interval.
        end_ns: End of each interval, not before its start.
        group: Group of each interval, below `groups`; intervals of a negative group are ignored.
        groups: Number of groups.
    """
    exclusive = np.zeros(groups, np.int64)
    # Numbers of GPUs are small: counting finds the distinct ones faster than NumPy's `unique`.
    for one in (np.flatnonzero(np.bincount(gpu + 1)) - 1).tolist():
        rows = np.flatnonzero((gpu == one) & (group >= 0))
        if len(rows):
            exclusive += _of_one_gpu(start_ns[rows], end_ns[rows], group[rows], groups)
    return exclusive


def _of_one_gpu(start: Integers, end: Integers, group: Integers, groups: int) -> Integers:
    if np.all(start[:-1] <= start[1:]) and np.all(np.maximum.accumulate(end)[:-1] <= start[1:]):
        return np.bincount(group, weights=end - start, minlength=groups).astype(np.int64)
    times = np.concatenate([start, end])
    order = np.argsort(times, kind="stable")
    ordered = times[order]
    width = np.zeros_like(ordered)
    np.subtract(ordered[1:], ordered[:-1], out=width[:-1])
    # Narrow types: the columns of a large run would otherwise be the peak of the memory.
    sums: type[np.signedinteger[Any]] = np.int32 if groups * groups * len(start) <= _LARGEST_NARROW else np.int64
    is_start = order < len(start)
    step = np.where(is_start, np.int8(1), np.int8(-1))
    order[~is_start] -= len(start)
    numbers: Sums = group.astype(sums)[order]
    del times, order, ordered, is_start
    active = np.cumsum(step, dtype=np.int32)
    total: Sums = np.cumsum(step * numbers, dtype=sums)
    squares: Sums = np.cumsum(step * numbers * numbers, dtype=sums)
    # All active intervals are of one group exactly if the variance of their numbers is 0.
    alone = (active > 0) & (active.astype(np.int64) * squares == total.astype(np.int64) ** 2)
    return np.bincount(total[alone] // active[alone], weights=width[alone], minlength=groups).astype(np.int64)
