"""Conversion of an analysed thread trace to its part of analysis.json."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.thread_trace_document import (
    AccessPacePart,
    HotInstruction,
    LatencyPart,
    LoadsInFlightPart,
    LoopPart,
    StallCharge,
    ThreadTracePart,
    TimeBalancePart,
    TraceCoveragePart,
    TracedLine,
    TracedLoss,
    TracedPlace,
    TracedSimd,
    TracedTime,
    TracedTimePart,
    TracePhasesPart,
)

if TYPE_CHECKING:
    from rocm_perf_lab.analysis.thread_trace import ThreadTrace
    from rocm_perf_lab.analysis.trace_budget import LostTime, SimdUse, TraceBudget
    from rocm_perf_lab.analysis.traced_lines import HotSpot, LineTime
    from rocm_perf_lab.analysis.traced_loops import LoopTime
    from rocm_perf_lab.analysis.wait_charges import Charge


def att_features(traced: ThreadTrace) -> dict[str, float]:
    """Return features by name, comparable between runs; unknown values are omitted."""
    features = {
        "waves": float(traced.waves),
        "cycles_per_wave": traced.total.cycles / traced.waves if traced.waves else None,
        "stall_fraction": traced.stall_fraction,
        "issue_fraction": traced.issue_fraction,
        "idle_fraction": traced.idle_fraction,
        "hidden_fraction": traced.hidden_fraction,
        "waves_per_simd": traced.waves_per_simd,
        "shader_clock_ghz": traced.shader_clock_hz / 1e9 if traced.shader_clock_hz else None,
        "instructions_per_cycle": traced.instructions_per_cycle,
        "wait_fraction": traced.wait_cycles / traced.total.cycles,
        "unattributed_fraction": traced.unattributed_cycles / traced.total.cycles,
        **{f"{kind}_time_fraction": spent.share for kind, spent in traced.classes.items()},
        **{f"{kind}_caused_stall_fraction": cycles / traced.total.cycles for kind, cycles in traced.charged.items()},
        **{f"{kind}_latency_cycles": latency.mean for kind, latency in traced.memory_latency.items()},
    }
    return {name: value for name, value in features.items() if value is not None}


def thread_trace_part(traced: ThreadTrace) -> ThreadTracePart:
    """Return the document part; cycles are of the shader clock, shares relative to the total time."""
    return ThreadTracePart(
        folder=traced.directory,
        kernel=traced.kernel,
        time_kind="emulated" if traced.emulated else "measured",
        waves=traced.waves,
        total=TracedTime(**asdict(traced.total)),
        classes={kind: TracedTime(**asdict(spent)) for kind, spent in traced.classes.items()},
        lines=tuple(_line(line) for line in traced.lines),
        charged=dict(traced.charged.items()),
        charges=tuple(_charge(charge) for charge in traced.charges),
        wait_cycles=traced.wait_cycles,
        unattributed_cycles=traced.unattributed_cycles,
        memory_latency={kind: LatencyPart(**asdict(latency)) for kind, latency in traced.memory_latency.items()},
        hot_spots=tuple(_hot_spot(spot) for spot in traced.hot_spots),
        loops=tuple(_loop(loop) for loop in traced.loops),
        hidden_fraction=traced.hidden_fraction,
        waves_per_simd=traced.waves_per_simd,
        shader_clock_hz=traced.shader_clock_hz,
        time_balance=TimeBalancePart(**asdict(traced.balance)),
        simd_time=_simd_time(traced.budget) if traced.budget is not None else None,
        masked_vector_share=traced.masked_vector_share,
        phases=TracePhasesPart(**asdict(traced.phases)) if traced.phases is not None else None,
        coverage=TraceCoveragePart(**asdict(traced.coverage)),
        launch_gap_clocks=traced.gaps.median if traced.gaps is not None else None,
        limits=traced.limits,
    )


def _simd_time(budget: TraceBudget) -> TracedTimePart:
    return TracedTimePart(
        binding=budget.binding,
        units={str(unit): share for unit, share in budget.use.items()},
        co_issue=budget.co_issue,
        exposed=budget.exposed,
        losses=tuple(_loss(lost) for lost in budget.lost),
        unexplained=budget.unexplained,
        simds=tuple(_simd(simd) for simd in budget.simds),
        vector_pace=AccessPacePart(**asdict(budget.vector_pace)) if budget.vector_pace is not None else None,
        in_flight=LoadsInFlightPart(**asdict(budget.in_flight)) if budget.in_flight is not None else None,
        lds_pace=AccessPacePart(**asdict(budget.lds_pace)) if budget.lds_pace is not None else None,
        lds_excess=budget.lds_excess,
        barriers=budget.barriers,
        barrier_late_clocks=budget.barrier_late_clocks,
        requested_bytes_per_clock=budget.requested_bytes_per_clock,
    )


def _loss(lost: LostTime) -> TracedLoss:
    places = tuple(
        TracedPlace(
            text=place.row.text if place.row is not None else "",
            address=place.row.address if place.row is not None else None,
            source=place.row.source if place.row is not None else "",
            share=place.share,
        )
        for place in lost.places
    )
    return TracedLoss(cause=str(lost.cause), share=lost.share, gain=lost.gain, places=places)


def _simd(simd: SimdUse) -> TracedSimd:
    return TracedSimd(
        engine=simd.place.engine,
        compute_unit=simd.place.compute_unit,
        simd=simd.place.simd,
        waves=simd.waves,
        span=simd.span,
        busy={str(unit): clocks for unit, clocks in simd.busy.items()},
        binding=simd.binding,
        beside=simd.beside,
        exposed=simd.exposed,
        empty=simd.empty,
    )


def _line(line: LineTime) -> TracedLine:
    return TracedLine(
        source=line.source,
        hidden_cycles=line.hidden_cycles,
        caused_cycles=line.caused_cycles,
        waits_for=line.waits_for,
        waits_for_class=line.waits_for_class,
        waited_cycles=line.waited_cycles,
        **asdict(line.spent),
    )


def _charge(charge: Charge) -> StallCharge:
    return StallCharge(
        waiting=charge.victim.text,
        waiting_address=charge.victim.address,
        waiting_source=charge.victim.source,
        cause=charge.cause.text,
        cause_address=charge.cause.address,
        cause_source=charge.cause.source,
        counter=charge.counter.value,
        cycles=charge.cycles,
    )


def _hot_spot(spot: HotSpot) -> HotInstruction:
    return HotInstruction(
        text=spot.row.text,
        address=spot.row.address,
        source=spot.row.source,
        kind=spot.kind,
        hits=spot.row.hits,
        cycles=spot.row.cycles,
        stall=spot.row.stall,
        share=spot.share,
        hidden_cycles=spot.hidden_cycles,
        waits_for=spot.waits_for.text if spot.waits_for else None,
        waits_for_address=spot.waits_for.address if spot.waits_for else None,
        waits_for_source=spot.waits_for.source if spot.waits_for else None,
        waited_cycles=spot.waited_cycles,
    )


def _loop(loop: LoopTime) -> LoopPart:
    return LoopPart(
        source=loop.source,
        first_address=loop.first.address,
        last_address=loop.last.address,
        turns=loop.turns,
        turns_per_entry=loop.turns_per_entry,
        cycles=loop.cycles,
        cycles_per_turn=loop.cycles_per_turn,
        share=loop.share,
    )
