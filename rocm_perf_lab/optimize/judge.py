"""One verdict on one source, without a loop around it: compile, guards, trials. Nothing is timed.

The closed loop does the same in its own steps; this is for those who only ask whether a rewrite is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.optimize.inspection import inspected_candidate
from rocm_perf_lab.verify.examiner import Examiner
from rocm_perf_lab.verify.policy import TrialPolicy
from rocm_perf_lab.verify.trial_runs import EmulatorRunner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.guards import Candidate, Guard
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.toolchain.compilers import Compiler
    from rocm_perf_lab.verify.examiner import Examination


@dataclass(frozen=True)
class Judgement:
    """Where a source was stopped, and why; `right` where nothing stopped it."""

    stage: Literal["compile", "guard", "gate", "verification", "right"]
    reason: str
    examination: Examination | None = None


class Judge:
    """Judges rewrites of one kernel. The unmodified source is examined first, when the judge is made.

    Args:
        description: The kernel.
        compiler: For HIP.
        target: Whose limits count.
        guards: What a rewrite must not change.
        policy: What its results may change.
        optimisation: `-O0` to `-O3`.

    Raises:
        LabError: The unmodified kernel fails on its own inputs.
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
        self.examiner = Examiner(description, self._compile, [EmulatorRunner(target)], policy or TrialPolicy())
        self.examiner.learn(description.source_path)

    def judge(self, source: Path) -> Judgement:
        """The first thing that is wrong with a source."""
        try:
            candidate = self._candidate(source)
        except LabError as error:
            return Judgement("compile", error.what)
        broken = [r for r in (guard.check(self._baseline, candidate) for guard in self._guards) if not r.passed]
        if broken:
            return Judgement("guard", "; ".join(f"{r.name}: {r.detail}" for r in broken))
        examination = self.examiner.examine(source)
        if examination.gate is not None:
            return Judgement("gate", examination.gate, examination)
        if not examination.verification.passed:
            return Judgement("verification", str(examination.verification), examination)
        return Judgement("right", "", examination)

    def _compile(self, description: KernelDescription, source: Path) -> BuildResult:
        return compile_description(
            description,
            source,
            architecture=self._target.architecture,
            compiler=lambda: self._compiler,
            optimisation=self._optimisation,
        )

    def _candidate(self, source: Path) -> Candidate:
        build = self._compile(self._description, source)
        return inspected_candidate(
            self._description,
            source,
            build,
            compiler=self._compiler,
            target=self._target,
            optimisation=self._optimisation,
        )
