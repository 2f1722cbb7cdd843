"""Conditions that a rewrite asserts to the compiler: trials of a build that traps if one is false.

The optimised code of `__builtin_assume(cols % 4 == 0)` or of a branch to `__builtin_unreachable()` may be correct although the
condition is false, and wrong with the next compiler. The condition must hold in every trial that the unmodified kernel supports.
A source without such conditions, or with conditions that the compiler proves, needs only one trial.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.emulator.faults import KernelTrap
from rocm_perf_lab.toolchain.compiler_run import CompileError
from rocm_perf_lab.toolchain.promise_checks import ASSUMPTION_TRAP, UNREACHABLE_TRAP

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rocm_perf_lab.emulator.branch_coverage import BranchCoverage
    from rocm_perf_lab.verify.comparison import BaselineTrial
    from rocm_perf_lab.verify.execution import BuildKey, TrialExecutor
    from rocm_perf_lab.verify.trial_runs import TrialRunner

_POISON = 3
BUDGET_FACTOR = 8
"""Factor of the budget: checks add instructions, and local variables whose address is taken remain in memory."""
_NUMBER = re.compile(r": trap (\d+)$")
_ASSUMED = re.compile(r"\w*assume\w*\s*\(", re.IGNORECASE)


@dataclass
class AssumptionTrials:
    """Trials of the conditions assumed by sources.

    Args:
        executor: Runs trials of builds that trap if a condition is false.
        runner: Runner on an emulated GPU.
        trials: Trials that the unmodified kernel supports.
    """

    executor: TrialExecutor
    runner: TrialRunner
    trials: Sequence[BaselineTrial]
    _baseline: Path | None = None
    _broken: dict[str, str | None] = field(default_factory=dict)
    _unconditional: set[tuple[Path, BuildKey]] = field(default_factory=set)

    def record_baseline(self, source: Path) -> tuple[str, ...]:
        """Find the trials in which a condition of the unmodified source is false, and return notes."""
        self._baseline = source
        failed = [reason for trial in self.trials if (reason := self._known_failure(trial)) is not None]
        return (f"assumptions not checked in {len(failed)} trials: the unmodified kernel: {failed[0]}",) if failed else ()

    def check(self, source: Path, further: Iterable[BaselineTrial] = ()) -> str | None:
        """Return the false condition of a rewrite and the trial, or None.

        Args:
            source: The rewrite.
            further: Trials for this rewrite, in addition to those of the kernel.

        Raises:
            CompileError: The build with checks does not compile.
        """
        self._unconditional = {key for key in self._unconditional if key[0] != source}  # The file may have changed.
        for trial in chain(self.trials, further):
            reason = self._failure(trial, source)
            if reason is not None and self._known_failure(trial) is None:
                return f"{reason} [{trial.trial.name}]"
        return None

    def _known_failure(self, trial: BaselineTrial) -> str | None:
        """Return the false condition of the unmodified source, or None."""
        name = trial.trial.name
        if self._baseline is not None and name not in self._broken:
            self._broken[name] = self._failure(trial, self._baseline)
        return self._broken.get(name)

    def _failure(self, baseline: BaselineTrial, source: Path) -> str | None:
        """Return the false condition in a trial, or None. Other faults and wrong results are found by ordinary trials."""
        build = (source, self.executor.build_key(baseline.trial))
        if build in self._unconditional:
            return None
        try:
            run, _ = self.executor.run(baseline.trial, source, _POISON, self.runner, BUDGET_FACTOR * baseline.budget)
        except CompileError:
            raise
        except KernelTrap as error:
            return broken_condition(error, source)
        except LabError:
            return None
        if run.covered is not None and not _has_conditions(run.covered):
            self._unconditional.add(build)
        return None


def broken_condition(error: KernelTrap, source: Path) -> str | None:
    """Return the condition that a trap reports as false, with its source line; None for other traps."""
    found = _NUMBER.search(error.what)
    number = int(found[1]) if found is not None else 0
    if number not in (ASSUMPTION_TRAP, UNREACHABLE_TRAP):
        return None
    if number == UNREACHABLE_TRAP:
        return f"{line_of(error)}the source declares code unreachable that is reached"
    condition = _condition_at(line_of(error), source)
    return f"{line_of(error)}the assumption {f'`{condition}` ' if condition else ''}is false"


def line_of(error: LabError) -> str:
    """Return the source line of a trap and a colon, or an empty string."""
    parts = (error.where or "").split("; ")
    line = next((part for part in parts[1:] if ":" in part and not part.startswith(("workgroup", "lanes"))), None)
    return f"{line}: " if line else ""


def _condition_at(line: str, source: Path) -> str | None:
    """Return the text of the only assumption in a source line, if it ends in that line."""
    name, _, number = line.removesuffix(": ").rpartition(":")
    texts = source.read_text(encoding="utf-8", errors="replace").splitlines()
    if name.rpartition("/")[2] != source.name or not number.isdigit() or not 0 < int(number) <= len(texts):
        return None
    text = texts[int(number) - 1]
    starts = [match.end() for match in _ASSUMED.finditer(text)]
    if len(starts) != 1:
        return None
    depth = 1
    for place in range(starts[0], len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return text[starts[0] : place].strip()
    return None


def _has_conditions(covered: BranchCoverage) -> bool:
    """Return whether the code contains traps that report false conditions."""
    numbers = (i.fields["simm16"] & 0xFF for i in covered.program.instructions if i.mnemonic == "S_TRAP")
    return not {ASSUMPTION_TRAP, UNREACHABLE_TRAP}.isdisjoint(numbers)
