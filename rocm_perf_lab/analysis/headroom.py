"""How much faster a kernel could get: to its own roof, and what that would give the whole run.

Takes a roofline and the kernel's share of the critical path; gives speed-ups, upper bounds both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocm_perf_lab.analysis.roofline import Roofline


@dataclass(frozen=True)
class Headroom:
    """Speed-up if the kernel ran at its roof, and of the critical path then (Amdahl's law)."""

    roof_ns: float
    speedup: float
    critical_path_speedup: float
    limited_by: str


def headroom(roof: Roofline, critical_share: float) -> Headroom | None:
    """The headroom, or None where the roofline cannot be trusted (work unknown, or a rate above its roof)."""
    if roof.flops is None or roof.implausible or roof.bound_ns <= 0:
        return None
    speedup = roof.duration_ns / roof.bound_ns
    return Headroom(
        roof_ns=roof.bound_ns,
        speedup=speedup,
        critical_path_speedup=1 / (1 - critical_share + critical_share / speedup),
        limited_by="dram bandwidth" if roof.position == "memory_bound" else "arithmetic peak",
    )
