"""Analysis of traces, shared by `profile ./app` and `analyze results.db`: select a kernel, analyse it, write the documents."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rocm_perf_lab.analysis.application import application_overview
from rocm_perf_lab.analysis.dag import MAX_NODES
from rocm_perf_lab.analysis.describe import describe
from rocm_perf_lab.analysis.diagnosis import Diagnosis, diagnose
from rocm_perf_lab.analysis.static_code import StaticCode
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.run_directory import TIMELINE
from rocm_perf_lab.profiling.counter_passes import architectures_of
from rocm_perf_lab.profiling.documents import write_documents
from rocm_perf_lab.profiling.implied_clock import implied_clock_mhz
from rocm_perf_lab.profiling.populations import dispatches_like, resources_of_code
from rocm_perf_lab.profiling.profile import Profile, build_profile
from rocm_perf_lab.profiling.recorded_code import code_architecture, find_code, profile_with_code
from rocm_perf_lab.profiling.selection import ProfileError, RankedKernel, rank_kernels, select_kernel
from rocm_perf_lab.report.perfetto import write_perfetto
from rocm_perf_lab.target.catalog import target_of
from rocm_perf_lab.target.observed import ASSUMED, ObservedTarget, observed_target, with_implied_clock
from rocm_perf_lab.toolchain.disassembly import disassemble
from rocm_perf_lab.toolchain.kernel_names import short_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.analysis.application import ApplicationOverview
    from rocm_perf_lab.device.protocol import Finding
    from rocm_perf_lab.profiling.documents import Document
    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.rocprof.pc_samples import PcSampling
    from rocm_perf_lab.rocprof.trace import Trace
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.target.peaks import MeasuredPeaks
    from rocm_perf_lab.verify.outputs import VerificationResult


_NAME_IN_HINT = 60


class AnalyzedKernel(Protocol):
    """Profile, diagnosis and checks of one kernel, for tables and trackers."""

    @property
    def profile(self) -> Profile:
        """Profile from all passes."""
        ...

    @property
    def diagnosis(self) -> Diagnosis:
        """Results of the analyses."""
        ...

    @property
    def runtime_ns(self) -> float:
        """Median duration of the kernel."""
        ...

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of the emulator's checks."""
        ...

    @property
    def verification(self) -> VerificationResult | None:
        """Comparison with the reference; None if the outputs were not checked."""
        ...


@dataclass(frozen=True)
class KernelSelector:
    """Selects a kernel by regular expression, by its share of the critical path, or by its exposed time."""

    pattern: str | None = None
    focus_critical: bool = False
    helper_patterns: tuple[str, ...] = ()

    def of(self, trace: Trace, target: Target) -> RankedKernel:
        """Return the selected kernel.

        Raises:
            ProfileError: The trace has no dispatch, or no kernel matches.
        """
        if self.pattern is None and self.focus_critical:
            return self.critical(trace, target)[0][0]
        ranked = rank_kernels(trace, self.helper_patterns)
        return select_kernel(trace, ranked) if self.pattern is None else select_kernel(trace, self.matching(trace, ranked))

    def critical(self, trace: Trace, target: Target) -> list[tuple[RankedKernel, float]]:
        """Return all kernels except helpers, each with its share of the critical path, largest first.

        Raises:
            ProfileError: The trace has no dispatch.
        """
        ranked = rank_kernels(trace, self.helper_patterns)
        longest = select_kernel(trace, ranked)
        profile = build_profile(trace, target=target, symbol=longest.mangled_name, ranked=ranked)
        shares = diagnose(profile, trace, deterministic=False).critical_shares
        candidates = [kernel for kernel in ranked if not kernel.is_helper] or list(ranked)
        pairs = [(kernel, shares.get(kernel.mangled_name, 0.0)) for kernel in candidates]
        return sorted(pairs, key=lambda pair: -pair[1])

    def matching(self, trace: Trace, ranked: Sequence[RankedKernel]) -> list[RankedKernel]:
        """Return the kernels whose mangled or demangled name matches the pattern, in the given order.

        Raises:
            ProfileError: The pattern is invalid, or no kernel matches.
        """
        assert self.pattern is not None
        try:
            wanted = re.compile(self.pattern)
        except re.error as error:
            raise ProfileError(f"invalid regular expression {self.pattern!r}: {error}", where="--kernel") from error
        found = [k for k in ranked if wanted.search(k.name) or wanted.search(k.mangled_name)]
        if not found:
            names = ", ".join(short_name(kernel.name, _NAME_IN_HINT) for kernel in ranked[:5]) or "none"
            raise ProfileError(
                f"no kernel matches {self.pattern!r}", where=str(trace.path), hint=f"kernels, longest first: {names}"
            )
        return found


@dataclass(frozen=True)
class KernelAnalysis:
    """Profile and diagnosis from traces, and the files that contain them."""

    profile: Profile
    diagnosis: Diagnosis
    documents: Mapping[str, Document]
    """Documents by file name."""
    artifacts: tuple[Path, ...]
    overview: ApplicationOverview
    findings: tuple[Finding, ...] = ()
    verification: VerificationResult | None = None

    @property
    def runtime_ns(self) -> float:
        """Median duration of the kernel."""
        return self.diagnosis.stability.median_ns

    @property
    def gpu_name(self) -> str:
        """Product name and architecture of the GPU."""
        target = self.profile.target
        return f"{target.product_name} ({target.architecture})"

    @property
    def time_kind(self) -> str:
        """`emulated` for traces of the emulator, else `measured`."""
        return "emulated" if self.profile.provenance.trace.emulated else "measured"


def target_of_trace(
    trace: Trace, preferred: Target, counted: Sequence[Trace] = (), code_objects: Sequence[Path] = ()
) -> ObservedTarget:
    """Return the GPU of a trace, the busiest of several.

    Args:
        trace: The run.
        preferred: Target to use if neither the trace nor its counters identify the GPU.
        counted: Counter passes of the run.
        code_objects: Code objects of the run.

    Raises:
        TargetError: No target describes the GPU or a similar one.
    """
    # The 1 ranks agents with dispatches of zero duration above agents without dispatches.
    busy = np.bincount(trace.dispatches.agent, weights=np.maximum(trace.dispatches.duration_ns, 0) + 1)
    agents = [trace.agents[int(busy.argmax())]] if len(busy) else [agent for agent in trace.agents if agent.kind == "GPU"]
    if not agents:
        return ObservedTarget(preferred)
    agent = agents[0]
    if not agent.name and (architecture := code_architecture(code_objects)):
        return observed_target(architecture, agent.product_name, agent.properties, preferred)
    if not agent.name and (found := _named_by_counters((trace, *counted), preferred)) is not None:
        return found
    observed = observed_target(agent.name, agent.product_name, agent.properties, preferred)
    return with_implied_clock(observed, implied_clock_mhz((trace, *counted), observed.target.xcds))


def _named_by_counters(traces: Sequence[Trace], preferred: Target) -> ObservedTarget | None:
    """Return a target of the only architecture that has all counters, if it differs from the preferred one."""
    possible = architectures_of(name for trace in traces for of_pass in trace.passes for name in of_pass)
    if len(possible) != 1 or preferred.architecture in possible:
        return None
    target = target_of(possible[0], "")
    note = f"the trace does not identify its GPU; its counters exist on {possible[0]} only: {target.product_name} is assumed"
    return ObservedTarget(target, (f"{note}, use --target to choose another",), (ASSUMED,))


def analyze_traces(
    traces: Sequence[Trace],
    directory: Path,
    *,
    kernel: RankedKernel,
    ranked: Sequence[RankedKernel] | None = None,
    target: Target,
    helper_patterns: Sequence[str],
    note: str,
    counter_traces: Sequence[Trace] = (),
    att: AttTrace | str | None = None,
    samples: PcSampling | None = None,
    problems: Sequence[str] = (),
    versions: Mapping[str, str] | None = None,
    roofline_csv: Path | None = None,
    code_objects: Sequence[Path] = (),
    doubts: Sequence[str] = (),
    dag_nodes: int = MAX_NODES,
) -> KernelAnalysis:
    """Build the profile and its diagnosis, and write the documents to `directory`.

    Args:
        traces: Timed runs: the critical path is that of the first one, the durations are those of all.
        directory: Directory of the documents.
        kernel: Kernel of the first trace.
        ranked: All kernels of the first trace, if ranked.
        target: The GPU.
        helper_patterns: Regular expressions of runtime helpers.
        note: Origin of the data, for the provenance.
        counter_traces: Runs that collected counters.
        att: Thread trace of the kernel, or the reason why it is missing.
        samples: PC samples of the run.
        problems: Problems of the passes, which become notes.
        versions: Versions of the tools, for the provenance.
        roofline_csv: Measured peaks of the GPU; None uses the theoretical ones.
        code_objects: Code objects of the run, for the kernel's resources, and for its instructions if there is no thread trace.
        doubts: Reasons why the target may be wrong.
        dag_nodes: Maximum number of nodes in dag.json.

    Raises:
        LabError: The kernel cannot be analysed, or the documents cannot be written.
    """
    first = traces[0]
    measured = _measured(roofline_csv) if roofline_csv is not None else None
    profile = profile_with_code(
        first,
        code_objects,
        kernel,
        ranked=ranked,
        target=target,
        identity_note=note,
        helper_patterns=helper_patterns,
        counter_traces=counter_traces,
        versions=versions,
        failures=problems,
        doubts=doubts,
    )
    more = [duration for trace in traces[1:] for duration in _durations(trace, kernel.mangled_name, profile, first)]
    profile = replace(profile, durations_ns=(*profile.durations_ns, *more))
    diagnosis = diagnose(
        profile,
        first,
        deterministic=first.provenance.emulated,
        att=att,
        measured=measured,
        samples=samples,
        static=static_code(profile, first, kernel, code_objects) if att is None or isinstance(att, str) else None,
    )
    documents = describe(profile, diagnosis, first, dag_nodes=dag_nodes)
    written = write_documents(directory, documents)
    timeline = directory / TIMELINE
    write_perfetto(timeline, first, diagnosis.critical_path, att=None if isinstance(att, str) else att)
    overview = application_overview(
        first, profile.kernels, diagnosis.critical_path, diagnosis.timeline, diagnosis.critical_shares
    )
    return KernelAnalysis(profile, diagnosis, documents, (*written, timeline), overview)


def static_code(profile: Profile, trace: Trace, kernel: RankedKernel, code_objects: Sequence[Path]) -> StaticCode | None:
    """Return the instructions of the code object whose resources are those of a profile.

    None if no code object matches, the profile has no counters to combine with the instructions, no disassembler supports the
    architecture, or the code is damaged.
    """
    if profile.provenance.code_object_sha256 is None or not any(profile.counter_passes):
        return None
    traced = trace.kernels[int(trace.dispatches.kernel[kernel.dispatches[0]])]
    found = find_code(code_objects, traced, profile.target.architecture).code
    if found is None or found.code_object.sha256 != profile.provenance.code_object_sha256:
        return None
    try:
        return StaticCode.of(disassemble(found.code_object, found.kernel.symbol))
    except LabError:
        return None


def _measured(roofline_csv: Path) -> MeasuredPeaks:
    from rocm_perf_lab.rocprof.roofline_csv import read_roofline_csv

    return read_roofline_csv(roofline_csv)


def _durations(trace: Trace, mangled_name: str, profile: Profile, timed: Trace) -> list[int]:
    """Return the durations in ns, in another run, of the population of dispatches that the profile describes."""
    wanted = profile.populations[0]
    code = resources_of_code(timed.kernels[wanted.kernel])
    found = [kernel.dispatches for kernel in rank_kernels(trace) if kernel.mangled_name == mangled_name]
    return [int(ns) for one in found for ns in trace.dispatches.duration_ns[dispatches_like(trace, one, wanted, code)]]
