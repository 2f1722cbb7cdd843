"""Whether the times of a thread trace add up: `balance(trace, rows)`.

The decoder's total of an instruction is latency + idle. Over all instructions that is the life of the wavefronts, but for
instructions that were executed at the same time (GFX10 and later, whose latency contains execution), the end of a wavefront
behind its last instruction, instructions without a place in the code, and wavefronts whose file is missing. All are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.att.model import Column
from rocm_perf_lab.rocprof.att.timeline import idle_cycles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.rocprof.att.model import AttTrace, InstructionRow


@dataclass(frozen=True)
class TimeBalance:
    """Cycles: `instructions` = `waves` + `overlapped` - `behind_last` - `unplaced` + `without_file`, exactly."""

    instructions: int
    """Latency + idle of all rows, which classes and source lines divide among them."""
    waves: int
    """From begin to end of every wavefront that was read."""
    overlapped: int
    """Counted for several instructions of one wavefront at once."""
    behind_last: int
    """Of wavefronts, from the end of their last instruction; negative where that outlasts the wavefront."""
    unplaced: int
    """Of instructions that are none of the rows: without a place in the code, or of another kernel."""
    without_file: int
    """In the totals of the code, but in no wave file that could be read; negative where the totals have less."""


def balance(trace: AttTrace, rows: Sequence[InstructionRow]) -> TimeBalance:
    """What the totals of `rows` consist of."""
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
