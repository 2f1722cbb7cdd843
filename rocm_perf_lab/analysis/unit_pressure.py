"""Pressure on every unit from counters: the share of the time for which it is busy, and the useful part of it.

A unit may be busy with avoidable work: replayed LDS clocks, lookups of scattered addresses, idle lanes. The busy share is a lower
bound of the time of the current code, the useful share the time at the roof.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.cause_catalogue import cause_catalogue
from rocm_perf_lab.analysis.ledger import Cause, Evidence, HardwareUnit, Source
from rocm_perf_lab.target.peaks import memory_roofs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocm_perf_lab.analysis.counted import CountedEvents
    from rocm_perf_lab.analysis.counted_clocks import CounterClock
    from rocm_perf_lab.analysis.executed_code import ExecutedCode
    from rocm_perf_lab.analysis.static_code import StaticCode
    from rocm_perf_lab.rocprof.metrics import MetricValue
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.target.peaks import MeasuredPeaks, MemoryLevel, MemoryRoof

_ABOVE_ROOF = 1.05
"""Maximum plausible rate relative to a theoretical peak; higher rates indicate an error."""
_ABOVE_BENCHMARKS = 1.28
"""The same for the MALL, relative to the rate that benchmarks achieve: its theoretical peak is far above."""
_COALESCED_LOOKUPS = 16.0
"""L1 lookups of a coalesced wave64 access of 8 or 16 bytes per lane, the most that coalesced lanes need."""
_SCATTERED_LOOKUPS, _SCATTERED_ACCESS = 20.0, 8.0
"""Lookups per instruction that only uncoalesced accesses need, and the usual maximum of bytes per lane of such accesses."""
_WIDEST_ACCESS = 16.0
"""Bytes per lane of the widest vector memory instruction."""
_IMBALANCED = 1.5
"""Traffic of the busiest channel relative to the mean from which channels are unequally loaded."""
_SATURATED_CHANNEL = 0.6
"""Busy share of the busiest channel from which it bounds the time."""
_OVERFETCH = 1.25
_LEAST_SCRATCH = 0.05
_FULL_LANES = 0.95
_TRANSCENDENTAL_SLOTS = 4
_LEAST_OVERHEAD = 0.1
"""Share of address and condition instructions that is normal for any kernel."""
_USUAL_SCALAR_OVERHEAD = 0.9
_MOSTLY_SCALAR = 4
"""Scalar instructions per vector instruction from which the scalar work is the purpose of a kernel."""
_MATRIX_KERNEL = 0.15
"""Busy share of the matrix cores from which they are the purpose of the kernel."""


@dataclass(frozen=True)
class Waste:
    """Part of a unit's busy time that a cause adds, as a share of the duration."""

    cause: Cause
    share: float
    text: str
    confidence: float


@dataclass(frozen=True)
class Pressure:
    """Busy share of one unit, with its wasted parts. `useful` = `busy` - wasted shares."""

    unit: HardwareUnit
    busy: float
    text: str
    waste: tuple[Waste, ...] = ()
    reliable: bool = True
    lower_bound: bool = False

    @property
    def useful(self) -> float:
        """Share of the duration at the roof of the unit."""
        return max(0.0, self.busy - sum(waste.share for waste in self.waste))

    @property
    def evidence(self) -> Evidence:
        """Sentence with the busy share."""
        return Evidence(Source.COUNTERS, self.text)


@dataclass(frozen=True)
class CountedKernel:
    """Inputs of the calculations: counters, metrics, time base and target of one kernel."""

    counted: CountedEvents
    metrics: Mapping[str, MetricValue]
    clock: CounterClock
    target: Target
    wave_size: int
    peaks: MeasuredPeaks | None = None
    code: ExecutedCode | None = None
    """Executed instructions, if they are known."""
    assumed_scratch: float = 0.0
    """Share of scratch accesses in the traffic if the code is unknown."""
    static: StaticCode | None = None
    """Instructions without the number of executions, if only those are known."""
    achievable: Mapping[MemoryLevel, float] = field(default_factory=lambda: cause_catalogue().achievable)

    def metric(self, name: str) -> float | None:
        """Return the value of a metric, None if it is unknown."""
        found = self.metrics.get(name)
        return None if found is None else found.value

    def per_unit(self, amount: float | None) -> float | None:
        """Return clocks summed over compute units as a share of the duration."""
        return None if amount is None else self.clock.share(amount, self.target.compute_units)

    @property
    def lane_bytes(self) -> float | None:
        """Mean bytes per lane of the executed vector memory instructions, if the code or their only width is known."""
        if self.code is not None:
            return self.code.lane_bytes
        narrowest, widest = self.widths
        return widest if narrowest == widest else None

    @property
    def widths(self) -> tuple[float, float]:
        """Fewest and most bytes per lane of a vector memory instruction."""
        known = self.static.widths if self.static is not None else None
        return known or (1.0, _WIDEST_ACCESS)

    @property
    def requested_bytes(self) -> float | None:
        """Upper bound of the bytes requested by lanes of vector memory instructions; None if not counted."""
        accesses = self.counted.events("SQ_INSTS_VMEM")
        if accesses is None:
            return None
        if self.lane_bytes is not None:
            return accesses * self.wave_size * self.lane_bytes
        lookups = self.counted.events("TCP_TOTAL_CACHE_ACCESSES_sum")
        scattered = lookups is not None and accesses > 0 and lookups / accesses > _SCATTERED_LOOKUPS
        narrowest, widest = self.widths
        return accesses * self.wave_size * (max(narrowest, min(widest, _SCATTERED_ACCESS)) if scattered else widest)

    @property
    def scratch_traffic(self) -> float:
        """Share of the requested bytes that are accesses to scratch memory."""
        return self.code.scratch_bytes_share if self.code is not None else self.assumed_scratch


def unit_pressures(kernel: CountedKernel) -> tuple[Pressure, ...]:
    """Return the pressure on every unit whose counters were collected."""
    return (*_bandwidths(kernel), *_vector_l1(kernel), *_lds(kernel), *_vector_alu(kernel), *_matrix(kernel), *_scalar(kernel))


def _bandwidths(kernel: CountedKernel) -> Iterator[Pressure]:
    roofs = {roof.level: roof for roof in memory_roofs(kernel.target, kernel.peaks)}
    if not kernel.clock.time_ns:
        return
    level: MemoryLevel
    for level in ("dram", "l2"):
        traffic, missing = _traffic(kernel, level)
        roof = roofs.get(level)
        if traffic is None or roof is None:
            continue
        rate = traffic / kernel.clock.time_ns
        mall = roofs.get("mall")
        if level == "dram" and rate > roof.gb_per_s * _ABOVE_ROOF and mall is not None and rate <= mall.gb_per_s * _ABOVE_ROOF:
            roof = mall  # hits of the MALL are counted with the traffic behind L2
        yield _bandwidth(kernel, roof, rate, traffic, missing)


def _traffic(kernel: CountedKernel, level: MemoryLevel) -> tuple[float | None, bool]:
    """Return the bytes at a level, and whether a part was not counted."""
    whole = kernel.metrics.get(f"{level}_bytes")
    if whole is not None and whole.value is not None:
        return whole.value, whole.is_lower_bound
    parts = [kernel.metric(f"{level}_{direction}_bytes") for direction in ("read", "write")]
    known = [part for part in parts if part is not None]
    return (sum(known), True) if known else (None, False)


def _bandwidth(kernel: CountedKernel, roof: MemoryRoof, rate: float, traffic: float, missing: bool) -> Pressure:
    achievable = roof.gb_per_s * (1.0 if roof.kind == "empirical" else kernel.achievable.get(roof.level, 1.0))
    clock = kernel.clock
    when = "" if clock.is_measured else " at the maximum clock (the recording has no times)"
    moved = f"{roof.level} moves {'at least ' if missing else ''}{traffic / 1e6:,.4g} MB"
    most = achievable * _ABOVE_BENCHMARKS if roof.level == "mall" else roof.gb_per_s * _ABOVE_ROOF
    is_possible = rate <= most
    if is_possible:
        text = f"{moved}, {rate:,.0f} GB/s{when}: {rate / achievable:.0%} of the {achievable:,.0f} GB/s that are achievable"
    else:
        text = f"{moved}{when}, at a rate above the possible {most:,.0f} GB/s: not trustworthy"
    if clock.doubt:
        text += f"; {clock.doubt}"
    busy = min(1.0, rate / achievable)
    hottest = _channel_imbalance(kernel, roof.level)
    waste = list(_wasted_traffic(kernel, roof.level, busy, traffic))
    full = min(1.0, busy * hottest)
    if hottest >= _IMBALANCED and full >= _SATURATED_CHANNEL:
        text += f"; its busiest channel has {hottest:.1f} times the mean traffic"
        waste.append(Waste(Cause.CHANNEL_IMBALANCE, full - busy, f"channels of {roof.level} are unequally loaded", 0.7))
        busy = full
    return Pressure(HardwareUnit(roof.level), busy, text, tuple(waste), is_possible and clock.doubt is None, missing)


def _channel_imbalance(kernel: CountedKernel, level: str) -> float:
    """Return the traffic of the busiest L2 channel relative to the mean one; 1 if unknown."""
    names = ("TCC_REQ",) if level == "l2" else ("TCC_EA0_RDREQ", "TCC_EA_RDREQ", "TCC_EA0_WRREQ", "TCC_EA_WRREQ")
    return max([found for name in names if (found := kernel.counted.imbalance(name)) is not None], default=1.0)


def _wasted_traffic(kernel: CountedKernel, level: str, busy: float, traffic: float) -> Iterator[Waste]:
    requested = kernel.requested_bytes
    needed = 1.0
    if requested and traffic > requested * _OVERFETCH:
        needed = requested / traffic
        most = "" if kernel.lane_bytes is not None else "at most "
        reason = f"lanes request {most}{requested / 1e6:,.4g} MB, but {traffic / 1e6:,.4g} MB move through {level}"
        yield Waste(Cause.UNCOALESCED_ACCESS, busy * (1 - needed), reason, 0.8)
    if kernel.scratch_traffic >= _LEAST_SCRATCH:
        reason = (
            f"{kernel.scratch_traffic:.0%} of the requested bytes are {'' if kernel.code else 'assumed to be '}spilled registers"
        )
        yield Waste(Cause.REGISTER_SPILLS, busy * needed * kernel.scratch_traffic, reason, 0.75 if kernel.code else 0.4)


def _vector_l1(kernel: CountedKernel) -> Iterator[Pressure]:
    counted = kernel.counted
    lookups, accesses = counted.events("TCP_TOTAL_CACHE_ACCESSES_sum"), counted.events("SQ_INSTS_VMEM")
    clocks = counted.events("TA_TA_BUSY_sum")
    stalled = counted.total(
        "TA_ADDR_STALLED_BY_TC_CYCLES_sum", "TA_ADDR_STALLED_BY_TD_CYCLES_sum", "TA_DATA_STALLED_BY_TC_CYCLES_sum"
    )
    exact = clocks is not None
    if clocks is not None and stalled is not None:
        clocks = max(clocks - stalled[0], min(clocks, (lookups or 0.0) / 2))
    amount = clocks if clocks is not None else None if lookups is None else lookups / 2
    busy = kernel.per_unit(amount)
    if busy is None or amount is None:
        return
    text = f"the address pipe of vector L1 is busy {'' if exact else 'at least '}{busy:.0%} of the time"
    waste: tuple[Waste, ...] = ()
    if accesses and lookups:
        each = (clocks or lookups) / accesses
        widest = kernel.lane_bytes if kernel.lane_bytes is not None else kernel.widths[1]
        least = min(_COALESCED_LOOKUPS, max(4.0, widest))
        if each > least * 1.25:
            share = busy * (1 - least / each)
            reason = f"a vector memory instruction needs {each:.1f} lookups; coalesced lanes need {least:.1f}"
            waste = (Waste(Cause.UNCOALESCED_ACCESS, share, reason, 0.8 if kernel.lane_bytes else 0.7),)
    yield Pressure(HardwareUnit.VECTOR_L1, busy, text, waste, lower_bound=not exact)


def _lds(kernel: CountedKernel) -> Iterator[Pressure]:
    counted = kernel.counted
    active = _first(counted, "SQ_LDS_IDX_ACTIVE", "SQC_LDS_IDX_ACTIVE")
    if active is None:
        return
    conflicts = _first(counted, "SQ_LDS_BANK_CONFLICT", "SQC_LDS_BANK_CONFLICT")
    unaligned = counted.events("SQ_LDS_UNALIGNED_STALL") or 0.0
    busy = kernel.per_unit(active + unaligned)
    if busy is None:
        return
    waste = []
    whole = active + unaligned
    if conflicts and whole:
        share = busy * min(conflicts, active) / whole
        text = f"{conflicts / whole:.0%} of the busy LDS clocks replay accesses with bank conflicts"
        waste.append(Waste(Cause.LDS_BANK_CONFLICTS, share, text, 0.9))
    if unaligned:
        text = f"{unaligned / whole:.0%} of the busy LDS clocks are stalls of unaligned accesses"
        waste.append(Waste(Cause.LDS_UNALIGNED, busy * unaligned / whole, text, 0.85))
    text = f"LDS is busy {busy:.0%} of the time" + ("" if conflicts is not None else " (bank conflicts were not counted)")
    yield Pressure(HardwareUnit.LDS, min(1.0, busy), text, tuple(waste))


def _vector_alu(kernel: CountedKernel) -> Iterator[Pressure]:
    counted = kernel.counted
    issued = counted.events("SQ_ACTIVE_INST_VALU") or counted.events("SQ_INSTS_VALU")
    if issued is None:
        return
    matrix = counted.events("SQ_INSTS_MFMA") or 0.0
    slow = counted.total("SQ_INSTS_VALU_TRANS_F16", "SQ_INSTS_VALU_TRANS_F32", "SQ_INSTS_VALU_TRANS_F64")
    slots = max(0.0, issued - matrix) + (_TRANSCENDENTAL_SLOTS - 1) * (slow[0] if slow else 0.0)
    if kernel.target.wave_limits.wave_size != kernel.wave_size or kernel.wave_size != 64:
        slots *= kernel.wave_size / 32 / kernel.target.simds_per_cu
    busy = kernel.per_unit(slots)
    if busy is None:
        return
    text = f"vector instructions use {busy:.0%} of the issue slots"
    yield Pressure(HardwareUnit.VALU, min(1.0, busy), text, tuple(_wasted_slots(kernel, min(1.0, busy), has_matrix=bool(matrix))))


def _wasted_slots(kernel: CountedKernel, busy: float, *, has_matrix: bool) -> Iterator[Waste]:
    lanes = kernel.metric("active_lanes")
    used = 1.0
    if lanes is not None and not has_matrix and lanes < _FULL_LANES * kernel.wave_size:
        used = lanes / kernel.wave_size
        reason = f"{lanes:.1f} of {kernel.wave_size} lanes are active in an average vector instruction"
        yield Waste(Cause.DIVERGENCE, busy * (1 - used), reason, 0.85)
    matrix_busy = next((pressure.busy for pressure in _matrix(kernel)), 0.0)
    if has_matrix and matrix_busy >= _MATRIX_KERNEL:
        reason = "vector instructions beside the matrix instructions"
        yield Waste(Cause.INSTRUCTION_OVERHEAD, busy, reason, 0.6)
        return
    overhead = kernel.code.overhead.get("valu", 0.0) if kernel.code else 0.0
    if overhead >= _LEAST_OVERHEAD:
        reason = f"{overhead:.0%} of the executed vector instructions only compute addresses and conditions"
        yield Waste(Cause.INSTRUCTION_OVERHEAD, busy * used * overhead, reason, 0.75)


def _matrix(kernel: CountedKernel) -> Iterator[Pressure]:
    clocks = kernel.counted.events("SQ_VALU_MFMA_BUSY_CYCLES")
    busy = None if clocks is None else kernel.clock.share(clocks, kernel.target.compute_units * kernel.target.simds_per_cu)
    if busy is None:
        busy = kernel.metric("mfma_utilisation")
    if busy is not None:
        reliable = busy <= _ABOVE_ROOF
        text = f"the matrix cores are busy {busy:.0%} of the time" + ("" if reliable else ": not trustworthy")
        yield Pressure(HardwareUnit.MATRIX, min(1.0, busy), text, reliable=reliable)


def _scalar(kernel: CountedKernel) -> Iterator[Pressure]:
    counted = kernel.counted
    issued = counted.total("SQ_ACTIVE_INST_SCA") or counted.total("SQ_INSTS_SALU", "SQ_INSTS_SMEM")
    busy = None if issued is None else kernel.per_unit(issued[0])
    if busy is not None:
        text = f"scalar instructions use {busy:.0%} of the issue slots"
        yield Pressure(HardwareUnit.SALU, min(1.0, busy), text, tuple(_wasted_scalar_slots(kernel, min(1.0, busy))))


def _wasted_scalar_slots(kernel: CountedKernel, busy: float) -> Iterator[Waste]:
    """Yield scalar instructions other than useful work: branches around divergent lanes, and addresses and conditions."""
    counted = kernel.counted
    scalar, vector = counted.events("SQ_INSTS_SALU") or 0.0, counted.events("SQ_INSTS_VALU") or 0.0
    if kernel.code is not None:
        overhead, sure = kernel.code.overhead.get("salu", 0.0), 0.7
        reason = f"{overhead:.0%} of the executed scalar instructions only compute addresses and conditions"
    else:
        # Scalar results seldom reach memory: without the code, they count as overhead beside vector work.
        overhead, sure = (_USUAL_SCALAR_OVERHEAD if vector * _MOSTLY_SCALAR > scalar else 0.0), 0.45
        reason = "scalar instructions usually compute addresses and conditions"
    if overhead < _LEAST_OVERHEAD:
        return
    lanes = kernel.metric("active_lanes")
    idle = 0.0 if lanes is None else max(0.0, 1 - lanes / kernel.wave_size)
    if idle > 1 - _FULL_LANES:
        yield Waste(Cause.DIVERGENCE, busy * overhead * idle, "scalar instructions branch around inactive lanes", sure)
    yield Waste(Cause.INSTRUCTION_OVERHEAD, busy * overhead * (1 - idle), reason, sure)


def _first(counted: CountedEvents, *names: str) -> float | None:
    return next((value for name in names if (value := counted.events(name)) is not None), None)
