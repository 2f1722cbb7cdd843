"""Exposed waiting of a thread trace, divided among its causes and the instructions behind them.

While the binding unit of a SIMD is idle, the time is divided equally among its wavefronts, and the part of one that waits is
charged to the cause of its wait: outstanding operations of a counter, the wavefront that is late at a barrier (and, in turn, the
cause of its delay), the unit that does not accept an instruction, code that was not fetched, a result that is not ready, or
stores that must complete before the wavefront ends.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.analysis.barrier_waits import BarrierWaits, barrier_waits
from rocm_perf_lab.analysis.intervals import joined, union
from rocm_perf_lab.analysis.ledger import Cause
from rocm_perf_lab.analysis.wait_charges import divided
from rocm_perf_lab.rocprof.att.model import Category, Column
from rocm_perf_lab.toolchain.static_features import instruction_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.analysis.intervals import Floats, Integral
    from rocm_perf_lab.analysis.simd_time import SimdTime, SimdTimes
    from rocm_perf_lab.analysis.wait_charges import WaveWaits
    from rocm_perf_lab.analysis.wave_times import WaveTimes
    from rocm_perf_lab.rocprof.att.model import InstructionRow, Integers

CAUSES = tuple(Cause)
UNEXPLAINED = len(CAUSES)
"""Number after the last cause."""
_LINKED, _BARRIER, _END = UNEXPLAINED + 1, UNEXPLAINED + 2, UNEXPLAINED + 3
"""Rows whose cause depends on other instructions."""
_ATOMIC = re.compile(r"atomic|ds_(?:add|sub|min|max|inc|dec|cmpst|and|or|xor|wrxchg|cmpswap)_")
_STORE = re.compile(r"_store|_wb(l2)?\b")
_SLOW = re.compile(r"_(exp|log|rcp|rsq|sqrt|sin|cos|readlane|readfirstlane|permlane|accvgpr)|_f64|_dpp|_sdwa")
_MARKS = ("is_wait", "is_barrier", "is_store", "is_plain_memory", "is_vector", "is_matrix")
_LONGEST_GAP, _LONGEST_BRANCH = 40, 48
"""Maximum delay of the next attempt by dependencies and taken branches, in clocks (MI300X thread traces); a longer gap is a
fetch miss."""
_MATRIX_CLOCKS = 128
"""After a matrix instruction, for which a vector instruction may wait for its result."""
_CODE_OF = {cause: number for number, cause in enumerate(CAUSES)}
_IS_OWN_RESULT = np.isin(np.arange(UNEXPLAINED + 1), [_CODE_OF[Cause.DEPENDENCY], _CODE_OF[Cause.INSTRUCTION_CACHE]])
"""Causes of short waits that may instead be caused by the issue of another wavefront."""
_STALL_OF_CLASS = {
    "vmem": Cause.MEMORY_BACKPRESSURE,
    "lds": Cause.LDS_LATENCY,
    "smem": Cause.SCALAR_LATENCY,
}
_WAIT_OF_CLASS = {
    "vmem": Cause.MEMORY_LATENCY,
    "lds": Cause.LDS_LATENCY,
    "smem": Cause.SCALAR_LATENCY,
}


@dataclass(frozen=True, eq=False)
class CauseTable:
    """Causes by row number; both arrays have shape (n_row_numbers,)."""

    stall: Integers
    """Of a stall of the row."""
    wait: Integers
    """Of a wait for the row's operation."""
    is_wait: Integers
    """1 if the row only waits or pauses."""
    is_barrier: Integers
    is_store: Integers
    is_vector: Integers
    """1 for vector instructions, without matrix and transcendental ones; `is_matrix` marks matrix instructions."""
    is_matrix: Integers
    is_plain_memory: Integers
    """1 for vector memory operations that are no spills or atomics."""


@dataclass(frozen=True, eq=False)
class ExposedWaits:
    """Clocks by cause number (CAUSES, then unexplained) and row number, shape (n_causes + 1, n_row_numbers)."""

    clocks: Floats
    gain: Floats
    """Upper bound of the exposed time that removing a cause saves, by cause number."""
    barriers: BarrierWaits


def cause_table(rows: Sequence[InstructionRow], numbers: int) -> CauseTable:
    """Return the causes by row number.

    Args:
        rows: Rows of the code, sorted by line.
        numbers: Number of row numbers.
    """
    stall = np.full(numbers, _CODE_OF[Cause.DEPENDENCY], np.int64)
    wait = np.full(numbers, UNEXPLAINED, np.int64)
    marks = {name: np.zeros(numbers, np.int64) for name in _MARKS}
    for number, row in enumerate(rows):
        name, kind = row.mnemonic.lower(), instruction_class(row.mnemonic)
        special = _special(name, kind)
        own = _own_cause(name, kind)
        if own is not None:
            stall[number] = wait[number] = _CODE_OF[own]
        elif kind in _STALL_OF_CLASS:
            stall[number], wait[number] = _CODE_OF[_STALL_OF_CLASS[kind]], _CODE_OF[_WAIT_OF_CLASS[kind]]
        if special is not None:
            stall[number] = special
        marks["is_wait"][number] = special is not None or name.startswith(("s_nop", "s_sleep"))
        marks["is_barrier"][number] = special == _BARRIER
        marks["is_store"][number] = kind == "vmem" and bool(_STORE.search(name) or "atomic" in name)
        marks["is_plain_memory"][number] = kind == "vmem" and own is None
        marks["is_vector"][number] = kind == "valu" and not _SLOW.search(name)
        marks["is_matrix"][number] = kind == "mfma"
    first = len(rows)
    for category, cause in (
        (Category.VMEM, Cause.MEMORY_LATENCY),
        (Category.FLAT, Cause.MEMORY_LATENCY),
        (Category.LDS, Cause.LDS_LATENCY),
        (Category.SMEM, Cause.SCALAR_LATENCY),
    ):
        wait[first + category] = stall[first + category] = _CODE_OF[cause]
    return CauseTable(stall, wait, **marks)


def _special(name: str, kind: str) -> int | None:
    if kind == "waitcnt":
        is_hazard = name.startswith(("s_waitcnt_depctr", "s_wait_alu"))
        return _CODE_OF[Cause.DEPENDENCY] if is_hazard else _LINKED
    if kind == "barrier":
        return None if name.startswith(("s_barrier_signal", "s_barrier_init", "s_barrier_join")) else _BARRIER
    return _END if name.startswith("s_endpgm") else None


def _own_cause(name: str, kind: str) -> Cause | None:
    if kind == "vmem" and name.startswith("scratch_"):
        return Cause.REGISTER_SPILLS
    if kind in ("vmem", "lds") and _ATOMIC.search(name):
        return Cause.ATOMIC_CONTENTION
    return Cause.STORE_DRAIN if kind == "vmem" and _STORE.search(name) else None


def exposed_waits(
    waves: Sequence[WaveTimes], waits: Sequence[WaveWaits | None], times: SimdTimes, causes: CauseTable
) -> ExposedWaits:
    """Divide the exposed time of all SIMDs.

    Args:
        waves: Wavefronts with instructions.
        waits: Their waits for counters.
        times: Times of the SIMDs of these wavefronts.
        causes: Causes by row number.
    """
    simd_of = {id(one): simd for simd in times.simds for one in simd.waves}
    simds = [simd_of[id(one)] for one in waves]
    exposures = [simd.exposure for simd in simds]
    barriers = barrier_waits(waves, exposures, causes.is_barrier)
    book = _Book(causes)
    for number, one in enumerate(waves):
        walk = _WaveWalk(one, simds[number], barriers.forwarded[number], barriers.imbalanced[number], causes)
        walk.charge(book, waits[number], barriers.moved[number])
    return ExposedWaits(book.table(), book.gain(times), barriers)


class _Book:
    """Charges of all wavefronts."""

    def __init__(self, causes: CauseTable) -> None:
        self._numbers = len(causes.stall)
        self._clocks = np.zeros((UNEXPLAINED + 1) * self._numbers)
        self._spans: dict[int, list[tuple[int, tuple[Integers, Integers]]]] = defaultdict(list)

    def add(self, causes: Integers, rows: Integers, clocks: Floats) -> None:
        """Add clocks by cause and row; all arrays have shape (n,)."""
        used = np.flatnonzero(clocks)  # most waiting is hidden
        np.add.at(self._clocks, causes[used] * self._numbers + rows[used], clocks[used])

    def waited(self, wave: WaveTimes, causes: Integers, starts: Integers, ends: Integers) -> None:
        """Record the times at which a wavefront waited for each cause; all arrays have shape (n,)."""
        for cause in np.unique(causes).tolist():
            picked = causes == cause
            self._spans[cause].append((id(wave), union(starts[picked], ends[picked])))

    def table(self) -> Floats:
        """Return the clocks by cause and row."""
        table: Floats = self._clocks.reshape(UNEXPLAINED + 1, self._numbers)
        return table

    def gain(self, times: SimdTimes) -> Floats:
        """Return the exposed time in which any wavefront waits for each cause."""
        gains: Floats = self.table().sum(axis=1)
        for cause, spans in self._spans.items():
            of_wave: dict[int, list[tuple[Integers, Integers]]] = defaultdict(list)
            for wave, span in spans:
                of_wave[wave].append(span)
            total = 0.0
            for simd in times.simds:
                starts, ends = joined([span for one in simd.waves for span in of_wave.get(id(one), ())])
                total += float((simd.exposed_until.at(ends) - simd.exposed_until.at(starts)).sum())
            gains[cause] = max(gains[cause], total)
        return gains


class _WaveWalk:
    """Charges of one wavefront."""

    def __init__(self, one: WaveTimes, simd: SimdTime, forwarded: Integral, imbalanced: Integral, causes: CauseTable) -> None:
        self._one, self._exposure, self._exposed = one, simd.exposure, simd.exposed_exposure
        self._forwarded, self._imbalanced, self._causes = forwarded, imbalanced, causes

    def charge(self, book: _Book, waits: WaveWaits | None, moved: Integers) -> None:
        """Charge all exposed time of the wavefront, and that of others that waited for it at barriers."""
        one, causes = self._one, self._causes
        rows = one.rows
        free, attempted, issued = (self._weight(times) for times in (one.free, one.attempted, one.issued))
        stalls, gaps = issued - attempted, attempted - free
        is_stalled, is_late = stalls > 0, gaps > 0
        if len(moved):
            stalls[moved] -= self._exposure.at(one.issued[moved]) - self._exposure.at(one.attempted[moved])
        stall_cause = causes.stall[rows]
        direct = np.where(stall_cause == _BARRIER, _CODE_OF[Cause.BARRIER_IMBALANCE], np.minimum(stall_cause, UNEXPLAINED))
        unfetched = self._unfetched()
        direct[unfetched] = _CODE_OF[Cause.INSTRUCTION_CACHE]
        main = direct.copy()
        if waits is not None:
            self._charge_links(book, waits, stalls, main)
        self._charge_end(book, stalls, stall_cause, main)
        self._charge_contention(book, direct, stalls, one.attempted, one.issued)
        book.add(direct, rows, stalls)
        idle_cause = self._charge_gaps(book, unfetched, gaps)
        self._charge_imbalance(book)
        is_stalled &= main != UNEXPLAINED
        is_stalled[moved] = False
        book.waited(one, main[is_stalled], one.attempted[is_stalled], one.issued[is_stalled])
        book.waited(one, idle_cause[is_late], one.free[is_late], one.attempted[is_late])

    def _weight(self, times: Integers) -> Floats:
        weight = self._exposure.at(times)
        return weight if self._forwarded.is_zero else weight + self._forwarded.at(times)

    def _charge_links(self, book: _Book, waits: WaveWaits, stalls: Floats, main: Integers) -> None:
        """Charge the waits for counters to the operations; `stalls` keeps the rest, `main` gets the cause of the youngest."""
        links = waits.links
        # A wait that is no longer than its issue counts as issue.
        begin, end = self._one.attempted[links.victims], self._one.issued[links.victims]
        starts = np.clip(waits.starts, begin, end)
        ends = np.clip(waits.ends, starts, end)
        returns = np.clip(waits.returns, starts, ends)
        shares = divided(links.victims, *(self._weight(times) for times in (starts, ends, returns)))
        # A returned operation that is beyond the wait's end ends it.
        rows = self._one.rows[links.causes]
        cause = self._causes.wait[rows]
        book.add(cause, rows, shares)
        stalls -= np.bincount(links.victims, weights=shares, minlength=len(stalls))
        np.maximum(stalls, 0.0, out=stalls)
        main[links.victims] = cause

    def _charge_contention(self, book: _Book, cause: Integers, clocks: Floats, begin: Integers, end: Integers) -> None:
        """Charge waits of ready instructions, while other wavefronts issue theirs, to the issue; `clocks` keeps the rest."""
        own = np.flatnonzero(_IS_OWN_RESULT[cause] & (clocks != 0))  # most waiting is hidden
        begin, end = begin[own], end[own]
        shared = self._exposure.at(end) - self._exposure.at(begin) - self._exposed.at(end) + self._exposed.at(begin)
        shared = np.clip(shared, 0.0, clocks[own])
        book.add(np.full(len(own), _CODE_OF[Cause.INSTRUCTION_OVERHEAD]), self._one.rows[own], shared)
        clocks[own] -= shared

    def _charge_end(self, book: _Book, stalls: Floats, stall_cause: Integers, main: Integers) -> None:
        """Charge s_endpgm and the time after it to the last store, which must complete before the wavefront ends."""
        one = self._one
        is_end = stall_cause == _END
        tail = float(np.diff(self._weight(np.array([one.last, max(one.wave.end, one.last)])))[0])
        amount = float(stalls[is_end].sum()) + tail
        stalls[is_end] = 0.0
        stores = np.flatnonzero(self._causes.is_store[one.rows])
        if len(stores):
            row = one.rows[stores[-1:]]
            cause = self._causes.wait[row]
        else:
            row, cause = one.rows[-1:], np.array([_CODE_OF[Cause.LAUNCH_OVERHEAD]])
        main[is_end] = cause[0]
        book.add(cause, row, np.array([amount]))
        book.waited(one, cause, np.array([one.last]), np.array([one.wave.end]))

    def _unfetched(self) -> Integers:
        """Return the positions of vector instructions that follow another one, whose gaps can only be late code.

        Vector instructions have no dependency stalls among themselves; the results of slow and matrix instructions do.
        """
        one, causes = self._one, self._causes
        is_vector = causes.is_vector[one.rows] == 1
        after = np.flatnonzero(is_vector[1:] & is_vector[:-1]) + 1
        matrices = one.issued[causes.is_matrix[one.rows] == 1]
        if len(matrices):
            before = np.searchsorted(matrices, one.issued[after]) - 1
            since = one.issued[after] - matrices[np.maximum(before, 0)]
            after = after[(before < 0) | (since > _MATRIX_CLOCKS)]
        return after

    def _charge_gaps(self, book: _Book, unfetched: Integers, weights: Floats) -> Integers:
        """Charge the gaps before first attempts, which have these weights; return their causes."""
        one = self._one
        gaps = one.attempted - one.free
        cause = np.full(len(gaps), _CODE_OF[Cause.DEPENDENCY])
        cause[unfetched] = _CODE_OF[Cause.INSTRUCTION_CACHE]
        cause[gaps > _LONGEST_GAP] = _CODE_OF[Cause.INSTRUCTION_CACHE]
        jumped = np.flatnonzero(one.wave.instructions[:-1, Column.CATEGORY] == Category.JUMP) + 1
        cause[jumped[gaps[jumped] <= _LONGEST_BRANCH]] = _CODE_OF[Cause.INSTRUCTION_OVERHEAD]
        cause[0] = _CODE_OF[Cause.LAUNCH_OVERHEAD]
        self._charge_contention(book, np.where(gaps > _LONGEST_GAP, UNEXPLAINED, cause), weights, one.free, one.attempted)
        book.add(cause, one.rows, weights)
        return cause

    def _charge_imbalance(self, book: _Book) -> None:
        """Charge waits at barriers to the work of this wavefront, which arrived last."""
        one = self._one
        if self._forwarded.is_zero and self._imbalanced.is_zero:
            return
        begin = np.array([np.iinfo(np.int64).min // 2, one.wave.begin], dtype=np.float64)
        late = float(np.diff(self._forwarded.at(begin) + self._imbalanced.at(begin))[0])
        working = self._forwarded.at(one.done) - self._forwarded.at(one.issued)
        ends = np.concatenate([one.free[1:], one.done[-1:]])
        more = self._imbalanced.at(np.maximum(ends, one.free)) - self._imbalanced.at(one.free)
        cause = np.full(len(one.rows), _CODE_OF[Cause.BARRIER_IMBALANCE])
        book.add(cause, one.rows, working + more)
        book.add(cause[:1], one.rows[:1], np.array([late]))


def beside_clocks(times: SimdTimes, row_numbers: int) -> Floats:
    """Return the part of issuing wavefronts in the time in which their SIMD's binding unit is idle, by row number, in clocks.

    The rest of this time is the part of the wavefronts that wait meanwhile.

    Args:
        times: Times of all SIMDs.
        row_numbers: Number of row numbers.
    """
    clocks = np.zeros(row_numbers)
    for simd in times.simds:
        for one in simd.waves:
            spent = simd.exposure.at(one.done) - simd.exposure.at(one.issued)
            clocks += np.bincount(one.rows, weights=spent, minlength=row_numbers)
    return clocks
