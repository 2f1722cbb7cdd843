"""Prologue, loops and epilogue of the traced wavefronts, and gaps between wavefronts of one slot."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.att.model import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.analysis.traced_loops import LoopTime
    from rocm_perf_lab.rocprof.att.model import AttTrace, Wave

_SMALLEST_LOOP = 0.02
"""Minimum share of the time of a loop that separates prologue and epilogue."""


@dataclass(frozen=True)
class TracePhases:
    """Shares of the wavefronts' lifetimes; they add up to 1."""

    prologue: float
    """Share from the start of a wavefront to its first loop; 1 without loops."""
    loops: float
    epilogue: float
    """Share from the last loop to the end of the wavefront."""


@dataclass(frozen=True)
class LaunchGaps:
    """Time from the end of a wavefront to the start of the next one in the same slot, in clocks."""

    gaps: int
    median: float


def trace_phases(waves: Sequence[Wave], loops: Sequence[LoopTime]) -> TracePhases | None:
    """Return the phases, or None without wavefronts.

    Args:
        waves: Traced wavefronts.
        loops: Loops of the kernel.
    """
    bounds = [(loop.first.line, loop.last.line) for loop in loops if loop.share >= _SMALLEST_LOOP]
    before = inside = after = 0
    for wave in waves:
        lines = wave.instructions[:, Column.LINE]
        is_loop = np.zeros(len(lines), np.bool_)
        for first, last in bounds:
            is_loop |= (lines >= first) & (lines <= last)
        found = np.flatnonzero(is_loop)
        if not len(found):
            before += wave.cycles
            continue
        start, last_one = wave.instructions[found[0]], wave.instructions[found[-1]]
        begin = min(max(int(start[Column.TIME]), wave.begin), wave.end)
        end = min(max(int(last_one[Column.TIME]) + int(last_one[Column.DURATION]), begin), wave.end)
        before, inside, after = before + begin - wave.begin, inside + end - begin, after + wave.end - end
    total = before + inside + after
    return TracePhases(before / total, inside / total, after / total) if total else None


def launch_gaps(trace: AttTrace) -> LaunchGaps | None:
    """Return the gaps between wavefronts of the traced slots, or None without any; occupancy events are used if present."""
    gaps: list[int] = []
    for engine, events in trace.occupancy.items():
        traced = {(wave.compute_unit, wave.key.simd, wave.key.slot) for wave in trace.waves if wave.key.engine == engine}
        ended: dict[tuple[int, int, int], int] = {}
        for time, unit, simd, slot, starts in events[np.argsort(events[:, 0], kind="stable"), :5].tolist():
            place = (unit, simd, slot)
            if place not in traced:
                continue
            if not starts:
                ended[place] = time
            elif place in ended:
                gaps.append(time - ended.pop(place))
    if not trace.occupancy:
        slots: dict[tuple[int, int, int, int], list[Wave]] = defaultdict(list)
        for wave in trace.waves:
            slots[wave.key.engine, wave.compute_unit, wave.key.simd, wave.key.slot].append(wave)
        for waves in slots.values():
            ordered = sorted(waves, key=lambda wave: wave.begin)
            gaps += [later.begin - earlier.end for earlier, later in pairwise(ordered)]
    positive = [gap for gap in gaps if gap >= 0]
    return LaunchGaps(len(positive), float(np.median(positive))) if positive else None
