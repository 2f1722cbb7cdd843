"""Trials of addresses and assumptions: alignment and conditions assumed by a rewrite, and indices of large buffers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.languages.registry import find_language
from rocm_perf_lab.toolchain.compiler_run import CompileError
from rocm_perf_lab.verify.alignment import AddressResult, AlignmentTrials
from rocm_perf_lab.verify.assumptions import AssumptionTrials
from rocm_perf_lab.verify.execution import TrialExecutor
from rocm_perf_lab.verify.large_trials import LargeTrials
from rocm_perf_lab.verify.sizes import size_names
from rocm_perf_lab.verify.trial_runs import EmulatorRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.verify.comparison import BaselineTrial
    from rocm_perf_lab.verify.policy import TrialPolicy

    Compile = Callable[[KernelDescription, Path], BuildResult]


class AddressTrials:
    """Trials of addresses on the emulator, in addition to those of shapes and inputs.

    Args:
        description: Kernel.
        target: GPU.
        compile_source: Compiles a source for a description.
        compile_checked: Compiles a source so that misaligned accesses and false assumptions trap; only used for
            languages with C++ sources.
    """

    def __init__(self, description: KernelDescription, target: Target, compile_source: Compile, compile_checked: Compile) -> None:
        self._description = description
        self._target = target
        self._compile = compile_source
        self._checked = compile_checked
        self._runner = EmulatorRunner(target)
        self._large: LargeTrials | None = None
        self._alignment: AlignmentTrials | None = None
        self._assumptions: AssumptionTrials | None = None

    def record_baseline(self, source: Path, trials: Sequence[BaselineTrial], policy: TrialPolicy) -> tuple[str, ...]:
        """Run the unmodified kernel, and return notes on shapes that it does not support.

        Args:
            source: The unmodified source.
            trials: Trials that it supports.
            policy: Allowed differences, with a seed.
        """
        self.close()
        self._large = LargeTrials(self._description, self._compile, self._target, policy.seed or 0, self._growing(trials))
        notes = self._large.record_baseline(source)
        if find_language(self._description.language).rewritable:
            executor = TrialExecutor(self._description, self._checked)
            self._alignment = AlignmentTrials(executor, self._runner, policy, trials)
            notes += self._alignment.record_baseline(source)
            self._assumptions = AssumptionTrials(executor, self._runner, trials)
            notes += self._assumptions.record_baseline(source)
            self._runner.release()
        return notes

    def check(self, source: Path, further: Iterable[BaselineTrial] = ()) -> AddressResult:
        """Run the trials of a rewrite until one fails.

        Args:
            source: The rewrite.
            further: Additional trials, derived from the numbers in this rewrite, for its assumptions.
        """
        try:
            return self._checked_until_failure(source, further)
        finally:
            self._runner.release()

    def _checked_until_failure(self, source: Path, further: Iterable[BaselineTrial]) -> AddressResult:
        result = AddressResult()
        if self._large is not None:
            large = self._large.check(source)
            result = AddressResult(large.reason, notes=large.notes)
        if result.reason is None and self._alignment is not None:
            alignment = self._alignment.check(source)
            result = replace(alignment, notes=result.notes + alignment.notes)
        return result if result.reason is not None else replace(result, reason=self._broken(source, further))

    def _broken(self, source: Path, further: Iterable[BaselineTrial]) -> str | None:
        """Return which assumption of a rewrite is false; None if the build with checks fails, which `notes` report."""
        try:
            return self._assumptions.check(source, further) if self._assumptions is not None else None
        except CompileError:
            return None

    def close(self) -> None:
        """Release the reserved addresses."""
        if self._large is not None:
            self._large.close()

    def _growing(self, trials: Sequence[BaselineTrial]) -> frozenset[str]:
        """Return the sizes that the unmodified kernel supports above the described values."""
        given = self._description.params
        return frozenset(
            name for name in size_names(self._description) if any(int(t.trial.params[name]) > int(given[name]) for t in trials)
        )
