"""`compare --json`: versioned document of the comparison of two runs, and its JSON Schema."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.core.models import write_schema
from rocm_perf_lab.profiling.documents import Document, Part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.analysis.comparison_model import KernelComparison, RunTimes

SCHEMA_FILE = "compare.schema.json"
VERDICTS = ("slower", "faster", "same", "indistinguishable", "unclear", "not comparable", "new", "gone")


class ComparedRun(Part):
    """One side of the comparison."""

    path: str
    time_kind: Literal["emulated", "measured"]
    timed: Literal["kernels", "whole command"]
    """`whole command` if it ran without a profiler; the GPU is unknown then."""
    architecture: str | None = None
    gpu: str | None = None
    compute_units: str | None = None
    versions: dict[str, str]


class ComparedKernel(Part):
    """Comparison of one kernel. Times are in ms; `change` and `interval` are relative to the base (0.1 is 10 % slower).

    `p_value` is corrected for the number of tested kernels; `interval` (95 %) applies to this kernel only. For two emulated
    times, `basis` is `band` and `interval` the error band of the timing model: a difference inside it is `indistinguishable`.
    """

    name: str
    mangled_name: str
    verdict: Literal["faster", "slower", "same", "indistinguishable", "unclear", "not comparable", "new", "gone"]
    reason: str
    base_ms: float | None
    new_ms: float | None
    base_runs: int | None
    new_runs: int | None
    change: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    significant: bool | None
    basis: Literal["ranks", "summary", "band", "none"]
    match: Literal["symbol", "name", "template"] | None
    base_name: str | None
    note: str | None
    base_launch: str | None = None
    launch: str | None = None
    """Launch shape: workgroups of work-items."""
    normalised: Literal["workgroup", "byte"] | None = None
    """Divisor of the times, because the launch shapes differ; such a row is never a regression."""
    regression: bool


class EmulatedBandPart(Part):
    """Factor within which two emulated times are indistinguishable, with probability `coverage`."""

    coverage: float
    factor: float


class CompareDocument(Document):
    """Document of `compare --json`; a kernel has a row per launch shape.

    `differences` stop the comparison without --force; `remarks` are informational.
    """

    schema_version: Literal["1.1"] = "1.1"  # type: ignore[assignment]  # 1.1 adds launch shapes
    base: ComparedRun
    new: ComparedRun
    differences: tuple[str, ...]
    remarks: tuple[str, ...]
    fail_over: float
    verdicts: dict[str, int]
    """Number of kernels per verdict."""
    error_band: EmulatedBandPart | None = None
    """Error band of two emulated runs; null for measured ones."""
    kernels: tuple[ComparedKernel, ...]
    regressions: tuple[str, ...]
    """Mangled names of the kernels that are significantly slower by more than `fail_over`."""


def counted(rows: Sequence[KernelComparison]) -> dict[str, int]:
    """Return the number of kernels per verdict; contains all verdicts in a fixed order."""
    return {verdict: sum(row.verdict == verdict for row in rows) for verdict in VERDICTS}


def compare_document(
    sides: Mapping[str, tuple[Path, RunTimes]],
    rows: Sequence[KernelComparison],
    *,
    differences: Sequence[str],
    remarks: Sequence[str],
    fail_over: float,
) -> CompareDocument:
    """Return the document of a comparison of `sides["base"]` and `sides["new"]`."""
    return CompareDocument(
        base=_side(*sides["base"]),
        new=_side(*sides["new"]),
        differences=tuple(differences),
        remarks=tuple(remarks),
        fail_over=fail_over,
        verdicts=counted(rows),
        error_band=_band(*sides.values()),
        kernels=tuple(ComparedKernel(**asdict(row), regression=row.is_regression(fail_over)) for row in rows),
        regressions=tuple(row.mangled_name for row in rows if row.is_regression(fail_over)),
    )


def export_schema(directory: Path) -> Path:
    """Write `compare.schema.json`."""
    return write_schema(directory / SCHEMA_FILE, CompareDocument, "serialization")


def _band(base: tuple[Path, RunTimes], new: tuple[Path, RunTimes]) -> EmulatedBandPart | None:
    bands = [run.bands.ratio for _, run in (base, new) if run.bands is not None]
    if len(bands) < 2:
        return None
    widest = max(bands, key=lambda band: band.factor)
    return EmulatedBandPart(coverage=widest.coverage, factor=widest.factor)


def _side(path: Path, run: RunTimes) -> ComparedRun:
    return ComparedRun.model_validate({"path": str(path), **dict(run.traits), "versions": dict(run.versions)})
