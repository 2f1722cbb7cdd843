"""Bench of the closed loop for described kernels: builds, runs and compares proposals, each in a separate directory."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.describe import instruction_mix
from rocm_perf_lab.analysis.roofline import Roofline
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.jobs.profile.job import require_clean
from rocm_perf_lab.optimize.bench import BuiltCandidate, Evaluation, GateError
from rocm_perf_lab.optimize.counter_rule import DECIDING_COUNTERS, ExactCounts
from rocm_perf_lab.optimize.profile_summary import ProfileSummary
from rocm_perf_lab.optimize.ranking import KernelShare
from rocm_perf_lab.profiling.counter_passes import counters_for
from rocm_perf_lab.statistics.interleaving import InterleavedPairs
from rocm_perf_lab.statistics.paired_test import compare_emulated, compare_sequentially
from rocm_perf_lab.toolchain.build import CompileError
from rocm_perf_lab.verify.isolation import run_isolated
from rocm_perf_lab.verify.outputs import VerificationResult

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.jobs.analyze.kernel_analysis import AnalyzedKernel
    from rocm_perf_lab.jobs.profile.workbench import CompiledKernel, ProfiledKernel, Workbench
    from rocm_perf_lab.optimize.bench import MeasuredSource
    from rocm_perf_lab.optimize.proposal import Proposal
    from rocm_perf_lab.statistics.error_bands import RatioBand
    from rocm_perf_lab.statistics.paired_test import AcceptanceRule, PairedComparison
    from rocm_perf_lab.toolchain.sandbox import Sandbox, SandboxLimits
    from rocm_perf_lab.verify.checker import CorrectnessChecker


class KernelBench:
    """Builds, runs and compares proposals on one device.

    Args:
        bench: Compiles and runs sources.
        directory: Parent of one directory per proposal.
        file_name: File name of a proposal's source.
        band: Error band of the ratio of two emulated times; None for measured times.
        dispatches: Number of dispatches per sample of a pair, for measured times.
        sandbox: Limits of the compiler for proposals; the unmodified kernel is compiled without limits.
        checker: Runs trials; the unmodified kernel must be recorded.
        run_limits: Limits of the process that runs a proposal; None if the device starts a separate process.
    """

    def __init__(
        self,
        bench: Workbench,
        directory: Path,
        file_name: str,
        *,
        band: RatioBand | None,
        dispatches: int,
        sandbox: Sandbox,
        checker: CorrectnessChecker,
        run_limits: SandboxLimits | None = None,
    ) -> None:
        self._bench = bench
        self._directory = directory
        self._file_name = file_name
        self._band = band
        self._dispatches = dispatches
        self._sandbox = sandbox
        self._checker = checker
        self._run_limits = run_limits
        self._compiled: dict[str, CompiledKernel] = {}
        self.profiled: dict[str, ProfiledKernel] = {}

    def directory(self, proposal: Proposal) -> Path:
        """Return the directory of a proposal."""
        return self._directory / proposal.id

    def build(self, proposal: Proposal) -> BuiltCandidate:
        """Write a proposal's source into its directory and compile it.

        Raises:
            CompileError: The source does not compile; the message does not contain the directory.
        """
        path = self.directory(proposal) / self._file_name
        write_text(path, proposal.text)
        try:
            compiled = self._bench.compile(path, sandbox=self._sandbox)
        except CompileError as error:
            directory = f"{path.parent}{os.sep}"  # Prompts must not depend on the directory of the run.
            raise CompileError(
                error.what.replace(directory, ""), log=error.log.replace(directory, ""), where=str(path), hint=error.hint
            ) from error
        return self.built(proposal, compiled, path)

    def built(self, proposal: Proposal, compiled: CompiledKernel, source: Path, *, trusted: bool = False) -> BuiltCandidate:
        """Inspect and store a compiled proposal; in the sandbox unless `trusted`."""
        self._compiled[proposal.id] = compiled
        return BuiltCandidate(
            kernel=compiled.kernel,
            code_sha256=compiled.launched_code_sha256,
            occupancy_waves=compiled.occupancy.waves_per_simd,
            cached=compiled.build.cached,
            inspection=self._bench.inspect(compiled, source, sandbox=None if trusted else self._sandbox),
        )

    def evaluate(self, proposal: Proposal, built: BuiltCandidate) -> Evaluation:
        """Run the trials of a proposal, then profile it; in a separate process if the device is the emulator.

        Raises:
            GateError: A check of the emulator reported a defect.
            LabError: The proposal fails or breaks a limit.
        """
        if self._run_limits is None:
            evaluation, profiled = self._evaluate(proposal)
        else:
            evaluation, profiled = run_isolated(lambda: self._evaluate(proposal), self._run_limits)
        if profiled is not None:
            self.profiled[proposal.id] = profiled
        return evaluation

    def _evaluate(self, proposal: Proposal) -> tuple[Evaluation, ProfiledKernel | None]:
        result = self._checker.check(self.directory(proposal) / self._file_name)
        if result.gate is not None:
            raise GateError(result.gate)
        if not result.verification.passed:
            return Evaluation(result.verification, 0.0), None
        profiled = self._bench.run(self._compiled[proposal.id], self.directory(proposal))
        require_clean(profiled.findings, "of the proposal")
        evaluation = evaluation_of(profiled)
        checks = (*result.verification.checks, *evaluation.verification.checks)
        uncovered = tuple(branch.message for branch in result.uncovered)
        return replace(evaluation, verification=VerificationResult(checks), uncovered=uncovered), profiled

    def compare(self, old: MeasuredSource, new: MeasuredSource, acceptance: AcceptanceRule) -> PairedComparison:
        """Compare two sources by pairs of times in random order, or by one emulated time each."""
        if self._band is not None:
            return compare_emulated(old.runtime_ns, new.runtime_ns, self._band)
        directory = self.directory(new.proposal) / "comparison"
        pairs = InterleavedPairs(
            lambda: self._time_ns(old.proposal, directory),
            lambda: self._time_ns(new.proposal, directory),
            f"{old.proposal.id} {new.proposal.id}",
        )
        return compare_sequentially(pairs, acceptance)

    def _time_ns(self, proposal: Proposal, directory: Path) -> float:
        if proposal.id not in self._compiled:  # evaluated before the run was resumed
            self.build(proposal)
        return self._bench.time_ns(self._compiled[proposal.id], directory / proposal.id, dispatches=self._dispatches)


def read_source(path: Path) -> str:
    """Return the text of a source without converting newlines.

    Raises:
        LabError: The file cannot be read or is not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise LabError("the source file cannot be read", where=str(path), hint="check kernel.source") from error
    except UnicodeDecodeError as error:
        raise LabError("the source file is not UTF-8", where=str(path), hint="convert it to UTF-8") from error


def evaluation_of(profiled: ProfiledKernel, *, runtime_ns: float | None = None) -> Evaluation:
    """Return the evaluation of a profiled source. `runtime_ns` replaces the time after an interruption."""
    verification = profiled.verification if profiled.verification is not None else VerificationResult(())
    time = runtime_ns if runtime_ns is not None else profiled.runtime_ns
    return Evaluation(verification, time, share_of(profiled), exact_counts(profiled), profile=profile_summary(profiled))


def profile_summary(profiled: AnalyzedKernel) -> ProfileSummary:
    """Return the losses and the instruction mix of a profiled kernel."""
    ledger = profiled.diagnosis.ledger
    _, mix, _ = instruction_mix(profiled.profile)
    counted = tuple((name, count.per_wave) for name, count in mix.items() if count.per_wave) if mix else ()
    return ProfileSummary(
        profiled.diagnosis.bottleneck.name, tuple((str(loss.cause), loss.share) for loss in ledger.losses), counted
    )


def exact_counts(profiled: ProfiledKernel) -> ExactCounts | None:
    """Return the counters of an emulated launch that rank sources without times; None for a measured launch."""
    if not profiled.profile.provenance.trace.emulated:
        return None
    counters = {name: value for row in profiled.profile.counter_passes for name, value in row.items()}
    deciding = deciding_counts(counters, profiled.profile.target.architecture)
    countable = filter(instruction_set(profiled.profile.target.architecture).counts, DECIDING_COUNTERS)
    return ExactCounts(deciding, profiled.compiled.occupancy.waves_per_simd, frozenset(countable))


def deciding_counts(counters: Mapping[str, float], architecture: str) -> dict[str, float]:
    """Return the counters that rank sources, by name; counters of instructions that the architecture lacks are zero."""
    present = counters_for(architecture, DECIDING_COUNTERS)
    known = {name: counters[name] for name in DECIDING_COUNTERS if name in counters}
    return {name: 0.0 for name in DECIDING_COUNTERS if name not in present} | known


def share_of(profiled: AnalyzedKernel) -> KernelShare:
    """Return the kernel's share of the critical path and its headroom below the roofline."""
    roof = profiled.diagnosis.roofline
    headroom = profiled.runtime_ns / roof.bound_ns if isinstance(roof, Roofline) and roof.bound_ns > 0 else None
    shares = profiled.diagnosis.critical_shares if profiled.runtime_ns else {}  # Unknown without times.
    share = shares.get(profiled.profile.kernel.mangled_name, 1.0)
    return KernelShare(profiled.profile.kernel.name, share, headroom)
