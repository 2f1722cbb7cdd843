"""Correctness of rewrites: trials with inputs and shapes that the rewrite has not seen, with all memory checks enabled.

The unmodified kernel runs every trial twice, with different initial content in uninitialised memory. This shows which elements
it never writes, which differ from run to run, and which trials it supports. A rewrite must then match the reference within
tolerance, must not change its inputs or unwritten elements, and must not cause new findings of the memory checks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.languages.arguments import BufferArgument
from rocm_perf_lab.languages.registry import find_language
from rocm_perf_lab.languages.spec import Tolerance
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.verify.outputs import OutputCheck, VerificationResult, default_tolerance, verify_outputs
from rocm_perf_lab.verify.policy import TrialPolicy
from rocm_perf_lab.verify.reference import BASELINE, expected_outputs
from rocm_perf_lab.verify.trial_runs import DEFAULT_BUDGET, TrialRun
from rocm_perf_lab.verify.trials import Trial, described, in_place_pairs, planned_trials, trial_launches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.verify.trial_runs import TrialRunner

    Compile = Callable[[KernelDescription, Path], BuildResult]

_BUDGET_FACTOR = 50
"""Wave instructions that a rewrite may execute, relative to the unmodified kernel."""
_MIN_BUDGET = 2_000_000
_FIRST_POISON, _SECOND_POISON, _THIRD_POISON = 1, 2, 3


class VacuousToleranceError(LabError):
    """A tolerance that an output of zeros satisfies in every trial."""


@dataclass(frozen=True)
class BaselineTrial:
    """Results of the unmodified kernel in one trial; arrays by buffer name, in the shape of the buffer.

    Args:
        trial: Trial.
        expected: Expected outputs: of the reference, or of the kernel itself for outputs without one.
        outputs: Outputs of the first run.
        stable: Elements that are equal in both runs.
        untouched: Elements that the kernel never writes.
        finding_kinds: Checks that the kernel itself fails.
        budget: Wave instructions that a rewrite may execute per dispatch.
    """

    trial: Trial
    expected: Mapping[str, NDArray[Any]]
    outputs: Mapping[str, NDArray[Any]]
    stable: Mapping[str, NDArray[np.bool_]]
    untouched: Mapping[str, NDArray[np.bool_]]
    finding_kinds: frozenset[str]
    budget: int


@dataclass(frozen=True)
class CorrectnessResult:
    """Result of all trials of a rewrite. `gate` is the message of a fault or of a memory check, or None."""

    verification: VerificationResult
    gate: str | None = None
    trials: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether outputs are correct and no check reported a finding."""
        return self.gate is None and self.verification.passed


@dataclass
class CorrectnessChecker:
    """Records the results of an unmodified kernel, then checks rewrites of it.

    Args:
        description: Kernel.
        compile_source: Compiles a source for a description.
        runners: Runners of trials, in order; the first one also records the unmodified kernel.
        policy: Differences in results that are allowed.
        notes: Trials that the unmodified kernel does not support.
    """

    description: KernelDescription
    compile_source: Compile
    runners: Sequence[TrialRunner]
    policy: TrialPolicy = field(default_factory=TrialPolicy)
    notes: list[str] = field(default_factory=list)
    _baseline: list[BaselineTrial] = field(default_factory=list)
    _builds: dict[tuple[Path, tuple[tuple[str, str], ...]], BuildResult] = field(default_factory=dict)

    def record_baseline(self, source: Path) -> None:
        """Run every trial with the unmodified source.

        Raises:
            LabError: The kernel fails with its own shape and random inputs.
            VacuousToleranceError: Zeros satisfy the tolerance of an output in every trial.
        """
        unsupported: dict[str, str] = {}
        for trial in planned_trials(self.description, self.policy.seed):
            if trial.in_place and not (self.policy.in_place and in_place_pairs(self.description, trial)):
                continue
            if trial.family and any(recorded.trial.family == trial.family for recorded in self._baseline):
                continue
            try:
                recorded = self._record(trial, source)
            except LabError as error:
                if trial.name == "other inputs":
                    raise
                note = f"trial skipped: {trial.name}: the unmodified kernel fails: {error.what}"
                unsupported[trial.family or trial.name] = note  # the last of a family has the weakest inputs
                continue
            if recorded is not None:
                self._baseline.append(recorded)
        families = {trial.trial.family for trial in self._baseline}
        self.notes += [note for name, note in unsupported.items() if name not in families]
        self._require_meaningful_tolerance()

    def check(self, source: Path) -> CorrectnessResult:
        """Run the trials of a rewrite until one fails."""
        checks: list[OutputCheck] = []
        self._builds.clear()  # the file may have changed
        for runner in self.runners:
            for baseline in self._baseline:
                if baseline.trial.in_place and runner is not self.runners[0]:
                    continue
                try:
                    run, launch = self._run(baseline.trial, source, _THIRD_POISON, runner, baseline.budget)
                except LabError as error:
                    return self._rejected(f"{error} [{baseline.trial.name}]", checks)
                new = [f.message for f in run.findings if f.check not in baseline.finding_kinds]
                if new:
                    return self._rejected(f"{new[0]} [{baseline.trial.name}]", checks)
                found = [replace(c, name=f"{c.name} [{baseline.trial.name}]") for c in self._compare(baseline, run, launch)]
                checks += found
                if not all(check.passed for check in found):
                    return CorrectnessResult(VerificationResult(tuple(checks)), None, self.trials)
        return CorrectnessResult(VerificationResult(tuple(checks)), None, self.trials)

    def baseline_trials(self) -> tuple[BaselineTrial, ...]:
        """Return the results of the unmodified kernel."""
        return tuple(self._baseline)

    @property
    def trials(self) -> tuple[str, ...]:
        """Names of the trials that the unmodified kernel supports."""
        return tuple(baseline.trial.name for baseline in self._baseline)

    def _rejected(self, reason: str, checks: list[OutputCheck]) -> CorrectnessResult:
        return CorrectnessResult(VerificationResult(tuple(checks)), reason, self.trials)

    def _run(self, trial: Trial, source: Path, poison: int, runner: TrialRunner, budget: int) -> tuple[TrialRun, Launch]:
        description = described(self.description, trial)
        build = self._built(description, source)
        symbol = find_kernel(build.code_object, self.description.entry).symbol
        launches = trial_launches(self.description, trial, build, symbol, poison=poison)
        return runner.run(launches, in_place_pairs(self.description, trial), budget=budget), launches[-1]

    def _built(self, description: KernelDescription, source: Path) -> BuildResult:
        """Return the build for a description; trials of one source with equal macros share it."""
        macros = find_language(description.language).build_values(description)
        key = (source, tuple(sorted((name, str(value)) for name, value in macros.items())))
        if key not in self._builds:
            if any(known != source for known, _ in self._builds):
                self._builds.clear()
            self._builds[key] = self.compile_source(description, source)
        return self._builds[key]

    def _record(self, trial: Trial, source: Path) -> BaselineTrial | None:
        if trial.inputs == "large" and self.description.reference == BASELINE:
            return None  # the tolerance for such inputs is unknown
        budget = self._baseline_budget(trial)
        first, launch = self._run(trial, source, _FIRST_POISON, self.runners[0], budget)
        second, again = self._run(trial, source, _SECOND_POISON, self.runners[0], budget)
        names = [a.name for a in self.description.arguments if isinstance(a, BufferArgument) and a.access != "in"]
        before, before_again = _contents(launch), _contents(again)
        untouched = {
            n: _same(first.buffers[n], before[n]) & _same(second.buffers[n], before_again[n]) & ~_same(before[n], before_again[n])
            for n in names
        }
        stable = {n: _same(first.buffers[n], second.buffers[n]) for n in names}
        outputs = {n: first.buffers[n] for n in names}
        if trial.in_place and (first.findings or not self._works_in_place(trial, source, outputs)):
            return None
        expected = self._expected(trial, launch, outputs)
        budget = max(_MIN_BUDGET, _BUDGET_FACTOR * first.instructions)
        finding_kinds = frozenset(f.check for f in (*first.findings, *second.findings))
        return BaselineTrial(trial, expected, outputs, stable, untouched, finding_kinds, budget)

    def _baseline_budget(self, trial: Trial) -> int:
        """Return the instruction limit of a run; with other initial content, a kernel may wait for a value for ever."""
        known = [baseline.budget for baseline in self._baseline]
        return max(known) if trial.inputs == "content" and known else DEFAULT_BUDGET

    def _works_in_place(self, trial: Trial, source: Path, outputs: Mapping[str, NDArray[Any]]) -> bool:
        apart, _ = self._run(replace(trial, in_place=False), source, _FIRST_POISON, self.runners[0], DEFAULT_BUDGET)
        return all(bool(_same(apart.buffers[name], output).all()) for name, output in outputs.items())

    def _expected(self, trial: Trial, launch: Launch, outputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Return the result of the reference, or the kernel's own outputs without one.

        Raises:
            LabError: The unmodified kernel differs from its reference.
        """
        if trial.inputs not in ("random", "described", "large") or self.description.reference == BASELINE:
            return outputs
        reference = expected_outputs(described(self.description, trial), _as_described(self.description, launch))
        if reference is None:
            return outputs
        tolerance = self.description.tolerance
        if trial.inputs == "large":  # chosen for smaller inputs, the tolerance must leave room for another order of sums
            tolerance = {name: _tightened(tolerance.get(name), reference[name]) for name in reference}
        checks = verify_outputs(outputs, reference, tolerance)
        if not checks.passed:
            raise LabError(f"the unmodified kernel differs from its reference: {checks}", where=f"trial: {trial.name}")
        return {**outputs, **reference}

    def _compare(self, baseline: BaselineTrial, run: TrialRun, launch: Launch) -> list[OutputCheck]:
        checks = []
        before = _contents(launch)
        aliased = set(in_place_pairs(self.description, baseline.trial).values())
        for argument in self.description.arguments:
            if isinstance(argument, BufferArgument) and argument.access == "in" and argument.name not in aliased:
                kept = _same(run.buffers[argument.name], before[argument.name])
                if not kept.all():
                    checks.append(
                        _broken(
                            f"input {argument.name} (must not be written)",
                            run.buffers[argument.name],
                            before[argument.name],
                            kept,
                        )
                    )
        for name, untouched in baseline.untouched.items():
            kept = ~untouched | _same(run.buffers[name], before[name])
            if not kept.all():
                checks.append(_broken(f"{name} (not written by the unmodified kernel)", run.buffers[name], before[name], kept))
        if checks:
            return checks
        got = {n: np.where(baseline.untouched[n], baseline.outputs[n], run.buffers[n]) for n in baseline.outputs}
        want = {n: np.where(baseline.untouched[n], baseline.outputs[n], baseline.expected[n]) for n in baseline.outputs}
        if not self.policy.reassociate:
            return [_identical(name, got[name], baseline.outputs[name], baseline.stable[name]) for name in got]
        if self.policy.nan == "ignore":
            want = {n: np.where(_finite(w), w, got[n]) for n, w in want.items()}
        checks = list(verify_outputs(got, want, self.description.tolerance).checks)
        return [check if not check.passed else self._zeros_kept(check, baseline, got[check.name]) for check in checks]

    def _zeros_kept(self, check: OutputCheck, baseline: BaselineTrial, got: NDArray[Any]) -> OutputCheck:
        """Compare the signs of zeros if the tolerance is zero and the unmodified kernel's signs are stable."""
        given = self.description.tolerance.get(check.name)
        before = baseline.outputs[check.name]
        if given is None or given.atol != 0 or given.rtol != 0 or got.dtype.kind in "biu":
            return check
        turned = (_zeros(got) & _zeros(before)) & (_negative(got) != _negative(before)) & baseline.stable[check.name]
        return _broken(f"{check.name} (signs of zeros)", got, before, ~turned) if turned.any() else check

    def _require_meaningful_tolerance(self) -> None:
        """Check that an output of zeros fails at least one trial.

        Raises:
            VacuousToleranceError: It passes all of them.
        """
        for name in (a.name for a in self.description.arguments if isinstance(a, BufferArgument) and a.access != "in"):
            wanted = [baseline.expected[name] for baseline in self._baseline if baseline.trial.inputs == "random"]
            tolerance: Mapping[str, Tolerance] = self.description.tolerance
            if wanted and all(verify_outputs({name: np.zeros_like(w)}, {name: w}, tolerance).passed for w in wanted):
                raise VacuousToleranceError(
                    f"output {name!r} could be all zeros: its tolerance accepts zeros in every trial",
                    where=f"kernel.tolerance.{name}",
                    hint="reduce atol below the magnitude of the results, or use inputs whose result is not zero",
                )


def _as_described(description: KernelDescription, launch: Launch) -> Launch:
    """Return the launch with only its outputs marked as written."""
    outputs = {a.name for a in description.arguments if isinstance(a, BufferArgument) and a.access != "in"}
    arguments = tuple(replace(a, written=a.name in outputs) if isinstance(a, BufferValue) else a for a in launch.arguments)
    return replace(launch, arguments=arguments)


def _contents(launch: Launch) -> dict[str, NDArray[Any]]:
    return {a.name: a.data for a in launch.arguments if isinstance(a, BufferValue)}


def _same(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which elements have equal bytes: a NaN equals the same NaN, and 0 differs from -0."""
    size = one.dtype.itemsize
    a = np.frombuffer(np.ascontiguousarray(one).tobytes(), np.uint8).reshape(-1, size)
    b = np.frombuffer(np.ascontiguousarray(other).tobytes(), np.uint8).reshape(-1, size)
    same: NDArray[np.bool_] = (a == b).all(axis=1).reshape(one.shape)
    return same


def _tightened(tolerance: Tolerance | None, values: NDArray[Any]) -> Tolerance:
    """Return a quarter of a tolerance."""
    given = tolerance if tolerance is not None else default_tolerance(values)
    return Tolerance(rtol=given.rtol / 4, atol=given.atol / 4)


def _finite(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.isfinite(values.astype(np.float64))


def _zeros(values: NDArray[Any]) -> NDArray[np.bool_]:
    zeros: NDArray[np.bool_] = values.astype(np.float64) == 0
    return zeros


def _negative(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.signbit(values.astype(np.float64))


def _broken(name: str, actual: NDArray[Any], expected: NDArray[Any], kept: NDArray[np.bool_]) -> OutputCheck:
    worst = tuple(int(i) for i in np.argwhere(~kept)[0])
    return OutputCheck(
        name, False, int((~kept).sum()), int(kept.size), np.inf, np.inf, worst, float(actual[worst]), float(expected[worst])
    )


def _identical(name: str, actual: NDArray[Any], expected: NDArray[Any], stable: NDArray[np.bool_]) -> OutputCheck:
    """Compare the elements that are stable in the unmodified kernel bit by bit."""
    kept = ~stable | _same(actual, expected)
    if kept.all():
        zero = Tolerance(rtol=0, atol=0)
        return verify_outputs({name: np.where(stable, actual, expected)}, {name: expected}, {name: zero}).checks[0]
    return _broken(f"{name}, which must be bitwise identical,", actual, expected, kept)
