"""Roofs of a target in GFLOP/s and GB/s: measured, or theoretical at the maximum clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.target.model import Target

Unit = Literal["vector", "matrix"]
MemoryLevel = Literal["lds", "vector_l1", "l2", "mall", "dram"]
PeakKind = Literal["theoretical", "empirical"]


_PACKED = "_packed"
_MEASURING_ERROR = 1.02


@dataclass(frozen=True)
class MeasuredPeaks:
    """Peaks measured by benchmarks on a GPU; roofs that were not measured have no entry."""

    source: str
    memory: Mapping[MemoryLevel, float]
    compute: Mapping[tuple[Unit, str], float]


@dataclass(frozen=True)
class ComputeRoof:
    """Peak rate of one kind of arithmetic unit and data type; `i8` counts integer operations."""

    unit: Unit
    data_type: str
    gflop_per_s: float
    kind: PeakKind = "theoretical"


@dataclass(frozen=True)
class MemoryRoof:
    """Peak bandwidth of one level of the memory hierarchy, over the whole device."""

    level: MemoryLevel
    gb_per_s: float
    kind: PeakKind = "theoretical"


def compute_roofs(target: Target, measured: MeasuredPeaks | None = None) -> tuple[ComputeRoof, ...]:
    """Return all arithmetic roofs of the target, vector units first; measured peaks replace theoretical ones."""
    cu_clocks_per_ns = target.compute_units * target.max_clock_mhz / 1000
    units: tuple[tuple[Unit, dict[str, float]], ...] = (
        ("vector", target.peaks.vector_flops_per_cu_clock),
        ("matrix", target.peaks.matrix_flops_per_cu_clock),
    )
    found = _with_packed(measured.compute, target) if measured else {}
    return tuple(
        ComputeRoof(unit, data_type, found[unit, data_type], "empirical")
        if (unit, data_type) in found
        else ComputeRoof(unit, data_type, per_cu_clock * cu_clocks_per_ns)
        for unit, rates in units
        for data_type, per_cu_clock in rates.items()
    )


def _with_packed(measured: Mapping[tuple[Unit, str], float], target: Target) -> dict[tuple[Unit, str], float]:
    """Return the measured rates, with rates of packed instructions as `<type>_packed`.

    rocprofiler-compute's benchmark of vector FP32 uses packed instructions if the GPU has them: it reaches 150 TFLOP/s on an
    MI355X, whose plain instructions are limited to 79. Counters count a packed instruction once, so
    the plain roof is scaled down.
    """
    rates = target.peaks.vector_flops_per_cu_clock
    clocks = target.compute_units * target.max_clock_mhz / 1000
    found = dict(measured)
    for packed in (name for name in rates if name.endswith(_PACKED)):
        plain = packed.removesuffix(_PACKED)
        rate = found.get(("vector", plain), 0.0)
        if plain in rates and rate > rates[plain] * clocks * _MEASURING_ERROR:
            found["vector", packed] = rate
            found["vector", plain] = rate * rates[plain] / rates[packed]
    return found


def memory_roofs(target: Target, measured: MeasuredPeaks | None = None) -> tuple[MemoryRoof, ...]:
    """Return all bandwidth roofs, the level nearest to the arithmetic units first; measured peaks replace theoretical ones."""
    peaks = target.peaks
    levels: tuple[tuple[MemoryLevel, float | None], ...] = (
        ("lds", peaks.lds_gb_per_s),
        ("vector_l1", peaks.vector_l1_gb_per_s),
        ("l2", peaks.l2_gb_per_s),
        ("mall", peaks.mall_gb_per_s),
        ("dram", peaks.dram_gb_per_s),
    )
    found = measured.memory if measured else {}
    return tuple(
        MemoryRoof(level, found[level], "empirical") if level in found else MemoryRoof(level, bandwidth)
        for level, bandwidth in levels
        if bandwidth is not None
    )
