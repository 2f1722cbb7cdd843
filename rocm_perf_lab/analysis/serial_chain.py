"""Longest chain of dependent instructions of a wavefront: `chained_share(waves, rows, row_numbers)`.

A wavefront issues in order and does not execute ahead of a branch. Instructions on its longest chain depend on the result of an
earlier one: their time is latency, which other wavefronts or independent work could hide. Other instructions only use issue
slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.analysis.executed_code import Registers, registers_of
from rocm_perf_lab.toolchain.static_features import instruction_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.analysis.intervals import Floats
    from rocm_perf_lab.analysis.wave_times import WaveTimes
    from rocm_perf_lab.rocprof.att.model import InstructionRow

_MOST_INSTRUCTIONS = 6_000
"""Maximum number of searched instructions per wavefront, since loops repeat."""
_MOST_WAVES = 2
_RESULT_CLOCKS = {"vmem": 500.0, "smem": 120.0, "lds": 64.0, "mfma": 16.0}
"""Clocks from issue to result, excluding the issue: a medium latency of the caches, and the fastest matrix instruction (MI300X
thread traces)."""
_NO_RESULT = ("waitcnt", "barrier")


@dataclass(frozen=True)
class _Step:
    """Facts about a row that the search needs."""

    registers: Registers
    result_clocks: float
    is_branch: bool
    has_effect: bool
    """True for memory accesses, matrix instructions and branches, in which a chain ends."""
    counts: bool
    """False for waits, whose time is that of another instruction."""


def chained_share(waves: Sequence[WaveTimes], rows: Sequence[InstructionRow], row_numbers: int) -> Floats:
    """Return the share of the executions of each row that are on the longest chain of their wavefront, shape (row_numbers,).

    It is 0 for rows that no searched wavefront executed: the longest wavefronts are searched.

    Args:
        waves: Wavefronts with instructions.
        rows: Rows of the code, sorted by line.
        row_numbers: Number of row numbers; those after `rows` have no known code.
    """
    executed, chained = np.zeros(row_numbers), np.zeros(row_numbers)
    steps: dict[int, _Step] = {}
    for one in sorted(waves, key=lambda wave: -len(wave.rows))[:_MOST_WAVES]:
        numbers = one.rows[:_MOST_INSTRUCTIONS]
        for number in set(numbers.tolist()) - steps.keys():
            steps[number] = step_of(rows[number].text if number < len(rows) else "")
        clocks = (one.done - one.issued)[:_MOST_INSTRUCTIONS].astype(np.float64)
        on_chain = longest_chain([steps[number] for number in numbers.tolist()], clocks.tolist())
        executed += np.bincount(numbers, minlength=row_numbers)
        chained += np.bincount(numbers[on_chain], minlength=row_numbers)
    share: Floats = chained / np.maximum(executed, 1.0)
    return share


def step_of(text: str) -> _Step:
    """Return the facts about an instruction that the search needs."""
    kind = instruction_class(text.split(maxsplit=1)[0]) if text.strip() else ""
    return _Step(
        registers_of(text),
        result_clocks=_RESULT_CLOCKS.get(kind, 0.0),
        is_branch=kind == "branch",
        has_effect=kind == "branch" or kind in _RESULT_CLOCKS,
        counts=bool(text) and kind not in _NO_RESULT,
    )


def longest_chain(steps: Sequence[_Step], clocks: Sequence[float]) -> list[int]:
    """Return the positions of the longest chain, last one first.

    Args:
        steps: Executed instructions of one wavefront in order.
        clocks: Time that each takes.
    """
    ready = [0.0] * len(steps)
    before = [-1] * len(steps)
    writer: dict[str, int] = {}
    branch = -1
    for number, step in enumerate(steps):
        if not step.counts:
            continue
        latest = branch
        for register in step.registers.read:
            source = writer.get(register, -1)
            # Of equally late results, the younger one is selected, because registers are unordered.
            if source >= 0 and (latest < 0 or (ready[source], source) > (ready[latest], latest)):
                latest = source
        before[number] = latest
        ready[number] = (ready[latest] if latest >= 0 else 0.0) + clocks[number] + step.result_clocks
        for register in step.registers.written:
            writer[register] = number
        if step.is_branch:
            branch = number
    found: list[int] = []
    # Unused loop counters are not a reason to wait; a chain of one instruction has no dependency.
    ends = [number for number, step in enumerate(steps) if step.has_effect] or range(len(steps))
    at = max(ends, key=lambda number: ready[number], default=-1)
    while at >= 0 and (found or before[at] >= 0):
        found.append(at)
        at = before[at]
    return found
