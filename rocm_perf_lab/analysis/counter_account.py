"""Account of hardware counters: pressure on the units, wasted work, exposed waiting and idle compute units.

The time of a dispatch is divided in order: its launch, compute units without work, the busy time of the most loaded unit, and the
rest, in which wavefronts wait. Useful busy time is the roof, wasted busy time is a loss of its cause. Waiting during the busy
time of a unit is hidden and is not a loss.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.code_account import assumed_scratch
from rocm_perf_lab.analysis.counted import CountedEvents
from rocm_perf_lab.analysis.counted_clocks import counter_clock
from rocm_perf_lab.analysis.launch_account import LaunchShape, launch_rate_share
from rocm_perf_lab.analysis.ledger import Account, Cause, Evidence, Reassignment, Source, TimePart, UnitUse
from rocm_perf_lab.analysis.missing_counters import missing_counters
from rocm_perf_lab.analysis.unit_pressure import CountedKernel, unit_pressures
from rocm_perf_lab.analysis.wave_states import WaveStates, clocks_per_count, wave_states

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocm_perf_lab.analysis.executed_code import ExecutedCode
    from rocm_perf_lab.analysis.static_code import StaticCode
    from rocm_perf_lab.analysis.unit_pressure import Pressure
    from rocm_perf_lab.profiling.profile import Profile
    from rocm_perf_lab.rocprof.metrics import MetricValue
    from rocm_perf_lab.target.peaks import MeasuredPeaks

_LEAST_SHARE = 0.005
_SCATTERED_LOOKUPS = 20.0
"""L1 lookups of a vector memory instruction that coalesced lanes cannot need (16, and a margin)."""
_FREE_CLOCKS = 500.0
"""Latency of a load without a queue: between L2 and DRAM (MI300X)."""
_ATOMIC_SHARE = 0.001
_FEW_WAVES = 0.45
_LOADED = 0.2
"""Share of the lifetime with vector memory operations in flight from which their pipe may refuse instructions."""
_FAST_LAUNCHES = 0.3
"""Share of the time spent on starting workgroups that explains empty slots."""
_CONFLICTED = 0.1


def counter_account(
    profile: Profile,
    metrics: Mapping[str, MetricValue],
    duration_ns: float | None,
    *,
    peaks: MeasuredPeaks | None = None,
    code: ExecutedCode | None = None,
    static: StaticCode | None = None,
) -> Account:
    """Return the account of the counters of a profile.

    Args:
        profile: Profile of the kernel.
        metrics: Counter metrics of the kernel.
        duration_ns: Duration of a dispatch; None if unknown.
        peaks: Measured peaks of the GPU.
        code: Executed instructions of the kernel, if known.
        static: Instructions without the number of executions, if only those are known. A loss that needs instructions which
            the code does not contain is not claimed.
    """
    counted = CountedEvents.of(profile)
    if not counted:
        return Account(Source.COUNTERS, missing=missing_counters(profile, counted))
    shape = LaunchShape.of(profile)
    clock = counter_clock(counted, profile.target, shape, duration_ns)
    scratch = assumed_scratch(profile, static)
    kernel = CountedKernel(counted, metrics, clock, profile.target, profile.wave_size, peaks, code, scratch, static)
    pressures = unit_pressures(kernel)
    idle = tuple(_idle(kernel, shape, duration_ns))
    states = wave_states(counted, profile.target)
    launching = launch_rate_share(shape, profile.target, clock.clocks, clock.active)
    busy = max([launching, *(pressure.busy for pressure in pressures if pressure.reliable)])
    working = clock.active - sum(part.share or 0.0 for part in idle if part.cause != Cause.LAUNCH_OVERHEAD)
    binding = min(1.0, busy / working) if working > 0 else 0.0
    wasted = tuple(_wasted(pressures, launching, binding, shape))
    roof = max((pressure.useful for pressure in pressures if pressure.reliable), default=0.0)
    free = max(0.0, working - roof - sum(part.share or 0.0 for part in wasted))
    waits = tuple(_waits(kernel, states, free, profile, launching)) if states else ()
    impossible = static.impossible if static is not None else ()
    return Account(
        source=Source.COUNTERS,
        losses=tuple(part for part in (*idle, *wasted, *waits) if part.cause not in impossible),
        units=tuple(_use(pressure) for pressure in pressures),
        reassigned=(*_scattered_stores(kernel), *_scattered_loads(kernel, states)),
        missing=missing_counters(profile, counted),
        notes=(clock.doubt,) if clock.doubt else (),
    )


def _use(pressure: Pressure) -> UnitUse:
    return UnitUse(pressure.unit, pressure.useful, pressure.evidence, pressure.lower_bound, pressure.reliable)


def _part(cause: Cause, share: float, confidence: float, text: str, gain: float | None = None) -> TimePart:
    return TimePart(cause, share, max(share, gain or 0.0), confidence, (Evidence(Source.COUNTERS, text),))


def _idle(kernel: CountedKernel, shape: LaunchShape, duration_ns: float | None) -> Iterator[TimePart]:
    """Yield the launch and the compute units without wavefronts."""
    clock = kernel.clock
    outside = 1 - clock.active
    if duration_ns and clock.clocks and outside >= _LEAST_SHARE:
        busy_us = clock.clocks / kernel.target.max_clock_mhz
        text = (
            f"wavefronts are in flight for {clock.clocks:,.0f} clocks, {busy_us:.2f} us at the maximum clock, of the "
            f"{duration_ns / 1000:.2f} us of a dispatch"
        )
        yield _part(Cause.LAUNCH_OVERHEAD, outside, 0.85 if kernel.counted.emulated else 0.65, text)
    units = kernel.counted.events("SQ_BUSY_CU_CYCLES")
    busy = kernel.per_unit(units)
    if busy is None or busy > clock.active * 1.05:
        return
    empty = max(0.0, clock.active - busy)
    small = min(empty, clock.active * shape.idle_units)
    text = f"compute units have a wavefront for {busy / clock.active:.0%} of the time"
    if small >= _LEAST_SHARE:
        yield _part(Cause.SMALL_GRID, small, 0.9, f"{text}; {shape.workgroups:,} workgroups, {shape.compute_units:,} units")
    if empty - small >= _LEAST_SHARE:
        yield _part(Cause.TAIL, empty - small, 0.7, text)


def _wasted(pressures: Sequence[Pressure], launching: float, binding: float, shape: LaunchShape) -> Iterator[TimePart]:
    """Yield the time that wasted work adds to the most loaded unit, above the useful time and the next most loaded unit.

    Only the most loaded unit bounds the time: waste on others is hidden behind it. Waste on a unit that is far from its limit
    (`binding`, 0 to 1) is partly hidden behind waiting. The upper bound of the gain is the whole waste, without
    overlap.
    """
    reliable = [pressure for pressure in pressures if pressure.reliable]
    roof = max((pressure.useful for pressure in reliable), default=0.0)
    queue = sorted(reliable, key=lambda pressure: -pressure.busy)
    floor = {id(one): max([roof, *(other.busy for other in queue[number + 1 :])]) for number, one in enumerate(queue)}
    for one in queue:
        bounding = binding * max(0.0, one.busy - max(floor[id(one)], launching))
        whole = sum(waste.share for waste in one.waste)
        for waste in one.waste:
            share = bounding * waste.share / whole if whole else 0.0
            if waste.share >= _LEAST_SHARE:
                yield _part(waste.cause, share, waste.confidence, f"{waste.text}; {one.text}", waste.share)
    above = max(0.0, launching - max([roof, *(one.busy for one in queue)]))
    if above >= _LEAST_SHARE:
        text = f"{shape.workgroups:,} short workgroups: the launcher is busy {launching:.0%} of the time"
        yield _part(Cause.LAUNCH_OVERHEAD, above, 0.6, text)


def _waits(kernel: CountedKernel, states: WaveStates, free: float, profile: Profile, launching: float) -> Iterator[TimePart]:
    """Divide the time in which no unit is near its roof by the states of the wavefronts."""
    issue_cause = _issue_cause(kernel)
    shares = {
        Cause.MEMORY_LATENCY: states.memory,
        Cause.LDS_LATENCY: states.lds,
        Cause.SCALAR_LATENCY: states.scalar,
        Cause.BARRIER_IMBALANCE: states.barrier,
        Cause.INSTRUCTION_CACHE: states.fetch,
        Cause.STORE_DRAIN: states.drain,
        Cause.DEPENDENCY: states.dependency + states.active,
    }
    refused = states.issue if states.memory_in_flight >= _LOADED else 0.0
    if issue_cause is not None:
        shares[issue_cause] = refused
    lds = Cause.LDS_BANK_CONFLICTS if _has_conflicts(kernel) else Cause.LDS_LATENCY
    shares[lds] = shares.get(lds, 0.0) + states.lds_issue
    missing = _missing_waves(kernel, profile)
    atomics = _atomic_instructions(kernel)
    if missing >= _FEW_WAVES:
        text = f"{missing:.0%} of the wavefront slots that the launch could fill are empty on average"
        if atomics >= _ATOMIC_SHARE:
            text = f"{atomics:.0%} of the vector memory instructions are atomics, and {text}"
            yield replace(_part(Cause.ATOMIC_CONTENTION, free * missing, 0.75, text), outside=True)
            free *= 1 - missing
        elif launching < _FAST_LAUNCHES:
            yield _part(Cause.TAIL, free * missing, 0.5, f"{text}: workgroups end at different times")
            free *= 1 - missing
    shares[Cause.ATOMIC_CONTENTION] = shares[Cause.MEMORY_LATENCY] * atomics
    shares[Cause.MEMORY_LATENCY] *= 1 - atomics
    whole = sum(shares.values()) + states.issue - (refused if issue_cause is not None else 0.0)
    if not whole or free < _LEAST_SHARE:
        return
    sure = 0.65 if states.has_levels else 0.45
    for cause, share in shares.items():
        if free * share / whole >= _LEAST_SHARE:
            yield _part(cause, free * share / whole, sure, _wait_text(cause, share, states))


def _wait_text(cause: Cause, share: float, states: WaveStates) -> str:
    counters = {
        Cause.MEMORY_LATENCY: ("SQ_INSTS_VMEM", "wait for vector memory"),
        Cause.ATOMIC_CONTENTION: ("SQ_INSTS_VMEM", "wait for atomics"),
        Cause.LDS_LATENCY: ("SQ_INSTS_LDS", "wait for LDS"),
        Cause.SCALAR_LATENCY: ("SQ_INSTS_SMEM", "wait for scalar loads"),
        Cause.BARRIER_IMBALANCE: ("", "wait without memory operations in flight, so at barriers"),
        Cause.INSTRUCTION_CACHE: ("SQ_IFETCH", "wait for instructions"),
        Cause.STORE_DRAIN: ("", "have ended except for stores in flight"),
        Cause.DEPENDENCY: ("", "issue or execute instructions one after the other"),
    }
    counter, state = counters.get(cause, ("", "are ready, but the vector memory pipe accepts no instruction"))
    latency = states.latencies.get(counter)
    mean = f" (mean latency {latency:,.0f} clocks)" if latency is not None else ""
    return f"wavefronts {state} for {share:.0%} of their life{mean}"


def _issue_cause(kernel: CountedKernel) -> Cause | None:
    """Return the cause of waiting to issue while no unit is busy: only vector memory refuses instructions for long."""
    counted = kernel.counted
    accesses, lookups = counted.events("SQ_INSTS_VMEM"), counted.events("TCP_TOTAL_CACHE_ACCESSES_sum")
    if not accesses:
        return None
    scattered = lookups is not None and lookups / accesses > _SCATTERED_LOOKUPS
    return Cause.UNCOALESCED_ACCESS if scattered else Cause.MEMORY_BACKPRESSURE


def _scattered_stores(kernel: CountedKernel) -> Iterator[Reassignment]:
    """Yield the share of the waiting for stores that coalesced stores would avoid."""
    stores, requests = kernel.counted.events("SQ_INSTS_VMEM_WR"), kernel.counted.events("TCP_TCC_WRITE_REQ_sum")
    if stores and requests and requests / stores > _SCATTERED_LOOKUPS:
        each = requests / stores
        text = f"a store instruction makes {each:.1f} requests to L2; coalesced lanes need 16 at most"
        evidence = Evidence(Source.COUNTERS, text)
        yield Reassignment(Cause.UNCOALESCED_ACCESS, 1 - 16 / each, (Cause.STORE_DRAIN, Cause.MEMORY_BACKPRESSURE), evidence)


def _scattered_loads(kernel: CountedKernel, states: WaveStates | None) -> Iterator[Reassignment]:
    """Yield the share of the waiting for loads that is caused by lookups which coalesced lanes would not need."""
    lookups, accesses = kernel.counted.events("TCP_TOTAL_CACHE_ACCESSES_sum"), kernel.counted.events("SQ_INSTS_VMEM")
    latency = states.latencies.get("SQ_INSTS_VMEM", 0.0) if states is not None else 0.0
    if not lookups or not accesses or lookups / accesses <= _SCATTERED_LOOKUPS or latency <= _FREE_CLOCKS:
        return
    each = lookups / accesses
    text = f"a vector memory instruction needs {each:.1f} lookups, coalesced ones 16 at most, and lasts {latency:,.0f} clocks"
    share = (1 - 16 / each) * (1 - _FREE_CLOCKS / latency)
    yield Reassignment(Cause.UNCOALESCED_ACCESS, share, (Cause.MEMORY_LATENCY,), Evidence(Source.COUNTERS, text))


def _atomic_instructions(kernel: CountedKernel) -> float:
    """Return atomics of global memory relative to all vector memory instructions."""
    atomics = kernel.counted.total("TA_FLAT_ATOMIC_WAVEFRONTS_sum", "TA_BUFFER_ATOMIC_WAVEFRONTS_sum")
    accesses = kernel.counted.events("SQ_INSTS_VMEM")
    return min(1.0, atomics[0] / accesses) if atomics and accesses else 0.0


def _has_conflicts(kernel: CountedKernel) -> bool:
    share = kernel.metric("lds_conflict_share")
    return share is not None and share >= _CONFLICTED


def _missing_waves(kernel: CountedKernel, profile: Profile) -> float:
    """Return the mean share of wavefront slots that the launch could fill but that are empty."""
    cycles = kernel.counted.events("SQ_WAVE_CYCLES")
    target = profile.target
    slots = target.compute_units * target.simds_per_cu * profile.occupancy.max_waves_per_simd
    held = None if cycles is None else kernel.clock.share(cycles * clocks_per_count(target), slots)
    shape = LaunchShape.of(profile)
    expected = shape.resident_waves(profile.occupancy.waves_per_simd) / profile.occupancy.max_waves_per_simd
    expected *= (1 - shape.idle_units) * kernel.clock.active
    return 0.0 if held is None or not expected else max(0.0, 1 - held / expected)
