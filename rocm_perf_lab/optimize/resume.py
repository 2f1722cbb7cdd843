"""Journal of the closed loop, from which an interrupted run is resumed: one line per verdict, written before it is used.

The loop is deterministic: with the same configuration it repeats the same proposals, and verdicts in the journal are not computed
again. An incomplete last line is dropped.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.proposal import Proposal, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

JOURNAL = "journal.jsonl"
_VERDICT = TypeAdapter(Verdict)
_FORMAT = 1


class ResumeError(LabError):
    """Journal that cannot be resumed."""


class JournalHeader(BaseModel):
    """First line of a journal: baseline, tracking run, and secret seeds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = _FORMAT
    baseline: str
    runtime_ns: float
    tracking_run: str | None = None
    trial_seed: int | None = None
    sample_seed: int | None = None


class Journal:
    """Verdicts by proposal, and which of them are tracked.

    Args:
        path: Journal file; read if it exists, and appended to.
        clock: Monotonic clock in seconds.

    Raises:
        ResumeError: The file is not a valid journal.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._start = clock()
        self._earlier_s = 0.0
        self._left: set[str] = set()
        self._verdicts: dict[str, Verdict] = {}
        self._tracked: dict[str, str | None] = {}
        self.header: JournalHeader | None = None
        if path.exists():
            self._read()
        self._left = set(self._verdicts)

    @property
    def is_replaying(self) -> bool:
        """Return whether verdicts of the interrupted run remain to be recalled."""
        return bool(self._left)

    @property
    def elapsed_s(self) -> float:
        """Duration of this run in seconds: until the last verdict before the interruption, plus since the journal was opened."""
        return self._earlier_s + self._clock() - self._start

    def begin(self, header: JournalHeader) -> JournalHeader:
        """Write the first line, or return the existing one.

        Raises:
            ResumeError: The journal is of a different source.
        """
        if self.header is None:
            self._append({"begin": header.model_dump()})
            self.header = header
        elif self.header.baseline != header.baseline:
            raise ResumeError(
                "the source of the kernel changed since this run started",
                where=str(self._path),
                hint="restore the source, or start a new run",
            )
        return self.header

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Verdicts in evaluation order."""
        return tuple(self._verdicts.values())

    def recall(self, proposal: Proposal) -> Verdict | None:
        """Return the verdict on a proposal, or None."""
        self._left.discard(proposal.id)
        return self._verdicts.get(proposal.id)

    def remember(self, verdict: Verdict) -> None:
        """Append a verdict, and the time until it."""
        self._left.clear()  # The loop has passed the interruption, even if it recalled fewer verdicts.
        self._append({"verdict": _VERDICT.dump_python(verdict, mode="json"), "elapsed_s": round(self.elapsed_s, 3)})
        self._verdicts[verdict.proposal.id] = verdict

    def is_tracked(self, proposal: Proposal) -> bool:
        """Return whether a proposal is tracked."""
        return proposal.id in self._tracked

    def tracked(self, proposal: Proposal, run_id: str | None = None) -> None:
        """Record that a proposal is tracked, in the child run `run_id`."""
        self._append({"tracked": proposal.id, "run": run_id})
        self._tracked[proposal.id] = run_id

    def child_run(self, proposal: Proposal) -> str | None:
        """Return the id of the child run of a tracked proposal."""
        return self._tracked.get(proposal.id)

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
            with self._path.open("r+b") as file:  # The next entry must start on a new line.
                file.truncate(len(whole))
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError, ValidationError) as error:
                raise ResumeError(
                    "this journal cannot be resumed", where=f"{self._path}:{number}", hint="start a new run"
                ) from error

    def _take(self, row: dict[str, Any]) -> None:
        if "begin" in row:
            self.header = JournalHeader.model_validate(row["begin"])
            if self.header.format != _FORMAT:
                raise ValueError(self.header.format)
        elif "tracked" in row:
            self._tracked[row["tracked"]] = row.get("run")
        else:
            verdict = _VERDICT.validate_python(row["verdict"])
            self._earlier_s = max(self._earlier_s, float(row.get("elapsed_s", 0.0)))
            self._verdicts[verdict.proposal.id] = verdict
