"""`job=verify_application`: candidates for a kernel of an application, checked by guards and by the application's outputs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.process_group import check_program
from rocm_perf_lab.jobs.optimize.application_device_code import ApplicationDeviceCode
from rocm_perf_lab.jobs.optimize.application_source import (
    DEFAULT_BUILD,
    ApplicationBuilder,
    ApplicationSource,
    find_source,
    require_placeholders,
)
from rocm_perf_lab.jobs.optimize.bench import read_source
from rocm_perf_lab.jobs.optimize.setup import build_guards, sandbox_of
from rocm_perf_lab.jobs.verify.application_judge import ApplicationDecision, ApplicationJudge
from rocm_perf_lab.jobs.verify.application_trials import ApplicationTrials, command_lines
from rocm_perf_lab.jobs.verify.candidates import read_candidates
from rocm_perf_lab.jobs.verify.document import VerifyDocument
from rocm_perf_lab.jobs.verify.results import VerdictWriter
from rocm_perf_lab.optimize.proposal import Proposal
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.verify.application_outputs import ApplicationVerifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.jobs.verify.candidates import CandidateFile
    from rocm_perf_lab.jobs.verify.document import JudgeVerdict
    from rocm_perf_lab.toolchain.sandbox import Sandbox

_VERDICTS: dict[str, JudgeVerdict] = dict.fromkeys(("compile", "guard", "build", "coverage"), "refused")
_NOT_CHECKED = (
    "arguments and inputs other than those of the listed command lines",
    "races, accesses out of bounds and uninitialised memory, unless they change an output: describe the kernel in a kernel.yaml "
    "and verify it with kernel=NAME",
    "outputs other than standard output and --compare-file",
    "time",
)


class VerifyApplicationJob:
    """Builds an application with its own source and with each candidate, runs both, and compares their outputs.

    Args:
        command: Program and arguments.
        candidates: Source files that replace `source`.
        source: File with the kernel; None searches next to the program.
        build: Build command with `{source}` and `{binary}`; None means `DEFAULT_BUILD`.
        argument_sets: Additional arguments of the program to test with, one string per command line.
        verify: Command that exits with 0 if the outputs are correct, with `{binary}`; None compares outputs.
        compare_files: Files that the application writes.
        kernel: Regular expression for the kernels that candidates may change; None allows all.
        timeout_s: Limit of one run and of one build in seconds.
    """

    def __init__(
        self,
        *,
        command: Sequence[str],
        candidates: Sequence[str],
        source: str | None = None,
        build: str | None = None,
        argument_sets: Sequence[str] = (),
        verify: str | None = None,
        compare_files: Sequence[str] = (),
        kernel: str | None = None,
        timeout_s: float = 600.0,
    ) -> None:
        self._candidates = read_candidates(tuple(map(str, candidates)))
        build = build if build is not None else DEFAULT_BUILD
        require_placeholders(build)
        arguments = tuple(map(str, command))
        _require_program(arguments)
        path = Path(source) if source is not None else find_source(arguments[0], command="verify")
        self._application = ApplicationSource(path, build, arguments)
        self._commands = command_lines(self._application, tuple(map(str, argument_sets)))
        self._verifier = ApplicationVerifier(tuple(Path(name).absolute() for name in compare_files), verify, timeout_s)
        self._kernel = kernel
        self._timeout_s = timeout_s

    def run(self, lab: Lab) -> None:
        """Check every candidate, and write `verify.json`.

        Raises:
            LabError: The unmodified application cannot be built, run or compared, or its outputs do not depend on the kernel.
            NegativeResult: A candidate is not correct.
        """
        text = read_source(self._application.source)
        settings = lab.config.optimizer
        sandbox = sandbox_of(settings)
        shown = f"{self._application.source}, built by: {self._application.build}"
        with VerdictWriter(lab, sandbox.protection(), kernel=shown, count=len(self._candidates)) as writer:
            judge = self._judge(lab, sandbox, text)
            with lab.console.status("building and running the unmodified application"):
                judge.record(self._kernel)
            lines = tuple(shlex.join(command) for command in self._commands)
            writer.begin("; ".join(lines), seed=None)
            for candidate in self._candidates:
                with lab.console.status(f"checking {candidate.path}"):
                    decision = judge.decide(candidate.text)
                writer.add(self._document(lab, candidate, decision, lines, isolation=writer.isolation))
        writer.require_all_correct()

    def _judge(self, lab: Lab, sandbox: Sandbox, text: str) -> ApplicationJudge:
        config = lab.config
        builder = ApplicationBuilder(self._application, lab.output_dir / "candidates", self._timeout_s)
        compiler = find_compiler(config.toolchain.compilers)
        return ApplicationJudge(
            baseline=Proposal.of(text, transform="none", description="the unmodified source", parent=None),
            trials=ApplicationTrials(builder, self._verifier, self._commands),
            device_code=ApplicationDeviceCode(self._application, config.target, compiler, sandbox),
            guards=build_guards(config),
        )

    def _document(
        self, lab: Lab, candidate: CandidateFile, decision: ApplicationDecision, lines: tuple[str, ...], *, isolation: str
    ) -> VerifyDocument:
        return VerifyDocument(
            verdict="correct" if decision.stage is None else _VERDICTS.get(decision.stage, "wrong"),
            stage=decision.stage or "verification",
            reason=decision.reason,
            evidence=decision.evidence,
            candidate=str(candidate.path),
            sha256=candidate.sha256,
            kernel=", ".join(dict.fromkeys(decision.kernels)),
            source=str(self._application.source),
            command=self._application.command,
            target=lab.config.target.name,
            architecture=lab.config.target.architecture,
            trials=len(lines),
            tried=lines,
            assumptions=decision.assumptions,
            warnings=decision.warnings,
            not_checked=_NOT_CHECKED,
            isolation=f"{isolation} (compiler of the guards); the build command and the application run without a sandbox",
        )


def _require_program(command: tuple[str, ...]) -> None:
    """Check that the first argument can be started.

    Raises:
        LabError: The argument is a source file, or not a program.
    """
    name = Path(command[0]).name
    if re.search(r"\.(hip|cu|cpp|cc|cxx|py)$", name) and not any("{binary}" in argument for argument in command):
        raise LabError(
            f"{command[0]} is a source file, not a program",
            where="rocm-perf verify",
            hint="a described kernel: rocm-perf verify kernel=NAME --candidate new.hip; an application: rocm-perf verify ./app",
        )
    check_program(command)
