"""Estimated use of the memory and of L2 from a thread trace, which shows bytes and latencies, but not the serving cache.

Counters replace the estimates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.cause_catalogue import cause_catalogue
from rocm_perf_lab.analysis.ledger import Cause, Evidence, HardwareUnit, Source, UnitUse
from rocm_perf_lab.analysis.slow_accesses import QUEUED_CLOCKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.analysis.trace_budget import TraceBudget
    from rocm_perf_lab.profiling.profile import Profile

_WAITS_FOR_MEMORY = (Cause.MEMORY_LATENCY, Cause.MEMORY_BACKPRESSURE, Cause.STORE_DRAIN)
_MUCH_WAITING = 0.3
_LEAST_BANDWIDTH = 0.5
_ABOVE_BENCHMARKS = 1.28
"""Maximum plausible rate relative to the achievable rate of the MALL."""
_L2_QUEUED_CLOCKS = 450.0
"""Latency of loads that queue for L2: twice that of L2."""
_SLOW_PACE = 1.25
"""Ratio of the pace of accesses to that of the L1 pipe above which L1 is not the limit."""


def requested_gb_per_s(budget: TraceBudget, profile: Profile, clock_hz: float) -> float:
    """Return the rate at which all compute units request bytes, assuming that they work like the traced ones.

    Args:
        budget: Budget of the trace.
        profile: Profile of the kernel.
        clock_hz: Shader clock.
    """
    return budget.requested_bytes_per_clock * profile.target.compute_units * clock_hz / 1e9


def memory_uses(budget: TraceBudget, profile: Profile, *, clock_hz: float, covered: float) -> Iterator[UnitUse]:
    """Yield the estimated use of DRAM or L2 if loads queue for it at a rate near its bandwidth.

    Only loads that take much longer than the latency of the level are considered.

    Args:
        budget: Budget of the trace.
        profile: Profile of the same kernel.
        clock_hz: Shader clock.
        covered: Share of the dispatch that the trace stands for.
    """
    flight, peaks = budget.in_flight, profile.target.peaks
    if flight is None or not peaks.dram_gb_per_s:
        return
    rate = requested_gb_per_s(budget, profile, clock_hz)
    known = cause_catalogue().achievable
    dram, mall, l2 = (
        peaks.dram_gb_per_s * known["dram"],
        (peaks.mall_gb_per_s or 0.0) * known["mall"],
        (peaks.l2_gb_per_s or 0.0) * known["l2"],
    )
    waiting = sum(lost.share for lost in budget.lost if lost.cause in _WAITS_FOR_MEMORY)
    text = f"compute units request {rate:,.0f} GB/s, and their loads queue for {flight.latency:,.0f} clocks"
    beyond = max(peaks.dram_gb_per_s, mall * _ABOVE_BENCHMARKS)
    if l2 and rate > beyond and rate >= _LEAST_BANDWIDTH * l2:
        pace = budget.vector_pace
        is_slow = pace is not None and pace.slowdown >= _SLOW_PACE
        if not is_slow or flight.latency < _L2_QUEUED_CLOCKS:
            return
        text += f", more than the memory behind L2 delivers and slower than L1: {rate / l2:.0%} of what L2 achieves"
        yield _use(HardwareUnit.L2, rate / l2, text, profile, covered)
    elif flight.latency >= QUEUED_CLOCKS and rate >= _LEAST_BANDWIDTH * dram and waiting >= _MUCH_WAITING:
        text += f", {rate / peaks.dram_gb_per_s:.0%} of the memory bandwidth"
        yield _use(HardwareUnit.DRAM, rate / dram, text, profile, covered)


def _use(unit: HardwareUnit, share: float, text: str, profile: Profile, covered: float) -> UnitUse:
    evidence = Evidence(Source.THREAD_TRACE, f"{text} (estimated: the trace does not see the caches)")
    return UnitUse(unit, min(1.0, share) * covered, evidence, reliable=not profile.counter_passes)
