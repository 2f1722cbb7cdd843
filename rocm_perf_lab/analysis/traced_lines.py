"""Time of a thread trace by instruction class and source line, and the instructions with the largest share."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rocm_perf_lab.analysis.wait_charges import Charge
    from rocm_perf_lab.rocprof.att.model import InstructionRow
    from rocm_perf_lab.toolchain.static_features import InstructionClass

UNKNOWN_SOURCE = "(no source line)"
_HOT_SPOTS = 10


@dataclass(frozen=True)
class CycleShare:
    """Cycles summed over wavefronts: `cycles` is latency + idle, `stall` is part of latency, `share` is of all cycles."""

    hits: int
    cycles: int
    latency: int
    stall: int
    idle: int
    share: float


@dataclass(frozen=True)
class LineTime:
    """Time of one source line. `caused_cycles`: its own cycles without charged waits, plus stalls it caused elsewhere."""

    source: str
    spent: CycleShare
    hidden_cycles: int
    """Waiting cycles during which other wavefronts used the SIMD. Shortening them does not save time."""
    caused_cycles: float
    waits_for: str | None
    """Line for which this line waits longest, summed over all waits, and the cycles."""
    waits_for_class: str | None
    waited_cycles: float


@dataclass(frozen=True)
class HotSpot:
    """Instruction with a large share of the time."""

    row: InstructionRow
    kind: InstructionClass
    share: float
    hidden_cycles: int
    waits_for: InstructionRow | None
    """Instruction that caused most of its stall, and the cycles, if known."""
    waited_cycles: float


def place_of(row: InstructionRow) -> str:
    """Return the source line of an instruction, or its address and mnemonic: `0x1a40 s_waitcnt`."""
    return row.source_line or f"0x{row.address:x} {row.mnemonic}"


def spent_on(rows: Iterable[InstructionRow], all_cycles: int) -> CycleShare:
    """Return the time of some rows; `all_cycles` is that of all rows."""
    hits = latency = stall = idle = 0
    for row in rows:
        hits, latency, stall, idle = hits + row.hits, latency + row.latency, stall + row.stall, idle + row.idle
    return CycleShare(hits, latency + idle, latency, stall, idle, (latency + idle) / all_cycles if all_cycles else 0.0)


def time_by_class(
    rows: Sequence[InstructionRow], kinds: Mapping[int, InstructionClass], all_cycles: int
) -> dict[InstructionClass, CycleShare]:
    """Return the time by instruction class, sorted by descending cycles."""
    groups: dict[InstructionClass, list[InstructionRow]] = defaultdict(list)
    for row in rows:
        if row.hits or row.cycles:
            groups[kinds[row.line]].append(row)
    spent = {kind: spent_on(group, all_cycles) for kind, group in groups.items()}
    return dict(sorted(spent.items(), key=lambda item: (-item[1].cycles, item[0])))


def time_by_line(
    rows: Sequence[InstructionRow],
    charges: Sequence[Charge],
    kinds: Mapping[int, InstructionClass],
    hidden: Mapping[int, int],
    all_cycles: int,
) -> tuple[LineTime, ...]:
    """Return the time by source line, sorted by descending cycles; see :class:`LineTime`."""
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
        spent = spent_on(group, all_cycles)
        caused = spent.cycles + moved[source]
        behind = sum(hidden.get(row.line, 0) for row in group)
        if waits[source]:
            (cause, kind), cycles = max(waits[source].items(), key=lambda item: item[1])
            lines.append(LineTime(source, spent, behind, caused, cause, kind, cycles))
        else:
            lines.append(LineTime(source, spent, behind, caused, None, None, 0.0))
    return tuple(sorted(lines, key=lambda line: (-line.spent.cycles, line.source)))


def _source(row: InstructionRow) -> str:
    return row.source_line or UNKNOWN_SOURCE


def hottest_instructions(
    rows: Sequence[InstructionRow],
    charges: Sequence[Charge],
    kinds: Mapping[int, InstructionClass],
    hidden: Mapping[int, int],
    all_cycles: int,
) -> tuple[HotSpot, ...]:
    """Return the instructions with most cycles, in this order."""
    largest: dict[int, Charge] = {}
    for charge in charges:  # by descending cycles
        largest.setdefault(charge.victim.line, charge)
    spots = []
    for row in sorted((row for row in rows if row.cycles), key=lambda row: (-row.cycles, row.line))[:_HOT_SPOTS]:
        main = largest.get(row.line)
        cause, cycles = (main.cause, main.cycles) if main else (None, 0.0)
        spots.append(HotSpot(row, kinds[row.line], row.cycles / all_cycles, hidden.get(row.line, 0), cause, cycles))
    return tuple(spots)
