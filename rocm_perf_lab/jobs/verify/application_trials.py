"""Runs of an application with several sets of arguments: the unmodified version twice, then each candidate."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.verify.application_outputs import ApplicationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.jobs.optimize.application_source import ApplicationBuilder, ApplicationSource
    from rocm_perf_lab.optimize.proposal import Proposal
    from rocm_perf_lab.verify.application_outputs import ApplicationVerifier, RunOutputs
    from rocm_perf_lab.verify.outputs import OutputCheck

_CANDIDATE_RUNS = 2


@dataclass(frozen=True)
class ApplicationDefect:
    """Run of a candidate that failed, or wrote a wrong output.

    Args:
        stage: `run` if the application failed, `verification` if an output is wrong.
        reason: Description of the defect.
        command: Command line in the user's form.
        check: Comparison of the wrong output.
    """

    stage: str
    reason: str
    command: tuple[str, ...]
    check: OutputCheck | None = None


@dataclass
class ApplicationTrials:
    """Compares candidates with the unmodified application.

    Args:
        builder: Builds and places versions.
        verifier: Runs the application and compares outputs.
        commands: Command lines of the application; the first argument, or `{binary}`, is replaced by the built binary.
    """

    builder: ApplicationBuilder
    verifier: ApplicationVerifier
    commands: Sequence[tuple[str, ...]]
    _expected: list[tuple[RunOutputs, RunOutputs]] = field(default_factory=list)

    def record(self, baseline: Proposal) -> None:
        """Run the unmodified application, which is already built, twice with each set of arguments.

        Raises:
            LabError: The application fails, or has no output that can be compared.
        """
        for command in self.commands:
            first, second = (self._run(baseline, command) for _ in range(2))
            self.verifier.require_comparable_output(first, second)
            self._expected.append((first, second))

    def defect(self, version: Proposal, *, runs: int = _CANDIDATE_RUNS) -> ApplicationDefect | None:
        """Run a built version with each set of arguments until a run fails; return None if all outputs are correct."""
        return next((d for n in range(len(self.commands)) if (d := self.defect_with(version, n, runs=runs)) is not None), None)

    def defect_with(self, version: Proposal, number: int, *, runs: int = _CANDIDATE_RUNS) -> ApplicationDefect | None:
        """Run a built version several times with one set of arguments."""
        command = self.commands[number]
        for _ in range(runs):
            try:
                outputs = self._run(version, command, self._expected[number])
            except ApplicationError as error:
                return ApplicationDefect("run", error.what, command)
            wrong = next((c for c in self.verifier.verify(*self._expected[number], outputs).checks if not c.passed), None)
            if wrong is not None:
                return ApplicationDefect("verification", _described(wrong), command, wrong)
        return None

    def _run(self, version: Proposal, command: tuple[str, ...], unmodified: Sequence[RunOutputs] = ()) -> RunOutputs:
        binary = self.builder.binary(version)
        return self.verifier.run(replace(self.builder.application, command=command).run_arguments(binary), binary, unmodified)


def _described(wrong: OutputCheck) -> str:
    place = wrong.worst_index[0]
    return f"{wrong.name}: {wrong.mismatches:,} of {wrong.elements:,} compared lines or bytes differ, first number {place} from 0"


def command_lines(application: ApplicationSource, argument_sets: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the command line of the application, and one for each additional set of arguments.

    Args:
        application: Source, build command and command line.
        argument_sets: Arguments that replace those of the command line, as in a shell.

    Raises:
        LabError: A set of arguments has an unterminated quote.
    """
    command = application.command
    place = next((n for n, argument in enumerate(command) if "{binary}" in argument), 0)
    lines = [command]
    for text in argument_sets:
        try:
            lines.append((*command[: place + 1], *shlex.split(text)))
        except ValueError as error:
            raise LabError(f"invalid arguments: {error}", where=f"--args {text!r}", hint="close the quote") from error
    return tuple(dict.fromkeys(lines))
