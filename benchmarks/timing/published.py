"""Published measurements of GPU kernels: `published_cases() -> tuple[Case, ...]`.

They are stored in `benchmarks/timing/published*.yaml`. A file lists families of kernels; a family lists series, usually one row
of a published table; a series lists points. Each series belongs either to `calibration`, which may be used to choose parameters
of the model, or to `held_out`. The split is random: `drawn_split` derives it from the seed and the names, and a test
compares it with the files.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from rocm_perf_lab.core.models import StrictModel
from rocm_perf_lab.core.resources import load_yaml

SEED = 20261122
"""Seed of the split."""

DIRECTORY = Path(__file__).parent
Split = Literal["calibration", "held_out"]
Parameters = dict[str, int | float | str]


class Point(StrictModel):
    """One measurement; `parameters` are added to those of the series and the family."""

    variant: str
    measured: float = Field(gt=0)
    parameters: Parameters = {}


class Series(StrictModel):
    """Measurements of one kernel under the same conditions.

    `caches` is the published condition. The emulation has warm caches unless a parameter `cache` is `cold`.

    `row` names the row in the collection of published measurements, `trust` is A to C as defined there. `clock_mhz` is the
    clock of the measurement; None stands for the maximum clock of the target.
    """

    name: str
    row: str
    trust: Literal["A", "B", "C"]
    split: Split
    points: tuple[Point, ...]
    clock_mhz: int | None = None
    caches: Literal["warm", "cold", "not stated"] = "not stated"
    parameters: Parameters = {}
    seen: bool = False
    """Whether results of this series were known while the model was changed; a held-out series no longer counts as held out."""


class Family(StrictModel):
    """Kernels that are compared with each other.

    `measure` names the function that runs the kernel and converts the emulated time to `unit` (see `MEASURES`).
    """

    name: str
    measure: str
    source: str
    gpu: Literal["MI300X", "MI300A"]
    kernel: str
    structure: str
    unit: str
    conversion: str
    faster: Literal["higher", "lower"]
    record: Literal["dispatch", "repetition"] = "dispatch"
    """Measured with the timestamps of single dispatches, or per launch of many in a row, which hides their overhead."""
    series: tuple[Series, ...]
    parameters: Parameters = {}


class PublishedFile(StrictModel):
    """One YAML file; `sources` are the references of the families by their short names."""

    sources: dict[str, str]
    families: tuple[Family, ...]

    @model_validator(mode="after")
    def _sources_are_known(self) -> Self:
        unknown = {family.source for family in self.families} - self.sources.keys()
        if unknown:
            raise ValueError(f"no reference for {', '.join(sorted(unknown))}")
        return self


@dataclass(frozen=True)
class Case:
    """One measurement with the complete parameters of its kernel."""

    family: Family
    series: Series
    point: Point

    @property
    def identifier(self) -> str:
        """Return `family/series/variant`."""
        return f"{self.family.name}/{self.series.name}/{self.point.variant}"

    @property
    def held_out(self) -> bool:
        """Return whether the case was drawn for the held-out part and its result was not known while the model was changed."""
        return self.series.split == "held_out" and not self.series.seen

    @property
    def parameters(self) -> Parameters:
        """Return the parameters of the family, the series and the point."""
        return {**self.family.parameters, **self.series.parameters, **self.point.parameters}


def drawn_split(family: str, series: str, seed: int = SEED) -> Split:
    """Return the random split of a series; it does not depend on other series."""
    digest = hashlib.sha256(f"{seed}/{family}/{series}".encode()).digest()
    return "held_out" if digest[0] % 2 else "calibration"


@cache
def published_families() -> tuple[Family, ...]:
    """Return the families of all files."""
    files = [PublishedFile.model_validate(load_yaml(path.read_text())) for path in sorted(DIRECTORY.glob("published*.yaml"))]
    return tuple(family for file in files for family in file.families)


def published_cases() -> tuple[Case, ...]:
    """Return all cases in the order of the files."""
    return tuple(
        Case(family, series, point) for family in published_families() for series in family.series for point in series.points
    )
