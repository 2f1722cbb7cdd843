"""Loops of a thread trace, found from taken backward branches.

A loop covers the code from the branch target to the last branch back to it, in layout order. Blocks that the compiler moved
out of it are excluded; an outer loop includes the time of its inner loops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.att.model import Category, Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.rocprof.att.model import AttTrace, InstructionRow

_BRANCHES = ("s_branch", "s_cbranch")


@dataclass(frozen=True)
class LoopTime:
    """Time of one loop; cycles are summed over all traced wavefronts."""

    first: InstructionRow
    last: InstructionRow
    """The backward branch."""
    source: str
    """`file:10-12`: its lines in the file with most of its time; empty without source lines."""
    turns: int
    turns_per_entry: float
    cycles: int
    cycles_per_turn: float
    share: float


def loops(trace: AttTrace, rows: Sequence[InstructionRow]) -> tuple[LoopTime, ...]:
    """Return the loops among `rows`, sorted by descending time; empty without wavefronts.

    Args:
        trace: Trace with wavefronts.
        rows: Rows of the kernel, sorted by line.
    """
    by_line = {row.line: row for row in rows}
    back: dict[int, tuple[int, int]] = {}
    for wave in trace.waves:
        lines, categories = wave.instructions[:, Column.LINE], wave.instructions[:, Column.CATEGORY]
        jumps = np.flatnonzero((categories[:-1] == Category.JUMP) & (lines[1:] <= lines[:-1]))
        pairs, counts = np.unique(np.stack([lines[jumps + 1], lines[jumps]]), axis=1, return_counts=True)
        for first, last, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
            if first in by_line and last in by_line and by_line[last].mnemonic.startswith(_BRANCHES):
                latest, taken = back.get(first, (last, 0))
                back[first] = max(last, latest), taken + count
    order, times = [row.line for row in rows], np.cumsum([0, *(row.cycles for row in rows)])
    found = []
    for first, (last, taken) in back.items():
        begin, end = np.searchsorted(order, [first, last + 1])
        cycles, turns = int(times[end] - times[begin]), max(by_line[first].hits, taken)
        entries = max(turns - taken, 1)
        shares = cycles / int(times[-1]) if times[-1] else 0.0
        source = _lines(rows[begin:end])
        found.append(LoopTime(by_line[first], by_line[last], source, turns, turns / entries, cycles, cycles / turns, shares))
    return tuple(sorted(found, key=lambda loop: (-loop.cycles, loop.first.line)))


def _lines(rows: Sequence[InstructionRow]) -> str:
    cycles: dict[str, int] = {}
    numbers: dict[str, list[int]] = {}
    for row in rows:
        file, _, number = row.source_line.rpartition(":")
        if row.cycles and number.isdecimal() and int(number):  # line 0 marks code without a source line
            cycles[file] = cycles.get(file, 0) + row.cycles
            numbers.setdefault(file, []).append(int(number))
    if not cycles:
        return ""
    main = max(cycles, key=lambda file: cycles[file])
    first, last = min(numbers[main]), max(numbers[main])
    return f"{main}:{first}-{last}" if last > first else f"{main}:{first}"
