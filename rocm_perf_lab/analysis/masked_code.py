"""Vector instructions in divergent branches and loops: a trace sees their issue, but not the number of active lanes.

The compiler opens a divergent branch with s_and_saveexec and closes it by restoring the mask; a loop in which lanes finish at
different times ends with a branch on the mask. A branch that is never closed, as a guard of the kernel's bounds, does not count.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.static_features import instruction_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.analysis.traced_loops import LoopTime
    from rocm_perf_lab.rocprof.att.model import InstructionRow

_OPENS = re.compile(r"^s_and(n2|_not1)?_saveexec_b(32|64)\b")
_CLOSES = re.compile(r"^s_(or|mov|xor)_b(32|64)\s+exec(_lo)?\s*,")
_LOOP_ON_MASK = ("s_cbranch_exec",)


def masked_vector_share(rows: Sequence[InstructionRow], loops: Sequence[LoopTime]) -> float | None:
    """Return the share of the issue cycles of vector instructions that are in divergent code; None without any.

    Args:
        rows: Rows of the kernel, sorted by line.
        loops: Its loops.
    """
    masked = _in_branches(rows)
    for loop in loops:
        if loop.last.mnemonic.startswith(_LOOP_ON_MASK):
            masked.update(row.line for row in rows if loop.first.line <= row.line <= loop.last.line)
    vector = {row.line: row.latency - row.stall for row in rows if instruction_class(row.mnemonic) == "valu"}
    total = sum(vector.values())
    return sum(cycles for line, cycles in vector.items() if line in masked) / total if total > 0 else None


def _in_branches(rows: Sequence[InstructionRow]) -> set[int]:
    open_at: list[int] = []
    masked: set[int] = set()
    for number, row in enumerate(rows):
        text = row.text.lower()
        if _OPENS.match(text):
            open_at.append(number)
        elif open_at and _CLOSES.match(text):
            masked.update(inner.line for inner in rows[open_at.pop() : number])
    return masked
