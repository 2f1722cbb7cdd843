"""Alignment assumed by a rewrite: trials of a build whose accesses trap (:mod:`rocm_perf_lab.toolchain.promise_checks`).

The width of machine instructions is no evidence, since the compiler merges accesses and the hardware accepts any address. A
rewrite is wrong if it states an alignment (a vector type, an attribute, `__builtin_assume_aligned`) that an address does not
have, although every buffer has the described alignment. If it only fails with buffers that are aligned to their elements, the
result lists the assumed alignment of these buffers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.emulator.faults import KernelTrap
from rocm_perf_lab.languages.arguments import BufferArgument
from rocm_perf_lab.languages.data_types import DTYPES
from rocm_perf_lab.toolchain.compiler_run import CompileError
from rocm_perf_lab.verify.assumptions import BUDGET_FACTOR, broken_condition, line_of
from rocm_perf_lab.verify.comparison import compare_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.verify.comparison import BaselineTrial
    from rocm_perf_lab.verify.execution import TrialExecutor
    from rocm_perf_lab.verify.policy import TrialPolicy
    from rocm_perf_lab.verify.trial_runs import TrialRun, TrialRunner

_POISON = 3
_SHAPES = 6
_MOST_BYTES = 1 << 24
_MOST_INSTRUCTIONS = 1 << 18
"""Limit of wave instructions of one trial; the build with checks executes several times as many as the ordinary one."""


@dataclass(frozen=True)
class AlignmentAssumption:
    """Alignment of a buffer in bytes, larger than that of its elements, required by a source. `source` is the line, if known."""

    buffer: str
    alignment: int
    source: str | None = None

    def __str__(self) -> str:
        return f"assumes {self.alignment}-byte alignment of buffer {self.buffer!r}{f' ({self.source})' if self.source else ''}"


@dataclass(frozen=True)
class AddressResult:
    """Result of address trials: `reason` is the defect of a source, or None; `notes` list checks that were not possible."""

    reason: str | None = None
    assumptions: tuple[AlignmentAssumption, ...] = ()
    notes: tuple[str, ...] = ()


class PlacedRunner:
    """Runner that places buffers at addresses with the alignment in bytes given by name."""

    def __init__(self, runner: TrialRunner, alignments: Mapping[str, int]) -> None:
        self.most_trials = runner.most_trials
        self._runner = runner
        self._alignments = alignments

    def release(self) -> None:
        """Free the code that the runner keeps between trials."""
        self._runner.release()

    def run(
        self, launches: Sequence[Launch], aliases: Mapping[str, str], *, budget: int, has_high_addresses: bool = False
    ) -> TrialRun:
        """Run the launches; see :class:`~rocm_perf_lab.verify.trial_runs.TrialRunner`."""
        placed = [_placed(launch, self._alignments) for launch in launches]
        return self._runner.run(placed, aliases, budget=budget, has_high_addresses=has_high_addresses)


class AlignmentTrials:
    """Trials of the alignment assumed by sources.

    Args:
        executor: Runs trials of builds in which misaligned accesses trap. Sources may assume the `alignment` of the buffers in
            its description.
        runner: Runner on an emulated GPU.
        policy: Allowed differences in results.
        trials: Trials that the unmodified kernel supports.
    """

    def __init__(
        self, executor: TrialExecutor, runner: TrialRunner, policy: TrialPolicy, trials: Sequence[BaselineTrial]
    ) -> None:
        self._executor = executor
        self._runner = runner
        self._policy = policy
        self._trials = _chosen(trials)
        self._known: dict[str, int] = {}
        buffers = (a for a in executor.description.arguments if isinstance(a, BufferArgument))
        self._buffers = {a.name: _Alignment(DTYPES[a.dtype].itemsize, a.alignment) for a in buffers}

    def record_baseline(self, source: Path) -> tuple[str, ...]:
        """Exclude trials with misaligned accesses in the unmodified source, and record its assumptions; return notes."""
        failed = {trial.trial.name: place for trial in self._trials if (place := self._failure(trial, source, {})) is not None}
        self._trials = tuple(trial for trial in self._trials if trial.trial.name not in failed)
        self._known = {found.buffer: found.alignment for found in self._assumptions(source)}
        return tuple(f"alignment not checked: {name}: the unmodified kernel: {place}" for name, place in failed.items())

    def check(self, source: Path) -> AddressResult:
        """Return the alignment assumed by a rewrite in excess of that of the unmodified source."""
        self._executor.forget_builds()  # The file may have changed.
        try:
            for trial in self._trials:
                place = self._failure(trial, source, {})
                if place is not None:
                    return AddressResult(f"{place} [{trial.trial.name}]")
            found = self._assumptions(source)
        except CompileError as error:
            return AddressResult(notes=(f"alignment not checked: {error.what}",))
        return AddressResult(assumptions=tuple(a for a in found if a.alignment > self._known.get(a.buffer, 0)))

    def _assumptions(self, source: Path) -> tuple[AlignmentAssumption, ...]:
        elements = {name: buffer.element for name, buffer in self._buffers.items()}
        broken = [trial for trial in self._trials if self._failure(trial, source, elements) is not None]
        if not broken:
            return ()
        found = [self._needed(name, broken, source) for name in self._buffers]
        return tuple(assumption for assumption in found if assumption is not None)

    def _needed(self, name: str, trials: Sequence[BaselineTrial], source: Path) -> AlignmentAssumption | None:
        """Return the smallest alignment of one buffer with which all trials pass, if larger than that of its elements."""
        promised, alignment = self._buffers[name].promised, self._buffers[name].element
        place: str | None = None
        while alignment < promised:
            reasons = [reason for trial in trials if (reason := self._failure(trial, source, {name: alignment})) is not None]
            if not reasons:
                break
            place = reasons[0]
            alignment *= 2
        if place is None:
            return None
        line, _, _ = place.partition(": ")
        return AlignmentAssumption(name, alignment, line if ":" in line else None)

    def _failure(self, baseline: BaselineTrial, source: Path, alignments: Mapping[str, int]) -> str | None:
        """Return the reason why a trial fails with the alignment of buffers, or None.

        With the promised alignment only traps are considered, because ordinary trials find all other defects.
        """
        runner, budget = PlacedRunner(self._runner, alignments), BUDGET_FACTOR * baseline.budget
        try:
            run, launch = self._executor.run(baseline.trial, source, _POISON, runner, budget)
        except CompileError:
            raise
        except KernelTrap as error:
            condition = broken_condition(error, source)
            return condition or f"{line_of(error)}misaligned: the source states an alignment that the address does not have"
        except LabError as error:
            return error.what if alignments else None
        if not alignments:
            return None
        checks = compare_run(self._executor.description, self._policy, baseline, run, launch)
        return next((str(check) for check in checks if not check.passed), None)


@dataclass(frozen=True)
class _Alignment:
    """Alignment of a buffer: bytes per element, and the described alignment in bytes."""

    element: int
    given: int | str

    @property
    def promised(self) -> int:
        return self.given if isinstance(self.given, int) else self.element


def _placed(launch: Launch, alignments: Mapping[str, int]) -> Launch:
    arguments = tuple(
        replace(a, alignment=alignments.get(a.name, a.alignment)) if isinstance(a, BufferValue) else a for a in launch.arguments
    )
    return replace(launch, arguments=arguments)


def _chosen(trials: Sequence[BaselineTrial]) -> tuple[BaselineTrial, ...]:
    """Return trials with different small shapes and random inputs."""
    found: list[BaselineTrial] = []
    for baseline in sorted(trials, key=lambda one: one.nbytes):
        trial = baseline.trial
        usual = trial.inputs == "random" and not trial.in_place and len(trial.rounds) == 1
        known = any(other.trial.params == trial.params for other in found)
        if usual and not known and baseline.nbytes <= _MOST_BYTES:
            found.append(baseline)
    found = [baseline for baseline in found if baseline.instructions <= _MOST_INSTRUCTIONS] or found[:1]
    if len(found) <= _SHAPES:
        return tuple(found)
    return tuple(found[round(k * (len(found) - 1) / (_SHAPES - 1))] for k in range(_SHAPES))
