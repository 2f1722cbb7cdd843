"""Waits behind accesses that are slower than ideal ones: LDS bank conflicts and uncoalesced accesses to vector memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.analysis.exposed_waits import CAUSES
from rocm_perf_lab.analysis.ledger import Cause, HardwareUnit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.analysis.access_pace import Accesses, AccessPace, LoadsInFlight
    from rocm_perf_lab.analysis.exposed_waits import ExposedWaits
    from rocm_perf_lab.analysis.simd_time import SimdTimes
    from rocm_perf_lab.analysis.wait_charges import WaveWaits
    from rocm_perf_lab.analysis.wave_times import WaveTimes
    from rocm_perf_lab.rocprof.att.model import Integers

_LDS_LATENCY_CLOCKS = 64
"""Clocks from the end of an LDS access to its data (MI300X thread traces)."""
_LDS_TOLERANCE = 32
_COALESCED_BYTES_PER_CLOCK = 6.0
"""Bytes per clock below which a saturated compute unit moves less useful data than any memory level could deliver to coalesced
accesses: one address per clock is 4 bytes for dwords; one compute unit's share of HBM is 6 to 8 bytes."""
QUEUED_CLOCKS = 1600
"""Latency of loads that queue for bandwidth: twice that of DRAM."""
_FEWEST_LOADS = 48
_CONFLICTED = 1.5
"""Minimum ratio of the pace of LDS accesses to the ideal pace."""
_FEWEST_SAMPLES = 8
_SATURATED = 0.1
"""Share of accesses that must stall for the unit to be at its limit."""
_AT_LIMIT = 0.8
"""Share of the time for which a unit at its limit is busy, with its accesses as slow as they are."""


@dataclass(frozen=True, eq=False)
class SlowAccesses:
    """Exposed waits whose causes depend on the pace of accesses; the methods change `exposed` in place."""

    exposed: ExposedWaits
    times: SimdTimes
    lds: Sequence[Accesses]
    vector: Sequence[Accesses]
    lds_pace: AccessPace | None
    vector_pace: AccessPace | None
    in_flight: LoadsInFlight | None

    def tell_waits_apart(self, lds_excess: float) -> None:
        """Move waits whose length shows conflicts or uncoalesced accesses to these causes.

        Args:
            lds_excess: Share of the waits for LDS beyond the time of accesses without conflicts.
        """
        lds, vector = self.lds_pace, self.vector_pace
        if lds is not None and lds.samples >= _FEWEST_SAMPLES and lds.slowdown >= _CONFLICTED:
            lds_excess = max(lds_excess, 1 - 1 / lds.slowdown)
        _move(self.exposed, Cause.LDS_LATENCY, Cause.LDS_BANK_CONFLICTS, lds_excess)
        if vector is not None and _is_uncoalesced(vector):
            _move(self.exposed, Cause.MEMORY_BACKPRESSURE, Cause.UNCOALESCED_ACCESS, 1.0)
            if _is_saturated(vector, self.vector):
                full = min(1.0, self.times.use[HardwareUnit.VMEM_ISSUE] * vector.slowdown)
                _move(self.exposed, Cause.MEMORY_LATENCY, Cause.UNCOALESCED_ACCESS, full)
                _move(self.exposed, Cause.STORE_DRAIN, Cause.UNCOALESCED_ACCESS, full)
        if self._is_queue_inefficient:
            _move(self.exposed, Cause.MEMORY_LATENCY, Cause.UNCOALESCED_ACCESS, 1.0)
            _move(self.exposed, Cause.MEMORY_BACKPRESSURE, Cause.UNCOALESCED_ACCESS, 1.0)

    def charge_full_units(self) -> None:
        """Charge the time of a unit that is saturated only because its accesses are slow, at the expense of all other causes."""
        lds, vector = self.lds_pace, self.vector_pace
        if lds is not None and _is_saturated(lds, self.lds):
            _charge(self.exposed, Cause.LDS_BANK_CONFLICTS, self.lds, _lost_to_pace(lds, HardwareUnit.LDS, self.times))
        if vector is not None and _is_uncoalesced(vector) and _is_saturated(vector, self.vector):
            clocks = _lost_to_pace(vector, HardwareUnit.VMEM_ISSUE, self.times)
            _charge(self.exposed, Cause.UNCOALESCED_ACCESS, self.vector, clocks)

    @property
    def _is_queue_inefficient(self) -> bool:
        """Return whether loads queue for a long time although little useful data is moved."""
        flight = self.in_flight
        return (
            flight is not None
            and flight.loads >= _FEWEST_LOADS
            and flight.latency >= QUEUED_CLOCKS
            and flight.bytes_per_clock <= _COALESCED_BYTES_PER_CLOCK
        )


def lds_excess(
    waves: Sequence[WaveTimes], waits: Sequence[WaveWaits | None], units: Sequence[Accesses], wait_cause: Integers
) -> float:
    """Return the part of the waits for LDS that accesses without conflicts would not have needed."""
    starts = np.cumsum([0, *(len(one.rows) for one in waves)])
    ends = np.zeros(starts[-1], np.int64)
    for unit in units:
        ends[starts[unit.wave] + unit.position] = unit.ideal[1]
    is_lds = wait_cause == CAUSES.index(Cause.LDS_LATENCY)
    waited = beyond = 0.0
    for one, wait, start in zip(waves, waits, starts[:-1].tolist(), strict=True):
        if wait is None:
            continue
        ideal = ends[start : start + len(one.rows)]
        causes = wait.links.causes
        lasts = np.append(wait.links.victims[1:] != wait.links.victims[:-1], True)
        mine = lasts & is_lds[one.rows[causes]] & (ideal[causes] > 0) & (wait.ends - wait.starts > _LDS_TOLERANCE)
        spent = (wait.ends - wait.starts)[mine]
        late = wait.ends[mine] - (ideal[causes[mine]] + _LDS_LATENCY_CLOCKS + _LDS_TOLERANCE)
        waited += float(spent.sum())
        beyond += float(np.clip(late, 0, spent).sum())
    return beyond / waited if waited else 0.0


def _is_uncoalesced(pace: AccessPace) -> bool:
    return pace.samples >= _FEWEST_SAMPLES and pace.bytes_per_clock <= _COALESCED_BYTES_PER_CLOCK


def _is_saturated(pace: AccessPace, units: Sequence[Accesses]) -> bool:
    return pace.samples >= max(_FEWEST_SAMPLES, _SATURATED * sum(len(one.issued) for one in units))


def _lost_to_pace(pace: AccessPace, unit: HardwareUnit, times: SimdTimes) -> float:
    """Return the clocks lost at a saturated unit because its accesses are slower than ideal ones; 0 if it is not saturated.

    Without the slow accesses, the next busiest unit would be the limit.
    """
    real = min(1.0, times.use[unit] * pace.slowdown)
    if pace.slowdown < _CONFLICTED or real < _AT_LIMIT:
        return 0.0
    return max(0.0, real - max(times.use.values())) * times.span


def _charge(exposed: ExposedWaits, cause: Cause, units: Sequence[Accesses], clocks: float) -> None:
    """Raise the time of a cause to `clocks`, at the expense of all others, which are hidden behind the saturated unit."""
    number = CAUSES.index(cause)
    mine = float(exposed.clocks[number].sum())
    others = float(exposed.clocks.sum()) - mine
    extra = min(clocks - mine, others)
    weights = sum(np.bincount(one.rows, weights=one.clocks, minlength=exposed.clocks.shape[1]) for one in units)
    if extra <= 0 or not np.sum(weights):
        return
    kept = 1 - extra / others
    exposed.clocks[:number] *= kept
    exposed.clocks[number + 1 :] *= kept
    exposed.gain[:number] *= kept
    exposed.gain[number + 1 :] *= kept
    exposed.clocks[number] += extra * weights / np.sum(weights)
    exposed.gain[number] = max(exposed.gain[number], mine + extra)


def _move(exposed: ExposedWaits, cause: Cause, other: Cause, share: float) -> None:
    source, to = CAUSES.index(cause), CAUSES.index(other)
    exposed.clocks[to] += share * exposed.clocks[source]
    exposed.clocks[source] *= 1 - share
    exposed.gain[to] = max(exposed.gain[to], share * exposed.gain[source])
    exposed.gain[source] *= 1 - share
