"""Models of roofline.json, dag.json and analysis.json, and the JSON Schemas of all four documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.analysis.ledger_document import LedgerPart  # noqa: TC001  (a field of a model)
from rocm_perf_lab.analysis.thread_trace_document import ThreadTracePart  # noqa: TC001  (a field of a model)
from rocm_perf_lab.core.models import write_schema
from rocm_perf_lab.profiling.documents import Document, Part, ProfileDocument
from rocm_perf_lab.rocprof.counter_catalogue import Certificate  # noqa: TC001  (a field of a model)

if TYPE_CHECKING:
    from pathlib import Path

Position = Literal["memory_bound", "compute_bound"]


class ComputeRoofPart(Part):
    """Floating-point work of one data type on vector units or matrix cores."""

    unit: Literal["vector", "matrix"]
    data_type: str
    flops: float | None
    gflop_per_s: float | None
    peak_gflop_per_s: float
    utilisation: float | None
    reason: str | None
    peak_kind: Literal["theoretical", "empirical"] = "theoretical"


class MemoryRoofPart(Part):
    """Traffic at one memory level."""

    level: Literal["lds", "vector_l1", "l2", "mall", "dram"]
    bytes: float | None
    gb_per_s: float | None
    peak_gb_per_s: float
    utilisation: float | None
    intensity: float | None
    ridge: float
    reason: str | None
    peak_kind: Literal["theoretical", "empirical"] = "theoretical"


class PlacedKernel(Part):
    """Kernel under the roofs; the reason for a null field is in the field next to it."""

    duration_ms: float
    flops: float | None
    flops_reason: str | None
    dram_bytes: float
    intensity: float | None
    gflop_per_s: float | None
    gb_per_s: float
    peak_gflop_per_s: float
    peak_gb_per_s: float
    ridge: float
    position: Position | None
    compute: tuple[ComputeRoofPart, ...]
    memory: tuple[MemoryRoofPart, ...]
    notes: tuple[str, ...]
    implausible: tuple[str, ...]
    peaks: str = "theoretical"


class RooflineDocument(Document):
    """`roofline.json`; `roofline` is null, with a reason, if counters are missing."""

    kernel: str
    architecture: str
    time_kind: Literal["emulated", "measured"]
    roofline: PlacedKernel | None
    reason: str | None


class DagNode(Part):
    """One dispatch or memory copy; `start_ns` is relative to the first start of the run. -1: a copy without agent or queue."""

    id: int
    kernel: str
    process: int
    agent: int
    queue: int
    stream: int
    start_ns: int
    duration_ns: int
    slack_ns: int
    critical: bool
    kind: Literal["dispatch", "copy"] = "dispatch"


class DagKernel(Part):
    """Contribution of one kernel to the critical path; `calls` and `total_ns` count all of its dispatches."""

    kernel: str
    critical_path_ns: float
    share: float
    calls: int
    total_ns: int
    critical_calls: int
    least_slack_ns: int


class DagGap(Part):
    """Idle interval between two nodes; `start_ns` is relative to the first start of the run."""

    start_ns: int
    duration_ns: int
    before: str
    after: str


class DagLaunches(Part):
    """Launches by the host. `overhead` is time in the API call, `latency` the time from the call to the start on the GPU."""

    count: int
    overhead_ns: int
    median_overhead_ns: float
    median_latency_ns: float
    p90_latency_ns: float
    late: int
    """Launches after all their dependencies had ended, so that the GPU waited for the host."""


class DagWhatIf(Part):
    """Predicted run if every dispatch of one kernel were faster by this factor and all waiting were unchanged."""

    kernel: str
    times_faster: float
    wall_ns: float
    wall_speedup: float


class DagDocument(Document):
    """`dag.json`: dispatches, the dependencies visible in the trace, and the longest chain of them."""

    time_kind: Literal["emulated", "measured"]
    rule: str
    critical_path_ns: int
    wall_ns: int
    busy_ns: int
    nodes: tuple[DagNode, ...]
    edges: tuple[tuple[int, int], ...]
    critical_path: tuple[int, ...]
    kernels: tuple[DagKernel, ...]
    nodes_total: int
    nodes_left_out: int
    """Number of omitted nodes: for a large run only the longest nodes of the critical path and their connections are listed."""
    critical_path_nodes: int
    copies_on_critical_path_ns: int
    idle_ns: int
    work_ns: int
    overlap_ns: int
    most_at_once: int
    gap_count: int
    longest_gaps: tuple[DagGap, ...]
    launches: DagLaunches | None
    launches_reason: str | None
    what_if: tuple[DagWhatIf, ...]
    clamped_overlaps: int = 0
    """Dispatches that end less than 1 us after the next one of their queue and stream started; they end at its start here."""
    notes: tuple[str, ...] = ()
    """Corrections of the recorded times."""


class HeadroomPart(Part):
    """Upper bounds of the possible speed-up."""

    roof_ms: float
    speedup: float
    critical_path_speedup: float
    limited_by: str


class AnalysisDocument(Document):
    """`analysis.json`: diagnosis of the kernel."""

    kernel: str
    time_ms: float
    time_kind: Literal["emulated", "measured"]
    operational_intensity: float | None
    roofline_position: Position | None
    critical_path_score: float
    bottleneck: str
    confidence: float
    reasons: tuple[str, ...]
    other_bottlenecks: tuple[str, ...]
    not_judged: tuple[str, ...]
    metrics: dict[str, float | None]
    metric_reasons: dict[str, str]
    metric_certificates: dict[str, Certificate] | None = None
    """Certainty of the metrics of an emulated kernel; null for measured ones."""
    att: dict[str, float] | None
    att_reason: str | None
    thread_trace: ThreadTracePart | None = None
    """Details behind `att`; null if `att` is null."""
    ledger: LedgerPart
    """Budget of the measured time: roof, losses and unexplained rest. `bottleneck`, `headroom` and advice follow from it."""
    headroom: HeadroomPart | None
    recommendations: tuple[str, ...]


DOCUMENTS: dict[str, type[Document]] = {
    "profile.json": ProfileDocument,
    "roofline.json": RooflineDocument,
    "dag.json": DagDocument,
    "analysis.json": AnalysisDocument,
}
"""Model by file name."""


def export_schemas(directory: Path) -> tuple[Path, ...]:
    """Write the JSON Schema of every document as `<document>.schema.json`."""
    return tuple(
        write_schema(directory / name.replace(".json", ".schema.json"), model, "serialization")
        for name, model in DOCUMENTS.items()
    )
