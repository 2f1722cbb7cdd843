"""Texts of the causes of lost time, and the achievable share of each bandwidth, from `causes.yaml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.analysis.ledger import Cause  # noqa: TC001  (a field of a model)
from rocm_perf_lab.core.resources import load_yaml
from rocm_perf_lab.target.peaks import MemoryLevel  # noqa: TC001  (a field of a model)

_FILE = Path(__file__).with_name("causes.yaml")


class CauseText(BaseModel):
    """Title and general suggestion of a cause."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    title: str
    suggestion: str


class CauseCatalogue(BaseModel):
    """All causes, and the share of each theoretical bandwidth that benchmarks achieve."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    achievable: dict[MemoryLevel, float]
    causes: dict[Cause, CauseText]


@cache
def cause_catalogue() -> CauseCatalogue:
    """Return the catalogue."""
    return CauseCatalogue.model_validate(load_yaml(_FILE.read_text()))
