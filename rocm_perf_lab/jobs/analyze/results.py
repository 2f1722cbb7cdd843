"""Analysis of a recording: its runs, thread traces and PC samples, for one kernel, written as documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from rocm_perf_lab.analysis.roofline import Unavailable
from rocm_perf_lab.analysis.sample_account import sampled_kernel
from rocm_perf_lab.analysis.thread_trace import ThreadTrace
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.analyze.document import REPORT, report_document
from rocm_perf_lab.jobs.analyze.evidence import DetailedEvidence
from rocm_perf_lab.jobs.run_directory import forget_results
from rocm_perf_lab.profiling.documents import write_documents
from rocm_perf_lab.profiling.passes import NO_THREAD_TRACE
from rocm_perf_lab.profiling.selection import ProfileError
from rocm_perf_lab.rocprof.loading import load_recording, read_counter_passes
from rocm_perf_lab.toolchain.kernel_names import short_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.analysis.application import ApplicationOverview
    from rocm_perf_lab.analysis.documents import AnalysisDocument, RooflineDocument
    from rocm_perf_lab.analysis.ledger import Ledger
    from rocm_perf_lab.jobs.analyze.detail import DetailAnalysis
    from rocm_perf_lab.jobs.analyze.document import ReportDocument
    from rocm_perf_lab.jobs.analyze.kernel_analysis import KernelAnalysis
    from rocm_perf_lab.jobs.analyze.request import AnalyzeRequest
    from rocm_perf_lab.profiling.documents import ProfileDocument
    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.rocprof.discovery import Recording
    from rocm_perf_lab.rocprof.loading import LoadedRecording, LoadedRun
    from rocm_perf_lab.rocprof.pc_samples import PcSampling
    from rocm_perf_lab.rocprof.trace import Trace
    from rocm_perf_lab.target.observed import ObservedTarget

DEFAULT_TARGET = "mi300x"
_SEVERAL = 2
HELPERS = ("^__amd_rocclr_", "^hip", "^hsa_")


@dataclass(frozen=True)
class RecordingAnalysis:
    """Results for one recording: of a dispatched kernel (`kernel`), or of a thread trace or PC samples alone (`detail`)."""

    files: Recording
    overview: ApplicationOverview | None
    kernel: KernelAnalysis | None
    detail: DetailAnalysis | None
    samples: PcSampling | None
    notes: tuple[str, ...]

    @property
    def ledger(self) -> Ledger | None:
        """Ledger of the kernel."""
        if self.kernel is not None:
            return self.kernel.diagnosis.ledger
        return self.detail.ledger if self.detail is not None else None

    @property
    def thread_trace(self) -> ThreadTrace | None:
        """Thread trace of the kernel."""
        found = self.kernel.diagnosis.thread_trace if self.kernel else self.detail.thread_trace if self.detail else None
        return found if isinstance(found, ThreadTrace) else None

    @property
    def title(self) -> str:
        """Name of the kernel, or of the files."""
        if self.kernel is not None:
            return self.kernel.profile.kernel.name
        return self.detail.name if self.detail is not None else ", ".join(path.name for path in self.files.paths)

    @property
    def gpu_name(self) -> str | None:
        """Product name and architecture of the GPU; None if unknown."""
        return self.kernel.gpu_name if self.kernel is not None else None

    @property
    def runtime_ns(self) -> float:
        """Median duration of the kernel; 0 if unknown."""
        return self.kernel.runtime_ns if self.kernel else 0.0

    @property
    def time_kind(self) -> str:
        """`measured` or `emulated`."""
        if self.kernel is not None:
            return self.kernel.time_kind
        return "emulated" if self.thread_trace is not None and self.thread_trace.emulated else "measured"

    def document(self) -> ReportDocument:
        """Return all results as one document."""
        documents = self.kernel.documents if self.kernel else {}
        return report_document(
            files=self.files,
            time_kind=self.time_kind,
            notes=self.notes,
            overview=self.overview,
            ledger=self.ledger,
            thread_trace=self.thread_trace,
            profile=cast("ProfileDocument | None", documents.get("profile.json")),
            analysis=cast("AnalysisDocument | None", documents.get("analysis.json")),
            roofline=cast("RooflineDocument | None", documents.get("roofline.json")),
        )


def analyze_recording(request: AnalyzeRequest, directory: Path) -> RecordingAnalysis:
    """Analyse the files of a request, and write the documents to `directory`.

    Raises:
        LabError: No recording can be read.
    """
    recording = load_recording(request.paths)
    evidence = DetailedEvidence(recording)
    run = next((run for run in recording.runs if len(run.trace.dispatches)), None)
    found = _run(request, evidence, run, directory) if run else _without_dispatches(request, evidence, directory)
    write_documents(directory, {REPORT: found.document()})
    return found


def _run(request: AnalyzeRequest, evidence: DetailedEvidence, run: LoadedRun, directory: Path) -> RecordingAnalysis:
    """Analyse a run with dispatches."""
    # Imported here, because thread traces or samples without dispatches do not need it.
    from rocm_perf_lab.jobs.analyze.choice import choose_kernel
    from rocm_perf_lab.jobs.analyze.kernel_analysis import analyze_traces

    recording, trace = evidence.recording, run.trace
    counted = (*run.counter_passes, *(read_counter_passes(request.counters) if request.counters else ()))
    gpu = _gpu(request, recording, trace, counted)
    try:
        chosen = choose_kernel(request, evidence, trace, gpu.target, HELPERS)
    except ProfileError:
        if request.kernel is not None and evidence.matching(request.kernel):
            return _without_dispatches(request, evidence, directory)
        raise
    symbol = chosen.kernel.mangled_name
    att, samples = _thread_trace(request, evidence, symbol), evidence.sampling
    details = list(evidence.notes)
    if samples is not None and sampled_kernel(samples, symbol) is None:
        names = ", ".join(short_name(kernel.name, 40) for kernel in samples.kernels[:3]) or "no kernel"
        details.append(f"the PC samples are of {names}: select it with --kernel")
        samples = None
    forget_results(directory, passes=False)
    found = analyze_traces(
        [trace],
        directory,
        kernel=chosen.kernel,
        ranked=chosen.ranked,
        target=gpu.target,
        helper_patterns=HELPERS,
        note=f"analysed from {', '.join(path.name for path in request.paths)}",
        counter_traces=counted,
        problems=gpu.notes,
        doubts=gpu.doubts,
        roofline_csv=request.roofline_csv or recording.roofline,
        code_objects=recording.code_objects,
        att=att,
        samples=samples,
    )
    reason = found.diagnosis.thread_trace
    untraced = [f"no thread trace: {reason.reason}"] if isinstance(reason, Unavailable) and att != NO_THREAD_TRACE else []
    notes = (
        *chosen.notes,
        *untraced,
        *_several_runs(recording, trace),
        *recording.notes,
        *details,
        *found.profile.notes,
        *found.diagnosis.critical_path.notes,
    )
    return RecordingAnalysis(recording.files, found.overview, found, None, samples, tuple(dict.fromkeys(notes)))


def _without_dispatches(request: AnalyzeRequest, evidence: DetailedEvidence, directory: Path) -> RecordingAnalysis:
    """Analyse thread traces, PC samples and copies."""
    from rocm_perf_lab.jobs.analyze.detail import analyze_detail, overview_of_copies

    recording = evidence.recording
    detail = analyze_detail(evidence, request.kernel)
    run = next((run for run in recording.runs if len(run.trace.memory_copies)), None)
    if detail is None and run is None:
        if evidence.refused:
            raise next(iter(evidence.refused.values()))
        raise LabError(
            "no kernel was dispatched",
            where=", ".join(str(path) for path in request.paths),
            hint="check that the application uses the GPU",
        )
    forget_results(directory, passes=False)
    overview = overview_of_copies(run.trace) if run else None
    notes = ("no kernel was dispatched", *run.trace.notes) if run else ()
    notes = tuple(dict.fromkeys((*notes, *recording.notes, *evidence.notes, *(detail.notes if detail else ()))))
    return RecordingAnalysis(recording.files, overview, None, detail, evidence.sampling, notes)


def _gpu(request: AnalyzeRequest, recording: LoadedRecording, trace: Trace, counted: Sequence[Trace]) -> ObservedTarget:
    from rocm_perf_lab.jobs.analyze.kernel_analysis import target_of_trace
    from rocm_perf_lab.target.catalog import load_target
    from rocm_perf_lab.target.observed import ObservedTarget

    if request.target:
        return ObservedTarget(load_target(request.target))
    return target_of_trace(trace, load_target(DEFAULT_TARGET), counted, recording.code_objects)


def _several_runs(recording: LoadedRecording, used: Trace) -> tuple[str, ...]:
    if len(recording.runs) < _SEVERAL:
        return ()
    given = next((path for path in recording.files.paths if path in used.path.parents), used.path.parent)
    name = used.path.relative_to(given)
    return (f"the files are of {len(recording.runs)} runs: {name} is analysed; --series compares the runs",)


def _thread_trace(request: AnalyzeRequest, evidence: DetailedEvidence, symbol: str) -> AttTrace | str:
    from rocm_perf_lab.rocprof.att.directories import read_kernel_trace

    if request.att is not None:
        return read_kernel_trace(request.att, symbol, code_objects=evidence.recording.code_objects)
    return evidence.thread_trace(symbol) or NO_THREAD_TRACE
