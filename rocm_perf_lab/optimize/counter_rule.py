"""Decision by exact counters between two sources whose emulated times are indistinguishable.

The counters cover the whole launch, not the sampled workgroups. The new source is accepted if its emulated time is not longer,
its occupancy is not lower, no counter that costs time grows, and one of them falls by at least :data:`LEAST_FALL`. An instruction
counter decides only if it also falls by at least :data:`LEAST_SHARE` of all instructions. The decision is not a measured
speed-up, because latency and overlap are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

LEAST_FALL = 0.05
LEAST_SHARE = 0.02
_TOTAL = "SQ_INSTS"
_INSTRUCTIONS = {
    "SQ_INSTS_VALU": "VALU instructions",
    "SQ_INSTS_MFMA": "MFMA instructions",
    "SQ_INSTS_SALU": "SALU instructions",
    "SQ_INSTS_SMEM": "SMEM instructions",
    "SQ_INSTS_VMEM_RD": "VMEM reads",
    "SQ_INSTS_VMEM_WR": "VMEM writes",
    "SQ_INSTS_LDS": "LDS instructions",
    "SQ_INSTS_BRANCH": "branches",
}
_WORK = {
    "SQ_LDS_IDX_ACTIVE": "LDS cycles",
    "SQ_LDS_BANK_CONFLICT": "LDS bank-conflict cycles",
    "TCP_TOTAL_ACCESSES_sum": "L1 accesses",
    "TCP_TOTAL_CACHE_ACCESSES_sum": "cache-line requests",
    "TCP_TCC_WRITE_REQ_sum": "write requests to L2",
    "TCP_TCC_ATOMIC_WITH_RET_REQ_sum": "returning atomic requests",
    "TCP_TCC_ATOMIC_WITHOUT_RET_REQ_sum": "atomic requests",
}
_GUARDED = {
    _TOTAL: "all instructions",
    "SQ_INSTS_VALU_INT64": "64-bit integer instructions",
    "SQ_INSTS_VALU_TRANS_F16": "transcendental f16 instructions",
    "SQ_INSTS_VALU_TRANS_F32": "transcendental f32 instructions",
    "SQ_INSTS_VALU_TRANS_F64": "transcendental f64 instructions",
    "SQ_INSTS_VALU_ADD_F64": "f64 additions",
    "SQ_INSTS_VALU_MUL_F64": "f64 multiplications",
    "SQ_INSTS_VALU_FMA_F64": "f64 fused multiply-adds",
    "SQ_INSTS_VALU_MFMA_MOPS_F16": "f16 matrix operations",
    "SQ_INSTS_VALU_MFMA_MOPS_BF16": "bf16 matrix operations",
    "SQ_INSTS_VALU_MFMA_MOPS_F32": "f32 matrix operations",
    "SQ_INSTS_VALU_MFMA_MOPS_F64": "f64 matrix operations",
    "SQ_INSTS_VALU_MFMA_MOPS_F8": "f8 matrix operations",
    "SQ_INSTS_VALU_MFMA_MOPS_F6F4": "f6 and f4 matrix operations",
    "SQ_INSTS_VALU_MFMA_MOPS_I8": "i8 matrix operations",
}
"""Counters that must not grow, because their instructions take several cycles each; a decrease does not decide."""
DECIDING_COUNTERS = (*_INSTRUCTIONS, *_WORK, *_GUARDED)


@dataclass(frozen=True)
class ExactCounts:
    """Exact counters of one launch by name, and the occupancy in wavefronts per SIMD."""

    counters: dict[str, float]
    waves_per_simd: float
    countable: frozenset[str] = frozenset(DECIDING_COUNTERS)
    """Counters that the emulator counts on the architecture; others do not decide."""


@dataclass(frozen=True)
class CounterDecision:
    """Decision of the counters about the new source, with its reason."""

    accepted: bool
    reason: str


def decide_by_counters(old: ExactCounts | None, new: ExactCounts | None, *, old_ns: float, new_ns: float) -> CounterDecision:
    """Return the decision of the exact counters.

    Args:
        old: Counts of the old source; None if unknown.
        new: Counts of the new source; None if unknown.
        old_ns: Emulated time of the old source, with the sample of workgroups of the new one.
        new_ns: Emulated time of the new source.
    """
    missing = _missing(old, new)
    if old is None or new is None or missing:
        return CounterDecision(False, f"exact counters cannot decide without {', '.join(missing) or 'both counts'}")
    if new_ns > old_ns:
        return CounterDecision(False, "exact counters do not decide for a longer emulated time")
    if new.waves_per_simd < old.waves_per_simd:
        return CounterDecision(False, f"occupancy falls from {old.waves_per_simd:g} to {new.waves_per_simd:g} waves per SIMD")
    names = {name: text for name, text in (_INSTRUCTIONS | _WORK | _GUARDED).items() if name in new.countable}
    grown = [names[name] for name in names if new.counters[name] > old.counters[name]]
    if grown:
        return CounterDecision(False, f"exact counters do not decide: more {', '.join(grown)}")
    deciding = {name: text for name, text in (_INSTRUCTIONS | _WORK).items() if name in names and _decides(old, new, name)}
    fallen = [f"{_fall(old, new, name):.0%} fewer {text}" for name, text in deciding.items()]
    if not fallen:
        return CounterDecision(False, f"no exact counter falls by {LEAST_FALL:.0%}")
    ignored = "" if _WORK.keys() <= new.countable else "; cache lines and LDS conflicts are not counted on this architecture"
    return CounterDecision(True, f"accepted by exact counters: {', '.join(fallen)}, none grew{ignored}")


def _missing(old: ExactCounts | None, new: ExactCounts | None) -> list[str]:
    known = [counts for counts in (old, new) if counts is not None]
    return [name for name in DECIDING_COUNTERS if any(name in c.countable and name not in c.counters for c in known)]


def _fall(old: ExactCounts, new: ExactCounts, name: str) -> float:
    before = old.counters[name]
    return (before - new.counters[name]) / before if before else 0.0


def _decides(old: ExactCounts, new: ExactCounts, name: str) -> bool:
    saved = old.counters[name] - new.counters[name]
    is_large = name in _WORK or saved >= LEAST_SHARE * old.counters[_TOTAL]
    return is_large and _fall(old, new, name) >= LEAST_FALL
