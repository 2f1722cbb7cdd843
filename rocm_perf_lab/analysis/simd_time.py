"""Time of each traced SIMD: its units work, all of its wavefronts wait, or it has no wavefront.

A wavefront waits from the end of its previous work to the issue of its next instruction, and in waits, barriers and pauses for
their whole time. A SIMD's time is exposed while all of its wavefronts wait and its binding unit is idle. While some wavefronts
issue other instructions, the binding unit is idle because of them and because of the waiting of the others, in equal parts.
Matrix instructions occupy the matrix core for their passes, which is longer than their issue; waiting behind a busy matrix core
is not exposed if the matrix cores are the binding unit.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rocm_perf_lab.analysis.intervals import Integral, clipped, joined, length, union
from rocm_perf_lab.analysis.ledger import HardwareUnit
from rocm_perf_lab.analysis.traced_units import UNITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.analysis.access_pace import Accesses
    from rocm_perf_lab.analysis.traced_units import UnitTable
    from rocm_perf_lab.analysis.wave_times import WaveTimes
    from rocm_perf_lab.rocprof.att.model import Integers, Wave

_ARITHMETIC = 0.25
"""Use of the matrix cores or the vector unit above which scalar instructions count as control flow, not computation."""


class Simd(NamedTuple):
    """Location of a SIMD."""

    engine: int
    compute_unit: int
    simd: int


@dataclass(frozen=True, eq=False)
class SimdTime:
    """Budget of one SIMD in clocks: `span` = `binding` + `beside` + `exposed` + `empty`."""

    place: Simd
    waves: tuple[WaveTimes, ...]
    span: int
    """From the first to the last wavefront."""
    busy: Mapping[HardwareUnit, int]
    binding: int
    """Time in which the binding unit works."""
    beside: int
    """Time in which an instruction is issued, but the binding unit is idle."""
    exposed: int
    """Time in which all wavefronts wait, and the binding unit is idle."""
    empty: int
    """Without a wavefront."""
    exposure: Integral
    """Time in which the binding unit is idle, divided by the number of wavefronts present."""
    exposed_exposure: Integral
    """The part of it in which all wavefronts wait."""
    exposed_until: Integral


@dataclass(frozen=True, eq=False)
class SimdTimes:
    """All traced SIMDs, and the use of the units over their whole time (0 to 1)."""

    simds: tuple[SimdTime, ...]
    use: Mapping[HardwareUnit, float]
    binding: HardwareUnit | None
    co_issue: float
    """Mean number of wavefronts that issue vector instructions while any of them does."""

    @property
    def span(self) -> int:
        """Clocks of all SIMDs."""
        return sum(simd.span for simd in self.simds)


def simd_times(
    waves: Sequence[WaveTimes],
    table: UnitTable,
    shared_units: Mapping[HardwareUnit, Sequence[Accesses]],
    *,
    is_partial: bool = False,
) -> SimdTimes:
    """Return the time of every SIMD with traced wavefronts.

    Args:
        waves: Wavefronts with instructions.
        table: Units by row number.
        shared_units: Accesses to the units that the SIMDs of a compute unit share. Such a unit is busy while it would work if
            every access were coalesced and free of conflicts.
        is_partial: Whether later wavefronts are missing: the time counts until one of them could have started.
    """
    groups: dict[Simd, list[WaveTimes]] = defaultdict(list)
    for one in waves:
        groups[Simd(one.wave.key.engine, one.wave.compute_unit, one.wave.key.simd)].append(one)
    shared = {(unit, one.place): union(*one.ideal) for unit, units in shared_units.items() for one in units}
    found = {place: _unit_intervals(group, table) for place, group in groups.items()}
    until = _first_missing(waves) if is_partial else {}
    spans = {place: _span(group, until.get(place[:2])) for place, group in groups.items()}
    total = sum(end - begin for begin, end in spans.values())
    busy = {
        place: {unit: length(clipped(found[place].busy[number], *spans[place])) for number, unit in enumerate(UNITS)}
        for place in groups
    }
    for place in groups:
        for unit in shared_units:
            busy[place][unit] = length(clipped(shared[unit, place[:2]], *spans[place]))
    use = {unit: min(1.0, sum(one[unit] for one in busy.values()) / total) if total else 0.0 for unit in UNITS}
    binding = _binding(use)
    simds = []
    for place, group in sorted(groups.items()):
        mine = _binding_intervals(binding, place, found[place].busy, shared)
        simds.append(_simd(place, group, spans[place], (found[place].work, clipped(mine, *spans[place])), busy[place]))
    valu = sum(one.vector_clocks for one in found.values())
    covered = sum(length(one.busy[UNITS.index(HardwareUnit.VALU)]) for one in found.values())
    return SimdTimes(tuple(simds), use, binding, valu / covered if covered else 0.0)


def _binding(use: Mapping[HardwareUnit, float]) -> HardwareUnit | None:
    """Return the busiest unit. Scalar instructions count as control flow, unless there is hardly any arithmetic."""
    has_arithmetic = max(use[HardwareUnit.MATRIX], use[HardwareUnit.VALU]) >= _ARITHMETIC
    candidates = [unit for unit in UNITS if not (has_arithmetic and unit is HardwareUnit.SALU)]
    return max(candidates, key=lambda unit: use[unit]) if any(use.values()) else None


def _span(waves: Sequence[WaveTimes], until: int | None) -> tuple[int, int]:
    begin, end = min(one.wave.begin for one in waves), max(one.wave.end for one in waves)
    return begin, end if until is None else min(max(until, begin + 1), end)


def _first_missing(waves: Sequence[WaveTimes]) -> dict[tuple[int, int], int]:
    """Return the times at which, on each compute unit, an untraced wavefront may have started, because a slot is free."""
    groups: dict[tuple[int, int], list[Wave]] = defaultdict(list)
    for one in waves:
        groups[one.wave.key.engine, one.wave.compute_unit].append(one.wave)
    found = {}
    for place, group in groups.items():
        last = max(wave.begin for wave in group)
        found[place] = min((wave.end for wave in group if wave.end > last), default=last)
    return found


class _UnitIntervals(NamedTuple):
    busy: tuple[tuple[Integers, Integers], ...]
    """By index in UNITS; of shared units only the issue."""
    work: tuple[Integers, Integers]
    """Any instruction issues."""
    vector_clocks: int


def _unit_intervals(waves: Sequence[WaveTimes], table: UnitTable) -> _UnitIntervals:
    parts: list[list[tuple[Integers, Integers]]] = [[] for _ in UNITS]
    work = []
    vector = 0
    for one in waves:
        unit = table.unit[one.rows]
        for number in range(len(UNITS)):
            picked = unit == number
            starts, ends = one.issued[picked], one.done[picked]
            if UNITS[number] is HardwareUnit.MATRIX:
                clocks = table.matrix_clocks[one.rows[picked]]
                ends = np.where(clocks > 0, starts + clocks, ends)
            elif UNITS[number] is HardwareUnit.VALU:
                vector += int((ends - starts).sum())
            if len(starts):
                parts[number].append(union(starts, ends))
        work.append(union(one.issued, one.done))
    return _UnitIntervals(tuple(joined(part) for part in parts), joined(work), vector)


def _binding_intervals(
    binding: HardwareUnit | None,
    place: Simd,
    busy: Sequence[tuple[Integers, Integers]],
    shared: Mapping[tuple[HardwareUnit, tuple[int, int]], tuple[Integers, Integers]],
) -> tuple[Integers, Integers]:
    if binding is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return shared[binding, place[:2]] if (binding, place[:2]) in shared else busy[UNITS.index(binding)]


def _simd(
    place: Simd,
    waves: Sequence[WaveTimes],
    span: tuple[int, int],
    intervals: tuple[tuple[Integers, Integers], tuple[Integers, Integers]],
    busy: Mapping[HardwareUnit, int],
) -> SimdTime:
    """Return the budget of a SIMD from when any instruction issues and the binding unit works."""
    work, binding = intervals
    begin, end = span
    begins = np.sort(np.array([one.wave.begin for one in waves], dtype=np.int64))
    ends = np.sort(np.array([one.wave.end for one in waves], dtype=np.int64))
    covered = clipped(joined([work, binding]), begin, end)
    times = np.unique(np.clip(np.concatenate([*covered, *binding, begins, ends, span]), begin, end))
    present = np.searchsorted(begins, times, side="right") - np.searchsorted(ends, times, side="right")
    works = _is_inside(times, covered)
    waiting = ~works & (present > 0)
    unbound = ~_is_inside(times, binding) & (present > 0)
    lengths = np.diff(times)
    each = 1.0 / np.maximum(present, 1)
    return SimdTime(
        place=place,
        waves=tuple(waves),
        span=end - begin,
        busy=busy,
        binding=length(binding),
        beside=length(covered) - length(binding),
        exposed=int(lengths[waiting[:-1]].sum()),
        empty=int(lengths[(~works & (present <= 0))[:-1]].sum()),
        exposure=Integral.of_steps(times, np.where(unbound, each, 0.0)),
        exposed_exposure=Integral.of_steps(times, np.where(waiting, each, 0.0)),
        exposed_until=Integral.of_steps(times, waiting.astype(np.float64)),
    )


def _is_inside(times: Integers, intervals: tuple[Integers, Integers]) -> NDArray[np.bool_]:
    """Return for each time whether it is in one of the disjoint intervals."""
    starts, ends = intervals
    if not len(starts):
        return np.zeros(len(times), np.bool_)
    before = np.searchsorted(starts, times, side="right") - 1
    inside: NDArray[np.bool_] = (before >= 0) & (times < ends[np.maximum(before, 0)])
    return inside
