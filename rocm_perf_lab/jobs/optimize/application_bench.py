"""Bench of the closed loop for applications: built by the user's command, timed by the device's profiler.

Guards inspect device code that rocm-perf-lab compiles from the candidate with the macros and include directories of the user's
command. The user's command and the application run only if all guards pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.optimize.application_device_code import ApplicationDeviceCode
from rocm_perf_lab.jobs.optimize.bench import share_of
from rocm_perf_lab.languages.source_launch import launch_descriptor
from rocm_perf_lab.optimize.bench import Evaluation
from rocm_perf_lab.statistics.interleaving import InterleavedPairs
from rocm_perf_lab.statistics.paired_test import compare_emulated, compare_sequentially

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocm_perf_lab.jobs.analyze.kernel_analysis import KernelAnalysis
    from rocm_perf_lab.jobs.optimize.application_source import ApplicationBuilder
    from rocm_perf_lab.jobs.profile.workbench import ProfiledKernel
    from rocm_perf_lab.optimize.bench import BuiltCandidate, MeasuredSource
    from rocm_perf_lab.optimize.proposal import Proposal
    from rocm_perf_lab.statistics.error_bands import RatioBand
    from rocm_perf_lab.statistics.paired_test import AcceptanceRule, PairedComparison
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.toolchain.compilers import Compiler
    from rocm_perf_lab.toolchain.sandbox import Sandbox
    from rocm_perf_lab.verify.application_outputs import ApplicationVerifier, RunOutputs


@dataclass
class ApplicationBench:
    """Builds, runs and compares candidates of an application.

    Args:
        builder: Runs the user's build command.
        kernel: Symbol of the kernel.
        block: Work-items per workgroup, in three dimensions, in the profiled run.
        target: GPU.
        compiler: Compiles device code for guards.
        sandbox: Limits `compiler`.
        verifier: Compares outputs.
        plain: Returns the command line that runs a command on the device without profiling it.
        profile: Profiles a command; the second argument is the output directory.
        time_ns: Returns the duration of one dispatch of the kernel in ns; arguments as for `profile`.
        band: Error band of the ratio of two emulated times; None if times are measured.
    """

    builder: ApplicationBuilder
    kernel: str
    block: int
    target: Target
    compiler: Compiler
    sandbox: Sandbox
    verifier: ApplicationVerifier
    plain: Callable[[list[str]], list[str]]
    profile: Callable[[list[str], Path], KernelAnalysis]
    time_ns: Callable[[list[str], Path], float]
    band: RatioBand | None = None
    profiled: dict[str, ProfiledKernel] = field(default_factory=dict)
    """Always empty: applications have no profiled kernel of the workbench."""
    _expected: tuple[RunOutputs, RunOutputs] | None = None

    def build(self, proposal: Proposal) -> BuiltCandidate:
        """Write a proposal's source and compile its device code for guards.

        Raises:
            LabError: The source requests a launch configuration, or does not compile.
        """
        if launch_descriptor(proposal.text) is not None:
            raise LabError("the launch of an application cannot be changed", where="launch comment of the source")
        path = self.builder.place(proposal)
        return self._device_code.inspected(path, self.compile(path), self.kernel, work_items=self.block)

    def compile(self, path: Path, *, fresh: bool = False) -> BuildResult:
        """Compile the device code of a source."""
        return self._device_code.compile(path, fresh=fresh)

    def evaluate(self, proposal: Proposal, built: BuiltCandidate) -> Evaluation:
        """Build and run a proposal, compare its outputs, and profile it if they are correct."""
        self.builder.build(proposal)
        command = self.builder.command(proposal)
        plain = self.plain(command)
        new = self.verifier.run(plain, self.builder.binary(proposal), self._expected or ())
        if self._expected is None:
            second = self.verifier.run(plain, self.builder.binary(proposal))
            self.verifier.require_comparable_output(new, second)
            self._expected = (new, second)
        verification = self.verifier.verify(*self._expected, new)
        if not verification.passed:
            return Evaluation(verification, 0.0)
        found = self.profile(command, self.builder.directory_of(proposal))
        return Evaluation(verification, found.runtime_ns, share_of(found))

    def compare(self, old: MeasuredSource, new: MeasuredSource, acceptance: AcceptanceRule) -> PairedComparison:
        """Compare two sources by pairs of profiled runs in random order, or by one emulated duration each."""
        if self.band is not None:
            return compare_emulated(old.runtime_ns, new.runtime_ns, self.band)
        pairs = InterleavedPairs(
            lambda: self._time_ns(old.proposal, new.proposal),
            lambda: self._time_ns(new.proposal, new.proposal),
            f"{old.proposal.id} {new.proposal.id}",
        )
        return compare_sequentially(pairs, acceptance)

    def _time_ns(self, proposal: Proposal, new: Proposal) -> float:
        if not self.builder.binary(proposal).exists():  # evaluated before the run was resumed
            self.builder.place(proposal)
            self.builder.build(proposal)
        command = self.builder.command(proposal)
        return self.time_ns(command, self.builder.directory_of(new) / "comparison" / proposal.id)

    @property
    def _device_code(self) -> ApplicationDeviceCode:
        return ApplicationDeviceCode(self.builder.application, self.target, self.compiler, self.sandbox)
