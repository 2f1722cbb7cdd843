"""`series.json`: versioned document of the history of kernels over many runs, and its JSON Schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.core.models import write_schema
from rocm_perf_lab.profiling.documents import Document, Part

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.analysis.series import KernelHistory, Series

SERIES = "series.json"
SCHEMA_FILE = "series.schema.json"
_NS_PER_MS = 1e6


class SeriesRunPart(Part):
    """One run: all processes of one launch. `begin_ns` is the recorded start on the clock of the machine, 0 if unknown."""

    label: str
    begin_ns: int
    processes: int
    dispatches: int
    total_ms: float
    """Total time of all kernels."""
    time_kind: Literal["emulated", "measured"]


class SeriesChangePart(Part):
    """Change of the time from run `run` (position in `runs`) on; `change` is relative: 0.1 is 10 % slower than before.

    `p_value` is the probability of such a change by chance in any kernel at any run.
    """

    run: int
    change: float
    p_value: float
    before_ms: float
    after_ms: float
    runs_before: int
    runs_after: int
    explained: bool
    """Whether a recorded difference can cause the change."""
    reasons: tuple[str, ...]


class KernelHistoryPart(Part):
    """One kernel with one launch shape. `runs` are positions in the document's `runs`; the other lists correspond to it."""

    name: str
    mangled_name: str
    launch: str
    share: float
    """Share of the total time of all kernels in the last run that contains it."""
    noise: float
    """Standard deviation from run to run, relative."""
    runs: tuple[int, ...]
    median_ms: tuple[float, ...]
    calls: tuple[int, ...]
    changes: tuple[SeriesChangePart, ...]
    odd_runs: tuple[int, ...]
    """Single runs that differ from both of their neighbours."""


class SeriesDocument(Document):
    """`series.json`. `order` states whether runs are ordered by recorded start or by name; kernels are by descending share."""

    order: Literal["time", "name"]
    runs: tuple[SeriesRunPart, ...]
    kernels: tuple[KernelHistoryPart, ...]
    notes: tuple[str, ...]


def series_document(series: Series, notes: Sequence[str] = ()) -> SeriesDocument:
    """Return the document of a series; `notes` are on the files."""
    return SeriesDocument(
        order=series.order,
        runs=tuple(
            SeriesRunPart(
                label=run.label,
                begin_ns=run.begin_ns,
                processes=run.processes,
                dispatches=sum(kernel.calls for kernel in run.kernels),
                total_ms=sum(kernel.total_ns for kernel in run.kernels) / _NS_PER_MS,
                time_kind="emulated" if run.emulated else "measured",
            )
            for run in series.runs
        ),
        kernels=tuple(_history(kernel) for kernel in series.kernels),
        notes=tuple(notes),
    )


def export_schema(directory: Path) -> Path:
    """Write `series.schema.json`."""
    return write_schema(directory / SCHEMA_FILE, SeriesDocument, "serialization")


def _history(kernel: KernelHistory) -> KernelHistoryPart:
    return KernelHistoryPart(
        name=kernel.name,
        mangled_name=kernel.mangled_name,
        launch=kernel.launch,
        share=kernel.share,
        noise=kernel.noise,
        runs=kernel.runs,
        median_ms=tuple(time / _NS_PER_MS for time in kernel.median_ns),
        calls=kernel.calls,
        changes=tuple(
            SeriesChangePart(
                run=change.run,
                change=change.change,
                p_value=change.p_value,
                before_ms=change.before_ns / _NS_PER_MS,
                after_ms=change.after_ns / _NS_PER_MS,
                runs_before=change.runs_before,
                runs_after=change.runs_after,
                explained=change.explained,
                reasons=change.reasons,
            )
            for change in kernel.changes
        ),
        odd_runs=kernel.odd_runs,
    )
