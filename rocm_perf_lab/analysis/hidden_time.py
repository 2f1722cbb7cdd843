"""Waiting that costs nothing, because another wavefront used the SIMD meanwhile: `hidden_cycles(trace)`.

While a wavefront is idle or stalled, its SIMD may issue for others. That part of its waiting is hidden: to shorten it gains
nothing. The rest is exposed. (The notion is that of ROCprof Compute Viewer's hidden latency; here a SIMD is busy while any
wavefront of it issues to a pipe, and on GFX10 and later executes. Matrix instructions of GFX9 count with their issue.)
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.att.model import Category, Column
from rocm_perf_lab.rocprof.att.timeline import idle_cycles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.att.model import AttTrace, Integers, Wave

_PIPES = {Category.SMEM, Category.SALU, Category.VMEM, Category.FLAT, Category.LDS, Category.VALU, Category.BVH}
_IS_PIPE = np.array([category in _PIPES for category in Category])


def hidden_cycles(trace: AttTrace) -> dict[int, int]:
    """By line of the code, over all wavefronts of each SIMD; lines that hide nothing have no entry."""
    lines = np.array([row.line for row in trace.rows], dtype=np.int64)
    hidden = np.zeros(len(lines) + 1)
    simds: dict[tuple[int, int, int], list[Wave]] = defaultdict(list)
    for wave in trace.waves:
        simds[wave.key.engine, wave.compute_unit, wave.key.simd].append(wave)
    for waves in simds.values():
        times, busy = _busy_until(waves)
        for wave in waves:
            one = wave.instructions
            begins = one[:, Column.TIME] - idle_cycles(wave.begin, one)
            ends = one[:, Column.TIME] + one[:, Column.STALL]
            cycles = np.interp(ends, times, busy) - np.interp(begins, times, busy)
            place = np.minimum(np.searchsorted(lines, one[:, Column.LINE]), len(lines) - 1)
            place = np.where(lines[place] == one[:, Column.LINE], place, len(lines))
            hidden += np.bincount(place, weights=cycles, minlength=len(lines) + 1)
    return {int(line): round(cycles) for line, cycles in zip(lines, hidden[:-1], strict=True) if cycles >= 1}


def _busy_until(waves: Sequence[Wave]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Moments, and for how many cycles the SIMD was busy until then: straight between them, constant outside."""
    parts = [_busy(wave) for wave in waves]
    starts, ends = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(starts, kind="stable")
    begins, stops = _merged(starts[order], ends[order])
    if not len(begins):
        return np.zeros(1), np.zeros(1)
    until = np.cumsum(stops - begins, dtype=np.float64)
    times = np.stack([begins, stops], axis=1).ravel().astype(np.float64)
    return times, np.stack([until - (stops - begins), until], axis=1).ravel()


def _busy(wave: Wave) -> tuple[Integers, Integers]:
    """From when to when one wavefront used a pipe; intervals that touch are one."""
    one = wave.instructions
    categories = one[:, Column.CATEGORY]
    used = one[_IS_PIPE[np.where((categories >= 0) & (categories < len(_IS_PIPE)), categories, Category.NONE)]]
    starts, ends = used[:, Column.TIME] + used[:, Column.STALL], used[:, Column.TIME] + used[:, Column.DURATION]
    if len(starts) and (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    return _merged(starts, ends)


def _merged(starts: Integers, ends: Integers) -> tuple[Integers, Integers]:
    """The union of intervals in order of their starts."""
    if not len(starts):
        return starts, ends
    reached = np.maximum.accumulate(ends)
    first = np.concatenate([[True], starts[1:] > reached[:-1]])
    begins = starts[first]
    return begins, np.maximum(reached[np.concatenate([first[1:], [True]])], begins)
