"""Budget of the traced SIMDs' time: work of the binding unit, other issue, exposed waits by cause, and time without wavefronts.

`trace_account.py` states it as an account of the ledger. All shares are of the time of all traced SIMDs, each from its first to
its last wavefront; they add up to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.analysis.access_pace import AccessPace, accesses, pace
from rocm_perf_lab.analysis.exposed_waits import CAUSES, UNEXPLAINED, beside_clocks, cause_table, exposed_waits
from rocm_perf_lab.analysis.ledger import Cause, HardwareUnit
from rocm_perf_lab.analysis.simd_time import simd_times, wave_times
from rocm_perf_lab.analysis.traced_units import NO_UNIT, UNITS, unit_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.analysis.access_pace import Accesses
    from rocm_perf_lab.analysis.exposed_waits import ExposedWaits
    from rocm_perf_lab.analysis.intervals import Floats
    from rocm_perf_lab.analysis.simd_time import Simd, SimdTimes, WaveTimes
    from rocm_perf_lab.analysis.traced_units import UnitTable
    from rocm_perf_lab.analysis.wait_charges import Waited, WaveWaits
    from rocm_perf_lab.arch.model import Architecture
    from rocm_perf_lab.rocprof.att.model import AttTrace, InstructionRow, Integers

_PLACES = 5
"""Largest locations of a cause that are kept."""
_LDS_LATENCY_CLOCKS = 64
"""From the end of an LDS access to its data (MI300X thread traces)."""
_LDS_TOLERANCE = 32
_COALESCED_BYTES_PER_CLOCK = 4.5
"""Below it a saturated compute unit moves less useful data than any level of the memory could deliver to coalesced accesses:
one address per clock is 4 bytes for dwords; HBM's share of one compute unit is 6 to 8 bytes."""
_CONFLICTED = 1.5
"""Ratio of the pace of LDS accesses to the ideal one."""
_LAUNCH_CLOCKS = 400
"""From the end of a wavefront to the start of the next one on an empty SIMD, at most: 56 to 304 clocks between workgroups in
MI300X thread traces. A longer gap is a slot that other wavefronts of its workgroup still hold."""
_FEWEST_SAMPLES = 8
_SATURATED = 0.1
"""Share of accesses that must stall for the unit to be at its limit."""
_AT_LIMIT = 0.8
"""Share of the time for which a unit at its limit is busy, with its accesses as slow as they are."""


@dataclass(frozen=True)
class LostPlace:
    """Instruction that a loss is charged to; `row` is None for instructions outside the code."""

    row: InstructionRow | None
    share: float


@dataclass(frozen=True)
class LostTime:
    """Lost time of one cause as a share of the SIMDs' time. `gain` is the upper bound of what removing the cause saves."""

    cause: Cause
    share: float
    gain: float
    places: tuple[LostPlace, ...]
    """Largest first."""


@dataclass(frozen=True)
class SimdUse:
    """Budget of one SIMD in clocks: `span` = `binding` + `beside` + `exposed` + `empty`."""

    place: Simd
    waves: int
    span: int
    busy: Mapping[HardwareUnit, int]
    binding: int
    beside: int
    exposed: int
    empty: int


@dataclass(frozen=True)
class TraceBudget:
    """Budget of all traced SIMDs."""

    simds: tuple[SimdUse, ...]
    span: int
    """Clocks of all SIMDs."""
    use: Mapping[HardwareUnit, float]
    """Share of the time in which each unit works. LDS and vector memory: for ideal accesses, of the compute unit."""
    binding: HardwareUnit | None
    co_issue: float
    """Mean number of wavefronts that issue vector instructions while any does."""
    exposed: float
    lost: tuple[LostTime, ...]
    """Largest first."""
    unexplained: float
    vector_pace: AccessPace | None
    """Of vector memory accesses that stalled."""
    lds_pace: AccessPace | None
    lds_excess: float
    """Share of the waits for LDS beyond the time of accesses without conflicts."""
    barriers: int
    barrier_late_clocks: float
    """Mean clocks from the first to the last wavefront at a barrier."""
    requested_bytes_per_clock: float
    """By vector memory accesses of full wavefronts, per compute unit."""
    knows_matrix_rates: bool
    """False if the busy time of a matrix instruction is its issue time, for lack of the architecture."""


def trace_budget(
    trace: AttTrace, rows: Sequence[InstructionRow], waited: Waited, architecture: Architecture | None
) -> TraceBudget | None:
    """Return the budget, or None without wavefronts that executed instructions.

    Args:
        trace: Trace of one kernel.
        rows: All rows of the code, sorted by line.
        waited: Waits of its wavefronts.
        architecture: Its matrix rates apply; None if unknown.
    """
    table = unit_table(rows, waited.row_numbers, architecture)
    causes = cause_table(rows, waited.row_numbers)
    picked = [number for number, wave in enumerate(trace.waves) if len(wave.instructions)]
    if not picked:
        return None
    gfxip = trace.provenance.gfxip
    waves = [wave_times(trace.waves[number], waited.rows[number], causes.is_wait, gfxip) for number in picked]
    waits = [waited.waits[number] for number in picked]
    times = simd_times(waves, table, is_partial=trace.provenance.is_partial)
    if not times.span:
        return None
    exposed = exposed_waits(waves, waits, times, causes)
    lds, vector = (accesses(waves, table, unit) for unit in (HardwareUnit.LDS, HardwareUnit.VMEM_ISSUE))
    lds_pace, vector_pace = pace(lds), pace(vector)
    excess = _lds_excess(waves, waits, lds, causes.wait)
    _tell_apart(exposed, excess, lds_pace, vector_pace if _is_uncoalesced(vector_pace) else None)
    binding = UNITS.index(times.binding) if times.binding else NO_UNIT
    beside = beside_clocks(times, table, binding)
    exposed.clocks[CAUSES.index(Cause.INSTRUCTION_OVERHEAD)] += beside
    exposed.gain[CAUSES.index(Cause.INSTRUCTION_OVERHEAD)] += beside.sum()
    saturated = [(Cause.LDS_BANK_CONFLICTS, HardwareUnit.LDS, lds_pace, lds)]
    if _is_uncoalesced(vector_pace):
        saturated.append((Cause.UNCOALESCED_ACCESS, HardwareUnit.VMEM_ISSUE, vector_pace, vector))
    for cause, unit, found, units in saturated:
        if found is not None and _is_saturated(found, units):
            _charge_saturation(exposed, cause, units, _lost_to_pace(found, unit, times))
    empty = {Cause.LAUNCH_OVERHEAD: 0, Cause.TAIL: 0}
    for simd in times.simds:
        launching = min(simd.empty, _LAUNCH_CLOCKS * len(simd.waves))
        empty[Cause.LAUNCH_OVERHEAD] += launching
        empty[Cause.TAIL] += simd.empty - launching
    return TraceBudget(
        simds=_simds(times),
        span=times.span,
        use=times.use,
        binding=times.binding,
        co_issue=times.co_issue,
        exposed=sum(simd.exposed for simd in times.simds) / times.span,
        lost=_lost(exposed, rows, times.span, empty),
        unexplained=float(exposed.clocks[UNEXPLAINED].sum()) / times.span,
        vector_pace=vector_pace,
        lds_pace=lds_pace,
        lds_excess=excess,
        barriers=exposed.barriers.episodes,
        barrier_late_clocks=exposed.barriers.late_clocks,
        requested_bytes_per_clock=_requested(vector),
        knows_matrix_rates=not _unknown_rates(waves, table),
    )


def _simds(times: SimdTimes) -> tuple[SimdUse, ...]:
    return tuple(SimdUse(s.place, len(s.waves), s.span, s.busy, s.binding, s.beside, s.exposed, s.empty) for s in times.simds)


def _lost(exposed: ExposedWaits, rows: Sequence[InstructionRow], span: int, empty: Mapping[Cause, int]) -> tuple[LostTime, ...]:
    found = []
    for number, cause in enumerate(CAUSES):
        clocks = exposed.clocks[number]
        total = float(clocks.sum()) + empty.get(cause, 0)
        gain = float(exposed.gain[number]) + empty.get(cause, 0)
        if total < 1:
            continue
        largest = [place for place in np.argsort(-clocks, kind="stable")[:_PLACES].tolist() if clocks[place] > 0]
        places = tuple(LostPlace(rows[p] if p < len(rows) else None, float(clocks[p]) / span) for p in largest)
        found.append(LostTime(cause, total / span, min(1.0, max(gain, total) / span), places))
    return tuple(sorted(found, key=lambda lost: (-lost.share, lost.cause)))


def _is_uncoalesced(pace: AccessPace | None) -> bool:
    return pace is not None and pace.samples >= _FEWEST_SAMPLES and pace.bytes_per_clock <= _COALESCED_BYTES_PER_CLOCK


def _is_saturated(pace: AccessPace, units: Sequence[Accesses]) -> bool:
    return pace.samples >= max(_FEWEST_SAMPLES, _SATURATED * sum(len(one.issued) for one in units))


def _tell_apart(exposed: ExposedWaits, excess: float, lds: AccessPace | None, uncoalesced: AccessPace | None) -> None:
    """Move waits whose amount shows conflicts or uncoalesced accesses to these causes."""
    if lds is not None and lds.samples >= _FEWEST_SAMPLES and lds.slowdown >= _CONFLICTED:
        excess = max(excess, 1 - 1 / lds.slowdown)
    _move(exposed, Cause.LDS_LATENCY, Cause.LDS_BANK_CONFLICTS, excess)
    if uncoalesced is not None:
        _move(exposed, Cause.MEMORY_BACKPRESSURE, Cause.UNCOALESCED_ACCESS, 1.0)


def _lost_to_pace(pace: AccessPace, unit: HardwareUnit, times: SimdTimes) -> float:
    """Return the clocks that a unit at its limit costs because its accesses are slower than ideal ones; 0 if it has reserves.

    Without the slow accesses, the kernel would be limited by the unit that is busiest then.
    """
    real = min(1.0, times.use[unit] * pace.slowdown)
    if pace.slowdown < _CONFLICTED or real < _AT_LIMIT:
        return 0.0
    return max(0.0, real - max(times.use.values())) * times.span


def _charge_saturation(exposed: ExposedWaits, cause: Cause, units: Sequence[Accesses], clocks: float) -> None:
    """Raise the time of a cause to `clocks`, at the expense of all others: they are what a SIMD does behind the full unit."""
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


def _lds_excess(
    waves: Sequence[WaveTimes], waits: Sequence[WaveWaits | None], units: Sequence[Accesses], wait_cause: Integers
) -> float:
    """Return the part of the waits for LDS that accesses without conflicts would not have needed."""
    ends = [np.zeros(len(one.rows), np.int64) for one in waves]
    for unit in units:
        ideal = unit.ideal_ends()
        for wave in np.unique(unit.wave).tolist():
            mine = unit.wave == wave
            ends[wave][unit.position[mine]] = ideal[mine]
    is_lds = wait_cause == CAUSES.index(Cause.LDS_LATENCY)
    waited = beyond = 0.0
    for one, wait, ideal in zip(waves, waits, ends, strict=True):
        if wait is None:
            continue
        causes = wait.links.causes
        lasts = np.append(wait.links.victims[1:] != wait.links.victims[:-1], True)
        mine = lasts & is_lds[one.rows[causes]] & (ideal[causes] > 0) & (wait.ends - wait.starts > _LDS_TOLERANCE)
        spent = (wait.ends - wait.starts)[mine]
        late = wait.ends[mine] - (ideal[causes[mine]] + _LDS_LATENCY_CLOCKS + _LDS_TOLERANCE)
        waited += float(spent.sum())
        beyond += float(np.clip(late, 0, spent).sum())
    return beyond / waited if waited else 0.0


def _requested(units: Sequence[Accesses]) -> float:
    spans: Floats = np.array([one.issued[-1] - one.issued[0] for one in units if len(one.issued)], dtype=np.float64)
    size = sum(int(one.size.sum()) for one in units)
    return size / float(spans.sum()) if len(spans) and spans.sum() else 0.0


def _unknown_rates(waves: Sequence[WaveTimes], table: UnitTable) -> bool:
    unknown = (table.unit == UNITS.index(HardwareUnit.MATRIX)) & (table.matrix_clocks == 0)
    return bool(unknown.any()) and any(unknown[one.rows].any() for one in waves)
