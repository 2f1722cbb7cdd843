"""`optimize.json`: model of the result of an optimization, and its JSON Schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.core.models import StrictModel, write_schema
from rocm_perf_lab.optimize.proposal import Stage
from rocm_perf_lab.profiling.documents import Part
from rocm_perf_lab.target.timing_errors import TimingErrors

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA_FILE = "optimize.schema.json"


class ComparisonRow(Part):
    """Time saved by a new source, relative to the old time: 0.25 means 25 % less; infinite bounds are null."""

    improvement: float | None
    least: float | None
    most: float | None
    confidence: float
    pairs: int
    method: str
    band: float | None
    """Factor of the error band of emulated times; null for measured ones."""
    level: float | None
    """Significance level of this comparison."""
    planned_pairs: int | None
    smallest_gain: float | None
    """Relative gain that is detected with 80 % power."""


class FinalPart(Part):
    """Final comparison of the best source with the unmodified one; `confirmed` is null if it was not run."""

    confirmed: bool | None
    reason: str | None
    by_counters: bool


class PowerPart(Part):
    """Relative gain that every comparison of the run detects with this power."""

    power: float
    smallest_gain: float | None
    pairs: int | None


class SeedsPart(Part):
    """Secret seeds of the trials, and of the sample of workgroups for emulated times."""

    trials: int | None
    samples: int | None


class BaselinePart(Part):
    """Unmodified source."""

    proposal: str
    runtime_ms: float | None


class BestPart(BaselinePart):
    """Best source; `source` is its path in the directory of the run."""

    source: str


class RebuildPart(Part):
    """SHA-256 of the measured code object, and of a second build of the stored source."""

    measured: str
    rebuilt: str
    command: tuple[str, ...]
    identical: bool


class SpendingPart(Part):
    """Calls of models, prompt (`read`) and completion (`written`) tokens, and their cost in the currency of the prices."""

    calls: int
    read: int
    written: int
    cost: float


class GuardRow(Part):
    """Result of one guard."""

    name: str
    passed: bool
    detail: str
    severity: Literal["error", "warning"]


class VerdictRow(StrictModel):
    """Evaluation of one proposal; fields of stages that were not reached are null."""

    proposal: str
    parent: str | None
    transform: str
    description: str
    accepted: bool
    stage: Stage
    """Stage that determined the verdict."""
    reason: str
    guards: tuple[GuardRow, ...]
    warnings: tuple[str, ...]
    vgpr: int | None
    sgpr: int | None
    waves_per_simd: float | None
    compile_cached: bool
    indistinguishable: bool
    correct: bool | None
    uncovered: tuple[str, ...]
    """Branches that were taken in no trial."""
    runtime_ms: float | None
    improvement: float | None
    """Relative gain over the best source at the time of the evaluation."""
    by_counters: bool
    exact_counters: dict[str, float] | None
    comparison: ComparisonRow | None
    followed: bool
    """Whether the search continued from this source although it was not accepted."""


class OptimizeDocument(StrictModel):
    """Result of an optimization; `verdicts` are in the order of the evaluations."""

    schema_version: Literal["1.4"]
    time_kind: Literal["emulated", "measured"]
    error_bands: TimingErrors | None
    speedup: float
    indistinguishable: bool
    comparison: ComparisonRow | None
    final: FinalPart
    power: PowerPart | None
    seeds: SeedsPart | None
    baseline: BaselinePart
    best: BestPart
    rebuild: RebuildPart | None
    isolation: str
    spending: SpendingPart | None
    stop_reason: str
    verdicts: tuple[VerdictRow, ...]


def export_schema(directory: Path) -> Path:
    """Write `optimize.schema.json`, the schema of the document."""
    return write_schema(directory / SCHEMA_FILE, OptimizeDocument, "serialization")
