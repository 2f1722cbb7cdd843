"""How full the SIMDs were while a thread trace was taken, and how fast they ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from rocm_perf_lab.rocprof.att.model import AttTrace, Clocks


def waves_per_simd(trace: AttTrace, kernels: AbstractSet[int] | None = None) -> float | None:
    """Wavefronts at a time on a SIMD of the traced shader engines, on average from the first to the last event.

    All compute units of these engines count, as far as they had any wavefront. None without occupancy events.

    Args:
        trace: With its occupancy.
        kernels: Numbers of the kernels whose wavefronts count; all of them by default.
    """
    present = available = 0
    for events in trace.occupancy.values():
        own = events if kernels is None else events[np.isin(events[:, 5], list(kernels))]
        if not len(own):
            continue
        order = np.argsort(own[:, 0], kind="stable")
        times = own[order, 0].astype(np.int64)
        running = np.cumsum(np.where(own[order, 4] == 1, 1, -1))
        running -= min(int(running.min()), 0)  # those that began before the trace only end in it
        present += int((running[:-1] * np.diff(times)).sum())
        available += int(times[-1] - times[0]) * len(np.unique(own[:, 1:3], axis=0))
    return present / available if available else None


def shader_clock_hz(clocks: Clocks | None) -> float | None:
    """The median over shader engines; None where the trace has no clocks, or only one moment of them."""
    if clocks is None:
        return None
    rates = []
    for pairs in clocks.pairs.values():
        shader, real = (int(pairs[-1, column]) - int(pairs[0, column]) for column in (0, 1)) if len(pairs) else (0, 0)
        if real > 0 and shader > 0:
            rates.append(shader / real * clocks.frequency_hz)
    return float(np.median(rates)) if rates else None
