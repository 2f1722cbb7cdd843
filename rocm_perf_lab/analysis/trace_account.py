"""Account of a thread trace for the ledger of lost time.

The trace covers the wavefronts of a few compute units. Its shares are of the time of their SIMDs; if the duration of the kernel
and the clock are known, they are scaled to the kernel's duration.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.ledger import Account, Cause, Evidence, HardwareUnit, Source, TimePart, UnitUse
from rocm_perf_lab.analysis.missing_counters import has_dram_traffic
from rocm_perf_lab.analysis.traced_lines import place_of
from rocm_perf_lab.analysis.traced_memory import memory_uses, requested_gb_per_s
from rocm_perf_lab.analysis.unseen_time import trace_coverage, unseen_time

if TYPE_CHECKING:
    from rocm_perf_lab.analysis.executed_code import ExecutedCode
    from rocm_perf_lab.analysis.thread_trace import ThreadTrace
    from rocm_perf_lab.analysis.trace_budget import LostTime, TraceBudget
    from rocm_perf_lab.profiling.profile import Profile

_SMALLEST = 0.005
_MOSTLY_COVERED = 0.5
_LEAST_OVERHEAD = 0.1
_LONG_PROLOGUE = 0.3
_VARIED = 0.5
_MANY_WAVES = 8
_MOSTLY_MASKED = 0.6
_IDLE_LANES, _LANES_CONFIDENCE = 0.6, 0.55
"""Assumed share of idle lanes in divergent code: half in a branch with two sides, more in a loop, which runs until its last lane
leaves it."""
_PARTIAL_CONFIDENCE = 0.8
_BANDWIDTH_SUSPECTED = 0.5
_MEMORY_MISSING = "the bytes that the kernel moved, which a trace does not record: {}"
_HOW_TO_COUNT = {
    False: "rocprofv3 --pmc FETCH_SIZE WRITE_SIZE -- APPLICATION",
    True: "passes.counters=[FETCH_SIZE,WRITE_SIZE]",
}
"""Command by whether times are emulated."""
_CONFIDENCE = {
    Cause.MEMORY_LATENCY: 0.85,
    Cause.MEMORY_BACKPRESSURE: 0.75,
    Cause.UNCOALESCED_ACCESS: 0.75,
    Cause.LDS_BANK_CONFLICTS: 0.8,
    Cause.INSTRUCTION_CACHE: 0.7,
    Cause.DEPENDENCY: 0.75,
    Cause.INSTRUCTION_OVERHEAD: 0.7,
    Cause.LAUNCH_OVERHEAD: 0.6,
}
_USUAL_CONFIDENCE = 0.8


def trace_account(trace: ThreadTrace, profile: Profile | None = None, code: ExecutedCode | None = None) -> Account:
    """Return the account of a thread trace.

    Args:
        trace: Analysed trace.
        profile: Profile of the same kernel, for its duration and the memory bandwidth of its GPU; None if unknown.
        code: Executed instructions, to tell useful arithmetic from that of addresses and conditions; None if unknown.
    """
    budget = trace.budget
    if budget is None:
        missing = "wavefronts in detail: choose another --att-target-cu or more shader engines, or launch more workgroups"
        return Account(Source.THREAD_TRACE, missing=(missing,), notes=trace.limits)
    coverage = trace_coverage(trace, budget, profile)
    covered = coverage.share * coverage.mean_work
    bandwidth = _bandwidth_share(trace, budget, profile)
    reliable = _representative(trace)
    losses = tuple(
        part
        for lost in budget.lost
        if lost.share * covered >= _SMALLEST
        for part in _parts(trace, lost, covered, reliable, bandwidth)
    )
    useless = _useless_share(trace, budget, code)
    idle_lanes = _idle_lanes(trace, budget, profile, reliable)
    if idle_lanes is not None:
        useless = {}
        losses += (replace(idle_lanes, share=(idle_lanes.share or 0.0) * covered, gain=(idle_lanes.gain or 0.0) * covered),)
    wasted = {unit: _useless_part(budget, unit, share, covered, reliable) for unit, share in useless.items()}
    losses += tuple(wasted.values())
    if profile is not None and not profile.counter_passes:
        losses += tuple(unseen_time(trace, profile, coverage))
    units = tuple(
        UnitUse(
            unit,
            (share - _wasted_lanes(unit, idle_lanes)) * covered - ((wasted[unit].share or 0.0) if unit in wasted else 0.0),
            _evidence(_unit_text(unit, share, trace)),
            reliable=_is_reliable(unit, trace) or (unit is HardwareUnit.VALU and idle_lanes is not None),
        )
        for unit, share in budget.use.items()
        if share >= _SMALLEST and (unit is not HardwareUnit.SALU or share <= budget.use.get(budget.binding or unit, 0.0))
    )
    memory = () if profile is None else tuple(memory_uses(budget, profile, clock_hz=_clock_hz(trace, profile), covered=covered))
    waits_for_memory = any(part.cause in (Cause.MEMORY_LATENCY, Cause.MEMORY_BACKPRESSURE) for part in losses)
    needs_bytes = waits_for_memory and (bandwidth is None or bandwidth >= _BANDWIDTH_SUSPECTED)
    return Account(
        source=Source.THREAD_TRACE,
        losses=losses,
        units=(*units, *memory),
        missing=(
            *([] if not needs_bytes or (profile is not None and has_dram_traffic(profile)) else [_missing_bytes(profile)]),
            *_missing_lanes(trace),
            *_missing_time(covered),
        ),
        notes=_notes(trace, budget),
        of_dispatch=coverage.is_known,
    )


def _evidence(text: str) -> Evidence:
    return Evidence(Source.THREAD_TRACE, text)


def _useless_share(trace: ThreadTrace, budget: TraceBudget, code: ExecutedCode | None) -> dict[HardwareUnit, float]:
    """Return the share of the binding unit's instructions that only compute addresses and conditions, if known."""
    kinds = {HardwareUnit.VALU: "valu", HardwareUnit.SALU: "salu"}
    unit = budget.binding
    if code is None or unit is None or unit not in kinds or not _is_reliable(unit, trace):
        return {}
    share = code.overhead.get(kinds[unit], 0.0)
    return {unit: share} if share >= _LEAST_OVERHEAD else {}


def _idle_lanes(trace: ThreadTrace, budget: TraceBudget, profile: Profile | None, reliable: float) -> TimePart | None:
    """Return the estimated loss to idle lanes if most vector instructions are in divergent code and no counter states lanes."""
    share = trace.masked_vector_share or 0.0
    if share < _MOSTLY_MASKED or (profile is not None and profile.counter_passes):
        return None
    busy = budget.use[HardwareUnit.VALU]
    gain = busy * share
    text = (
        f"{share:.0%} of the vector instructions, which issue in {busy:.0%} of the SIMD time, are in code"
        " that lanes enter or leave alone (estimated: the trace does not record lanes)"
    )
    return TimePart(Cause.DIVERGENCE, gain * _IDLE_LANES, gain, _LANES_CONFIDENCE * reliable, (_evidence(text),))


def _wasted_lanes(unit: HardwareUnit, idle: TimePart | None) -> float:
    return (idle.share or 0.0) if idle is not None and unit is HardwareUnit.VALU else 0.0


def _useless_part(budget: TraceBudget, unit: HardwareUnit, share: float, covered: float, reliable: float) -> TimePart:
    """Return the time of instructions that compute only addresses and conditions, above that of the next busiest unit.

    While all wavefronts wait, issue slots are not contended, so that this share of the instructions is hidden.
    """
    busy = budget.use[unit]
    next_busiest = max((use for other, use in budget.use.items() if other is not unit), default=0.0)
    lost = max(0.0, busy - max(busy * (1 - share), next_busiest)) * (1 - budget.exposed)
    kind = "vector" if unit is HardwareUnit.VALU else "scalar"
    text = (
        f"{share:.0%} of the executed {kind} instructions, which issue in {busy:.0%} of the SIMD time, only compute addresses"
        " and conditions"
    )
    confidence = _CONFIDENCE[Cause.INSTRUCTION_OVERHEAD] * reliable
    return TimePart(Cause.INSTRUCTION_OVERHEAD, lost * covered, busy * share * covered, confidence, (_evidence(text),))


def _clock_hz(trace: ThreadTrace, profile: Profile) -> float:
    return trace.shader_clock_hz or profile.target.max_clock_mhz * 1e6


def _bandwidth_share(trace: ThreadTrace, budget: TraceBudget, profile: Profile | None) -> float | None:
    """Return the requested bytes relative to a compute unit's share of the memory bandwidth; None if that is unknown."""
    if profile is None or not profile.target.peaks.dram_gb_per_s:
        return None
    return requested_gb_per_s(budget, profile, _clock_hz(trace, profile)) / profile.target.peaks.dram_gb_per_s


def _representative(trace: ThreadTrace) -> float:
    """Return the probability that the traced wavefronts are representative of all wavefronts."""
    coverage = trace.coverage
    share = coverage.traced_share
    if share is not None and share >= _VARIED:
        return 1.0
    factor = 1.0 if coverage.waves >= _MANY_WAVES else 0.9
    if coverage.is_partial:
        factor *= _PARTIAL_CONFIDENCE
    return factor * (0.85 if coverage.variation > _VARIED else 0.95)


def _parts(trace: ThreadTrace, lost: LostTime, covered: float, reliable: float, bandwidth: float | None) -> list[TimePart]:
    """Return one part per location with a significant share, and one for the rest."""
    confidence = _CONFIDENCE.get(lost.cause, _USUAL_CONFIDENCE) * reliable
    if lost.cause is Cause.MEMORY_LATENCY and bandwidth is not None and bandwidth >= _BANDWIDTH_SUSPECTED:
        confidence *= 0.6
    places = _by_location(lost)
    named = [(place, share) for place, share in places.items() if share * covered >= _SMALLEST]
    rest = lost.share - sum(share for _, share in named)
    parts = [(place, share) for place, share in [*named, (None, rest)] if share * covered >= _SMALLEST or not named]
    texts = tuple(_evidence(text) for text in _texts(trace, lost, bandwidth))
    parts = parts or [(None, lost.share)]
    scale = lost.gain / lost.share if lost.share else 1.0
    return [
        TimePart(
            cause=lost.cause,
            share=share * covered,
            gain=min(1.0, share * scale * covered),
            confidence=confidence,
            evidence=texts if number == 0 else (),
            suggestion=_suggestion(trace, lost) if number == 0 else None,
            location=place,
        )
        for number, (place, share) in enumerate(parts)
    ]


def _by_location(lost: LostTime) -> dict[str, float]:
    shares: dict[str, float] = {}
    for place in lost.places:
        if place.row is not None:
            where = place_of(place.row)
            shares[where] = shares.get(where, 0.0) + place.share
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))


def _texts(trace: ThreadTrace, lost: LostTime, bandwidth: float | None) -> list[str]:
    budget = trace.budget
    assert budget is not None
    kind = "emulated" if trace.emulated else "traced"
    texts = [f"{_WHAT[lost.cause]}: {lost.share:.0%} of the {kind} SIMD time"]
    if lost.cause is Cause.MEMORY_LATENCY:
        if (found := trace.memory_latency.get("vmem")) is not None:
            texts.append(f"latency of a load: {found.median:,.0f} clocks (90 % below {found.p90:,.0f}, {found.samples:,} waits)")
        texts.append(_bandwidth_text(budget, bandwidth))
    elif lost.cause in (Cause.MEMORY_BACKPRESSURE, Cause.UNCOALESCED_ACCESS) and (pace := budget.vector_pace) is not None:
        texts.append(
            f"a stalled access of {pace.access_bytes:,.0f} bytes needs {pace.clocks:,.0f} clocks, a coalesced one at least"
            f" {pace.ideal_clocks:,.0f}"
        )
    elif lost.cause in (Cause.LDS_LATENCY, Cause.LDS_BANK_CONFLICTS):
        if (pace := budget.lds_pace) is not None:
            texts.append(f"a stalled LDS access needs {pace.clocks:,.0f} clocks, without conflicts {pace.ideal_clocks:,.0f}")
        if budget.lds_excess:
            texts.append(f"{budget.lds_excess:.0%} of the waits for LDS exceed the time of accesses without conflicts")
    elif lost.cause is Cause.BARRIER_IMBALANCE and budget.barriers:
        texts.append(
            f"the last wavefront arrives {budget.barrier_late_clocks:,.0f} clocks after the first one"
            f" (mean of {budget.barriers:,} barriers)"
        )
    elif lost.cause is Cause.INSTRUCTION_OVERHEAD and budget.use[HardwareUnit.SALU] >= _SMALLEST:
        texts.append(f"scalar instructions issue in {budget.use[HardwareUnit.SALU]:.0%} of the SIMD time")
    elif lost.cause is Cause.LAUNCH_OVERHEAD and trace.gaps is not None and trace.gaps.gaps:
        texts.append(
            f"a slot is empty for {trace.gaps.median:,.0f} clocks between two wavefronts (median of {trace.gaps.gaps:,})"
        )
    return texts


_WHAT = {
    Cause.LAUNCH_OVERHEAD: "start and end of wavefronts",
    Cause.TAIL: "no wavefront, while others of its workgroup run",
    Cause.MEMORY_LATENCY: "wavefronts wait for vector memory loads",
    Cause.UNCOALESCED_ACCESS: "wavefronts wait for uncoalesced accesses",
    Cause.MEMORY_BACKPRESSURE: "wavefronts wait to issue vector memory instructions",
    Cause.ATOMIC_CONTENTION: "wavefronts wait for atomics",
    Cause.STORE_DRAIN: "wavefronts wait for stores to complete",
    Cause.REGISTER_SPILLS: "wavefronts wait for scratch memory",
    Cause.LDS_BANK_CONFLICTS: "wavefronts wait for LDS accesses with conflicts",
    Cause.LDS_LATENCY: "wavefronts wait for LDS",
    Cause.BARRIER_IMBALANCE: "wavefronts wait for the last one at a barrier",
    Cause.INSTRUCTION_OVERHEAD: "other instructions, of no chain, issue while the busiest unit is idle",
    Cause.DEPENDENCY: "wavefronts wait for their own results or issue chains of dependent instructions",
    Cause.SCALAR_LATENCY: "wavefronts wait for scalar loads",
    Cause.INSTRUCTION_CACHE: "wavefronts wait for code",
}


def _bandwidth_text(budget: TraceBudget, bandwidth: float | None) -> str:
    text = f"the compute unit requests {budget.requested_bytes_per_clock:,.1f} bytes per clock"
    return text if bandwidth is None else f"{text}, {bandwidth:.0%} of its share of the memory bandwidth"


def _suggestion(trace: ThreadTrace, lost: LostTime) -> str | None:
    """Return advice that requires a trace; None for the general advice of the cause."""
    phases = trace.phases
    if lost.cause not in (Cause.MEMORY_LATENCY, Cause.SCALAR_LATENCY, Cause.INSTRUCTION_CACHE) or phases is None:
        return None
    if not trace.loops or phases.prologue < _LONG_PROLOGUE:
        return None
    return (
        f"{phases.prologue:.0%} of a wavefront's time is before its first loop: let each wavefront process more data, or load the"
        " first data and the arguments together"
    )


def _missing_bytes(profile: Profile | None) -> str:
    return _MEMORY_MISSING.format(_HOW_TO_COUNT[profile is not None and profile.provenance.trace.emulated])


def _missing_lanes(trace: ThreadTrace) -> tuple[str, ...]:
    if _is_reliable(HardwareUnit.VALU, trace):
        return ()
    return (
        f"the active lanes: {trace.masked_vector_share:.0%} of the vector instructions issue in divergent code; collect"
        " SQ_THREAD_CYCLES_VALU and SQ_ACTIVE_INST_VALU",
    )


def _missing_time(covered: float) -> tuple[str, ...]:
    """Return the evidence that would explain the time in which the traced compute units had no wavefront."""
    if covered >= _MOSTLY_COVERED:
        return ()
    return (
        f"the other {1 - covered:.0%} of the dispatch, in which the traced compute units had no wavefront: collect"
        " GRBM_GUI_ACTIVE, SQ_BUSY_CU_CYCLES and SQ_WAVE_CYCLES, or trace more compute units",
    )


def _unit_text(unit: HardwareUnit, share: float, trace: ThreadTrace) -> str:
    co_issue_of = trace.budget.co_issue if trace.budget is not None else 0.0
    texts = {
        HardwareUnit.MATRIX: "the matrix core is busy",
        HardwareUnit.VALU: "vector instructions issue",
        HardwareUnit.SALU: "scalar instructions issue",
        HardwareUnit.LDS: "the LDS would be busy with conflict-free accesses",
        HardwareUnit.VMEM_ISSUE: "the address pipe would be busy with coalesced accesses",
    }
    co_issue = f" ({co_issue_of:.2f} wavefronts at a time)" if unit is HardwareUnit.VALU and co_issue_of else ""
    return f"{texts[unit]} in {share:.0%} of the SIMD time{co_issue}"


def _is_reliable(unit: HardwareUnit, trace: ThreadTrace) -> bool:
    """Return whether the time of a unit is useful work: its rates are known, and most of its lanes are active.

    In divergent code, the scalar unit works for the masks of lanes.
    """
    if unit is HardwareUnit.MATRIX:
        return trace.budget is not None and trace.budget.knows_matrix_rates
    return unit not in (HardwareUnit.VALU, HardwareUnit.SALU) or (trace.masked_vector_share or 0.0) < _MOSTLY_MASKED


def _notes(trace: ThreadTrace, budget: TraceBudget) -> tuple[str, ...]:
    coverage = trace.coverage
    share = coverage.traced_share
    of = f" ({share:.1%} of the launch)" if share is not None else ""
    notes = [
        f"the trace covers {coverage.waves:,} wavefronts{of} on {coverage.compute_units} compute unit(s) of"
        f" {coverage.engines} shader engine(s)"
    ]
    if coverage.variation > _VARIED:
        notes.append(f"lifetimes of the traced wavefronts vary by {coverage.variation:.0%}: others may differ")
    if not trace.emulated:
        notes.append("the trace does not show whether the traced launch was the first one of its kernel (cold caches)")
    if trace.phases is not None and trace.loops and trace.phases.prologue >= _LONG_PROLOGUE:
        notes.append(
            f"{trace.phases.prologue:.0%} of a wavefront's time is before its first loop, {trace.phases.loops:.0%} in loops,"
            f" {trace.phases.epilogue:.0%} after them"
        )
    if budget.damaged_waves:
        notes.append(f"{budget.damaged_waves} wavefronts have times that contradict each other and do not count")
    if not budget.knows_matrix_rates:
        notes.append("the rates of the matrix instructions are unknown: their issue time counts as busy")
    return tuple(notes)
