"""States of an average wavefront during its life, from counters, as shares of all wavefront cycles.

`SQ_WAIT_ANY` is waiting for memory, LDS, messages or a barrier, `SQ_WAIT_INST_ANY` waiting to issue, `SQ_ACTIVE_INST_ANY`
issuing. Level counters divide the waiting by kind of operation: by Little's law their integral is the number of operations times
their latency. The rest of the lifetime is execution of dependent instructions, and stores that drain before a wavefront ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocm_perf_lab.analysis.counted import CountedEvents
    from rocm_perf_lab.target.model import Target

_QUAD = 4
_LANES_PER_SIMD = 16
_MISS_CLOCKS = 100.0
"""Latency of an instruction cache miss (MI300X: 100 to 500 clocks)."""
_UNITS_PER_CACHE = 2
"""Compute units that share an instruction cache (CDNA and RDNA)."""
_FETCH_CLOCKS = 40.0
"""Latency of an instruction fetch that hits; longer fetches are misses."""
_TYPICAL_CLOCKS = {"SQ_INSTS_VMEM": 800.0, "SQ_INSTS_LDS": 100.0, "SQ_INSTS_SMEM": 200.0}
"""Default latencies in clocks to divide the waiting if no level was counted: L2 misses, LDS and scalar loads of MI300X."""


@dataclass(frozen=True)
class WaveStates:
    """Shares of the wavefronts' lifetime; None if not counted. Latencies are in clocks."""

    memory: float
    lds: float
    scalar: float
    barrier: float
    """Waiting that is not explained by memory, LDS or scalar operations in flight."""
    issue: float
    """Ready but not issued: another wavefront used the unit, or the unit did not accept the instruction."""
    lds_issue: float
    """The same for LDS instructions."""
    fetch: float
    drain: float
    """Only stores in flight, after the last instruction."""
    dependency: float
    active: float
    memory_in_flight: float
    """Lower bound of the share of the lifetime with vector memory operations in flight."""
    latencies: dict[str, float]
    has_levels: bool
    wavefront_clocks: float | None


def wave_states(counted: CountedEvents, target: Target) -> WaveStates | None:
    """Return the states, or None if `SQ_WAVE_CYCLES` and `SQ_WAIT_ANY` were not counted in one pass."""
    waits = counted.together("SQ_WAVE_CYCLES", "SQ_WAIT_ANY")
    if waits is None or not waits[0]:
        return None
    cycles, waiting = waits[0], min(1.0, waits[1] / waits[0])
    quad = clocks_per_count(target)
    ready = counted.together("SQ_WAVE_CYCLES", "SQ_WAIT_INST_ANY")
    issuing = counted.together("SQ_WAVE_CYCLES", "SQ_ACTIVE_INST_ANY")
    issue = min(1.0 - waiting, ready[1] / ready[0]) if ready and ready[0] else 0.0
    active = min(1.0 - waiting - issue, issuing[1] / issuing[0]) if issuing and issuing[0] else 0.0
    rest = max(0.0, 1 - waiting - issue - active) if ready and issuing else 0.0
    levels, latencies = _levels(counted, cycles * quad)
    has_levels = bool(levels)
    if not has_levels:
        levels = _guessed(counted)
    memory, lds, scalar = (levels.get(name, 0.0) for name in _TYPICAL_CLOCKS)
    whole = memory + lds + scalar
    drain = min(rest, max(0.0, min(1.0, memory) - waiting)) if counted.events("SQ_INSTS_VMEM_WR") else 0.0
    fetch = min(issue, _fetch(counted, cycles * quad, latencies))
    missed = min(max(0.0, rest - drain), _missed_instructions(counted, target))
    queued = counted.together("SQ_WAVE_CYCLES", "SQ_WAIT_INST_LDS")
    lds_issue = min(issue - fetch, queued[1] / queued[0]) if queued and queued[0] else 0.0
    factor = waiting / whole if whole and (whole > waiting or not has_levels) else 1.0
    has_memory = counted.events("SQ_INSTS_VMEM") != 0
    return WaveStates(
        memory=memory * factor if whole else waiting if has_memory else 0.0,
        lds=lds * factor,
        scalar=scalar * factor,
        barrier=max(0.0, waiting - whole * factor) if whole or not has_memory else 0.0,
        issue=max(0.0, issue - fetch - lds_issue),
        lds_issue=lds_issue,
        fetch=fetch + missed,
        drain=drain,
        dependency=rest - drain - missed,
        active=active,
        memory_in_flight=memory if has_levels else 1.0,
        latencies=latencies,
        has_levels=has_levels,
        wavefront_clocks=_lifetime(counted, quad),
    )


def clocks_per_count(target: Target) -> int:
    """Return the clocks per count of wavefront cycles: quad-cycles on architectures whose wavefronts have 64 lanes."""
    return _QUAD if target.wave_limits.wave_size == _QUAD * _LANES_PER_SIMD else 1


def _missed_instructions(counted: CountedEvents, target: Target) -> float:
    """Return the share of the time for which an instruction cache reads lines, if misses are sequential."""
    pair = counted.together("SQC_ICACHE_MISSES", "SQ_BUSY_CU_CYCLES")
    if pair is None:
        misses, busy = counted.events("SQC_ICACHE_MISSES"), counted.events("SQ_BUSY_CU_CYCLES")
        pair = None if misses is None or busy is None else (misses, busy)
    if pair is None or not pair[1]:
        return 0.0
    return min(1.0, pair[0] * _MISS_CLOCKS * _UNITS_PER_CACHE / pair[1])


def _lifetime(counted: CountedEvents, quad: int) -> float | None:
    pair = counted.together("SQ_WAVE_CYCLES", "SQ_WAVES")
    return quad * pair[0] / pair[1] if pair and pair[1] else None


def _levels(counted: CountedEvents, wave_clocks: float) -> tuple[dict[str, float], dict[str, float]]:
    """Return operations in flight per wavefront (at most 1 counts), and latencies, by counter of the operations."""
    shares, latencies = {}, {}
    for name, count in (
        ("SQ_INST_LEVEL_VMEM", "SQ_INSTS_VMEM"),
        ("SQ_INST_LEVEL_LDS", "SQ_INSTS_LDS"),
        ("SQ_INST_LEVEL_SMEM", "SQ_INSTS_SMEM"),
    ):
        found = counted.level(name, count)
        if found is None:
            if counted.events(count) == 0:
                shares[count] = 0.0
            continue
        # Scalar loads count twice in their level.
        integral = found[0] / 2 if count == "SQ_INSTS_SMEM" else found[0]
        shares[count] = min(1.0, integral / wave_clocks)
        latencies[count] = integral / found[1]
    return (shares if latencies else {}), latencies


def _guessed(counted: CountedEvents) -> dict[str, float]:
    counts = {name: (counted.events(name) or 0.0) * clocks for name, clocks in _TYPICAL_CLOCKS.items()}
    whole = sum(counts.values())
    return {name: value / whole for name, value in counts.items()} if whole else {}


def _fetch(counted: CountedEvents, wave_clocks: float, latencies: dict[str, float]) -> float:
    found = counted.level("SQ_IFETCH_LEVEL", "SQ_IFETCH")
    if found is None:
        return 0.0
    latencies["SQ_IFETCH"] = found[0] / found[1]
    return max(0.0, found[0] - _FETCH_CLOCKS * found[1]) / wave_clocks
