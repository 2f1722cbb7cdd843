"""Correctness of rewrites: trials with inputs and shapes unknown to its author, with all memory checks enabled.

The unmodified kernel runs every trial first (:mod:`rocm_perf_lab.verify.plan`). A rewrite must then match the reference within
tolerance, must not change its inputs or unwritten elements, and must not cause new findings of the memory checks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.languages.arguments import BufferArgument
from rocm_perf_lab.languages.source_launch import with_source_launch
from rocm_perf_lab.verify.baseline import BaselineRecorder
from rocm_perf_lab.verify.comparison import BaselineTrial, compare_run
from rocm_perf_lab.verify.coverage import AttemptedTrial, CoverageRecorder, CoverageSearch
from rocm_perf_lab.verify.execution import TrialExecutor
from rocm_perf_lab.verify.outputs import OutputCheck, VerificationResult, verify_outputs
from rocm_perf_lab.verify.plan import TrialPlan
from rocm_perf_lab.verify.policy import TrialPolicy, seeded
from rocm_perf_lab.verify.trials import Trial, summary_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.verify.address_trials import AddressTrials
    from rocm_perf_lab.verify.alignment import AlignmentAssumption
    from rocm_perf_lab.verify.branches import UncoveredBranch
    from rocm_perf_lab.verify.trial_runs import TrialRunner

    Compile = Callable[[KernelDescription, Path], BuildResult]

_THIRD_POISON = 3
_MOST_ADDED = 48
"""Maximum number of trials with sizes next to the numbers in one rewrite."""


class VacuousToleranceError(LabError):
    """Tolerance that an output of zeros satisfies in every trial."""


@dataclass(frozen=True)
class CorrectnessResult:
    """Result of all trials of a rewrite.

    Args:
        verification: Comparison of outputs.
        gate: Message of a fault or of a memory check, or None.
        trials: Names of the trials.
        failed: Trial that exposed a defect, or None.
        uncovered: Branches of a correct rewrite that were taken in no trial.
        assumptions: Alignment of buffers, larger than that of their elements, that a correct rewrite requires.
        notes: Checks that were not possible.
    """

    verification: VerificationResult
    gate: str | None = None
    trials: tuple[str, ...] = ()
    failed: Trial | None = None
    uncovered: tuple[UncoveredBranch, ...] = ()
    assumptions: tuple[AlignmentAssumption, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Return whether outputs are correct and no check reported a finding."""
        return self.gate is None and self.verification.passed


@dataclass
class CorrectnessChecker:
    """Records the results of an unmodified kernel, then checks rewrites of it.

    Args:
        description: Kernel.
        compile_source: Compiles a source for a description.
        runners: Runners of trials, in order; the first one also records the unmodified kernel.
        policy: Allowed differences and the seed; None draws a secret seed.
        notes: Trials that the unmodified kernel does not support.
        addresses: Trials of alignment and of large buffers on the emulator, or None.
    """

    description: KernelDescription
    compile_source: Compile
    runners: Sequence[TrialRunner]
    policy: TrialPolicy = field(default_factory=TrialPolicy)
    notes: list[str] = field(default_factory=list)
    addresses: AddressTrials | None = None
    _baseline: list[BaselineTrial] = field(default_factory=list)
    _plan: TrialPlan | None = None

    def __post_init__(self) -> None:
        self.policy = seeded(self.policy)
        self._executor = TrialExecutor(self.description, self.compile_source)

    def record_baseline(self, source: Path) -> None:
        """Run every trial with the unmodified source.

        Raises:
            LabError: The kernel fails with the described shape and random inputs.
            VacuousToleranceError: Zeros satisfy the tolerance of an output in every trial.
        """
        assert self.policy.seed is not None
        own = TrialExecutor(self.description, self.compile_source)
        recorder = BaselineRecorder(self.description, own, self.runners[0], self.policy, source)
        self._plan = TrialPlan(recorder, self.policy.seed, self.runners[0].most_trials)
        self._baseline = self._plan.run()
        self.notes += self._plan.notes
        self._require_meaningful_tolerance()
        if self.addresses is not None:
            self.notes += self.addresses.record_baseline(source, self._baseline, self.policy)
        for runner in self.runners:
            runner.release()

    def check(self, source: Path) -> CorrectnessResult:
        """Run the trials of a rewrite until one fails."""
        checks: list[OutputCheck] = []
        uncovered: tuple[UncoveredBranch, ...] = ()
        self._executor.forget_builds()  # The file may have changed.
        for runner in self.runners:
            rewrite = _TrialsOfRewrite(self, source, runner, checks)
            for baseline in self._trials_on(runner, source):
                if not rewrite.passes(baseline):
                    break
            if rewrite.failed is None and runner is self.runners[0]:
                uncovered = self._search(source, rewrite)
            runner.release()
            if rewrite.failed is not None:
                return rewrite.failed
        if uncovered and self.policy.require_coverage:
            reason = f"{uncovered[0].message} (optimizer.verification.require_coverage)"
            return CorrectnessResult(VerificationResult(tuple(checks)), reason, self.trials, uncovered=uncovered)
        compared = VerificationResult(tuple(checks))
        placed = self.addresses.check(source, self._for_constants(source)) if self.addresses is not None else None
        if placed is None:
            return CorrectnessResult(compared, None, self.trials, uncovered=uncovered)
        return CorrectnessResult(
            compared, placed.reason, self.trials, uncovered=uncovered, assumptions=placed.assumptions, notes=placed.notes
        )

    def baseline_trials(self) -> tuple[BaselineTrial, ...]:
        """Return the results of the unmodified kernel."""
        return tuple(self._baseline)

    @property
    def trials(self) -> tuple[str, ...]:
        """Names of the trials that the unmodified kernel supports."""
        return tuple(baseline.trial.name for baseline in self._baseline)

    @property
    def summary(self) -> str:
        """Number of trials by type of shape and of inputs, in one line."""
        return summary_of(baseline.trial for baseline in self._baseline)

    def _search(self, source: Path, rewrite: _TrialsOfRewrite) -> tuple[UncoveredBranch, ...]:
        """Search for trials that take the remaining branches of a rewrite, and return the branches that are still not taken."""
        assert self._plan is not None
        assert self.policy.seed is not None
        description = with_source_launch(self.description, source)
        search = CoverageSearch(description, self._plan.sizes, self.policy.seed, self.policy.searched)
        return search.run(self._executor.build(source).code_object, rewrite.recorder, source, rewrite).uncovered

    def _attempt(self, trial: Trial, source: Path, runner: TrialRunner) -> AttemptedTrial:
        """Run a trial of a rewrite without comparison."""
        assert self._plan is not None
        try:
            run, _ = self._executor.run(trial, source, _THIRD_POISON, runner, self.policy.instructions)
        except LabError:
            return AttemptedTrial(None, suspicious=True)
        known = self._plan.recorder.own_findings or frozenset()
        return AttemptedTrial(run.covered, suspicious=not {f.check for f in run.findings} <= known)

    def _further(self, trial: Trial) -> BaselineTrial | None:
        """Return the results of the unmodified kernel in a trial found by a search; None if it does not support the trial.

        Values for which its results overflow are not supported, because reordered operations may overflow in other elements.
        """
        assert self._plan is not None
        baseline = self._plan.added(trial, self.policy.instructions)
        if baseline is None or trial.inputs != "planted":
            return baseline
        return baseline if all(bool(np.isfinite(e.astype(np.float64)).all()) for e in baseline.expected.values()) else None

    def _failure(
        self, baseline: BaselineTrial, source: Path, runner: TrialRunner, checks: list[OutputCheck], recorder: CoverageRecorder
    ) -> CorrectnessResult | None:
        """Run one trial of a rewrite, add its comparisons to `checks`, and return the result if it fails."""
        trial = baseline.trial
        try:
            run, launch = self._executor.run(trial, source, _THIRD_POISON, runner, baseline.budget)
        except LabError as error:
            return self._rejected(f"{error} [{trial.name}]", checks, trial)
        recorder.add(run.covered, trial.params)
        new = [f.message for f in run.findings if f.check not in baseline.finding_kinds]
        if new:
            return self._rejected(f"{new[0]} [{trial.name}]", checks, trial)
        compared = compare_run(self.description, self.policy, baseline, run, launch)
        found = [replace(c, name=f"{c.name} [{trial.name}]") for c in compared]
        checks += found
        if all(check.passed for check in found):
            return None
        return CorrectnessResult(VerificationResult(tuple(checks)), None, self.trials, trial)

    def _trials_on(self, runner: TrialRunner, source: Path) -> Iterator[BaselineTrial]:
        """Return the trials of a runner; for the first runner, including those for the numbers in the rewrite."""
        if runner is not self.runners[0]:
            apart = [b for b in self._baseline if not b.trial.in_place and len(b.trial.rounds) == 1]
            most = len(apart) if runner.most_trials is None else runner.most_trials
            yield from apart[:: max(len(apart) // most, 1)][-most:] if apart else ()
            return
        yield from self._baseline
        assert self._plan is not None
        if runner.most_trials is None:
            yield from self._for_constants(source)

    def _for_constants(self, source: Path) -> Iterator[BaselineTrial]:
        """Return trials with sizes next to the numbers in a rewrite that the unmodified kernel supports."""
        assert self._plan is not None
        text = source.read_text(encoding="utf-8", errors="replace")
        for trial in list(self._plan.for_constants([text]))[:_MOST_ADDED]:
            baseline = self._further(trial) if trial.inputs == "planted" else self._plan.added(trial)
            if baseline is not None:
                yield baseline

    def _rejected(self, reason: str, checks: list[OutputCheck], trial: Trial) -> CorrectnessResult:
        return CorrectnessResult(VerificationResult(tuple(checks)), reason, self.trials, trial)

    def _require_meaningful_tolerance(self) -> None:
        """Check that an output of zeros fails at least one trial with a shape of the description.

        Raises:
            VacuousToleranceError: Zeros pass all of them.
        """
        own = [b for b in self._baseline if b.trial.inputs == "random" and b.trial.shape in ("described", "declared")]
        for name in (a.name for a in self.description.arguments if isinstance(a, BufferArgument) and a.access != "in"):
            passed = [_accepts_zeros(baseline, name) for baseline in own]
            if passed and all(passed):
                raise VacuousToleranceError(
                    f"output {name!r} could be all zeros: its tolerance accepts zeros in every trial",
                    where=f"kernel.tolerance.{name}",
                    hint="reduce atol below the magnitude of the results, or use inputs whose result is not zero",
                )


@dataclass
class _TrialsOfRewrite:
    """Trials of one rewrite on one runner, until the first failure."""

    checker: CorrectnessChecker
    source: Path
    runner: TrialRunner
    checks: list[OutputCheck]
    recorder: CoverageRecorder = field(default_factory=CoverageRecorder)
    failed: CorrectnessResult | None = None

    def passes(self, baseline: BaselineTrial) -> bool:
        """Run a trial that the unmodified kernel supports, and compare its outputs."""
        self.failed = self.checker._failure(baseline, self.source, self.runner, self.checks, self.recorder)
        return self.failed is None

    def attempt(self, trial: Trial) -> AttemptedTrial:
        """Run a trial of only the rewrite; see :class:`~rocm_perf_lab.verify.coverage.SearchedKernel`."""
        return self.checker._attempt(trial, self.source, self.runner)

    def compare(self, trial: Trial) -> bool | None:
        """Compare a trial with the unmodified kernel; see :class:`~rocm_perf_lab.verify.coverage.SearchedKernel`."""
        baseline = self.checker._further(trial)
        return None if baseline is None else self.passes(baseline)


def _accepts_zeros(baseline: BaselineTrial, name: str) -> bool:
    wanted = baseline.expected[name]
    tolerances = {n: t for n, t in baseline.tolerances.items() if n == name}
    return verify_outputs({name: np.zeros_like(wanted)}, {name: wanted}, tolerances).passed
