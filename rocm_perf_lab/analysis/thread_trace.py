"""What a thread trace says: where wavefronts spent their cycles, and which instruction made them wait.

`analyse(trace)` gives the time by instruction class and by source line, every stall of a wait charged to the loads,
LDS, scalar or matrix instructions behind it, memory latency, issue efficiency and hot spots. The time of an instruction
is latency + idle: its stall is part of its latency.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.analysis.no_thread_trace import NoThreadTrace
from rocm_perf_lab.rocprof.att.model import Column
from rocm_perf_lab.rocprof.att.waits import Counter, follow, matters, row_effects
from rocm_perf_lab.toolchain.static_features import instruction_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.att.model import AttTrace, InstructionRow, Integers, KernelLabel, Wave
    from rocm_perf_lab.rocprof.att.waits import Links
    from rocm_perf_lab.toolchain.static_features import InstructionClass

UNKNOWN_SOURCE = "(no source line)"
_HOT_SPOTS = 10
_SHORTEST_WAIT = 4
"""Cycles: a wait that takes no longer found its data there."""
_SUM_TOLERANCE = 0.01
_LATENCY_CLASSES = ("vmem", "lds", "smem")
_STORES = re.compile("_store|_write|_wb")


@dataclass(frozen=True)
class Spent:
    """Cycles of wavefronts, summed; `share` of all. `stall` is inside `latency`, `cycles` is latency + idle."""

    hits: int
    cycles: int
    latency: int
    stall: int
    idle: int
    share: float


@dataclass(frozen=True)
class LineTime:
    """One source line. `caused_cycles`: its own, without its charged waits, with those that it made others wait."""

    source: str
    spent: Spent
    caused_cycles: float
    waits_for: str | None
    """The line that it waits for most, and how long, over all waits."""
    waits_for_class: str | None
    waited_cycles: float


@dataclass(frozen=True)
class Charge:
    """The instruction in row `victim` stalled for that many cycles because of the one in row `cause`."""

    victim: InstructionRow
    cause: InstructionRow
    counter: Counter
    cycles: float


@dataclass(frozen=True)
class MemoryLatency:
    """From issue to the end of the wait that ended when the data came, in cycles; only waits that really waited."""

    samples: int
    mean: float
    median: float
    p90: float


@dataclass(frozen=True)
class HotSpot:
    """One instruction."""

    row: InstructionRow
    kind: InstructionClass
    share: float


@dataclass(frozen=True)
class ThreadTrace:
    """The analysis. Charges are by falling cycles; lines and hot spots by falling time."""

    folder: str
    kernel: str | None
    emulated: bool
    waves: int
    total: Spent
    stall_fraction: float
    issue_fraction: float
    idle_fraction: float
    instructions_per_cycle: float | None
    """Of the traced compute units, wavefronts overlapped; null without timelines."""
    classes: Mapping[InstructionClass, Spent]
    lines: tuple[LineTime, ...]
    charges: tuple[Charge, ...]
    charged: Mapping[InstructionClass, float]
    """Cycles of stall by the class of the instruction that caused them."""
    wait_cycles: int
    """Stall of all waits for counters; what is not in `charges` waited for something older than the trace."""
    unattributed_cycles: float
    memory_latency: Mapping[str, MemoryLatency]
    hot_spots: tuple[HotSpot, ...]
    limits: tuple[str, ...]


def analyse(trace: AttTrace, *, symbol: str | None = None, launched_waves: float | None = None) -> ThreadTrace | NoThreadTrace:
    """Analyse one trace; unavailable, with the reason, where it holds no cycles.

    Args:
        trace: What was read.
        symbol: Mangled name of the kernel in question, where the trace holds several.
        launched_waves: Wavefronts of the whole launch, to say how many of them were seen.
    """
    if symbol is not None and (others := _of_others_only(trace, symbol)):
        return NoThreadTrace(f"the thread trace is of {', '.join(others[:3])}, not of {symbol}")
    rows = _rows_of(trace, symbol)
    if not rows:
        return NoThreadTrace("; ".join(("the thread trace holds no instructions", *trace.notes)))
    if not trace.has_cycles:
        return NoThreadTrace("the folder holds PC samples, which count samples and not cycles")
    if len(rows) < len(trace.rows):
        trace = replace(trace, waves=_waves_of(trace.waves, rows))
    total = _spent(rows, sum(row.cycles for row in rows))
    if not total.cycles:
        return NoThreadTrace("; ".join(("no wavefront of the kernel was traced", *trace.notes)))
    walk = _Walk(trace, rows)
    kinds = {row.line: instruction_class(row.mnemonic) for row in rows}
    charges = walk.charges()
    waits = sum(row.stall for row in rows if kinds[row.line] == "waitcnt")
    charged_waits = sum(charge.cycles for charge in charges if kinds[charge.victim.line] == "waitcnt")
    label = trace.kernel_of(rows[0].line)
    return ThreadTrace(
        folder=trace.provenance.folder,
        kernel=(label.name or label.mangled_name) if label else symbol,
        emulated=trace.provenance.emulated,
        waves=len(trace.waves),
        total=total,
        stall_fraction=total.stall / total.cycles,
        issue_fraction=(total.latency - total.stall) / total.cycles,
        idle_fraction=total.idle / total.cycles,
        instructions_per_cycle=_instructions_per_cycle(trace.waves),
        classes=_by_class(rows, kinds, total.cycles),
        lines=_by_line(rows, charges, kinds, total.cycles),
        charges=charges,
        charged=_by_cause(charges, kinds),
        wait_cycles=waits,
        unattributed_cycles=max(0.0, waits - charged_waits),
        memory_latency={kind: _latency(walk.latencies[kind]) for kind in _LATENCY_CLASSES if walk.latencies[kind]},
        hot_spots=_hot_spots(rows, kinds, total.cycles),
        limits=_limits(trace, total, launched_waves),
    )


def _of_others_only(trace: AttTrace, symbol: str) -> tuple[str, ...]:
    """The kernels of a trace that names its kernels, where `symbol` is none of them; CSV and -T shorten names."""
    if any(_is_called(label, symbol) for label in trace.kernels):
        return ()
    return tuple(label.name or label.mangled_name.removesuffix(".kd") for label in trace.kernels)


def _is_called(label: KernelLabel, symbol: str) -> bool:
    wanted = symbol.removesuffix(".kd")
    return wanted == label.mangled_name.removesuffix(".kd") or wanted.partition("(")[0] == label.name.partition("(")[0]


def _rows_of(trace: AttTrace, symbol: str | None) -> tuple[InstructionRow, ...]:
    """Without the rows of other kernels that were dispatched meanwhile; functions that are no kernels stay."""
    own = {label.mangled_name.removesuffix(".kd") for label in trace.kernels if symbol is not None and _is_called(label, symbol)}
    if not own:
        return trace.rows
    others = {name.removesuffix(".kd") for name in trace.dispatched.values()} - own
    bounds = [label.line for label in trace.kernels]
    places = np.searchsorted(bounds, [row.line for row in trace.rows], side="right") - 1
    is_other = [label.mangled_name.removesuffix(".kd") in others for label in trace.kernels]
    return tuple(row for row, place in zip(trace.rows, places.tolist(), strict=True) if place < 0 or not is_other[place])


def _waves_of(waves: Sequence[Wave], rows: Sequence[InstructionRow]) -> tuple[Wave, ...]:
    """The wavefronts that executed any of the rows; those without instructions may be of any kernel."""
    lines = np.array([row.line for row in rows], dtype=np.int64)
    return tuple(w for w in waves if not len(w.instructions) or np.isin(w.instructions[:, Column.LINE], lines).any())


class _Walk:
    """One pass over all traced wavefronts: who waited for whom, and how long data took.

    Wavefronts that executed the same instructions share one :class:`_Pattern`; the rest is arithmetic on arrays.
    """

    def __init__(self, trace: AttTrace, rows: Sequence[InstructionRow]) -> None:
        self._by_line = {row.line: row for row in rows}
        self._effects = {row.line: row_effects(row.text, trace.provenance.gfxip) for row in rows}
        self._kinds = {row.line: instruction_class(row.mnemonic) for row in rows}
        self._cycles: dict[tuple[int, int, Counter], float] = defaultdict(float)
        self._patterns: dict[bytes, _Pattern] = {}
        self.latencies: dict[str, list[int]] = {kind: [] for kind in _LATENCY_CLASSES}
        followed = matters(self._effects)
        if trace.waves:
            self._followed = np.array(sorted(followed), dtype=np.int64)
            for wave in trace.waves:
                self._walk(wave)
        else:
            self._in_order_of_code([row for row in rows if row.hits and row.line in followed])

    def charges(self) -> tuple[Charge, ...]:
        """By falling cycles."""
        order = sorted(self._cycles.items(), key=lambda item: (-item[1], item[0][:2]))
        return tuple(
            Charge(self._by_line[victim], self._by_line[cause], counter, cycles)
            for (victim, cause, counter), cycles in order
            if cycles > 0
        )

    def _walk(self, wave: Wave) -> None:
        executed = wave.instructions[np.isin(wave.instructions[:, Column.LINE], self._followed)]
        pattern = self._pattern(executed[:, Column.LINE])
        if not len(pattern.links.victims):
            return
        issued = executed[:, Column.TIME] + executed[:, Column.STALL]
        stalls = executed[:, Column.STALL][pattern.links.victims]
        ends, issues = issued[pattern.links.victims], issued[pattern.links.causes]
        took = (ends - issues)[pattern.youngest]
        self._add(pattern, _shared(pattern.links.victims, ends - stalls, ends, issues + took))
        for kind, links in pattern.measuring.items():
            self.latencies[kind] += took[links][stalls[links] > _SHORTEST_WAIT].tolist()

    def _in_order_of_code(self, rows: Sequence[InstructionRow]) -> None:
        """Without timelines: as if every row had been executed once, in order of address; causes share alike."""
        pattern = self._pattern(np.array([row.line for row in rows], dtype=np.int64))
        stalls = np.array([row.stall for row in rows], dtype=np.float64)
        victims = pattern.links.victims
        self._add(pattern, stalls[victims] / np.bincount(victims)[victims] if len(victims) else stalls[:0])

    def _add(self, pattern: _Pattern, cycles: NDArray[np.float64]) -> None:
        sums = np.bincount(pattern.pair, weights=cycles, minlength=len(pattern.pairs))
        for pair, added in zip(pattern.pairs, sums.tolist(), strict=True):
            self._cycles[pair] += added

    def _pattern(self, lines: Integers) -> _Pattern:
        key = lines.tobytes()
        if key not in self._patterns:
            self._patterns[key] = self._make_pattern(lines, follow(lines.tolist(), self._effects))
        return self._patterns[key]

    def _make_pattern(self, lines: Integers, links: Links) -> _Pattern:
        triples = np.stack([lines[links.victims], lines[links.causes], links.counters], axis=1)
        unique, first, pair = np.unique(triples, axis=0, return_index=True, return_inverse=True)
        names = [(int(victim), int(cause)) for victim, cause, _ in unique]
        pairs = tuple((*name, links.counter(int(link))) for name, link in zip(names, first, strict=True))
        # Links of one victim and counter stand together; the last of them is the youngest operation.
        group = links.victims * len(Counter) + links.counters
        starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]])) if len(group) else np.zeros(0, np.int64)
        sizes = np.diff(np.concatenate([starts, [len(group)]]))
        lasts = starts + sizes - 1
        youngest = np.repeat(lasts, sizes)
        alone = np.bincount(links.victims[lasts], minlength=1)[links.victims[lasts]] == 1 if len(lasts) else lasts > 0
        measuring: dict[str, list[int]] = {kind: [] for kind in _LATENCY_CLASSES}
        for link in lasts[alone].tolist():
            cause = int(lines[links.causes[link]])
            if self._kinds[cause] in measuring and not _STORES.search(self._by_line[cause].mnemonic):
                measuring[self._kinds[cause]].append(link)
        arrays = {kind: np.array(found, dtype=np.int64) for kind, found in measuring.items()}
        return _Pattern(links, pairs, pair.ravel(), youngest, arrays)


@dataclass(frozen=True, eq=False)
class _Pattern:
    """What a sequence of instructions means for every wavefront that executed it; arrays are (n_links) but the last."""

    links: Links
    pairs: tuple[tuple[int, int, Counter], ...]
    """Row that waited, row that it waited for, counter."""
    pair: Integers
    """Of each link, in `pairs`."""
    youngest: Integers
    """The link to the last operation that the same victim waited for by the same counter."""
    measuring: Mapping[str, Integers]
    """By class: links to the youngest operation of waits for one counter alone."""


def _shared(victims: Integers, starts: Integers, ends: Integers, returns: Integers) -> NDArray[np.float64]:
    """The stall [start, end) of every victim shared among its links: each moment among those whose data were still out.

    Data are taken to be as long under way as those of the youngest operation, with which the wait ended.

    Args:
        victims: Of each link, (n_links); links of one victim stand together.
        starts: Of the victim's stall.
        ends: Of the victim's stall.
        returns: When the data of the link's operation are taken to have come.
    """
    order = np.lexsort((returns, victims))
    groups = victims[order]
    is_first = np.concatenate([[True], groups[1:] != groups[:-1]])
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


def _spent(rows: Iterable[InstructionRow], all_cycles: int) -> Spent:
    hits = latency = stall = idle = 0
    for row in rows:
        hits, latency, stall, idle = hits + row.hits, latency + row.latency, stall + row.stall, idle + row.idle
    return Spent(hits, latency + idle, latency, stall, idle, (latency + idle) / all_cycles if all_cycles else 0.0)


def _by_class(
    rows: Sequence[InstructionRow], kinds: Mapping[int, InstructionClass], all_cycles: int
) -> dict[InstructionClass, Spent]:
    groups: dict[InstructionClass, list[InstructionRow]] = defaultdict(list)
    for row in rows:
        if row.hits or row.cycles:
            groups[kinds[row.line]].append(row)
    spent = {kind: _spent(group, all_cycles) for kind, group in groups.items()}
    return dict(sorted(spent.items(), key=lambda item: (-item[1].cycles, item[0])))


def _by_line(
    rows: Sequence[InstructionRow], charges: Sequence[Charge], kinds: Mapping[int, InstructionClass], all_cycles: int
) -> tuple[LineTime, ...]:
    groups: dict[str, list[InstructionRow]] = defaultdict(list)
    for row in rows:
        if row.hits or row.cycles:
            groups[_source(row)].append(row)
    moved: dict[str, float] = defaultdict(float)
    waits: dict[str, dict[tuple[str, str], float]] = defaultdict(lambda: defaultdict(float))
    for charge in charges:
        victim, cause = _source(charge.victim), _source(charge.cause)
        moved[victim] -= charge.cycles
        moved[cause] += charge.cycles
        waits[victim][cause, kinds[charge.cause.line]] += charge.cycles
    lines = []
    for source, group in groups.items():
        spent = _spent(group, all_cycles)
        caused = spent.cycles + moved[source]
        if waits[source]:
            (cause, kind), waited = max(waits[source].items(), key=lambda item: item[1])
            lines.append(LineTime(source, spent, caused, cause, kind, waited))
        else:
            lines.append(LineTime(source, spent, caused, None, None, 0.0))
    return tuple(sorted(lines, key=lambda line: (-line.spent.cycles, line.source)))


def _source(row: InstructionRow) -> str:
    return row.source_line or UNKNOWN_SOURCE


def _by_cause(charges: Sequence[Charge], kinds: Mapping[int, InstructionClass]) -> dict[InstructionClass, float]:
    sums: dict[InstructionClass, float] = defaultdict(float)
    for charge in charges:
        sums[kinds[charge.cause.line]] += charge.cycles
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))


def _hot_spots(rows: Sequence[InstructionRow], kinds: Mapping[int, InstructionClass], all_cycles: int) -> tuple[HotSpot, ...]:
    hottest = sorted((row for row in rows if row.cycles), key=lambda row: (-row.cycles, row.line))[:_HOT_SPOTS]
    return tuple(HotSpot(row, kinds[row.line], row.cycles / all_cycles) for row in hottest)


def _latency(samples: Sequence[int]) -> MemoryLatency:
    values = np.array(samples, dtype=np.float64)
    return MemoryLatency(len(values), float(values.mean()), float(np.median(values)), float(np.quantile(values, 0.9)))


def _instructions_per_cycle(waves: Sequence[Wave]) -> float | None:
    """Sum over shader engines, whose clocks differ, of their instructions by the time that they cover; then the mean."""
    engines: dict[int, list[Wave]] = defaultdict(list)
    for wave in waves:
        engines[wave.key.engine].append(wave)
    rates = []
    for group in engines.values():
        span = max(wave.end for wave in group) - min(wave.begin for wave in group)
        if span > 0:
            rates.append(sum(len(wave.instructions) for wave in group) / span)
    return sum(rates) / len(rates) if rates else None


def _limits(trace: AttTrace, total: Spent, launched_waves: float | None) -> tuple[str, ...]:
    waves = trace.waves
    engines = len({wave.key.engine for wave in waves})
    units = len({(wave.key.engine, wave.compute_unit) for wave in waves})
    seen = f"{len(waves):,} of {launched_waves:,.0f} wavefronts" if launched_waves else f"{len(waves):,} wavefronts"
    limits = [f"{seen} were traced, on {units} compute unit(s) of {engines} shader engine(s); others may differ"]
    if not waves:
        limits = ["no timelines of wavefronts: waits are charged in the order of the code, which misses loops"]
    if trace.provenance.emulated:
        limits.append("cycles are emulated by the timing model, not measured")
    life = sum(wave.cycles for wave in waves)
    if life and abs(total.cycles - life) > _SUM_TOLERANCE * life:
        limits.append(f"instructions account for {total.cycles / life:.1%} of the wavefronts' cycles")
    if holes := sum(wave.stitched is not None for wave in waves):
        limits.append(f"{holes} wavefronts have instructions without a place in the code")
    if not any(row.source for row in trace.rows):
        limits.append("the code has no source lines: compile with -g or -gline-tables-only")
    return (*limits, *trace.notes)
