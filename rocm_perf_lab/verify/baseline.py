"""Trials of the unmodified kernel: supported shapes and inputs, and their results.

The kernel runs every trial twice, with different initial content in uninitialised memory. This shows which elements it never
writes and which vary from run to run. A trial is supported if the kernel does not fail, equals its reference, and has no finding
other than those with the described shape.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.languages.arguments import BufferArgument
from rocm_perf_lab.verify.comparison import BaselineTrial, buffer_contents, same_bytes
from rocm_perf_lab.verify.error_bounds import observed_bounds, shared_factors
from rocm_perf_lab.verify.inputs import HARSH, NOT_FINITE, PARTIAL, WITHOUT_REFERENCE
from rocm_perf_lab.verify.outputs import allowed_errors, verify_outputs
from rocm_perf_lab.verify.reference import BASELINE, expected_outputs
from rocm_perf_lab.verify.reference_bounds import bounds_of_reference, output_bounds
from rocm_perf_lab.verify.run_bounds import PERTURBED_RUNS, bounds_of_runs, perturbed_launch
from rocm_perf_lab.verify.tolerances import applied_tolerances, supported_tolerances, tolerance_notes
from rocm_perf_lab.verify.trial_runs import DEFAULT_BUDGET
from rocm_perf_lab.verify.trials import described, in_place_pairs
from rocm_perf_lab.verify.undefined import unrelated_elements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.languages.spec import Tolerance
    from rocm_perf_lab.verify.error_bounds import OutputBound
    from rocm_perf_lab.verify.execution import TrialExecutor
    from rocm_perf_lab.verify.policy import TrialPolicy
    from rocm_perf_lab.verify.trial_runs import TrialRun, TrialRunner
    from rocm_perf_lab.verify.trials import Trial

_BUDGET_FACTOR = 50
"""Limit of wave instructions of a rewrite, relative to the unmodified kernel."""
_MIN_BUDGET = 16_000_000
"""The same for short trials: a rewrite with one workgroup per row needs many instructions for many rows of one element."""
_FIRST_POISON, _SECOND_POISON = 1, 2
_TOLERANCE_USED = 0.5
"""Largest error of the unmodified kernel, as a fraction of the tolerance, for which a declared tolerance applies to rewrites."""
_QUANTUM = 2.0**6
_LARGEST_EXACT = 2.0**24


class UnsupportedTrial(LabError):
    """Trial that the unmodified kernel does not support."""


@dataclass
class BaselineRecorder:
    """Runs trials of the unmodified kernel.

    Args:
        description: Kernel.
        executor: Builds and runs sources.
        runner: Emulator or device.
        policy: Allowed differences.
        source: The unmodified source.
    """

    description: KernelDescription
    executor: TrialExecutor
    runner: TrialRunner
    policy: TrialPolicy
    source: Path
    recorded: list[BaselineTrial] = field(default_factory=list)
    own_findings: frozenset[str] | None = None
    notes: list[str] = field(default_factory=list)
    """Notes on declared tolerances, available after :meth:`finished`."""
    _bounds: dict[str, Mapping[str, OutputBound]] = field(default_factory=dict)
    _factors: Mapping[str, float] = field(default_factory=dict)
    _kept: frozenset[str] = frozenset()

    def record(self, trial: Trial, *, most: int = DEFAULT_BUDGET) -> BaselineTrial:
        """Run a trial and store its result.

        Args:
            trial: Trial.
            most: Limit of wave instructions per dispatch.

        Raises:
            LabError: The kernel does not support the trial.
        """
        first, launch = self._run(trial, _FIRST_POISON, most)
        kinds = frozenset(f.check for f in first.findings)
        if self.own_findings is not None and not kinds <= self.own_findings:
            new = next(f for f in first.findings if f.check not in self.own_findings)
            raise UnsupportedTrial(new.message, where=f"trial: {trial.name}")
        names = [a.name for a in self.description.arguments if isinstance(a, BufferArgument) and a.access != "in"]
        outputs = {n: first.buffers[n] for n in names}
        if trial.in_place and (first.findings or not self._works_in_place(trial, outputs)):
            raise UnsupportedTrial("an output cannot share memory with an input", where=f"trial: {trial.name}")
        untouched, stable, more = self._compared_runs(trial, first, launch, names, most)
        expected = self._expected(trial, launch, outputs)
        baseline = BaselineTrial(
            trial=trial,
            expected=expected,
            outputs=outputs,
            stable=stable,
            untouched=untouched,
            finding_kinds=kinds | more,
            budget=max(_MIN_BUDGET, _BUDGET_FACTOR * first.instructions),
            instructions=first.instructions,
            tolerances=dict(self.description.tolerance),
        )
        baseline = self._with_tolerances(baseline, {})
        if trial.inputs in PARTIAL:
            baseline = replace(baseline, ignored=_undecided(trial, expected, outputs, baseline.tolerances))
        if trial.inputs in NOT_FINITE | {"special"}:
            unrelated = self._unrelated(trial, launch, expected)
            combined = {n: where | baseline.ignored[n] if n in baseline.ignored else where for n, where in unrelated.items()}
            baseline = replace(baseline, ignored={**baseline.ignored, **combined})
        self.recorded.append(baseline)
        return baseline

    def _unrelated(self, trial: Trial, launch: Launch, expected: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.bool_]]:
        """Return the elements that are NaN because of inputs on which they do not depend, such as a weight of the padding.

        Scalars have their described values in this analysis, because a scalar of zero is also an input.
        """
        given = {n: value for n, value in self.description.params.items() if isinstance(value, float)}
        plain = replace(trial, inputs="random", factor=1.0, values=(), scalars={}, params={**trial.params, **given})

        def evaluated(shown: Trial, changed: Launch) -> Mapping[str, NDArray[Any]]:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore", RuntimeWarning)
                wanted = expected_outputs(described(self.description, shown), _as_described(self.description, changed))
            return wanted if wanted is not None else self.runner.run([changed], {}, budget=DEFAULT_BUDGET).buffers

        if not any(np.isnan(e.astype(np.float64)).any() for e in expected.values() if e.dtype.kind not in "biu"):
            return {}
        finite = self.executor.launches(plain, self.source, _FIRST_POISON)[-1]
        return unrelated_elements(expected, launch, finite, partial(evaluated, trial), partial(evaluated, plain))

    def further(self, trial: Trial, most: int) -> BaselineTrial | None:
        """Return the result of an additional trial without storing it; None if the kernel does not support it."""
        try:
            self.record(trial, most=most)
        except LabError:
            return None
        return self._with_tolerances(self.recorded.pop(), self._factors)

    def finished(self) -> list[BaselineTrial]:
        """Return the results in order of cost, with tolerances derived from all of them."""
        self._factors = shared_factors(list(self._bounds.values()))
        self._kept = self._kept_tolerances()
        exact = [b for b in self.recorded if b.trial.inputs == "exact"]
        small = [b for b in exact if b.trial.shape != "described"] or exact  # Large sums may be inexact.
        is_exact = bool(exact) and all(_is_exact(b) for b in small) and self.description.reference != BASELINE
        results = []
        for baseline in self.recorded:
            final = self._with_tolerances(baseline, self._factors)
            has_ties = final.trial.inputs == "halves" and self.description.reference != BASELINE
            wanted = has_ties or (is_exact and final.trial.inputs == "exact")
            results.append(replace(final, is_exact=wanted and _is_exact(baseline)))
        self.notes = self._tolerance_notes()
        self._bounds.clear()
        return sorted(results, key=lambda b: b.instructions * len(b.trial.rounds))

    def _tolerance_notes(self) -> list[str]:
        """Return one line for each declared tolerance with a note, or that is replaced by the derived bound."""
        own = next((b for b in self.recorded if b.trial.name in self._bounds and b.trial.inputs == "random"), None)
        if own is None:
            return []
        bounds = self._bounds[own.trial.name]
        derived = {name: bound.allowed(self._factors.get(name, 1.0)) for name, bound in bounds.items()}
        return tolerance_notes(self.description.tolerance, self._kept, derived, own.expected)

    def _kept_tolerances(self) -> frozenset[str]:
        """Return the outputs whose declared tolerance may be tighter than the derived bound.

        A correct rewrite has errors of the same size as the unmodified kernel, but in other elements. A tolerance that the
        unmodified kernel nearly exhausts can therefore not be required of a rewrite.
        """
        kept = set()
        for name, tolerance in self.description.tolerance.items():
            trials = [b for b in self.recorded if name in self._declared(b.trial) and name in b.expected]
            used = (_used(b.outputs[name], b.expected[name], tolerance, b.ignored.get(name)) for b in trials)
            if max(used, default=0.0) <= _TOLERANCE_USED:
                kept.add(name)
        return frozenset(kept)

    def _run(self, trial: Trial, poison: int, most: int) -> tuple[TrialRun, Launch]:
        return self.executor.run(trial, self.source, poison, self.runner, most)

    def _compared_runs(
        self, trial: Trial, first: TrialRun, launch: Launch, names: list[str], most: int
    ) -> tuple[dict[str, NDArray[np.bool_]], dict[str, NDArray[np.bool_]], frozenset[str]]:
        """Return the untouched and the stable elements of the outputs, and the findings of a second run.

        The second run is omitted if it cannot differ: on the deterministic emulator, without findings, and with all uninitialised
        elements overwritten.
        """
        before = buffer_contents(launch)
        unset = {a.name for a in launch.arguments if isinstance(a, BufferValue) and not a.is_set}
        kept = {n: same_bytes(first.buffers[n], before[n]) for n in names}
        is_random = self.runner.most_trials is not None
        if not (is_random or first.findings or any(bool(kept[n].any()) for n in names if n in unset)):
            shapes = {n: first.buffers[n].shape for n in names}
            return _constant(False, shapes), _constant(True, shapes), frozenset()
        second, again = self._run(trial, _SECOND_POISON, most)
        other = buffer_contents(again)
        untouched = {n: kept[n] & same_bytes(second.buffers[n], other[n]) & ~same_bytes(before[n], other[n]) for n in names}
        stable = {n: same_bytes(first.buffers[n], second.buffers[n]) for n in names}
        return untouched, stable, frozenset(f.check for f in second.findings)

    def _works_in_place(self, trial: Trial, outputs: Mapping[str, NDArray[Any]]) -> bool:
        apart, _ = self._run(replace(trial, in_place=False), _FIRST_POISON, DEFAULT_BUDGET)
        return all(bool(same_bytes(apart.buffers[name], output).all()) for name, output in outputs.items())

    def _with_tolerances(self, baseline: BaselineTrial, factors: Mapping[str, float]) -> BaselineTrial:
        bounds = self._bounds.get(baseline.trial.name)
        if bounds is None:
            return baseline
        derived = {name: bound.allowed(factors.get(name, 1.0)) for name, bound in bounds.items()}
        declared = {n: t for n, t in self._declared(baseline.trial).items() if t.note is not None or n in self._kept}
        return replace(baseline, tolerances=applied_tolerances(declared, derived, baseline.expected))

    def _declared(self, trial: Trial) -> dict[str, Tolerance]:
        """Return the declared tolerances that apply to a trial: absolute ones only apply to the described inputs and scalars."""
        given = self.description.params
        is_changed = any(isinstance(value, float) and value != given.get(name) for name, value in trial.params.items())
        is_harsh = trial.inputs in HARSH | PARTIAL | WITHOUT_REFERENCE or bool(trial.scalars) or is_changed
        return {n: t for n, t in self.description.tolerance.items() if not is_harsh or t.note is not None or t.atol == 0}

    def _expected(self, trial: Trial, launch: Launch, outputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Return the results of the reference, or the kernel's outputs if it has none.

        Raises:
            UnsupportedTrial: The unmodified kernel differs from its reference.
        """
        if self.description.reference == BASELINE:
            if trial.inputs in HARSH | PARTIAL:
                raise UnsupportedTrial("the tolerance for such inputs is unknown", where=f"trial: {trial.name}")
            return self._own_outputs(trial, launch, outputs)
        if trial.inputs in WITHOUT_REFERENCE or trial.inputs == "zeros":
            return self._own_outputs(trial, launch, outputs)
        shaped, as_described = described(self.description, trial), _as_described(self.description, launch)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)
            reference = expected_outputs(shaped, as_described)
            assert reference is not None
            bounds = output_bounds(shaped, as_described)
            assert bounds is not None
            noted = {name: given for name, given in self._declared(trial).items() if given.note is not None}
            shaped = shaped.model_copy(update={"tolerance": noted})
            tolerances = supported_tolerances(shaped, bounds, reference)
            checks = verify_outputs(outputs, reference, tolerances)
        if trial.inputs in PARTIAL:
            undecided = _undecided(trial, reference, outputs, tolerances)
            decided = {n: np.where(undecided[n], reference[n], outputs[n]) for n in reference}
            self._bounds[trial.name] = observed_bounds(bounds, reference, decided)
            return {**self._own_outputs(trial, launch, outputs), **reference}
        if not checks.passed:
            if trial.scalars and self._ignores_scalars(trial, launch, reference):
                return self._own_outputs(trial, launch, outputs)
            raise UnsupportedTrial(f"the unmodified kernel differs from its reference: {checks}", where=f"trial: {trial.name}")
        self._bounds[trial.name] = observed_bounds(bounds, reference, outputs)
        return {**self._own_outputs(trial, launch, outputs), **reference}

    def _own_outputs(self, trial: Trial, launch: Launch, outputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Return the kernel's outputs as the expected ones, and store bounds for those without one."""
        known = dict(self._bounds.get(trial.name, {}))
        if not known and self.description.reference != BASELINE:
            known = bounds_of_reference(described(self.description, trial), _as_described(self.description, launch), outputs)
        unknown = {n: output for n, output in outputs.items() if n not in known or known[n].undefined(output).any()}
        if unknown:
            aliases = in_place_pairs(self.description, trial)
            launches = [perturbed_launch(launch, number) for number in range(PERTURBED_RUNS)]
            runs = [self.runner.run([other], aliases, budget=DEFAULT_BUDGET).buffers for other in launches]
            of_runs = bounds_of_runs(launch, unknown, runs)
            known |= {n: known[n].completed(bound, outputs[n]) if n in known else bound for n, bound in of_runs.items()}
        self._bounds[trial.name] = known
        return outputs

    def _ignores_scalars(self, trial: Trial, launch: Launch, reference: Mapping[str, NDArray[Any]]) -> bool:
        """Return whether the reference contains constants instead of the names of scalars that a trial changes."""
        plain = described(self.description, replace(trial, scalars={}))
        same = expected_outputs(plain, _as_described(self.description, launch))
        return same is not None and all(bool(same_bytes(same[name], value).all()) for name, value in reference.items())


@dataclass
class Refusals:
    """Trials that the unmodified kernel does not support, as notes without duplicate reasons."""

    _reasons: dict[str, list[str]] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)

    def add(self, subject: str, trial: Trial, error: LabError) -> None:
        """Add a trial; `subject` is the type of trial in the note."""
        self._counts[subject] += 1
        self._reasons.setdefault(subject, []).append(f"{trial.name}: {error.what}")

    def notes(self) -> Iterable[str]:
        """Return one line per type of trial."""
        for subject, reasons in self._reasons.items():
            times = f" ({self._counts[subject]} trials)" if self._counts[subject] > 1 else ""
            yield f"trial skipped: {subject}{times}: the unmodified kernel fails, first with {reasons[0]}"


def _used(output: NDArray[Any], expected: NDArray[Any], tolerance: Tolerance, ignored: NDArray[np.bool_] | None) -> float:
    """Return the largest error of an output as a fraction of the declared tolerance."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        want, got = expected.astype(np.float64), output.astype(np.float64)
        part = np.abs(got - want) / allowed_errors(expected, tolerance)
    counted = np.isfinite(part) | (np.isfinite(want) & np.isfinite(got) & (got != want))
    if ignored is not None:
        counted &= ~ignored
    return float(part[counted].max(initial=0.0))


def _undecided(
    trial: Trial,
    wanted: Mapping[str, NDArray[Any]],
    outputs: Mapping[str, NDArray[Any]],
    tolerances: Mapping[str, Tolerance | NDArray[np.float64]],
) -> dict[str, NDArray[np.bool_]]:
    """Return the elements of outputs for which the unmodified kernel differs from its reference.

    Non-finite elements also count as different, unless the trial tests them.

    Raises:
        UnsupportedTrial: All elements differ.
    """
    ignored: dict[str, NDArray[np.bool_]] = {}
    with np.errstate(invalid="ignore", over="ignore"):
        for name, expected in wanted.items():
            want, got = expected.astype(np.float64), outputs[name].astype(np.float64)
            tolerance = tolerances.get(name)
            limits = tolerance if isinstance(tolerance, np.ndarray) else np.zeros(want.shape)
            near = np.isfinite(want) & np.isfinite(got) & (np.abs(want - got) <= np.nan_to_num(limits))
            same = (want == got) | (np.isnan(want) & np.isnan(got))
            ignored[name] = ~(near | (same & ~np.isfinite(want)) if trial.inputs in NOT_FINITE else near)
    if all(bool(mask.all()) for mask in ignored.values()):
        raise UnsupportedTrial("the unmodified kernel differs from its reference", where=f"trial: {trial.name}")
    return ignored


def _constant(value: bool, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[np.bool_]]:
    """Return a constant array for each output, a view of one element."""
    return {name: np.broadcast_to(np.bool_(value), shape) for name, shape in shapes.items()}


def _is_exact(baseline: BaselineTrial) -> bool:
    """Return whether expected outputs are multiples of a power of two, and equal to those of the kernel."""
    for name, expected in baseline.expected.items():
        values = expected.astype(np.float64)
        scaled = values * _QUANTUM
        exact = np.isfinite(values) & (scaled == np.round(scaled)) & (np.abs(values) < _LARGEST_EXACT)
        if not exact.all() or not np.array_equal(values, baseline.outputs[name].astype(np.float64)):
            return False
    return True


def _as_described(description: KernelDescription, launch: Launch) -> Launch:
    """Return the launch with only its outputs marked as written."""
    outputs = {a.name for a in description.arguments if isinstance(a, BufferArgument) and a.access != "in"}
    arguments = tuple(replace(a, written=a.name in outputs) if isinstance(a, BufferValue) else a for a in launch.arguments)
    return replace(launch, arguments=arguments)
