"""What an interrupted loop leaves behind, so that it can be taken up again: one line per verdict, on disk before it counts.

The loop is deterministic: started again from the same configuration it offers the same proposals, and where a verdict is
in the journal it is not reached anew. A line that the interruption cut short is as if it had not been written.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.proposal import Proposal, Verdict

if TYPE_CHECKING:
    from pathlib import Path

JOURNAL = "journal.jsonl"
_VERDICT = TypeAdapter(Verdict)
_FORMAT = 1


class ResumeError(LabError):
    """A journal that cannot be continued."""


class JournalHeader(BaseModel):
    """First line: what the loop started from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = _FORMAT
    baseline: str
    runtime_ns: float
    tracking_run: str | None = None


class Journal:
    """Verdicts by proposal, and which of them the tracker has already.

    Args:
        path: The file; read where it exists, continued in any case.

    Raises:
        ResumeError: It is of another format.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._verdicts: dict[str, Verdict] = {}
        self._tracked: set[str] = set()
        self.beginning: JournalHeader | None = None
        if path.exists():
            self._read()

    def begin(self, beginning: JournalHeader) -> JournalHeader:
        """Write the first line, or give the one that is there.

        Raises:
            ResumeError: It began from another source.
        """
        if self.beginning is None:
            self._append({"begin": beginning.model_dump()})
            self.beginning = beginning
        elif self.beginning.baseline != beginning.baseline:
            raise ResumeError(
                "the source of the kernel is not the one that this run began with",
                where=str(self._path),
                hint="restore it, or start a new run",
            )
        return self.beginning

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """In the order in which they were reached."""
        return tuple(self._verdicts.values())

    def recall(self, proposal: Proposal) -> Verdict | None:
        """The verdict on that proposal, where it was reached."""
        return self._verdicts.get(proposal.id)

    def remember(self, verdict: Verdict) -> None:
        """Write a verdict."""
        self._append({"verdict": _VERDICT.dump_python(verdict, mode="json")})
        self._verdicts[verdict.proposal.id] = verdict

    def is_tracked(self, proposal: Proposal) -> bool:
        """Whether the tracker has its run."""
        return proposal.id in self._tracked

    def tracked(self, proposal: Proposal) -> None:
        """Write that the tracker has it."""
        self._append({"tracked": proposal.id})
        self._tracked.add(proposal.id)

    def _append(self, row: dict[str, Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as sink:
            sink.write(json.dumps(row).encode() + b"\n")
            sink.flush()
            os.fsync(sink.fileno())

    def _read(self) -> None:
        content = self._path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            with self._path.open("r+b") as file:  # the next line must not be glued to half of one
                file.truncate(len(whole))
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError, ValidationError) as error:
                raise ResumeError(
                    "this journal cannot be continued", where=f"{self._path}:{number}", hint="start a new run"
                ) from error

    def _take(self, row: dict[str, Any]) -> None:
        if "begin" in row:
            self.beginning = JournalHeader.model_validate(row["begin"])
            if self.beginning.format != _FORMAT:
                raise ValueError(self.beginning.format)
        elif "tracked" in row:
            self._tracked.add(row["tracked"])
        else:
            verdict = _VERDICT.validate_python(row["verdict"])
            self._verdicts[verdict.proposal.id] = verdict
