"""Transcripts of calls to models: one JSON line per call, written before the answer is used.

:class:`RecordedModel` replays a transcript without a model. Lines with `asked` record that a call was sent, so that calls whose
answers were lost in an interruption count as spending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError, model_validator

from rocm_perf_lab.optimize.proposers.model import ChatMessage, ModelAnswer, ModelError

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.optimize.proposers.model import Conversation

TRANSCRIPT = "transcript.jsonl"
Purpose = Literal["propose", "repair", "crossover"]


class RecordedCall(BaseModel):
    """One call: conversation (optional) and answer, or the error of a model that stopped answering."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    call: PositiveInt
    purpose: Purpose = "propose"
    parent: str | None = None
    arm: str = ""
    """Name of the model, and temperature."""
    conversation: tuple[ChatMessage, ...] = ()
    answer: ModelAnswer | None = None
    error: str | None = None

    @model_validator(mode="after")
    def _check_outcome(self) -> Self:
        if (self.answer is None) == (self.error is None):
            raise ValueError("a call has either an answer or an error")
        return self


class AskedCall(BaseModel):
    """Call that was sent, with the estimated tokens of its prompt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    asked: PositiveInt
    arm: str
    read: NonNegativeInt


class RecordedModel:
    """Replays the answers of a transcript in order, independent of the conversation.

    Raises:
        ModelError: The file does not exist or is not a transcript.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._answers = [call.answer for call in read_transcript(path) if call.answer is not None]
        self._next = 0

    def skip(self, answers: int) -> None:
        """Skip answers that were used before an interruption."""
        self._next += answers

    def complete(self, conversation: Conversation) -> ModelAnswer:
        """Return the next answer.

        Raises:
            ModelError: The transcript contains no more answers.
        """
        if self._next >= len(self._answers):
            raise ModelError(f"the transcript has only {len(self._answers)} answers", where=str(self._path))
        self._next += 1
        return self._answers[self._next - 1]


def read_transcript(path: Path, *, cut_short: bool = False) -> tuple[RecordedCall, ...]:
    """Return the calls of a transcript, in the order of their numbers.

    Args:
        path: Transcript.
        cut_short: Remove an incomplete last line, also from the file.

    Raises:
        ModelError: The file cannot be read, or a line is invalid.
    """
    calls = [row for row in read_rows(path, cut_short=cut_short) if isinstance(row, RecordedCall)]
    return tuple(sorted(calls, key=lambda call: call.call))


def read_rows(path: Path, *, cut_short: bool = False) -> list[RecordedCall | AskedCall]:
    """Return all lines of a transcript in the order of the file; see :func:`read_transcript`."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"the transcript cannot be read: {error.strerror}",
            where=str(path),
            hint="set optimizer.llm.transcript to a transcript.jsonl of an earlier run",
        ) from error
    if cut_short and not content.endswith(b"\n"):
        content = content[: content.rfind(b"\n") + 1]
        with path.open("r+b") as file:
            file.truncate(len(content))
    rows: list[RecordedCall | AskedCall] = []
    for number, line in enumerate(content.splitlines(), start=1):
        if line.strip():
            kind = AskedCall if line.startswith(b'{"asked"') else RecordedCall
            try:
                rows.append(kind.model_validate_json(line))
            except ValidationError as error:
                first = error.errors()[0]
                raise ModelError(
                    f"invalid line in a transcript: {first['msg']} at {'.'.join(map(str, first['loc'])) or 'its top'}",
                    where=f"{path}:{number}",
                    hint="set optimizer.llm.transcript to a transcript.jsonl of an earlier run",
                ) from error
    return rows
