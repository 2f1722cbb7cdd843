"""From traces to documents: what `profile ./app` and `analyze results.db` have in common."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rocm_perf_lab.analysis.dag import MAX_NODES
from rocm_perf_lab.analysis.describe import describe
from rocm_perf_lab.analysis.diagnosis import Diagnosis, diagnose
from rocm_perf_lab.jobs.run_directory import TIMELINE
from rocm_perf_lab.profiling.counter_passes import architectures_of
from rocm_perf_lab.profiling.documents import write_documents
from rocm_perf_lab.profiling.profile import Profile, build_profile
from rocm_perf_lab.profiling.selection import ProfileError, RankedKernel, rank_kernels, select_kernel
from rocm_perf_lab.report.perfetto import write_perfetto
from rocm_perf_lab.target.catalog import target_of
from rocm_perf_lab.target.observed import ObservedTarget, observed_target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.device.protocol import Finding
    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.rocprof.trace import Trace
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.target.peaks import MeasuredPeaks
    from rocm_perf_lab.verify.outputs import VerificationResult


class AnalyzedKernel(Protocol):
    """A kernel with everything that is known of it: what tables and trackers show."""

    @property
    def profile(self) -> Profile:
        """What the passes gave."""
        ...

    @property
    def diagnosis(self) -> Diagnosis:
        """What the analyses make of it."""
        ...

    @property
    def runtime_ns(self) -> float:
        """Median duration of the kernel."""
        ...

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Of the emulator's checks."""
        ...

    @property
    def verification(self) -> VerificationResult | None:
        """Whether the outputs are right, where that was checked."""
        ...


@dataclass(frozen=True)
class KernelSelector:
    """Which kernel is looked at: by a regular expression, by its share of the critical path, or the longest."""

    pattern: str | None = None
    focus_critical: bool = False
    helper_patterns: tuple[str, ...] = ()

    def of(self, trace: Trace, target: Target) -> RankedKernel:
        """The kernel.

        Raises:
            ProfileError: Nothing was dispatched, or nothing matches.
        """
        ranked = rank_kernels(trace, self.helper_patterns)
        if self.pattern is not None:
            return self._matching(trace, ranked)
        longest = select_kernel(trace, ranked)
        return self.critical(trace, target)[0][0] if self.focus_critical else longest

    def critical(self, trace: Trace, target: Target) -> list[tuple[RankedKernel, float]]:
        """All kernels but helpers, each with its share of the critical path, largest first.

        Raises:
            ProfileError: Nothing was dispatched.
        """
        ranked = rank_kernels(trace, self.helper_patterns)
        longest = select_kernel(trace, ranked)
        profile = build_profile(trace, target=target, symbol=longest.mangled_name, helper_patterns=self.helper_patterns)
        shares = diagnose(profile, trace, deterministic=False).critical_shares
        candidates = [kernel for kernel in ranked if not kernel.is_helper] or list(ranked)
        pairs = [(kernel, shares.get(kernel.mangled_name, 0.0)) for kernel in candidates]
        return sorted(pairs, key=lambda pair: -pair[1])

    def _matching(self, trace: Trace, ranked: Sequence[RankedKernel]) -> RankedKernel:
        assert self.pattern is not None
        try:
            wanted = re.compile(self.pattern)
        except re.error as error:
            raise ProfileError(f"{self.pattern!r} is no regular expression: {error}", where="--kernel") from error
        found = [k for k in ranked if wanted.search(k.name) or wanted.search(k.mangled_name)]
        if not found:
            names = ", ".join(kernel.name for kernel in ranked[:5]) or "none"
            raise ProfileError(
                f"no kernel matches {self.pattern!r}", where=str(trace.path), hint=f"kernels, longest first: {names}"
            )
        return select_kernel(trace, found)


@dataclass(frozen=True)
class KernelAnalysis:
    """A profile with its diagnosis and the files that hold them; shown like a turn of the bench."""

    profile: Profile
    diagnosis: Diagnosis
    artifacts: tuple[Path, ...]
    findings: tuple[Finding, ...] = ()
    verification: VerificationResult | None = None

    @property
    def runtime_ns(self) -> float:
        """Median duration of the kernel."""
        return self.diagnosis.stability.median_ns

    @property
    def word(self) -> str:
        """`measured`, or `emulated` where the trace says so."""
        return "emulated" if self.profile.provenance.trace.emulated else "measured"


def target_of_trace(trace: Trace, preferred: Target, counted: Sequence[Trace] = ()) -> ObservedTarget:
    """The GPU that a trace is of, the busiest of several; `preferred` where neither the trace names one nor counters tell.

    Args:
        trace: The run.
        preferred: Taken where nothing else is known.
        counted: Counter passes of it.

    Raises:
        TargetError: A GPU that no target describes, nor one like it.
    """
    # One more for each dispatch: an agent with dispatches that take no time comes before one without any.
    busy = np.bincount(trace.dispatches.agent, weights=np.maximum(trace.dispatches.duration_ns, 0) + 1)
    agents = [trace.agents[int(busy.argmax())]] if len(busy) else [agent for agent in trace.agents if agent.kind == "GPU"]
    if not agents:
        return ObservedTarget(preferred)
    agent = agents[0]
    if not agent.name and (found := _named_by_counters((trace, *counted), preferred)) is not None:
        return found
    return observed_target(agent.name, agent.product_name, agent.properties, preferred)


def _named_by_counters(traces: Sequence[Trace], preferred: Target) -> ObservedTarget | None:
    """A target of the only architecture that has the counters of the traces, where that is another than the preferred one's."""
    possible = architectures_of(name for trace in traces for of_pass in trace.passes for name in of_pass)
    if len(possible) != 1 or preferred.architecture in possible:
        return None
    target = target_of(possible[0], "")
    note = f"the trace does not name its GPU, but its counters are those of {possible[0]}: {target.product_name} is assumed"
    return ObservedTarget(target, (f"{note}, --target chooses another",))


def analyze_traces(
    traces: Sequence[Trace],
    directory: Path,
    *,
    kernel: RankedKernel,
    target: Target,
    helper_patterns: Sequence[str],
    note: str,
    counter_traces: Sequence[Trace] = (),
    att: AttTrace | str | None = None,
    problems: Sequence[str] = (),
    versions: Mapping[str, str] | None = None,
    roofline_csv: Path | None = None,
    dag_nodes: int = MAX_NODES,
) -> KernelAnalysis:
    """Profile, diagnose, and write the documents to `directory`.

    Args:
        traces: Runs for times; the first one gives the critical path, all of them the durations.
        directory: For the documents.
        kernel: Which one, as ranked in the first trace.
        target: The GPU.
        helper_patterns: Names of runtime helpers.
        note: Where the numbers come from, for the provenance.
        counter_traces: Runs that collected counters.
        att: A thread trace of the kernel, or why there is none.
        problems: What went wrong on the way; it becomes notes.
        versions: Of the tools that were used, for the provenance.
        roofline_csv: Measured peaks of the GPU; the theoretical ones are taken without it.
        dag_nodes: So many nodes, at most, are listed in dag.json.
    """
    first = traces[0]
    measured = _measured(roofline_csv) if roofline_csv is not None else None
    profile = build_profile(
        first,
        target=target,
        identity_note=note,
        symbol=kernel.mangled_name,
        helper_patterns=helper_patterns,
        counter_traces=counter_traces,
        versions=versions,
        failures=problems,
    )
    more = [duration for trace in traces[1:] for duration in _durations(trace, kernel.mangled_name)]
    profile = replace(profile, durations_ns=(*profile.durations_ns, *more))
    diagnosis = diagnose(profile, first, deterministic=first.provenance.emulated, att=att, measured=measured)
    documents = write_documents(directory, describe(profile, diagnosis, first, dag_nodes=dag_nodes))
    timeline = directory / TIMELINE
    write_perfetto(timeline, first, diagnosis.critical_path)
    return KernelAnalysis(profile, diagnosis, (*documents, timeline))


def _measured(roofline_csv: Path) -> MeasuredPeaks:
    from rocm_perf_lab.rocprof.roofline_csv import read_roofline_csv

    return read_roofline_csv(roofline_csv)


def _durations(trace: Trace, mangled_name: str) -> list[int]:
    found = [kernel for kernel in rank_kernels(trace) if kernel.mangled_name == mangled_name]
    return [int(ns) for kernel in found for ns in trace.dispatches.duration_ns[kernel.dispatches]]
