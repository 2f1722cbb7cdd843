"""`report.json`, printed by `analyze --json`: all results about a recording in one document.

It contains the fields of profile.json (null if not recorded), the overview of the application, the ledger of lost time, the other
analyses, and the files that were read or ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from rocm_perf_lab.analysis.describe_thread_trace import thread_trace_part
from rocm_perf_lab.analysis.documents import AnalysisDocument, RooflineDocument  # noqa: TC001  (fields of a model)
from rocm_perf_lab.analysis.ledger_document import LedgerPart, ledger_part
from rocm_perf_lab.analysis.thread_trace_document import ThreadTracePart  # noqa: TC001  (a field of a model)
from rocm_perf_lab.core.models import write_schema
from rocm_perf_lab.profiling.documents import (
    CheckedResult,
    CounterCertificatePart,
    Document,
    ErrorBandsPart,
    GpuPart,
    InstructionCount,
    KernelPart,
    KernelSummary,
    OccupancyPart,
    Part,
    ProfileDocument,
    ProvenancePart,
    ResourcesPart,
    RooflineSummary,
    StabilityPart,
)

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.analysis.application import ApplicationOverview, WorkGroup
    from rocm_perf_lab.analysis.ledger import Ledger
    from rocm_perf_lab.analysis.peer_waits import PeerWaits
    from rocm_perf_lab.analysis.thread_trace import ThreadTrace
    from rocm_perf_lab.rocprof.discovery import Recording

REPORT = "report.json"
_NS_PER_MS = 1e6
_NS_PER_US = 1e3


class UnderstoodFile(Part):
    """File or directory that was read, and its content."""

    path: str
    content: str


class UnusedFile(Part):
    """File that was not read, and the reason."""

    path: str
    reason: str


class FilesPart(Part):
    """Files of the recording; `others` is the number of files that no profiler writes."""

    understood: tuple[UnderstoodFile, ...]
    not_understood: tuple[UnusedFile, ...]
    others: int


class GpuUsePart(Part):
    """Use of one GPU; `busy_ms` is the time with at least one dispatch or copy."""

    architecture: str
    name: str
    dispatches: int
    busy_ms: float


class KernelUsePart(Part):
    """All dispatches of one kernel; times are null if the recording has none.

    `active_ms` is the time with at least one running dispatch of the kernel, `exposed_ms` the part of it without other kernels.
    """

    name: str
    mangled_name: str
    kind: Literal["compute", "communication", "copy"]
    calls: int
    total_ms: float | None
    median_ms: float | None
    share: float | None
    active_ms: float | None
    exposed_ms: float | None
    critical_path_share: float


class WorkGroupPart(Part):
    """Communication kernels, or copies: number, summed durations, and the part that does not overlap compute kernels."""

    count: int
    total_ms: float
    active_ms: float
    exposed_ms: float
    size_bytes: int | None


class PeerWaitsPart(Part):
    """Time that processes wait in collectives; `late` is the process that enters last significantly more often than others."""

    peers: int
    calls: int
    waited_us: float
    late: str | None
    late_calls: float
    late_share: float


class ApplicationPart(Part):
    """Overview of the run; `idle_share` is the mean of the GPUs. Times are null if the recording has none."""

    processes: int
    dispatches: int
    wall_ms: float | None
    idle_share: float | None
    longest_gap_ms: float | None
    critical_path_ms: float | None
    launches: int | None
    launches_after_idle: int | None
    gpus: tuple[GpuUsePart, ...]
    kernels: tuple[KernelUsePart, ...]
    communication: WorkGroupPart | None
    copies: WorkGroupPart | None
    peer_waits: PeerWaitsPart | None = None


class ReportDocument(Document):
    """`report.json`. Fields of profile.json have the same meaning; `notes` are those of all parts, without duplicates."""

    time_kind: Literal["emulated", "measured"]
    files: FilesPart
    notes: tuple[str, ...]
    application: ApplicationPart | None
    ledger: LedgerPart | None
    thread_trace: ThreadTracePart | None
    """Thread trace without dispatches; with dispatches it is part of `analysis`."""
    analysis: AnalysisDocument | None
    roofline_analysis: RooflineDocument | None
    kernel: KernelPart | None = None
    gpu: GpuPart | None = None
    runtime_ms: float | None = None
    stability: StabilityPart | None = None
    resources: ResourcesPart | None = None
    occupancy: OccupancyPart | None = None
    waves: float | None = None
    instruction_mix: dict[str, InstructionCount] | None = None
    instruction_mix_reason: str | None = None
    roofline: RooflineSummary | None = None
    roofline_reason: str | None = None
    counters: tuple[dict[str, float], ...] = ()
    counter_certificates: dict[str, CounterCertificatePart] | None = None
    result: CheckedResult = "not checked"
    result_evidence: str | None = None
    error_bands: ErrorBandsPart | None = None
    kernels: tuple[KernelSummary, ...] = ()
    provenance: ProvenancePart | None = None


def report_document(
    *,
    files: Recording,
    time_kind: str,
    notes: tuple[str, ...],
    overview: ApplicationOverview | None,
    ledger: Ledger | None,
    thread_trace: ThreadTrace | None,
    profile: ProfileDocument | None,
    analysis: AnalysisDocument | None,
    roofline: RooflineDocument | None,
) -> ReportDocument:
    """Return all results in one document; parts that the recording does not contain are None."""
    repeated = set(ProfileDocument.model_fields) & set(ReportDocument.model_fields) - {"schema_version", "notes"}
    return ReportDocument(
        time_kind=cast("Literal['emulated', 'measured']", time_kind),
        files=_files(files),
        notes=notes,
        application=_application(overview) if overview is not None else None,
        ledger=ledger_part(ledger) if ledger is not None else None,
        thread_trace=thread_trace_part(thread_trace) if thread_trace is not None and analysis is None else None,
        analysis=analysis,
        roofline_analysis=roofline,
        **({name: getattr(profile, name) for name in repeated} if profile is not None else {}),
    )


def export_schema(directory: Path) -> Path:
    """Write the JSON Schema of report.json."""
    return write_schema(directory / REPORT.replace(".json", ".schema.json"), ReportDocument, "serialization")


def _files(files: Recording) -> FilesPart:
    return FilesPart(
        understood=tuple(UnderstoodFile(path=str(path), content=str(kind)) for kind, path in files.found),
        not_understood=tuple(UnusedFile(path=str(one.path), reason=one.reason) for one in files.unused),
        others=files.other_files,
    )


def _application(overview: ApplicationOverview) -> ApplicationPart:
    timed = overview.wall_ns is not None
    kernels = tuple(
        KernelUsePart(
            name=kernel.name,
            mangled_name=kernel.mangled_name,
            kind=kernel.kind,
            calls=kernel.calls,
            total_ms=_ms(kernel.total_ns) if timed else None,
            median_ms=_ms(kernel.median_ns) if timed else None,
            share=kernel.share if timed else None,
            active_ms=_ms(kernel.active_ns) if timed else None,
            exposed_ms=_ms(kernel.exposed_ns) if timed else None,
            critical_path_share=kernel.critical_share,
        )
        for kernel in overview.kernels
    )
    return ApplicationPart(
        processes=overview.processes,
        dispatches=overview.calls,
        wall_ms=_ms(overview.wall_ns),
        idle_share=overview.idle_share,
        longest_gap_ms=_ms(overview.longest_gap_ns),
        critical_path_ms=_ms(overview.critical_path_ns),
        launches=overview.launches,
        launches_after_idle=overview.launches_late,
        gpus=tuple(
            GpuUsePart(architecture=gpu.name, name=gpu.product_name, dispatches=gpu.dispatches, busy_ms=gpu.busy_ns / _NS_PER_MS)
            for gpu in overview.gpus
        ),
        kernels=kernels,
        communication=_group(overview.communication),
        copies=_group(overview.copies),
        peer_waits=_peers(overview.peer_waits),
    )


def _group(group: WorkGroup | None) -> WorkGroupPart | None:
    if group is None:
        return None
    return WorkGroupPart(
        count=group.count,
        total_ms=group.total_ns / _NS_PER_MS,
        active_ms=group.active_ns / _NS_PER_MS,
        exposed_ms=group.exposed_ns / _NS_PER_MS,
        size_bytes=group.size_bytes,
    )


def _peers(waits: PeerWaits | None) -> PeerWaitsPart | None:
    if waits is None:
        return None
    return PeerWaitsPart(
        peers=waits.peers,
        calls=waits.calls,
        waited_us=waits.waited_ns / _NS_PER_US,
        late=waits.late,
        late_calls=waits.late_calls,
        late_share=waits.late_share,
    )


def _ms(time_ns: float | None) -> float | None:
    return None if time_ns is None else time_ns / _NS_PER_MS
