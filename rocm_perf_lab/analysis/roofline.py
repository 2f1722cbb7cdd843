"""Roofline of a kernel: every memory level and every kind of arithmetic unit of its target.

From a profile with counters: work, traffic, achieved rates and their share of the peaks, or the reason why the roofline is
unavailable. Formulas and pitfalls: docs/ROOFLINE_DESIGN.md. Counter formulas: rocprof/metrics.yaml.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.rocprof.metrics import evaluate_metric, load_metrics, target_facts
from rocm_perf_lab.target.peaks import compute_roofs, memory_roofs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.analysis.ledger import Ledger
    from rocm_perf_lab.profiling.profile import Profile
    from rocm_perf_lab.rocprof.metrics import MetricValue
    from rocm_perf_lab.target.peaks import ComputeRoof, MeasuredPeaks, MemoryLevel, MemoryRoof, PeakKind, Unit

    Metrics = Mapping[str, MetricValue]

Position = Literal["memory_bound", "compute_bound"]

INTEGERS = frozenset({"i8"})
"""Data types whose operations are not floating-point work: they have a roof but no arithmetic intensity."""

_HITS_OF_MALL = " (includes Infinity Cache hits)"
_WIDE_LANES = " (lookups of wide lanes count twice)"
_NO_METRIC = "the architecture has no counter for it"
_NO_MALL_COUNTERS = "no counters: its hits are included in dram"


@dataclass(frozen=True)
class Unavailable:
    """Missing result and the reason."""

    reason: str


@dataclass(frozen=True)
class ComputeRow:
    """Work of one data type on one kind of unit. Operations of the integer type `i8` are not FLOP."""

    unit: Unit
    data_type: str
    flops: float | None
    gflop_per_s: float | None
    peak_gflop_per_s: float
    utilisation: float | None
    reason: str | None
    peak_kind: PeakKind = "theoretical"


@dataclass(frozen=True)
class MemoryRow:
    """Traffic at one memory level. `intensity` is FLOP per byte; `ridge` is the intensity at which the compute roof begins."""

    level: MemoryLevel
    bytes: float | None
    gb_per_s: float | None
    peak_gb_per_s: float
    utilisation: float | None
    intensity: float | None
    ridge: float
    reason: str | None
    peak_kind: PeakKind = "theoretical"


@dataclass(frozen=True)
class Roofline:
    """Kernel under its roofs. `bound_ns` is the minimum time for its work and its DRAM traffic."""

    duration_ns: float
    flops: float | None
    flops_reason: str | None
    dram_bytes: float
    intensity: float | None
    gflop_per_s: float | None
    gb_per_s: float
    peak_gflop_per_s: float
    """Peak of the mix of data types that the kernel uses; the vector F32 peak if it computes nothing."""
    peak_gb_per_s: float
    ridge: float
    position: Position | None
    bound_ns: float
    compute: tuple[ComputeRow, ...]
    memory: tuple[MemoryRow, ...]
    notes: tuple[str, ...]
    implausible: tuple[str, ...]
    """Rates above 100 % of a roof, which indicate wrong counters, a wrong time or a wrong peak."""
    peaks: str = "theoretical"
    """`theoretical`, or `empirical` with the source of the measurement."""


def evaluate_metrics(profile: Profile, duration_ns: float | None = None) -> Metrics:
    """Evaluate every counter metric of the target's architecture. Uses the median duration if `duration_ns` is omitted."""
    facts = target_facts(profile.target, statistics.median(profile.durations_ns) if duration_ns is None else duration_ns)
    facts["wave_size"] = profile.wave_size
    metrics = load_metrics(profile.target.architecture)
    return {name: evaluate_metric(metric, profile.counter_passes, facts) for name, metric in metrics.items()}


def roofline(
    profile: Profile, metrics: Metrics, duration_ns: float | None = None, measured: MeasuredPeaks | None = None
) -> Roofline | Unavailable:
    """Return the roofline of a dispatch.

    Args:
        profile: Profile of the kernel.
        metrics: Result of :func:`evaluate_metrics`.
        duration_ns: Duration of the dispatch; the median if omitted.
        measured: Measured peaks of the GPU, which replace the theoretical ones.
    """
    duration_ns = statistics.median(profile.durations_ns) if duration_ns is None else duration_ns
    dram = metrics.get("dram_bytes")
    if not profile.counter_passes:
        return Unavailable("no counters were collected")
    if dram is None or dram.value is None:
        return Unavailable(f"no DRAM traffic: {dram.reason if dram else _NO_METRIC}")
    if duration_ns <= 0:
        return Unavailable("the dispatch has no duration")
    compute_peaks, memory_peaks = compute_roofs(profile.target, measured), memory_roofs(profile.target, measured)
    compute = _compute_rows(compute_peaks, metrics, duration_ns)
    peak_bytes = next((roof.gb_per_s for roof in memory_peaks if roof.level == "dram"), None)
    if peak_bytes is None or not compute_peaks:
        return Unavailable(f"the peaks of {profile.target.product_name} are unknown")
    peak_flops = _mixed_peak(compute_peaks, compute)
    flops = metrics.get("flops")
    total = flops.value if flops else None
    memory = _memory_rows(memory_peaks, metrics, duration_ns, total, peak_flops)
    memory_ns, compute_ns = dram.value / peak_bytes, max(_unit_ns(compute).values())
    is_memory = memory_ns >= compute_ns
    # More operations could make compute the bound, more traffic could make memory the bound.
    known = flops is not None and total is not None and not (flops if is_memory else dram).is_lower_bound
    return Roofline(
        duration_ns=duration_ns,
        flops=total,
        flops_reason=_reason(flops),
        dram_bytes=dram.value,
        intensity=_ratio(total, dram.value),
        gflop_per_s=None if total is None else total / duration_ns,
        gb_per_s=dram.value / duration_ns,
        peak_gflop_per_s=peak_flops,
        peak_gb_per_s=peak_bytes,
        ridge=peak_flops / peak_bytes,
        position=None if not known else "memory_bound" if is_memory else "compute_bound",
        bound_ns=max(memory_ns, compute_ns),
        compute=compute,
        memory=memory,
        notes=(_peak_note(measured), *dict.fromkeys(note for value in metrics.values() for note in value.notes)),
        implausible=_implausible(compute, memory),
        peaks=f"empirical: {measured.source}" if measured else "theoretical",
    )


def _reason(flops: MetricValue | None) -> str | None:
    """Return the reason why the operations are unknown, or only a lower bound."""
    if flops is None:
        return _NO_METRIC
    return flops.notes[0] if flops.is_lower_bound else flops.reason


def _peak_note(measured: MeasuredPeaks | None) -> str:
    if measured is None:
        return "theoretical peaks at the maximum clock; set passes.roofline_csv to use measured ones"
    return f"empirical peaks of {measured.source}; roofs missing there are theoretical"


def _compute_rows(roofs: tuple[ComputeRoof, ...], metrics: Metrics, duration_ns: float) -> tuple[ComputeRow, ...]:
    """Return one row per roof that has, or could have, a counter. Packed forms share the counters of the plain ones."""
    rows = []
    for roof in roofs:
        value = metrics.get(f"{roof.unit}_{'ops' if roof.data_type in INTEGERS else 'flops'}_{roof.data_type}")
        if value is None:
            continue
        rate = None if value.value is None else value.value / duration_ns
        rows.append(
            ComputeRow(
                unit=roof.unit,
                data_type=roof.data_type,
                flops=value.value,
                gflop_per_s=rate,
                peak_gflop_per_s=roof.gflop_per_s,
                utilisation=_ratio(rate, roof.gflop_per_s),
                reason=value.reason,
                peak_kind=roof.kind,
            )
        )
    return tuple(rows)


def _memory_rows(
    roofs: tuple[MemoryRoof, ...], metrics: Metrics, duration_ns: float, flops: float | None, peak_flops: float
) -> tuple[MemoryRow, ...]:
    rows = []
    for roof in roofs:
        value = metrics.get(f"{roof.level}_bytes")
        traffic = value.value if value else None
        rate = None if traffic is None else traffic / duration_ns
        rows.append(
            MemoryRow(
                level=roof.level,
                bytes=traffic,
                gb_per_s=rate,
                peak_gb_per_s=roof.gb_per_s,
                utilisation=_ratio(rate, roof.gb_per_s),
                intensity=_ratio(flops, traffic),
                ridge=peak_flops / roof.gb_per_s,
                reason=value.reason if value else _NO_MALL_COUNTERS if roof.level == "mall" else _NO_METRIC,
                peak_kind=roof.kind,
            )
        )
    return tuple(rows)


def _unit_ns(compute: tuple[ComputeRow, ...]) -> dict[str, float]:
    """Return the minimum time of each kind of unit; data types of one unit share its time."""
    spent = {"vector": 0.0, "matrix": 0.0}
    for row in compute:
        spent[row.unit] += (row.flops or 0.0) / row.peak_gflop_per_s
    return spent


def _mixed_peak(roofs: tuple[ComputeRoof, ...], compute: tuple[ComputeRow, ...]) -> float:
    """Return FLOP over their minimum time: data types of one unit share its time, vector and matrix units overlap."""
    floating = tuple(row for row in compute if row.data_type not in INTEGERS)
    flops = sum(row.flops or 0.0 for row in floating)
    if flops:
        return flops / max(_unit_ns(floating).values())
    return next(r.gflop_per_s for r in roofs if (r.unit, r.data_type) == ("vector", "f32"))


def _implausible(compute: tuple[ComputeRow, ...], memory: tuple[MemoryRow, ...]) -> tuple[str, ...]:
    shares = [(f"{row.unit} {row.data_type}", row.utilisation) for row in compute]
    has_mall = any(row.level == "mall" for row in memory)
    remarks: dict[str, str] = {"dram": _HITS_OF_MALL} if has_mall else {}
    remarks["vector_l1"] = _WIDE_LANES
    shares += [(row.level, row.utilisation) for row in memory]
    return tuple(
        f"{name}: {share:.0%} of its roof{remarks.get(name, '')}" for name, share in shares if share is not None and share > 1
    )


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    return None if numerator is None or not denominator else numerator / denominator


@dataclass(frozen=True)
class Headroom:
    """Possible speed-up of the kernel at its roof, and the resulting speed-up of the critical path (Amdahl's law)."""

    roof_ns: float
    speedup: float
    critical_path_speedup: float
    limited_by: str


def headroom(ledger: Ledger, critical_share: float) -> Headroom | None:
    """Return the headroom of a kernel's ledger, or None without times or without a known roof.

    Args:
        ledger: Ledger of lost time.
        critical_share: Share of the kernel in the critical path, 0 to 1.
    """
    roof = ledger.roof
    if roof is None or not roof.time_ns or not ledger.measured_ns:
        return None
    speedup = ledger.measured_ns / roof.time_ns
    return Headroom(
        roof_ns=roof.time_ns,
        speedup=speedup,
        critical_path_speedup=1 / (1 - critical_share + critical_share / speedup),
        limited_by=roof.name,
    )
