"""Output of `verify`: verdicts on the console or as lines of JSON, `verify.json`, and a tracking run."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from typing import TYPE_CHECKING, Self

from rich.text import Text

from rocm_perf_lab.core.errors import NegativeResult
from rocm_perf_lab.jobs.show import show_locations
from rocm_perf_lab.jobs.verify.document import NAME, write_verdicts

if TYPE_CHECKING:
    from types import TracebackType

    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.jobs.verify.document import VerifyDocument
    from rocm_perf_lab.toolchain.sandbox import SandboxProtection
    from rocm_perf_lab.tracking.run import RunTracker

_COLOURS = {"correct": "green", "wrong": "red", "refused": "yellow"}
_MOST_LISTED = 6


class VerdictWriter:
    """Writes each verdict immediately, so that an interrupted command keeps the completed ones.

    Args:
        lab: Run.
        protection: Sandbox of the compiler.
        kernel: Displayed name of the kernel.
        count: Number of candidates.
    """

    def __init__(self, lab: Lab, protection: SandboxProtection, *, kernel: str, count: int) -> None:
        self._lab = lab
        self._kernel = kernel
        self._count = count
        self._documents: list[VerifyDocument] = []
        self._tracker: RunTracker | None = None
        self.isolation = str(protection)

    def __enter__(self) -> Self:
        (self._lab.output_dir / NAME).unlink(missing_ok=True)
        self._tracker = self._lab.tracker.__enter__()
        self._tracker.set_tags({"job": self._lab.job_name, "kernel": self._kernel})
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._tracker is not None
        verdicts = Counter(document.verdict for document in self._documents)
        if verdicts:
            self._tracker.log_metrics({name: float(verdicts[name]) for name in ("correct", "wrong", "refused")})
            self._tracker.log_artifact(self._lab.output_dir / NAME)
        self._tracker.__exit__(kind, error, trace)

    def begin(self, trials: str, *, seed: int | None) -> None:
        """Print kernel, sandbox and trials."""
        console = self._lab.console
        drawn = f" (seed {seed})" if seed is not None else ""
        for label, text in (("kernel", self._kernel), ("sandbox", self.isolation), ("tried", f"{trials}{drawn}")):
            console.print(Text.assemble((f"{label:<8}", "bold"), text), soft_wrap=True)

    def add(self, document: VerifyDocument) -> None:
        """Print, store and track a verdict."""
        self._documents.append(document)
        write_verdicts(self._lab.output_dir / NAME, self._documents)
        self._track(document)
        if self._lab.settings.display == "json":
            sys.stdout.write(f"{document.line()}\n")
            sys.stdout.flush()
        else:
            self._show(document)

    def require_all_correct(self) -> None:
        """Print the limits of the verdicts and the run's directory, and check that all candidates are correct.

        Raises:
            NegativeResult: A candidate is not correct.
        """
        if self._documents:
            notes = dict.fromkeys(note for document in self._documents for note in document.notes)
            for text in (*(f"note: {note}" for note in notes), *(f"not checked: {t}" for t in self._documents[-1].not_checked)):
                self._lab.console.print(Text(text, style="dim"), soft_wrap=True)
        show_locations(self._lab, self._tracker)
        failed = [document for document in self._documents if document.verdict != "correct"]
        if failed:
            said = ", ".join(f"{document.candidate} is {document.verdict}" for document in failed[:_MOST_LISTED])
            more = f" and {len(failed) - _MOST_LISTED} more" if len(failed) > _MOST_LISTED else ""
            raise NegativeResult(f"{len(failed)} of {self._count} candidates did not pass: {said}{more}")

    def _track(self, document: VerifyDocument) -> None:
        assert self._tracker is not None
        tags = {"verdict": document.verdict, "verdict.stage": document.stage, "verdict.reason": document.reason}
        child = self._tracker.child(document.candidate, {**tags, "sha256": document.sha256})
        if document.seed is not None:
            child.log_params({"seed": document.seed})
        child.close()

    def _show(self, document: VerifyDocument) -> None:
        console, colour = self._lab.console, _COLOURS[document.verdict]
        console.print(
            Text.assemble((f"{document.verdict:<7}", f"bold {colour}"), f" {document.candidate}: ", _decided(document)),
            soft_wrap=True,
        )
        found = document.evidence
        if found.params is not None:
            values = {**found.params, **(found.scalars or {})}
            shape = ", ".join(f"{name}={value}" for name, value in values.items())
            console.print(Text(f"        shape {shape}; inputs: {found.inputs}; seed {found.seed}"), soft_wrap=True)
        if found.command is not None:
            console.print(Text(f"        command: {shlex.join(found.command)}"), soft_wrap=True)
        for label, texts in (
            ("uncovered", tuple(branch.message for branch in document.uncovered)),
            ("assumes", document.assumptions),
            ("warning", document.warnings),
        ):
            for text in texts[:_MOST_LISTED]:
                console.print(Text(f"        {label}: {text}"), soft_wrap=True)
            if len(texts) > _MOST_LISTED:
                console.print(f"        and {len(texts) - _MOST_LISTED} more: see {NAME}", soft_wrap=True)


def _decided(document: VerifyDocument) -> str:
    return document.reason if document.verdict == "correct" else f"{document.stage}: {document.reason}"
