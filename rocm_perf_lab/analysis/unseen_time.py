"""Time of a dispatch in which the traced compute units have no wavefront: its start and end, a tail, or serial atomics.

It follows from the trace, the duration of the dispatch and the launch: after the traced wavefronts end, other compute units, or
atomics in the memory system, take the rest of the duration.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.launch_account import LaunchShape, fixed_launch_ns
from rocm_perf_lab.analysis.ledger import Cause, Evidence, Source, TimePart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.analysis.thread_trace import ThreadTrace
    from rocm_perf_lab.analysis.trace_budget import TraceBudget
    from rocm_perf_lab.profiling.profile import Profile

_COMPLETE = 0.7
"""Fraction of a SIMD's part of the launch above which a trace counts as complete; workgroups are not distributed evenly."""
_LEAST_UNSEEN = 0.1
_SERIAL_CLOCKS = 40.0
"""Clocks of the dispatch per atomic instruction up to which one address explains them: 4 for a wavefront, 20 per further lane."""
_SLOWEST_CLOCKS = 2000.0
"""The same for 64 lanes; atomics do not explain a longer time per instruction."""
_NANOSECONDS = 1e9


@dataclass(frozen=True)
class DispatchCoverage:
    """Share of the dispatch in which the traced SIMDs have wavefronts.

    `is_known` is False if the duration or the launch is unknown; the share is 1 then. `is_complete` is False if the trace has a
    part of the wavefronts of its SIMDs, at whose pace the others are assumed to run.
    """

    share: float
    is_known: bool
    is_complete: bool
    clocks: float = 0.0
    """Of the dispatch."""
    mean_work: float = 1.0
    """Wavefronts of a mean compute unit relative to those of the traced ones, at most 1: the time without them is a tail."""


def trace_coverage(trace: ThreadTrace, budget: TraceBudget, profile: Profile | None) -> DispatchCoverage:
    """Return the share of the dispatch in which the traced SIMDs have wavefronts.

    Args:
        trace: Analysed trace.
        budget: Its budget.
        profile: Profile of the same kernel; None if unknown.
    """
    launched = trace.coverage.launched_waves
    duration = statistics.median(profile.durations_ns) if profile is not None and profile.durations_ns else 0.0
    if profile is None or not launched or duration <= 0:
        return DispatchCoverage(1.0, is_known=False, is_complete=False)
    target = profile.target
    clock = trace.shader_clock_hz or target.max_clock_mhz * 1e6
    each = launched / target.compute_units
    # With few wavefronts, some SIMDs have none; otherwise, the trace may cover only some SIMDs.
    places = trace.coverage.compute_units if each < target.simds_per_cu else len(budget.simds) / target.simds_per_cu
    expected = each * places
    is_complete = trace.coverage.waves >= _COMPLETE * expected
    waves = expected / trace.coverage.waves if not is_complete else 1.0
    mean = budget.span / len(budget.simds) / clock * _NANOSECONDS
    return DispatchCoverage(
        share=min(1.0, mean * waves / duration),
        is_known=True,
        is_complete=is_complete,
        clocks=duration * clock / _NANOSECONDS,
        mean_work=_mean_work(profile, trace.coverage.waves / expected) if is_complete else 1.0,
    )


def _mean_work(profile: Profile, traced: float) -> float:
    """Return the mean work of compute units with work, relative to the traced ones with `traced` times the mean wavefronts."""
    working = 1 - LaunchShape.of(profile).idle_units
    return min(1.0, 1 / (traced * working))


def unseen_time(trace: ThreadTrace, profile: Profile, coverage: DispatchCoverage) -> Iterator[TimePart]:
    """Yield the time outside the traced wavefronts, in excess of the launch, with its cause.

    Args:
        trace: Analysed trace.
        profile: Profile of the same kernel, with durations.
        coverage: Result of :func:`trace_coverage`.
    """
    if not coverage.is_known:
        return
    launch = min(1.0, fixed_launch_ns(profile.target) / statistics.median(profile.durations_ns))
    unseen = 1 - coverage.share - launch
    few = coverage.share * (1 - coverage.mean_work)
    if few >= _LEAST_UNSEEN:
        text = f"the traced compute units have {1 / coverage.mean_work:.2f} times the wavefronts of the mean one"
        yield TimePart(Cause.TAIL, few, few, 0.65, (_evidence(text),))
    if unseen < _LEAST_UNSEEN:
        return
    how = "" if coverage.is_complete else ", at the pace of the traced wavefronts,"
    text = f"the traced compute units have wavefronts{how} in {coverage.share:.0%} of the dispatch"
    each = _clocks_per_atomic(trace, coverage.clocks * unseen)
    if each is not None and each <= _SLOWEST_CLOCKS:
        text += f"; the rest is {each:,.0f} clocks per atomic instruction of all wavefronts, as for atomics on few addresses"
        confidence = 0.7 if each <= _SERIAL_CLOCKS else 0.6
        yield TimePart(Cause.ATOMIC_CONTENTION, unseen, unseen, confidence, (_evidence(text),), outside=True)
    else:
        text += "; others work on, and no atomics explain it"
        yield TimePart(Cause.TAIL, unseen, unseen, 0.65 if coverage.is_complete else 0.5, (_evidence(text),))


def _evidence(text: str) -> Evidence:
    return Evidence(Source.THREAD_TRACE, text)


def _clocks_per_atomic(trace: ThreadTrace, clocks: float) -> float | None:
    """Return clocks per executed atomic instruction of memory on the whole device, or None without any."""
    launched = trace.coverage.launched_waves
    if not trace.memory_atomics or not launched:
        return None
    return clocks / (trace.memory_atomics * launched / trace.waves)
