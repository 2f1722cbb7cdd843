"""Models and JSON Schemas of additional documents of a profile: findings of checks, and the wall-clock time of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.core.models import write_schema
from rocm_perf_lab.device.instruction_counts import CountsDocument
from rocm_perf_lab.profiling.documents import Document, Part, StabilityPart

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import BaseModel


class KernelDefect(Part):
    """Defect of a kernel; `source` is its source line, if known."""

    check: str
    message: str
    source: str | None


class ChecksDocument(Document):
    """`checks.json`: findings of the emulator's checks."""

    findings: tuple[KernelDefect, ...]


class WallPart(Part):
    """Wall-clock times of the runs in milliseconds."""

    runs: int
    median: float
    min: float


class WallTimeDocument(Document):
    """`wall_time.json`: time of a command that ran without a profiler."""

    command: tuple[str, ...]
    time_kind: Literal["measured"]
    runtime_ms: float
    """Median."""
    stability: StabilityPart
    wall_ms: WallPart
    note: str


def export_schemas(directory: Path) -> tuple[Path, ...]:
    """Write the schemas of checks.json, wall_time.json and instruction_counts.json."""
    models: dict[str, type[BaseModel]] = {
        "checks": ChecksDocument,
        "wall_time": WallTimeDocument,
        "instruction_counts": CountsDocument,
    }
    return tuple(write_schema(directory / f"{name}.schema.json", model, "serialization") for name, model in models.items())
