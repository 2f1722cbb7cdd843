"""Texts of the causes of lost time, and the achievable share of each bandwidth, from `causes.yaml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.analysis.ledger import Cause, HardwareUnit
from rocm_perf_lab.core.resources import load_yaml
from rocm_perf_lab.target.peaks import MemoryLevel

BottleneckClass = Literal[
    "memory_bandwidth_bound", "compute_bound", "latency_bound", "under_occupied", "launch_bound", "lds_bank_conflicts",
    "divergence_limited", "unknown",
]  # fmt: skip
_FILE = Path(__file__).with_name("causes.yaml")


class CauseText(BaseModel):
    """Title, bottleneck class and general suggestion of a cause."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    title: str
    bottleneck: BottleneckClass
    suggestion: str


class CauseCatalogue(BaseModel):
    """All causes, advice for each roof, and the share of each theoretical bandwidth that benchmarks achieve."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    achievable: dict[MemoryLevel, float]
    roofs: dict[HardwareUnit, str]
    causes: dict[Cause, CauseText]


@cache
def cause_catalogue() -> CauseCatalogue:
    """Return the catalogue."""
    return CauseCatalogue.model_validate(load_yaml(_FILE.read_text()))
