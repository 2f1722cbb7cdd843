"""Times of a wavefront's instructions: end of the wait for issue, and end of the work, of each instruction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.att.model import Category, Column

if TYPE_CHECKING:
    from rocm_perf_lab.rocprof.att.model import Integers, Wave

_FIRST_WITH_EXECUTION = 10
"""GFX generation from which the duration of an instruction includes its execution."""
ISSUE_CLOCKS = 4
"""Duration in cycles up to which a pause or wait costs only its issue."""
_MEMORY = (Category.SMEM, Category.VMEM, Category.FLAT, Category.LDS, Category.BVH)


@dataclass(frozen=True, eq=False)
class WaveTimes:
    """Times of one wavefront's instructions; all arrays have shape (n_executed,)."""

    wave: Wave
    rows: Integers
    """Row numbers, see `Follower.numbered`."""
    free: Integers
    """End of the wavefront's earlier work."""
    attempted: Integers
    """First attempt to issue, or `free` if later."""
    issued: Integers
    """End of waiting: the issue, or the end of a wait or pause."""
    done: Integers
    """End of the work of the instruction for the wavefront; `issued` for waits."""

    @property
    def last(self) -> int:
        """End of the last work."""
        return max(int(self.done.max(initial=self.wave.begin)), self.wave.begin)


def wave_times(wave: Wave, rows: Integers, is_wait: Integers, gfxip: int | None) -> WaveTimes:
    """Return the times of a wavefront.

    Args:
        wave: Wavefront with instructions.
        rows: Its row numbers.
        is_wait: 1 for rows that only wait or pause: counters, barriers, s_nop, s_endpgm; by row number.
        gfxip: GFX generation; 9 if unknown.
    """
    one = wave.instructions
    time = one[:, Column.TIME].astype(np.int64)
    end = time + one[:, Column.DURATION]
    waits = (is_wait[rows] == 1) | (one[:, Column.CATEGORY] == Category.IMMEDIATE)
    short = waits & (end - time <= ISSUE_CLOCKS)
    issued = np.where(waits & ~short, end, np.where(short, time, time + one[:, Column.STALL]))
    done = end
    if (gfxip or 0) >= _FIRST_WITH_EXECUTION:
        is_memory = np.isin(one[:, Column.CATEGORY], _MEMORY, kind="table")
        done = np.where(is_memory, np.minimum(end, issued + ISSUE_CLOCKS), end)
    free = np.maximum.accumulate(np.concatenate([[wave.begin], done]))[:-1]
    issued = np.maximum(issued, np.minimum(free, end))
    free = np.minimum(free, issued)
    return WaveTimes(wave, rows, free, np.clip(time, free, issued), issued, np.maximum(done, issued))
