"""Ledger of lost time: the measured time of a kernel as time at its binding roof, named losses and an unexplained rest.

Every source of evidence (counters, thread trace, PC samples, launch geometry, static features of the code object) returns an
:class:`Account`: the parts of the kernel's time that it explains. `ledger_fusion.py` combines them into one :class:`Ledger`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """Reason why a kernel needs more time than at its binding roof."""

    LAUNCH_OVERHEAD = "launch_overhead"
    SMALL_GRID = "small_grid"
    TAIL = "tail"
    LOW_OCCUPANCY = "low_occupancy"
    MEMORY_LATENCY = "memory_latency"
    UNCOALESCED_ACCESS = "uncoalesced_access"
    MEMORY_BACKPRESSURE = "memory_backpressure"
    CHANNEL_IMBALANCE = "channel_imbalance"
    ATOMIC_CONTENTION = "atomic_contention"
    STORE_DRAIN = "store_drain"
    REGISTER_SPILLS = "register_spills"
    LDS_BANK_CONFLICTS = "lds_bank_conflicts"
    LDS_UNALIGNED = "lds_unaligned"
    LDS_LATENCY = "lds_latency"
    BARRIER_IMBALANCE = "barrier_imbalance"
    DIVERGENCE = "divergence"
    INSTRUCTION_OVERHEAD = "instruction_overhead"
    DEPENDENCY = "dependency"
    SCALAR_LATENCY = "scalar_latency"
    INSTRUCTION_CACHE = "instruction_cache"


class Source(StrEnum):
    """Origin of evidence."""

    COUNTERS = "counters"
    THREAD_TRACE = "thread_trace"
    PC_SAMPLES = "pc_samples"
    LAUNCH = "launch"
    CODE = "code"


class HardwareUnit(StrEnum):
    """Hardware unit with a roof: a rate at which it can do the kernel's work."""

    DRAM = "dram"
    MALL = "mall"
    L2 = "l2"
    VECTOR_L1 = "vector_l1"
    LDS = "lds"
    MATRIX = "matrix cores"
    VALU = "valu"
    SALU = "salu"
    VMEM_ISSUE = "vmem issue"
    INSTRUCTION_ISSUE = "instruction issue"


@dataclass(frozen=True)
class Evidence:
    """One sentence with a number and its origin."""

    source: Source
    text: str


@dataclass(frozen=True)
class TimePart:
    """Part of the kernel's time that a source attributes to a cause.

    `share` is the time lost, relative to the kernel's duration (0 to 1). None means that the source proves the cause but not
    its amount, as static features do; such a part supports the amounts of other sources.

    `gain` is the upper bound of the time that removing the cause can save, as a share of the duration; it is at least `share`,
    and `share` if None. `suggestion` overrides the general one of the cause. `location` is `file.hip:12`, or an address and
    its instruction (`0x1a40 s_waitcnt`).
    `confidence` (0 to 1) is the probability that the share is correct within a third of its value, and has this cause.
    """

    cause: Cause
    share: float | None
    gain: float | None
    confidence: float
    evidence: tuple[Evidence, ...]
    suggestion: str | None = None
    location: str | None = None
    outside: bool = False
    """True for time in which most of the GPU has no wavefront, which thread traces and PC samples cannot observe."""


@dataclass(frozen=True)
class UnitUse:
    """Share of the kernel's duration for which a unit is busy with useful work, relative to its achievable rate.

    A `lower_bound` lacks parts, for example a counter that was not collected. `reliable` is False if
    another fact contradicts the number; the verdict then ignores it.
    """

    unit: HardwareUnit
    share: float
    evidence: Evidence
    lower_bound: bool = False
    reliable: bool = True


@dataclass(frozen=True)
class Reassignment:
    """Share (0 to 1) of the waiting of some causes that is explained by another cause, with evidence.

    Examples: of the exposed latencies, the share that more wavefronts would hide; of the waiting for vector memory, the share of
    accesses to scratch memory.
    """

    cause: Cause
    fraction: float
    of: tuple[Cause, ...]
    evidence: Evidence
    suggestion: str | None = None


@dataclass(frozen=True)
class Account:
    """Evidence of one source about the kernel's time.

    `missing` lists the evidence that would explain the rest, as sentences with a command or a configuration key. `notes` are
    limitations of the source.
    """

    source: Source
    losses: tuple[TimePart, ...] = ()
    units: tuple[UnitUse, ...] = ()
    reassigned: tuple[Reassignment, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    of_dispatch: bool = False
    """True if a thread trace or samples state shares of the whole dispatch on a unit with work, not of the time of wavefronts."""


@dataclass(frozen=True)
class Roof:
    """Time that the kernel would need at its binding roof. `utilisation` is that time relative to the measured time."""

    unit: HardwareUnit
    time_ns: float | None
    utilisation: float
    evidence: tuple[Evidence, ...]
    lower_bound: bool = False
    """True if parts of the work are unknown, for example counters that were not collected."""
    suggestion: str = ""
    """Advice for a kernel near this roof."""

    @property
    def name(self) -> str:
        """Name of the unit."""
        return str(self.unit)


@dataclass(frozen=True)
class Loss:
    """Named loss. `gain_ns` and `gain` are the upper bound of the time that removing the cause can save.

    The times are None if the duration is unknown; the shares are relative to the duration.
    """

    cause: Cause
    amount_ns: float | None
    share: float
    gain_ns: float | None
    gain: float
    confidence: float
    evidence: tuple[Evidence, ...]
    suggestion: str
    location: str | None


@dataclass(frozen=True)
class Ledger:
    """Budget of a kernel's time: `measured_ns` = `roof.time_ns` + amounts of `losses` + `unexplained_ns`, none negative.

    `measured_ns`, and with it every time, is None if the recording has no times; the shares then still add up to 1.
    `emulated` is True if the times are model predictions. Losses are sorted by amount, largest first.
    """

    measured_ns: float | None
    emulated: bool
    roof: Roof | None
    losses: tuple[Loss, ...]
    unexplained_ns: float | None
    unexplained: float
    missing: tuple[str, ...]
    verdict: str
    confidence: float
    notes: tuple[str, ...] = ()
