"""Waits at barriers, charged to the wavefront that arrives last and to its instructions during the wait.

Wavefronts of one workgroup leave a barrier together: waits at one barrier of one compute unit whose ends are at most a few clocks
apart are one episode. Workgroup identifiers separate episodes further if the trace has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.analysis.intervals import Integral

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.analysis.intervals import Floats
    from rocm_perf_lab.analysis.wave_times import WaveTimes
    from rocm_perf_lab.rocprof.att.model import Integers

_RELEASE_CLOCKS = 8
"""Largest distance between two releases of one barrier (MI300X thread traces: all wavefronts within 4)."""
_MORE_WORK = 1.25
"""Ratio of executed instructions since the previous barrier from which the last wavefront did more work than a waiting one."""
_MORE_INSTRUCTIONS = 8


@dataclass(frozen=True, eq=False)
class BarrierWaits:
    """Exposed waits at barriers; the sequences are parallel to the wavefronts."""

    forwarded: tuple[Integral, ...]
    """Waits for this wavefront while it did the same work as the others, distributed over the time of that work."""
    imbalanced: tuple[Integral, ...]
    """Waits for this wavefront while it executed more instructions than the others."""
    moved: tuple[Integers, ...]
    """Positions of the barriers at which this wavefront waited for another one."""
    episodes: int
    late_clocks: float
    """Mean clocks from the first to the last arrival."""


def barrier_waits(waves: Sequence[WaveTimes], exposures: Sequence[Integral], is_barrier: Integers) -> BarrierWaits:
    """Find the barriers of all wavefronts.

    Args:
        waves: Wavefronts of one trace.
        exposures: Exposed cycles of each wavefront's SIMD, divided among its wavefronts.
        is_barrier: 1 for rows that are barriers, by row number.
    """
    table = _arrivals(waves, exposures, is_barrier)
    nothing = (Integral.zero(),) * len(waves)
    if not len(table.wave):
        return BarrierWaits(nothing, nothing, (np.zeros(0, np.int64),) * len(waves), 0, 0.0)
    order = np.lexsort((table.released, table.place))
    table = table.taken(order)
    is_new = np.concatenate([[True], (np.diff(table.place) != 0) | (np.diff(table.released) > _RELEASE_CLOCKS)])
    episode = np.cumsum(is_new) - 1
    starts = np.flatnonzero(is_new)
    arrived_last = np.lexsort((table.arrived, episode))[np.append(starts[1:], len(episode)) - 1]
    first_arrival = np.minimum.reduceat(table.arrived, starts)
    last = arrived_last[episode]
    waits = (table.wave != table.wave[last]) & (table.arrived < table.arrived[last])
    more = table.instructions[last] > _MORE_WORK * table.instructions + _MORE_INSTRUCTIONS
    several = np.diff(np.append(starts, len(episode))) > 1
    late = (table.arrived[arrived_last] - first_arrival)[several]
    return BarrierWaits(
        forwarded=_spread(table, last, waits & ~more, len(waves)),
        imbalanced=_spread(table, last, waits & more, len(waves)),
        moved=tuple(table.position[waits & (table.wave == number)] for number in range(len(waves))),
        episodes=int(several.sum()),
        late_clocks=float(late.mean()) if len(late) else 0.0,
    )


@dataclass(frozen=True, eq=False)
class _Arrivals:
    """Barriers of all wavefronts; all arrays have shape (n_barriers,)."""

    wave: Integers
    position: Integers
    place: Integers
    """Number of the compute unit, barrier and workgroup."""
    arrived: Integers
    released: Integers
    instructions: Integers
    """Executed since the previous barrier."""
    exposed: Floats

    def taken(self, order: Integers) -> _Arrivals:
        return _Arrivals(
            self.wave[order],
            self.position[order],
            self.place[order],
            self.arrived[order],
            self.released[order],
            self.instructions[order],
            self.exposed[order],
        )


def _arrivals(waves: Sequence[WaveTimes], exposures: Sequence[Integral], is_barrier: Integers) -> _Arrivals:
    numbers: dict[tuple[int, int, int, int], int] = {}
    parts: list[tuple[Integers, ...]] = []
    exposed = []
    for number, (one, exposure) in enumerate(zip(waves, exposures, strict=True)):
        position = np.flatnonzero(is_barrier[one.rows])
        if not len(position):
            continue
        wave = one.wave
        group = -1 if wave.workgroup is None else wave.workgroup
        rows, inverse = np.unique(one.rows[position], return_inverse=True)
        keys = [numbers.setdefault((wave.key.engine, wave.compute_unit, group, row), len(numbers)) for row in rows.tolist()]
        place = np.array(keys, dtype=np.int64)[inverse.ravel()]
        arrived, released = one.attempted[position], one.issued[position]
        parts.append((np.full(len(position), number), position, place, arrived, released, np.diff(position, prepend=-1)))
        exposed.append(exposure.at(released) - exposure.at(arrived))
    if not parts:
        none = np.zeros(0, np.int64)
        return _Arrivals(none, none, none, none, none, none, np.zeros(0))
    members, positions, places, arrivals, releases, executed = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _Arrivals(members, positions, places, arrivals, releases, executed, np.concatenate(exposed))


def _spread(table: _Arrivals, last: Integers, waits: NDArray[np.bool_], waves: int) -> tuple[Integral, ...]:
    found = []
    for number in range(waves):
        mine = np.flatnonzero(waits & (table.wave[last] == number) & (table.exposed > 0))
        found.append(Integral.of_spread(table.arrived[mine], table.arrived[last[mine]], table.exposed[mine]))
    return tuple(found)
