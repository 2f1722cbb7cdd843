"""Analysis of a recording: its runs, thread traces and PC samples, for one kernel, written as documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.analyze.document import REPORT, report_document
from rocm_perf_lab.jobs.analyze.kernel_analysis import KernelAnalysis, KernelSelector, analyze_traces, target_of_trace
from rocm_perf_lab.jobs.run_directory import forget_results
from rocm_perf_lab.profiling.documents import write_documents
from rocm_perf_lab.profiling.passes import NO_THREAD_TRACE
from rocm_perf_lab.rocprof.loading import load_recording
from rocm_perf_lab.rocprof.runs import read_counter_passes
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.target.observed import ObservedTarget

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.analysis.application import ApplicationOverview
    from rocm_perf_lab.analysis.documents import AnalysisDocument, RooflineDocument
    from rocm_perf_lab.analysis.ledger import Ledger
    from rocm_perf_lab.jobs.analyze.document import ReportDocument
    from rocm_perf_lab.jobs.analyze.job import AnalyzeRequest
    from rocm_perf_lab.profiling.documents import ProfileDocument
    from rocm_perf_lab.profiling.selection import RankedKernel
    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.rocprof.discovery import Recording
    from rocm_perf_lab.rocprof.loading import LoadedRecording
    from rocm_perf_lab.rocprof.trace import Trace

DEFAULT_TARGET = "mi300x"
_SEVERAL = 2
HELPERS = ("^__amd_rocclr_", "^hip", "^hsa_")


@dataclass(frozen=True)
class RecordingAnalysis:
    """Results for one recording. `kernel` is None without dispatches."""

    files: Recording
    overview: ApplicationOverview | None
    kernel: KernelAnalysis | None
    notes: tuple[str, ...]

    @property
    def ledger(self) -> Ledger | None:
        """Ledger of the kernel."""
        return getattr(self.kernel.diagnosis, "ledger", None) if self.kernel else None

    @property
    def title(self) -> str:
        """Name of the kernel, or of the files."""
        return self.kernel.profile.kernel.name if self.kernel else ", ".join(path.name for path in self.files.paths)

    @property
    def gpu_name(self) -> str:
        """Product name of the GPU."""
        return self.kernel.profile.target.product_name if self.kernel else "unknown GPU"

    @property
    def runtime_ns(self) -> float:
        """Median duration of the kernel; 0 if unknown."""
        return self.kernel.runtime_ns if self.kernel else 0.0

    @property
    def time_kind(self) -> str:
        """`measured` or `emulated`."""
        return self.kernel.time_kind if self.kernel else "measured"

    def document(self) -> ReportDocument:
        """Return all results as one document."""
        documents = self.kernel.documents if self.kernel else {}
        return report_document(
            files=self.files,
            time_kind=self.time_kind,
            notes=self.notes,
            overview=self.overview,
            ledger=self.ledger,
            profile=cast("ProfileDocument | None", documents.get("profile.json")),
            analysis=cast("AnalysisDocument | None", documents.get("analysis.json")),
            roofline=cast("RooflineDocument | None", documents.get("roofline.json")),
        )


def analyze_recording(request: AnalyzeRequest, directory: Path) -> RecordingAnalysis:
    """Analyse the files of a request, and write the documents to `directory`.

    Raises:
        LabError: Nothing can be analysed.
    """
    recording = load_recording(request.paths)
    if not recording.runs or not len(recording.runs[0].trace.dispatches):
        raise LabError("no kernel was dispatched", where=", ".join(map(str, request.paths)))
    run = recording.runs[0]
    counted = (*run.counter_passes, *(read_counter_passes(request.counters) if request.counters else ()))
    gpu = _gpu(request, run.trace, counted)
    selected = _select(request, recording, run.trace, gpu)
    forget_results(directory, passes=False)
    found = analyze_traces(
        [run.trace],
        directory,
        kernel=selected,
        target=gpu.target,
        helper_patterns=HELPERS,
        note=f"analysed from {', '.join(path.name for path in request.paths)}",
        counter_traces=counted,
        problems=gpu.notes,
        roofline_csv=request.roofline_csv or recording.roofline,
        att=_thread_trace(request, recording, selected.mangled_name),
    )
    notes = (*recording.notes, *_several_runs(recording), *found.profile.notes)
    result = RecordingAnalysis(recording.files, found.overview, found, tuple(dict.fromkeys(notes)))
    write_documents(directory, {REPORT: result.document()})
    return result


def _gpu(request: AnalyzeRequest, trace: Trace, counted: Sequence[Trace]) -> ObservedTarget:
    if request.target:
        return ObservedTarget(load_target(request.target))
    return target_of_trace(trace, load_target(DEFAULT_TARGET), counted)


def _select(request: AnalyzeRequest, recording: LoadedRecording, trace: Trace, gpu: ObservedTarget) -> RankedKernel:
    return KernelSelector(request.kernel, request.focus_critical, HELPERS).of(trace, gpu.target)


def _several_runs(recording: LoadedRecording) -> tuple[str, ...]:
    if len(recording.runs) < _SEVERAL:
        return ()
    used = recording.runs[0].trace.path.name
    return (f"the files are of {len(recording.runs)} runs: {used} is analysed; --series compares the runs",)


def _thread_trace(request: AnalyzeRequest, recording: LoadedRecording, symbol: str) -> AttTrace | str:
    from rocm_perf_lab.rocprof.att.directories import read_kernel_trace

    if request.att is not None:
        return read_kernel_trace(request.att, symbol)
    if not recording.thread_traces:
        return NO_THREAD_TRACE
    try:
        return read_kernel_trace(recording.thread_traces[0], symbol)
    except LabError as error:
        return error.what
