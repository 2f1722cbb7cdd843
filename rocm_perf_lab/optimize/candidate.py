"""Check of one candidate outside the closed loop: compilation, guards and trials, without timing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.registry import find_language
from rocm_perf_lab.optimize.guards import check_before_compilation, rejections_of
from rocm_perf_lab.optimize.guards_languages import text_problem
from rocm_perf_lab.optimize.inspection import inspected_candidate
from rocm_perf_lab.optimize.source_tree import SourceUnit
from rocm_perf_lab.verify.address_trials import AddressTrials
from rocm_perf_lab.verify.checker import CorrectnessChecker
from rocm_perf_lab.verify.isolation import run_isolated
from rocm_perf_lab.verify.policy import TrialPolicy
from rocm_perf_lab.verify.trial_runs import EmulatorRunner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.guards import Guard, GuardResult
    from rocm_perf_lab.optimize.inspection import CandidateSource
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.toolchain.compilers import Compiler
    from rocm_perf_lab.toolchain.sandbox import Sandbox, SandboxLimits
    from rocm_perf_lab.verify.checker import CorrectnessResult
    from rocm_perf_lab.verify.trial_runs import TrialRunner


@dataclass(frozen=True)
class CandidateResult:
    """Stage that rejected a source, and its reason; `stage` is `right` if the source passed every stage.

    `guards` are the results of all guards; empty if the source does not compile or its language has none.
    """

    stage: Literal["compile", "guard", "gate", "verification", "right"]
    reason: str
    correctness: CorrectnessResult | None = None
    guards: tuple[GuardResult, ...] = ()


class CompileCandidate(Protocol):
    """Compiles a source for a description whose params may differ from the configured ones."""

    def __call__(self, description: KernelDescription, source: Path, *, promise_checks: bool = False) -> BuildResult:
        """Compile; with `promise_checks`, misaligned accesses and false assumptions trap."""
        ...


def correctness_checker(
    description: KernelDescription,
    target: Target,
    compile_source: CompileCandidate,
    runners: Sequence[TrialRunner],
    policy: TrialPolicy,
) -> CorrectnessChecker:
    """Return the checker of candidates of one kernel; on the emulator, it also tries addresses.

    Args:
        description: Kernel.
        target: GPU whose limits apply.
        compile_source: Compiles the unmodified source and candidates.
        runners: Runners of trials.
        policy: Allowed differences in results.
    """
    on_emulator = any(isinstance(runner, EmulatorRunner) for runner in runners)
    checked = partial(compile_source, promise_checks=True)
    addresses = AddressTrials(description, target, compile_source, checked) if on_emulator else None
    return CorrectnessChecker(description, compile_source, runners, policy, addresses=addresses)


class CandidateChecker:
    """Checks candidates of one kernel. The constructor compiles the unmodified source and runs its trials.

    Args:
        description: Kernel.
        compiler: HIP compiler.
        target: GPU whose limits apply.
        guards: Static checks; they parse C++ and do not apply to kernels in other languages.
        policy: Allowed differences in results.
        optimisation: `-O0` to `-O3`.
        sandbox: Limits of the compiler for candidates; the unmodified kernel is compiled without limits.
        run_limits: Limits of the process that runs the trials of a candidate; None runs them in this process.
        runners: Runners of trials; None selects the emulator.

    Raises:
        LabError: The unmodified kernel does not compile or fails its own trials.
    """

    def __init__(
        self,
        description: KernelDescription,
        *,
        compiler: Compiler,
        target: Target,
        guards: Sequence[Guard],
        policy: TrialPolicy | None = None,
        optimisation: str = "-O3",
        sandbox: Sandbox | None = None,
        run_limits: SandboxLimits | None = None,
        runners: Sequence[TrialRunner] | None = None,
    ) -> None:
        self._description = description
        self._compiler = compiler
        self._target = target
        self._guards = guards
        self._optimisation = optimisation
        self._sandbox = sandbox
        self._run_limits = run_limits
        self._baseline = self._inspected(description.source_path)
        chosen = [EmulatorRunner(target)] if runners is None else runners
        self.correctness = correctness_checker(description, target, self._compile, chosen, policy or TrialPolicy())
        self.correctness.record_baseline(description.source_path)

    def check(self, source: Path) -> CandidateResult:
        """Return the first stage that rejects a source, or `right`."""
        problem = text_problem(self._description.language, self._description.source_path.read_bytes(), source.read_bytes())
        if problem is not None:
            return CandidateResult("guard", f"text: {problem}")
        if self._baseline is not None:
            unread = SourceUnit(source.read_bytes(), self._description.entry)
            checked = check_before_compilation(self._guards, self._baseline.source, unread)
            refused = rejections_of(checked)
            if refused is not None:
                return CandidateResult("guard", refused, guards=checked)
        try:
            candidate = self._inspected(source)
        except LabError as error:
            return CandidateResult("compile", error.what)
        guards: tuple[GuardResult, ...] = ()
        if self._baseline is not None and candidate is not None:
            guards = tuple(guard.check(self._baseline, candidate) for guard in self._guards)
        refused = rejections_of(guards)
        if refused is not None:
            return CandidateResult("guard", refused, guards=guards)
        return replace(self._tried(source), guards=guards)

    def _tried(self, source: Path) -> CandidateResult:
        try:
            result = self._trial_result(source)
        except LabError as error:
            return CandidateResult("gate", str(error))
        if result.gate is not None:
            return CandidateResult("gate", result.gate, result)
        if not result.verification.passed:
            return CandidateResult("verification", str(result.verification), result)
        return CandidateResult("right", "", result)

    def _trial_result(self, source: Path) -> CorrectnessResult:
        if self._run_limits is None:
            return self.correctness.check(source)
        return run_isolated(lambda: self.correctness.check(source), self._run_limits)

    def _compile(self, description: KernelDescription, source: Path, *, promise_checks: bool = False) -> BuildResult:
        """Compile a source; with `promise_checks`, misaligned accesses and false assumptions trap."""
        return compile_description(
            description,
            source,
            architecture=self._target.architecture,
            compiler=lambda: self._compiler,
            optimisation=self._optimisation,
            sandbox=self._sandbox_of(source),
            promise_checks=promise_checks,
        )

    def _sandbox_of(self, source: Path) -> Sandbox | None:
        return None if source == self._description.source_path else self._sandbox

    def _inspected(self, source: Path) -> CandidateSource | None:
        """Compile a source; return the input of its guards, or None if its language has no guards."""
        build = self._compile(self._description, source)
        if not find_language(self._description.language).rewritable:
            return None
        return inspected_candidate(
            self._description,
            source,
            build,
            compiler=self._compiler,
            target=self._target,
            optimisation=self._optimisation,
            sandbox=self._sandbox_of(source),
        )
