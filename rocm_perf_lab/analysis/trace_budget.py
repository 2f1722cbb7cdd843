"""Budget of the traced SIMDs' time: work of the binding unit, other issue, exposed waits by cause, and time without wavefronts.

`trace_account.py` states it as an account of the ledger. All shares are of the time of all traced SIMDs, each from its first to
its last wavefront; they add up to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.analysis.access_pace import AccessPace, accesses, loads_in_flight, pace
from rocm_perf_lab.analysis.exposed_waits import CAUSES, UNEXPLAINED, beside_clocks, cause_table, exposed_waits
from rocm_perf_lab.analysis.ledger import Cause, HardwareUnit
from rocm_perf_lab.analysis.serial_chain import chained_share
from rocm_perf_lab.analysis.simd_time import simd_times
from rocm_perf_lab.analysis.slow_accesses import SlowAccesses, lds_excess
from rocm_perf_lab.analysis.traced_units import UNITS, unit_table
from rocm_perf_lab.analysis.wave_times import wave_times
from rocm_perf_lab.rocprof.att.model import Column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.analysis.access_pace import Accesses, LoadsInFlight
    from rocm_perf_lab.analysis.exposed_waits import ExposedWaits
    from rocm_perf_lab.analysis.intervals import Floats
    from rocm_perf_lab.analysis.simd_time import Simd, SimdTimes
    from rocm_perf_lab.analysis.traced_units import UnitTable
    from rocm_perf_lab.analysis.wait_charges import Waited
    from rocm_perf_lab.analysis.wave_times import WaveTimes
    from rocm_perf_lab.arch.model import Architecture
    from rocm_perf_lab.rocprof.att.model import AttTrace, InstructionRow, Wave

_PLACES = 5
"""Maximum number of locations per cause."""
_LATEST = 1 << 48
"""Largest plausible time in clocks, a day and a half."""
_OVERHANG = 1 << 20
"""Clocks by which an instruction may end after its wavefront."""
_MUCH_ISSUE = 0.02
"""Minimum share of the time of instructions on other units for which their dependences are analysed."""
_ROUNDING = 1e-6
"""Rounding error in clocks of differences of fractions."""
_LAUNCH_CLOCKS = 400
"""From the end of a wavefront to the start of the next one on an empty SIMD, at most: 56 to 304 clocks between workgroups in
MI300X thread traces. During a longer gap, other wavefronts of the workgroup still hold the slot."""


@dataclass(frozen=True)
class LostPlace:
    """Instruction to which a loss is charged; `row` is None for instructions outside the code."""

    row: InstructionRow | None
    share: float


@dataclass(frozen=True)
class LostTime:
    """Lost time of one cause as a share of the SIMDs' time. `gain` is an upper bound of the saved share."""

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
    in_flight: LoadsInFlight | None
    lds_pace: AccessPace | None
    lds_excess: float
    """Share of the waits for LDS beyond the time of accesses without conflicts."""
    barriers: int
    barrier_late_clocks: float
    """Mean clocks from the first to the last wavefront at a barrier."""
    requested_bytes_per_clock: float
    """By vector memory accesses of full wavefronts, per compute unit."""
    damaged_waves: int
    """Number of wavefronts with inconsistent times, which are excluded."""
    knows_matrix_rates: bool
    """False if the busy time of matrix instructions is assumed to be their issue time, because the architecture is unknown."""


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
    picked = [number for number, wave in enumerate(trace.waves) if _is_sound(wave)]
    if not picked:
        return None
    gfxip = trace.provenance.gfxip
    waves = [wave_times(trace.waves[number], waited.rows[number], causes.is_wait, gfxip) for number in picked]
    waits = [waited.waits[number] for number in picked]
    lds, vector = (accesses(waves, table, unit) for unit in (HardwareUnit.LDS, HardwareUnit.VMEM_ISSUE))
    shared = {HardwareUnit.LDS: lds, HardwareUnit.VMEM_ISSUE: vector}
    times = simd_times(waves, table, shared, is_partial=trace.provenance.is_partial)
    if not times.span:
        return None
    exposed = exposed_waits(waves, waits, times, causes)
    lds_pace, vector_pace = pace(lds), pace(vector)
    in_flight = loads_in_flight(waves, waits, causes.is_plain_memory, vector)
    slow = SlowAccesses(exposed, times, lds, vector, lds_pace, vector_pace, in_flight)
    excess = lds_excess(waves, waits, lds, causes.wait)
    slow.tell_waits_apart(excess)
    beside = beside_clocks(times, waited.row_numbers)
    chained = beside * chained_share(waves, rows, waited.row_numbers) if beside.sum() >= _MUCH_ISSUE * times.span else 0 * beside
    for cause, issue in ((Cause.DEPENDENCY, chained), (Cause.INSTRUCTION_OVERHEAD, beside - chained)):
        exposed.clocks[CAUSES.index(cause)] += issue
        exposed.gain[CAUSES.index(cause)] += issue.sum()
    slow.charge_full_units()
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
        unexplained=max(0.0, float(exposed.clocks[UNEXPLAINED].sum())) / times.span,
        vector_pace=vector_pace,
        in_flight=in_flight,
        lds_pace=lds_pace,
        lds_excess=excess,
        barriers=exposed.barriers.episodes,
        barrier_late_clocks=exposed.barriers.late_clocks,
        requested_bytes_per_clock=_requested(vector),
        damaged_waves=sum(len(wave.instructions) > 0 for wave in trace.waves) - len(picked),
        knows_matrix_rates=not _unknown_rates(waves, table),
    )


def _is_sound(wave: Wave) -> bool:
    """Return whether a wavefront has instructions, which are in order of time and have no negative durations."""
    one = wave.instructions
    if not len(one) or wave.end < wave.begin or max(abs(wave.begin), abs(wave.end)) > _LATEST:
        return False
    ends = one[:, Column.TIME].astype(np.int64) + one[:, Column.DURATION]
    in_order = (one[1:, Column.TIME] >= one[:-1, Column.TIME]).all()
    lasting = (one[:, Column.STALL] >= 0).all() and (one[:, Column.DURATION] >= one[:, Column.STALL]).all()
    return bool(in_order and lasting and one[0, Column.TIME] >= wave.begin and ends.max() <= wave.end + _OVERHANG)


def _simds(times: SimdTimes) -> tuple[SimdUse, ...]:
    return tuple(SimdUse(s.place, len(s.waves), s.span, s.busy, s.binding, s.beside, s.exposed, s.empty) for s in times.simds)


def _lost(exposed: ExposedWaits, rows: Sequence[InstructionRow], span: int, empty: Mapping[Cause, int]) -> tuple[LostTime, ...]:
    found = []
    for number, cause in enumerate(CAUSES):
        clocks = exposed.clocks[number]
        total = float(clocks.sum()) + empty.get(cause, 0)
        gain = float(exposed.gain[number]) + empty.get(cause, 0)
        if total < _ROUNDING:
            continue
        largest = [place for place in np.argsort(-clocks, kind="stable")[:_PLACES].tolist() if clocks[place] > 0]
        places = tuple(LostPlace(rows[p] if p < len(rows) else None, float(clocks[p]) / span) for p in largest)
        found.append(LostTime(cause, total / span, min(1.0, max(gain, total) / span), places))
    return tuple(sorted(found, key=lambda lost: (-lost.share, lost.cause)))


def _requested(units: Sequence[Accesses]) -> float:
    spans: Floats = np.array([one.issued[-1] - one.issued[0] for one in units if len(one.issued)], dtype=np.float64)
    size = sum(int(one.size.sum()) for one in units)
    return size / float(spans.sum()) if len(spans) and spans.sum() else 0.0


def _unknown_rates(waves: Sequence[WaveTimes], table: UnitTable) -> bool:
    unknown = (table.unit == UNITS.index(HardwareUnit.MATRIX)) & (table.matrix_clocks == 0)
    return bool(unknown.any()) and any(unknown[one.rows].any() for one in waves)
