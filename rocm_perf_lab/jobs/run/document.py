"""JSON document of `rocm-perf run --json`: exit of an application, and work of the emulated GPUs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.core.models import StrictModel, write_schema
from rocm_perf_lab.profiling.documents import Document

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.runtime.findings import ApplicationFinding

SCHEMA_FILE = "run.schema.json"


class FoundDefect(StrictModel):
    """Finding of a check."""

    check: str
    """Option of `--check` that found it."""
    kind: str
    message: str
    count: int
    kernel: str | None
    source: str | None
    """File and line in the kernel."""
    instruction: str | None
    call_site: str | None
    """File and line of the call in host code; for a kernel, of its launch."""

    @classmethod
    def of(cls, finding: ApplicationFinding) -> FoundDefect:
        """Return the entry of a finding."""
        return cls(**asdict(finding))


class RunDocument(Document):
    """One run of an application on emulated GPUs. Times of kernels are emulated, never measured."""

    command: tuple[str, ...]
    target: str
    architecture: str
    gpus: int
    runtime: Literal["rocm", "lab"]
    """HIP runtime: `rocm` is AMD's, `lab` that of rocm-perf-lab."""
    root: str | None
    """Directory tree with ROCm in which the application ran."""
    exit_code: int
    """128 + n if signal n ended the application."""
    findings: tuple[FoundDefect, ...] = ()
    """Findings of `--check`, without duplicates."""
    used_gpu: bool
    dispatches: int
    instructions: int
    """Instructions of all wavefronts."""
    time_kind: Literal["emulated"] = "emulated"
    kernel_time_ns: int
    """Sum of the emulated durations of the dispatches."""
    wall_time_s: float
    """Wall-clock time from start to end on this machine."""
    compiled_parts: int = 0
    """Number of host and device parts of sources that were compiled; others were in the cache."""
    translated_kernels: int = 0
    """Number of kernels translated to machine code of this CPU; others were in the cache."""


def export_schema(directory: Path) -> Path:
    """Write `run.schema.json`, the schema of the document."""
    return write_schema(directory / SCHEMA_FILE, RunDocument, "serialization")
