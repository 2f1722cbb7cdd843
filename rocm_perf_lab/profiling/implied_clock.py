"""Clock that the cycle counters of a recording imply: cycles of the whole GPU divided by the times of the same dispatches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocm_perf_lab.rocprof.trace import Trace

_CYCLES = ("GRBM_GUI_ACTIVE", "GRBM_COUNT")
"""Cycles of every XCD, summed over XCDs."""
_SHORTEST_NS = 50_000
"""Of shorter dispatches the counters include cycles before and after the recorded time."""
_NS_PER_US = 1000


def implied_clock_mhz(traces: Iterable[Trace], xcds: int) -> float | None:
    """Return the median clock in MHz that counters and times of the same dispatches imply; None if there are none.

    Args:
        traces: Passes of a run; each has its own times.
        xcds: XCDs over which the counters are summed.
    """
    found = []
    for trace in traces:
        column = next((trace.counters[name] for name in _CYCLES if name in trace.counters), None)
        if column is None:
            continue
        duration = trace.dispatches.duration_ns[column.dispatch]
        long = duration >= _SHORTEST_NS
        found.append(column.value[long] / xcds / duration[long] * _NS_PER_US)
    clocks = np.concatenate(found) if found else np.empty(0)
    return float(np.median(clocks)) if len(clocks) else None
