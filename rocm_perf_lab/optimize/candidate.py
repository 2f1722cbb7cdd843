"""Check of one candidate outside the closed loop: compilation, guards and trials, without timing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.optimize.inspection import inspected_candidate
from rocm_perf_lab.verify.checker import CorrectnessChecker
from rocm_perf_lab.verify.policy import TrialPolicy
from rocm_perf_lab.verify.trial_runs import EmulatorRunner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.guards import Guard
    from rocm_perf_lab.optimize.inspection import CandidateSource
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.toolchain.compilers import Compiler
    from rocm_perf_lab.verify.checker import CorrectnessResult


@dataclass(frozen=True)
class CandidateResult:
    """Stage that rejected a source and its reason; `stage` is `right` if the source passed every stage."""

    stage: Literal["compile", "guard", "gate", "verification", "right"]
    reason: str
    correctness: CorrectnessResult | None = None


class CandidateChecker:
    """Checks candidates of one kernel. The constructor compiles the unmodified source and runs its trials.

    Args:
        description: Kernel.
        compiler: HIP compiler.
        target: GPU whose limits apply.
        guards: Static checks.
        policy: Differences in results that are allowed.
        optimisation: `-O0` to `-O3`.

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
    ) -> None:
        self._description = description
        self._compiler = compiler
        self._target = target
        self._guards = guards
        self._optimisation = optimisation
        self._baseline = self._candidate(description.source_path)
        self.correctness = CorrectnessChecker(description, self._compile, [EmulatorRunner(target)], policy or TrialPolicy())
        self.correctness.record_baseline(description.source_path)

    def check(self, source: Path) -> CandidateResult:
        """Return the first stage that rejects a source, or `right`."""
        try:
            candidate = self._candidate(source)
        except LabError as error:
            return CandidateResult("compile", error.what)
        broken = [r for r in (guard.check(self._baseline, candidate) for guard in self._guards) if not r.passed]
        if broken:
            return CandidateResult("guard", "; ".join(f"{r.name}: {r.detail}" for r in broken))
        result = self.correctness.check(source)
        if result.gate is not None:
            return CandidateResult("gate", result.gate, result)
        if not result.verification.passed:
            return CandidateResult("verification", str(result.verification), result)
        return CandidateResult("right", "", result)

    def _compile(self, description: KernelDescription, source: Path) -> BuildResult:
        return compile_description(
            description,
            source,
            architecture=self._target.architecture,
            compiler=lambda: self._compiler,
            optimisation=self._optimisation,
        )

    def _candidate(self, source: Path) -> CandidateSource:
        build = self._compile(self._description, source)
        return inspected_candidate(
            self._description,
            source,
            build,
            compiler=self._compiler,
            target=self._target,
            optimisation=self._optimisation,
        )
