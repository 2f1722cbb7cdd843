"""Theoretical roofs of a target in GFLOP/s and GB/s, from its operations per CU and clock at the maximum clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rocm_perf_lab.target.model import Target

Unit = Literal["vector", "matrix"]
MemoryLevel = Literal["lds", "vector_l1", "l2", "mall", "dram"]


@dataclass(frozen=True)
class ComputeRoof:
    """The most that one kind of arithmetic unit does; operations of `i8` are integer operations."""

    unit: Unit
    data_type: str
    gflop_per_s: float


@dataclass(frozen=True)
class MemoryRoof:
    """The most that one level of the memory hierarchy delivers, over the whole device."""

    level: MemoryLevel
    gb_per_s: float


def compute_roofs(target: Target) -> tuple[ComputeRoof, ...]:
    """Every arithmetic roof of the target, vector units first."""
    cu_clocks_per_ns = target.compute_units * target.max_clock_mhz / 1000
    units: tuple[tuple[Unit, dict[str, float]], ...] = (
        ("vector", target.peaks.vector_flops_per_cu_clock),
        ("matrix", target.peaks.matrix_flops_per_cu_clock),
    )
    return tuple(
        ComputeRoof(unit, data_type, per_cu_clock * cu_clocks_per_ns)
        for unit, rates in units
        for data_type, per_cu_clock in rates.items()
    )


def memory_roofs(target: Target) -> tuple[MemoryRoof, ...]:
    """Every bandwidth roof of the target, the nearest to the arithmetic units first."""
    peaks = target.peaks
    levels: tuple[tuple[MemoryLevel, float | None], ...] = (
        ("lds", peaks.lds_gb_per_s),
        ("vector_l1", peaks.vector_l1_gb_per_s),
        ("l2", peaks.l2_gb_per_s),
        ("mall", peaks.mall_gb_per_s),
        ("dram", peaks.dram_gb_per_s),
    )
    return tuple(MemoryRoof(level, bandwidth) for level, bandwidth in levels if bandwidth is not None)
