"""Links from waits to the instructions that they waited for, found by following the counters in program order.

A wait for n is linked only to operations that it certainly waited for. In a lane that returns in order (see `effects.py`) at most
the youngest n operations may remain, so all older ones had returned. In an unordered lane only a wait for zero is conclusive.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.att.effects import Counter, Effects, Lane, row_effects
from rocm_perf_lab.rocprof.att.model import Category

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.att.model import Integers

_COUNTERS = tuple(Counter)
_MATRIX_NUMBER = _COUNTERS.index(Counter.MATRIX)
_MATRIX_RESULTS_KEPT = 16
"""Number of matrix results that are tracked; older ones have finished."""
_LIKE_CATEGORY = {Category.SMEM: "s_load_dword", Category.VMEM: "buffer_load_dword", Category.FLAT: "global_load_dword",
                  Category.LDS: "ds_read_b32"}  # fmt: skip
"""Stand-in for an instruction that is not in the code listing: it is outstanding all the same."""


@dataclass(frozen=True, eq=False)
class Links:
    """The instruction at `victims[i]` waited for the one at `causes[i]`; all arrays have shape (n_links,).

    Links of one victim are adjacent, and so are those of one counter, in order of issue. Whether the victim actually waited, and
    how long, is not part of the links.
    """

    victims: Integers
    causes: Integers
    counters: Integers
    """Numbers of counters, see :func:`counter_of`."""


def counter_of(number: int) -> Counter:
    """Return the counter of a number in `Links.counters`."""
    return _COUNTERS[number]


class Follower:
    """Effects of every row of a trace's code.

    Rows are numbered from 0 in order of their lines, followed by one number per category for instructions outside the code.
    """

    def __init__(self, effects: Mapping[int, Effects], gfxip: int | None = None) -> None:
        self.lines: Integers = np.array(sorted(effects), dtype=np.int64)
        """Line of each row of the code."""
        self.rows = len(self.lines) + len(Category)
        """Number of row numbers."""
        unplaced = {len(self.lines) + kind: row_effects(text, gfxip) for kind, text in _LIKE_CATEGORY.items()}
        self._effects = dict(enumerate(effects[line] for line in self.lines.tolist())) | unplaced
        self._lanes = self._tables()
        self._followed = np.zeros(self.rows, dtype=np.bool_)
        self._followed[[row for row, effect in self._effects.items() if effect.raises or effect.waits]] = True

    def numbered(self, lines: Integers, categories: Integers) -> Integers:
        """Return row numbers of the instructions at these lines with these decoder categories; all of shape (n,)."""
        found = np.searchsorted(self.lines, lines)
        known = self.lines[np.minimum(found, len(self.lines) - 1)] == lines if len(self.lines) else np.zeros(len(lines), np.bool_)
        others = np.where((categories >= 0) & (categories < len(Category)), categories, Category.NONE)
        numbers: Integers = np.where(known, found, len(self.lines) + others)
        return numbers

    def counter_links(self, rows: Integers) -> Links:
        """Return the counter links of a wavefront that executed `rows`, shape (n,), see :meth:`numbered`."""
        places = np.flatnonzero(self._followed[rows])
        followed = rows[places]
        parts = [part for lane in self._lanes if (part := lane.links(followed)) is not None]
        if not parts:
            return Links(*(np.zeros(0, np.int64) for _ in range(3)))
        victims, causes, counters = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((causes, counters, victims))
        return Links(places[victims[order]], places[causes[order]], counters[order])

    def matrix_links(self, rows: Integers, stalled: NDArray[np.bool_]) -> Links:
        """Return the possible reason of each stall at the matrix core: a result that the instruction uses, or a busy unit.

        A pause (s_nop) belongs to the following instruction. At most one link per victim.

        Args:
            rows: Executed rows, shape (n,), see :meth:`numbered`.
            stalled: Whether each of them stalled.
        """
        core = self._matrix_core
        matrices = np.flatnonzero(core.is_matrix[rows])
        victims = np.flatnonzero(stalled & core.is_reader[rows])
        acting = np.flatnonzero(~core.is_pause[rows])
        behind = np.searchsorted(acting, victims)
        victims, behind = victims[behind < len(acting)], behind[behind < len(acting)]
        youngest = np.searchsorted(matrices, victims) - 1
        victims, behind, youngest = (part[youngest >= 0] for part in (victims, behind, youngest))
        if not len(victims):
            return Links(*(np.zeros(0, np.int64) for _ in range(3)))
        readers = rows[acting[behind]]
        causes = np.where(core.is_matrix[rows[victims]], matrices[youngest], -1)
        looking = np.arange(len(victims))
        for back in range(_MATRIX_RESULTS_KEPT):
            looking = looking[youngest[looking] >= back]
            earlier = matrices[youngest[looking] - back]
            hit = core.touches(rows[earlier], readers[looking])
            causes[looking[hit]] = earlier[hit]
            looking = looking[~hit]
        kept = causes >= 0
        return Links(victims[kept], causes[kept], np.full(int(kept.sum()), _MATRIX_NUMBER))

    def _tables(self) -> tuple[_LaneTable, ...]:
        raised: dict[Lane, NDArray[np.int64]] = {}
        left: dict[Counter, NDArray[np.int64]] = {}
        for row, effect in self._effects.items():
            for lane in effect.raises:
                raised.setdefault(lane, np.zeros(self.rows, np.int64))[row] += 1
            for counter, value in effect.waits.items():
                left.setdefault(counter, np.full(self.rows, -1, np.int64))[row] = value
        return tuple(_LaneTable(lane, joins, left[lane.counter]) for lane, joins in raised.items() if lane.counter in left)

    @cached_property
    def _matrix_core(self) -> _MatrixCore:
        return _MatrixCore(self._effects, self.rows)


@dataclass(frozen=True, eq=False)
class _LaneTable:
    """One lane by row of the code: how often it joins, and the value a wait for its counter reaches (-1: it does not wait)."""

    lane: Lane
    joins: Integers
    left: Integers

    def links(self, rows: Integers) -> tuple[Integers, Integers, Integers] | None:
        """Return positions of victims and causes in `rows`, and the counter's number; None without links."""
        joins = self.joins[rows]
        joined = np.cumsum(joins)
        waiting = np.flatnonzero(self.left[rows] >= 0)
        if not len(waiting) or not joined[-1]:
            return None
        left = self.left[rows[waiting]]
        come = joined[waiting] - left if self.lane.is_ordered else np.where(left == 0, joined[waiting], 0)
        done = np.maximum.accumulate(np.maximum(come, 0))
        victims = np.repeat(waiting, np.diff(done, prepend=0))
        causes = np.repeat(np.arange(len(rows)), joins)[: len(victims)]
        if len(causes) and joins.max() > 1:
            victims, causes = np.unique(np.stack([victims, causes]), axis=1)
        return victims, causes, np.full(len(victims), _COUNTERS.index(self.lane.counter))


class _MatrixCore:
    """Matrix instructions among the rows, and the rows that use their results."""

    def __init__(self, effects: Mapping[int, Effects], rows: int) -> None:
        matrices = [row for row, effect in effects.items() if effect.is_matrix]
        results = frozenset[str]().union(*(effects[row].written for row in matrices))
        readers = [row for row, effect in effects.items() if effect.is_matrix or effect.touched & results]
        pauses = [row for row, effect in effects.items() if effect.is_pause and matrices]
        self.is_matrix, self.is_pause, self.is_reader = (_mask(rows, of) for of in (matrices, pauses, [*readers, *pauses]))
        place = {register: number for number, register in enumerate(sorted(results))}
        # Many instructions use the same registers: distinct sets are compared instead of instructions.
        written = {effects[row].written: None for row in matrices}
        touched = {effects[row].touched & results: None for row in readers}
        self._written = _numbers(rows, {row: effects[row].written for row in matrices}, written)
        self._touched = _numbers(rows, {row: effects[row].touched & results for row in readers}, touched)
        # One extra entry for rows without registers, which use nothing.
        self._touches = np.zeros((len(written) + 1, len(touched) + 1), np.bool_)
        self._touches[:-1, :-1] = _incidence(written, place) @ _incidence(touched, place).T > 0

    def touches(self, matrices: Integers, readers: Integers) -> NDArray[np.bool_]:
        """Return whether each of `readers` reads or writes a register that the matrix instruction next to it writes."""
        found: NDArray[np.bool_] = self._touches[self._written[matrices], self._touched[readers]]
        return found


def _mask(size: int, rows: list[int]) -> NDArray[np.bool_]:
    mask = np.zeros(size, np.bool_)
    mask[rows] = True
    return mask


def _numbers(size: int, set_of: Mapping[int, frozenset[str]], sets: Iterable[frozenset[str]]) -> Integers:
    """Return the number of each row's set; -1 for rows without one."""
    number_of = {registers: number for number, registers in enumerate(sets)}
    numbers = np.full(size, -1, np.int64)
    numbers[list(set_of)] = [number_of[registers] for registers in set_of.values()]
    return numbers


def _incidence(sets: Collection[frozenset[str]], place: Mapping[str, int]) -> NDArray[np.float32]:
    table = np.zeros((len(sets), len(place)), np.float32)
    for number, registers in enumerate(sets):
        table[number, [place[register] for register in registers]] = 1
    return table
