"""Pace of memory accesses under load: the cost of an access for its compute unit, compared with an ideal one.

A wavefront that stalls while it issues an access waits for the unit, so the distance of its issue from the previous one on
the compute unit is the time that the unit needs for one access.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.analysis.intervals import served
from rocm_perf_lab.analysis.traced_units import UNITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.analysis.intervals import Floats
    from rocm_perf_lab.analysis.ledger import HardwareUnit
    from rocm_perf_lab.analysis.traced_units import UnitTable
    from rocm_perf_lab.analysis.wait_charges import WaveWaits
    from rocm_perf_lab.analysis.wave_times import WaveTimes
    from rocm_perf_lab.rocprof.att.model import Integers

_STALLED_CLOCKS = 8
"""Minimum stall in clocks; shorter ones are arbitration."""


@dataclass(frozen=True)
class AccessPace:
    """Accesses that waited for their unit. All values are means over `samples`."""

    samples: int
    clocks: float
    """Clocks from one access to the next."""
    ideal_clocks: float
    """The same for coalesced accesses without conflicts."""
    access_bytes: float

    @property
    def slowdown(self) -> float:
        """Ratio to the ideal pace."""
        return self.clocks / self.ideal_clocks if self.ideal_clocks else 0.0

    @property
    def bytes_per_clock(self) -> float:
        """Bytes that the wavefronts request per clock of the saturated unit."""
        return self.access_bytes / self.clocks if self.clocks else 0.0


@dataclass(frozen=True, eq=False)
class Accesses:
    """Accesses of one compute unit to one unit in order of issue; all arrays have shape (n_accesses,)."""

    place: tuple[int, int]
    """Shader engine and compute unit."""
    wave: Integers
    """Index of the wavefront."""
    position: Integers
    """Index of the instruction in it."""
    rows: Integers
    """Row number."""
    attempted: Integers
    issued: Integers
    clocks: Floats
    """Ideal service time."""
    size: Integers

    @cached_property
    def ideal(self) -> tuple[Integers, Integers]:
        """Start and end of the service of each access by a unit without conflicts."""
        return served(self.issued, self.clocks)


@dataclass(frozen=True)
class LoadsInFlight:
    """Loads of the later half of the trace, when caches and translations are warm."""

    loads: int
    latency: float
    """Median clocks from issue to data."""
    bytes_per_clock: float
    """Useful bytes of loads and stores per clock and compute unit, for full wavefronts."""


def loads_in_flight(
    waves: Sequence[WaveTimes], waits: Sequence[WaveWaits | None], is_plain: Integers, units: Sequence[Accesses]
) -> LoadsInFlight | None:
    """Return latency and throughput of the loads that wavefronts waited for, of the compute unit with most accesses.

    Args:
        waves: Wavefronts with instructions.
        waits: Their waits for counters.
        is_plain: 1 for rows that access vector memory and are no atomics or spills.
        units: Accesses to vector memory of each compute unit.
    """
    busiest = max(units, key=lambda one: len(one.issued), default=None)
    if busiest is None or not len(busiest.issued):
        return None
    members = set(np.unique(busiest.wave).tolist())
    parts = []
    for number, (one, wait) in enumerate(zip(waves, waits, strict=True)):
        if wait is not None and number in members:
            loads = is_plain[one.rows[wait.links.causes]] == 1
            parts.append((one.issued[wait.links.causes[loads]], wait.returns[loads]))
    issued, returned = (np.concatenate(column) for column in zip(*parts, strict=True)) if parts else (np.zeros(0), np.zeros(0))
    if not len(issued):
        return None
    start = np.partition(issued, len(issued) // 2)[len(issued) // 2]
    later = issued >= start
    span = float(returned[later].max() - start)
    size = float(busiest.size[busiest.issued >= start].sum())
    return LoadsInFlight(int(later.sum()), float(np.median((returned - issued)[later])), size / span if span > 0 else 0.0)


def accesses(waves: Sequence[WaveTimes], table: UnitTable, unit: HardwareUnit) -> tuple[Accesses, ...]:
    """Return the accesses of each compute unit to a unit that its SIMDs share."""
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, one in enumerate(waves):
        groups[one.wave.key.engine, one.wave.compute_unit].append(number)
    return tuple(_of_unit(waves, place, numbers, table, UNITS.index(unit)) for place, numbers in groups.items())


def pace(units: Sequence[Accesses]) -> AccessPace | None:
    """Return the pace of accesses that stalled, or None if none did."""
    clocks: list[Floats] = []
    ideal: list[Floats] = []
    sizes: list[Integers] = []
    for one in units:
        if len(one.issued) < 2:
            continue
        is_next = (one.issued[1:] - one.attempted[1:] >= _STALLED_CLOCKS) & (
            one.attempted[1:] - one.issued[:-1] <= _STALLED_CLOCKS
        )
        clocks.append(np.diff(one.issued)[is_next].astype(np.float64))
        ideal.append(one.clocks[1:][is_next])
        sizes.append(one.size[1:][is_next])
    count = sum(len(part) for part in clocks)
    if not count:
        return None
    means = (float(np.concatenate(parts).mean()) for parts in (clocks, ideal, sizes))
    return AccessPace(count, *means)


def _of_unit(waves: Sequence[WaveTimes], place: tuple[int, int], numbers: Sequence[int], table: UnitTable, unit: int) -> Accesses:
    positions = [np.flatnonzero(table.unit[waves[number].rows] == unit) for number in numbers]
    picked = list(zip((waves[number] for number in numbers), positions, strict=True))
    rows = np.concatenate([one.rows[here] for one, here in picked])
    wave = np.repeat(np.array(numbers, dtype=np.int64), [len(here) for here in positions])
    attempted = np.concatenate([one.attempted[here] for one, here in picked])
    issued = np.concatenate([one.issued[here] for one, here in picked])
    order = np.argsort(issued, kind="stable")
    rows = rows[order]
    return Accesses(
        place=place,
        wave=wave[order],
        position=np.concatenate(positions)[order],
        rows=rows,
        attempted=attempted[order],
        issued=issued[order],
        clocks=table.service_clocks[rows],
        size=table.access_bytes[rows],
    )
