"""Stall cycles charged to the instructions that caused them, and memory latency.

`rocprof/att/waits.py` links each wait to the operations it waited for. The stall of a wait for several operations is divided
over time: each moment equally among the operations whose data had not arrived. All operations of one counter are assumed to
have the latency of the youngest, whose arrival ended the wait.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.att.effects import Counter, row_effects
from rocm_perf_lab.rocprof.att.model import Column
from rocm_perf_lab.rocprof.att.waits import Follower, counter_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.att.model import AttTrace, InstructionRow, Integers, Wave
    from rocm_perf_lab.rocprof.att.waits import Links
    from rocm_perf_lab.toolchain.static_features import InstructionClass

    Times = Integers | NDArray[np.float64]

_SHORTEST_WAIT = 4
"""Minimum stall in cycles; for shorter waits, the data had already arrived."""
_LONGEST_MATRIX = 80
"""Cycles from the issue of a matrix instruction until its result is available: 16 passes of 4 cycles, and the 3 passes that
keep a reader away (LLVM's GCNHazardRecognizer). A longer stall is contention with another wavefront for the matrix core."""
_LATENCY_CLASSES: tuple[InstructionClass, ...] = ("vmem", "lds", "smem")
_STORES = re.compile("_store|_write|_wb")
_COUNTERS = len(Counter)


@dataclass(frozen=True)
class Charge:
    """Stall cycles of the instruction in row `victim` caused by the instruction in row `cause`."""

    victim: InstructionRow
    cause: InstructionRow
    counter: Counter
    cycles: float


@dataclass(frozen=True)
class MemoryLatency:
    """Cycles from issue to the end of the wait that the data ended; only waits that stalled are included."""

    samples: int
    mean: float
    median: float
    p90: float


@dataclass(frozen=True, eq=False)
class WaveWaits:
    """Waits of one wavefront for counters; arrays have shape (n_links,) and are parallel to `links`."""

    links: Links
    starts: Integers
    """Start of the victim's wait; `ends` is its end."""
    ends: Integers
    returns: Integers
    """Assumed arrival of the data of the causing operation."""


@dataclass(frozen=True, eq=False)
class Waited:
    """Charges sorted by descending cycles, memory latency by class, and waits and row numbers by wavefront."""

    charges: tuple[Charge, ...]
    latency: Mapping[str, MemoryLatency]
    rows: tuple[Integers, ...]
    """Row numbers of each wavefront's instructions; see `Follower.numbered`."""
    waits: tuple[WaveWaits | None, ...]
    row_numbers: int
    """Number of row numbers: the rows of the trace in order of lines, then one per category for unplaced instructions."""


def waited(trace: AttTrace, rows: Sequence[InstructionRow], kinds: Mapping[int, InstructionClass]) -> Waited:
    """Charge all stalls of a trace. Without wavefronts, the order of the code is used.

    Args:
        trace: Trace with code and wavefronts.
        rows: Rows of the code that count; wavefronts may have executed others.
        kinds: Class of each row of the trace.
    """
    walk = _Walk(trace, rows, kinds)
    for wave in trace.waves:
        walk.take(wave)
    if not trace.waves:
        walk.take_code([row for row in rows if row.hits])
    return walk.found()


def waiting_cycles(row: InstructionRow, kind: InstructionClass) -> int:
    """Return the waiting cycles of a row: the latency of a wait for counters, else the stall."""
    return row.latency if kind == "waitcnt" else row.stall


class _Walk:
    """One pass over the wavefronts."""

    def __init__(self, trace: AttTrace, rows: Sequence[InstructionRow], kinds: Mapping[int, InstructionClass]) -> None:
        gfxip = trace.provenance.gfxip
        self._follower = Follower({row.line: row_effects(row.text, gfxip) for row in trace.rows}, gfxip)
        self._row_of = dict(zip(np.searchsorted(self._follower.lines, [row.line for row in rows]).tolist(), rows, strict=True))
        self._own = np.zeros(self._follower.rows, np.bool_)
        self._own[list(self._row_of)] = True
        self._kinds = kinds
        self._is_wait = np.zeros(self._follower.rows, np.bool_)
        self._is_wait[[number for number, row in self._row_of.items() if kinds[row.line] == "waitcnt"]] = True
        self._measured = np.full(self._follower.rows, -1, np.int64)
        for number, row in self._row_of.items():
            if kinds[row.line] in _LATENCY_CLASSES and not _STORES.search(row.mnemonic):
                self._measured[number] = _LATENCY_CLASSES.index(kinds[row.line])
        self._cycles: dict[int, float] = defaultdict(float)
        self._samples: list[tuple[Integers, Integers]] = []
        self._rows: list[Integers] = []
        self._waits: list[WaveWaits | None] = []

    def found(self) -> Waited:
        """Return the charges and latencies accumulated so far."""
        charges = []
        for key, cycles in self._cycles.items():
            pair, counter = divmod(key, _COUNTERS)
            victim, cause = divmod(pair, self._follower.rows)
            if cycles > 0:
                charges.append(Charge(self._row_of[victim], self._row_of[cause], counter_of(counter), cycles))
        charges.sort(key=lambda charge: (-charge.cycles, charge.victim.line, charge.cause.line))
        return Waited(tuple(charges), self._latency(), tuple(self._rows), tuple(self._waits), self._follower.rows)

    def take(self, wave: Wave) -> None:
        """Add one wavefront."""
        executed = wave.instructions
        rows = self._follower.numbered(executed[:, Column.LINE], executed[:, Column.CATEGORY])
        # A wait ends when the counter is reached, whether its time is recorded as stall (GFX9) or as execution (GFX10 and later).
        lasting = np.where(self._is_wait[rows], Column.DURATION, Column.STALL)
        stalls = executed[np.arange(len(rows)), lasting].astype(np.int64)
        issued = executed[:, Column.TIME] + stalls
        self._rows.append(rows)
        self._waits.append(self._take_counters(rows, issued, stalls, self._follower.counter_links(rows)))
        links = self._follower.matrix_links(rows, stalls > 0)
        ends = issued[links.victims]
        starts = ends - stalls[links.victims]
        free = np.clip(issued[links.causes] + _LONGEST_MATRIX, starts, ends)
        self._add(rows, links, (free - starts).astype(np.float64))

    def take_code(self, rows: Sequence[InstructionRow]) -> None:
        """Charge without timelines: as if each row had executed once, in address order; causes share equally."""
        lines = self._follower.numbered(np.array([row.line for row in rows], np.int64), np.zeros(len(rows), np.int64))
        stalls = np.array([waiting_cycles(row, self._kinds[row.line]) for row in rows], dtype=np.float64)
        for links in (self._follower.counter_links(lines), self._follower.matrix_links(lines, stalls > 0)):
            if len(links.victims):
                self._add(lines, links, stalls[links.victims] / np.bincount(links.victims)[links.victims])

    def _take_counters(self, rows: Integers, issued: Integers, stalls: Integers, links: Links) -> WaveWaits | None:
        if not len(links.victims):
            return None
        ends, waits, issues = issued[links.victims], stalls[links.victims], issued[links.causes]
        # Links of one victim and counter are adjacent; the last one is the youngest operation.
        group = links.victims * _COUNTERS + links.counters
        lasts = np.flatnonzero(np.concatenate([group[1:] != group[:-1], [True]]))
        youngest = np.repeat(lasts, np.diff(lasts, prepend=-1))
        took = np.maximum(ends[youngest] - issues[youngest], 0)
        returns = issues + took
        self._add(rows, links, divided(links.victims, ends - waits, ends, returns))
        groups_of_victim = np.bincount(links.victims[lasts])
        alone = lasts[(groups_of_victim[links.victims[lasts]] == 1) & (waits[lasts] > _SHORTEST_WAIT)]
        kinds = self._measured[rows[links.causes[alone]]]
        self._samples.append((kinds[kinds >= 0], took[alone][kinds >= 0]))
        return WaveWaits(links, ends - waits, ends, returns)

    def _add(self, rows: Integers, links: Links, cycles: NDArray[np.float64]) -> None:
        victims, causes = rows[links.victims], rows[links.causes]
        counted = self._own[victims] & self._own[causes]
        keys = (victims * self._follower.rows + causes) * _COUNTERS + links.counters
        unique, place = np.unique(keys[counted], return_inverse=True)
        sums = np.bincount(place.ravel(), weights=cycles[counted], minlength=len(unique))
        for key, added in zip(unique.tolist(), sums.tolist(), strict=True):
            self._cycles[key] += added

    def _latency(self) -> dict[str, MemoryLatency]:
        found: dict[str, MemoryLatency] = {}
        for number, kind in enumerate(_LATENCY_CLASSES):
            parts = [cycles[kinds == number] for kinds, cycles in self._samples]
            values = np.concatenate(parts).astype(np.float64) if parts else np.zeros(0)
            if len(values):
                mean, median, p90 = float(values.mean()), float(np.median(values)), float(np.quantile(values, 0.9))
                found[kind] = MemoryLatency(len(values), mean, median, p90)
        return found


def divided(victims: Integers, starts: Times, ends: Times, returns: Times) -> NDArray[np.float64]:
    """Divide the wait [start, end) of every victim among its links: each moment equally among those whose data had not arrived.

    The times may be in any unit that grows with time, for example exposed cycles.

    Args:
        victims: Victim of each link, shape (n_links,); links of one victim are adjacent.
        starts: Start of the victim's stall.
        ends: End of the victim's stall.
        returns: Assumed arrival of the data of the link's operation.
    """
    is_first = np.concatenate([[True], victims[1:] != victims[:-1]])
    is_sorted = is_first[1:] | (returns[1:] >= returns[:-1])
    order = np.arange(len(victims)) if is_sorted.all() else np.lexsort((returns, victims))
    groups = victims[order]
    first = np.flatnonzero(is_first)
    size = np.diff(np.concatenate([first, [len(groups)]]))
    place = np.arange(len(groups)) - np.repeat(first, size)
    came = np.clip(returns[order], starts[order], ends[order]).astype(np.float64)
    before = np.where(is_first, starts[order], np.concatenate([[0.0], came[:-1]]))
    running = np.cumsum((came - before) / (np.repeat(size, size) - place))
    base = np.concatenate([[0.0], running[first[1:] - 1]])
    shares = np.empty(len(groups))
    shares[order] = running - np.repeat(base, size)
    return shares
