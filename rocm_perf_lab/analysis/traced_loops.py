"""Loops of a thread trace, from the branches that wavefronts took backwards: `loops(trace, rows)`.

A loop is all code from the target of such a branch to the last branch back to it, as the code is laid out: blocks that the
compiler moved out of it are not in it, and an outer loop has the time of its inner ones.
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
    """One loop; cycles are those of all traced wavefronts."""

    first: InstructionRow
    last: InstructionRow
    """The branch."""
    source: str
    """`file:10-12`: the lines of it in the file that most of its time is in; empty without source lines."""
    turns: int
    turns_per_entry: float
    cycles: int
    cycles_per_turn: float
    share: float


def loops(trace: AttTrace, rows: Sequence[InstructionRow]) -> tuple[LoopTime, ...]:
    """Loops among `rows` by falling time; empty without wavefronts.

    Args:
        trace: With wavefronts.
        rows: Of the kernel in question, in order of their lines.
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
        if row.cycles and number.isdecimal() and int(number):  # line 0 is code of no line
            cycles[file] = cycles.get(file, 0) + row.cycles
            numbers.setdefault(file, []).append(int(number))
    if not cycles:
        return ""
    main = max(cycles, key=lambda file: cycles[file])
    first, last = min(numbers[main]), max(numbers[main])
    return f"{main}:{first}-{last}" if last > first else f"{main}:{first}"
