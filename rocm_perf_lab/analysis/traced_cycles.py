"""Cycle accounting of a thread trace: balance of totals, hidden waiting, occupancy of the SIMDs and shader clock.

The decoder's total of an instruction is latency + idle. The sum over all instructions is the lifetime of the wavefronts,
except for overlapping instructions (GFX10 and later, whose latency includes execution), the end of a wavefront after its
last instruction, instructions outside the code, and wavefronts whose file is missing. `balance` accounts for each.

While a wavefront is idle or stalled, its SIMD may issue for others. That part of its waiting is hidden: shortening it does
not save time. The rest is exposed. The concept is that of ROCprof Compute Viewer's hidden latency; here a SIMD is busy while
any of its wavefronts issues to a pipe, and on GFX10 and later executes. GFX9 matrix instructions count with their issue.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.analysis.intervals import Integral, joined, union
from rocm_perf_lab.rocprof.att.model import Category, Column
from rocm_perf_lab.rocprof.att.timeline import idle_cycles

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from rocm_perf_lab.rocprof.att.model import AttTrace, Clocks, InstructionRow, Integers, Wave


@dataclass(frozen=True)
class TimeBalance:
    """Composition of cycles: `instructions` = `waves` + `overlapped` - `behind_last` - `unplaced` + `without_file`, exactly."""

    instructions: int
    """Latency + idle of all rows: the sum over instruction classes, and over source lines."""
    waves: int
    """Lifetime of every wavefront that was read."""
    overlapped: int
    """Counted for several instructions of one wavefront at once."""
    behind_last: int
    """From the end of the last instruction to the end of the wavefront; negative if the instruction ends later."""
    unplaced: int
    """Instructions outside the rows: not in the code listing, or of another kernel."""
    without_file: int
    """In the code totals but in no readable wave file; negative if the totals are smaller."""


def balance(trace: AttTrace, rows: Sequence[InstructionRow]) -> TimeBalance:
    """Return the composition of the totals of `rows`."""
    lines = np.array([row.line for row in rows], dtype=np.int64)
    waves = spent = covered = unplaced = 0
    for wave in trace.waves:
        one = wave.instructions
        ends = one[:, Column.TIME].astype(np.int64) + one[:, Column.DURATION]
        cycles = one[:, Column.DURATION] + idle_cycles(wave.begin, one)
        waves += wave.cycles
        spent += int(cycles.sum())
        covered += max(int(ends.max(initial=wave.begin)), wave.begin) - wave.begin
        unplaced += int(cycles[~np.isin(one[:, Column.LINE], lines)].sum())
    instructions = sum(row.cycles for row in rows)
    return TimeBalance(
        instructions=instructions,
        waves=waves,
        overlapped=spent - covered,
        behind_last=waves - covered,
        unplaced=unplaced,
        without_file=instructions - (spent - unplaced),
    )


def waves_per_simd(trace: AttTrace, kernels: AbstractSet[int] | None = None) -> float | None:
    """Return the mean number of wavefronts per SIMD of the traced shader engines, from the first to the last event.

    Compute units without any wavefront are excluded. None without occupancy events.

    Args:
        trace: Trace with occupancy events.
        kernels: Numbers of the kernels whose wavefronts count; all by default.
    """
    present = available = 0
    for events in trace.occupancy.values():
        own = events if kernels is None else events[np.isin(events[:, 5], list(kernels))]
        if not len(own):
            continue
        order = np.argsort(own[:, 0], kind="stable")
        times = own[order, 0].astype(np.int64)
        running = np.cumsum(np.where(own[order, 4] == 1, 1, -1))
        running -= min(int(running.min()), 0)  # Wavefronts that started before the trace only have an end.
        present += int((running[:-1] * np.diff(times)).sum())
        available += int(times[-1] - times[0]) * len(np.unique(own[:, 1:3], axis=0))
    return present / available if available else None


def shader_clock_hz(clocks: Clocks | None) -> float | None:
    """Return the median shader clock over shader engines, or None if the trace has fewer than two clock samples."""
    if clocks is None:
        return None
    rates = []
    for pairs in clocks.pairs.values():
        shader, real = (int(pairs[-1, column]) - int(pairs[0, column]) for column in (0, 1)) if len(pairs) else (0, 0)
        if real > 0 and shader > 0:
            rates.append(shader / real * clocks.frequency_hz)
    return float(np.median(rates)) if rates else None


_PIPES = {Category.SMEM, Category.SALU, Category.VMEM, Category.FLAT, Category.LDS, Category.VALU, Category.BVH}
_IS_PIPE = np.array([category in _PIPES for category in Category])


def hidden_cycles(trace: AttTrace) -> dict[int, int]:
    """Return hidden cycles by code line, over all wavefronts of each SIMD; lines without hidden cycles are omitted."""
    lines = np.array([row.line for row in trace.rows], dtype=np.int64)
    hidden = np.zeros(len(lines) + 1)
    simds: dict[tuple[int, int, int], list[Wave]] = defaultdict(list)
    for wave in trace.waves:
        simds[wave.key.engine, wave.compute_unit, wave.key.simd].append(wave)
    for waves in simds.values():
        busy = Integral.of_intervals(joined([_busy(wave) for wave in waves]))
        for wave in waves:
            one = wave.instructions
            begins = one[:, Column.TIME] - idle_cycles(wave.begin, one)
            ends = one[:, Column.TIME] + one[:, Column.STALL]
            cycles = busy.at(ends) - busy.at(begins)
            place = np.minimum(np.searchsorted(lines, one[:, Column.LINE]), len(lines) - 1)
            place = np.where(lines[place] == one[:, Column.LINE], place, len(lines))
            hidden += np.bincount(place, weights=cycles, minlength=len(lines) + 1)
    return {int(line): round(cycles) for line, cycles in zip(lines, hidden[:-1], strict=True) if cycles >= 1}


def _busy(wave: Wave) -> tuple[Integers, Integers]:
    """Return the intervals in which one wavefront used a pipe; adjacent intervals are merged."""
    one = wave.instructions
    categories = one[:, Column.CATEGORY]
    used = one[_IS_PIPE[np.where((categories >= 0) & (categories < len(_IS_PIPE)), categories, Category.NONE)]]
    return union(used[:, Column.TIME] + used[:, Column.STALL], used[:, Column.TIME] + used[:, Column.DURATION])
