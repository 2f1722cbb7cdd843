"""Vector instructions in divergent branches and loops: a trace shows their issue, but not the number of active lanes.

The compiler opens a divergent branch with s_and_saveexec and closes it by restoring the mask; a loop in which lanes finish at
different times removes them from the mask, or ends with a branch on it. Branches that are never closed, such as guards of the
kernel's bounds, are ignored, as are conditions that only compare a position, of the lane or of a loop with a constant stride,
with a scalar, because nearly all lanes agree on them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.executed_code import registers_of
from rocm_perf_lab.toolchain.static_features import instruction_class

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.analysis.executed_code import Registers
    from rocm_perf_lab.analysis.traced_loops import LoopTime
    from rocm_perf_lab.rocprof.att.model import InstructionRow

_OPENS = re.compile(r"^s_and(n2|_not1)?_saveexec_b(32|64)\b")
_CLOSES = re.compile(r"^s_(or|mov|xor)_b(32|64)\s+exec(_lo)?\s*,")
_LEAVES = re.compile(r"^s_and(n2|_not1)_b(32|64)\s+exec(_lo)?\s*,")
_ELSE = re.compile(r"^s_(andn2|and_not1|or)_saveexec_b(32|64)\b")
_NEXT = 3
"""Instructions from s_or_saveexec to the s_xor that completes the mask of the other side."""
_WORK = ("valu", "vmem", "lds", "mfma")
_LOADS = ("vmem", "lds", "smem")
_SELDOM = 0.02
"""Minimum share of the executions of a branch for a side to count as used."""
_LOOP_ON_MASK = ("s_cbranch_exec",)
_COMPARES = "v_cmp"
_POSITIONS = re.compile(
    r"^v_(mov_b(32|64)|(add|sub|subrev)_(co_)?[iu](16|32|64)|addc_co_u32|lshl_add_u(32|64)|add_lshl_u32|lshlrev_b32"
    r"|lshl_or_b32|mad_u32_u24|mad_u64_u32|ashrrev_i32)"
)
"""Instructions that compute positions from the number of a lane, a workgroup and constants."""
_NO_REGISTERS = ("vcc", "exec", "scc", "m0")
_MOST_STEPS = 64


def masked_vector_share(rows: Sequence[InstructionRow], loops: Sequence[LoopTime]) -> float | None:
    """Return the share of the issue cycles of vector instructions that are in divergent code; None without any.

    Args:
        rows: Rows of the kernel, sorted by line.
        loops: Its loops.
    """
    code = _Code(tuple(rows))
    masked = code.in_branches()
    for loop in loops:
        first, last = code.number[loop.first.line], code.number[loop.last.line]
        if code.is_left_by_lanes(first, last) and not code.is_strided(first, last):
            masked.update(range(first, last + 1))
    vector = [(number, row.latency - row.stall) for number, row in enumerate(rows) if instruction_class(row.mnemonic) == "valu"]
    total = sum(cycles for _, cycles in vector)
    return sum(cycles for number, cycles in vector if number in masked) / total if total > 0 else None


@dataclass(frozen=True)
class _Side:
    """Side of a divergent branch that opens at an index; `then` is the other side if this one is the else."""

    begin: int
    then: range = range(0)


@dataclass(frozen=True)
class _Code:
    rows: tuple[InstructionRow, ...]

    @cached_property
    def number(self) -> Mapping[int, int]:
        """Index of each row by its line."""
        return {row.line: number for number, row in enumerate(self.rows)}

    @cached_property
    def registers(self) -> Sequence[Registers]:
        """Registers of each row."""
        return [registers_of(row.text) for row in self.rows]

    def in_branches(self) -> set[int]:
        """Return the indices of the rows in divergent branches that are closed."""
        open_at: list[_Side] = []
        masked: set[int] = set()
        for number, row in enumerate(self.rows):
            text = row.text.lower()
            if open_at and _ELSE.match(text):
                then = open_at.pop()
                open_at.append(_Side(number, range(then.begin, number)))
            elif _OPENS.match(text):
                open_at.append(_Side(number))
            elif open_at and _CLOSES.match(text) and not (text.startswith("s_xor") and number - open_at[-1].begin <= _NEXT):
                masked.update(self._divided(open_at.pop(), number))
        return masked

    def _divided(self, side: _Side, end: int) -> set[int]:
        """Return the indices of a branch's sides, except a side that all lanes took in every execution."""
        inner = range(side.begin, end)
        if not side.then:
            return set() if self._is_bound(self._comparison_before(side.begin), 0, side.begin) else set(inner)
        least = _SELDOM * self.rows[side.then.start].hits
        if self._executions(side.then) <= least:
            return set(side.then)
        return set(inner) if self._executions(inner) <= least else {*side.then, *inner}

    def _executions(self, places: range) -> int:
        """Return the number of executed vector instructions in a part of the code."""
        return max((self.rows[at].hits for at in places if instruction_class(self.rows[at].mnemonic) in _WORK), default=0)

    def is_left_by_lanes(self, first: int, last: int) -> bool:
        """Return whether lanes leave a loop at different times."""
        if self.rows[last].mnemonic.startswith(_LOOP_ON_MASK):
            return True
        return any(_LEAVES.match(row.text.lower()) for row in self.rows[first : last + 1])

    def is_strided(self, first: int, last: int) -> bool:
        """Return whether lanes leave a loop only when a position passes a scalar."""
        deciding = self._leaving_comparisons(first, last)
        return bool(deciding) and all(self._is_bound(at, first, last) for at in deciding)

    def _leaving_comparisons(self, first: int, last: int) -> set[int]:
        """Return the comparisons of a loop from which the mask of the leaving lanes follows."""
        queue = [at for at in range(first, last + 1) if _LEAVES.match(self.rows[at].text.lower())]
        seen, found = set(queue), set()
        while queue:
            user = queue.pop()
            for register in self.registers[user].read - {"exec", "scc"}:
                for source in self._definitions(register, user, first, last):
                    if source < first or source in seen:
                        continue
                    seen.add(source)
                    if self.rows[source].mnemonic.startswith(_COMPARES):
                        found.add(source)
                    elif instruction_class(self.rows[source].mnemonic) == "salu":
                        queue.append(source)
        return found

    def _comparison_before(self, number: int) -> int | None:
        wanted = self.registers[number].read - {"exec"}
        earlier = (at for at in range(number - 1, -1, -1) if self.registers[at].written & wanted)
        at = next(earlier, None)
        return at if at is not None and self.rows[at].mnemonic.startswith(_COMPARES) else None

    def _is_bound(self, at: int | None, first: int, last: int) -> bool:
        """Return whether a comparison is that of a position: with a scalar register, or in a loop with anything not loaded."""
        if at is None:
            return False
        operands = self.registers[at].read - set(_NO_REGISTERS)
        vectors = {one for one in operands if one.startswith(("v", "a"))}
        is_limit = first > 0 or len(operands) > len(vectors)
        return bool(vectors) and is_limit and self._are_positions(vectors, at, first, last)

    def _are_positions(self, vectors: set[str], at: int, first: int, last: int) -> bool:
        """Return whether registers are derived from positions by additions only, including changes in a loop."""
        queue, seen = [(register, at) for register in vectors], set[tuple[str, int]]()
        in_loop = first > 0
        changes = not in_loop
        while queue and len(seen) < _MOST_STEPS:
            register, user = queue.pop()
            for source in self._definitions(register, user, first, last):
                if source < first:
                    if instruction_class(self.rows[source].mnemonic) in _LOADS:
                        return False
                    continue
                changes = True
                if not _POSITIONS.match(self.rows[source].mnemonic):
                    return False
                for further in self.registers[source].read:
                    if further.startswith(("v", "a")) and further not in _NO_REGISTERS and (further, source) not in seen:
                        seen.add((further, source))
                        queue.append((further, source))
        return changes

    def _definitions(self, register: str, user: int, first: int, last: int) -> list[int]:
        """Return the nearest definition before a user and, in a loop, the last one of the previous iteration."""
        before = next((at for at in range(user - 1, -1, -1) if register in self.registers[at].written), None)
        found = [] if before is None else [before]
        if first > 0 and (before is None or before < first):
            found += [at for at in range(last, user, -1) if register in self.registers[at].written][:1]
        return found
