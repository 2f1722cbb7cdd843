"""Transcripts of calls to a model: one JSON line per call, written before the answer is used.

:class:`RecordedModel` replays a transcript without a model. A resumed run takes the answers of earlier calls from its transcript
instead of paying for them again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError

from rocm_perf_lab.optimize.proposers.model import ChatMessage, ModelAnswer, ModelError, estimated_tokens

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.optimize.proposers.model import ChatModel, Conversation

TRANSCRIPT = "transcript.jsonl"
Purpose = Literal["propose", "repair"]


class RecordedCall(BaseModel):
    """One line of a transcript: conversation and answer. The conversation is optional."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    call: PositiveInt
    purpose: Purpose = "propose"
    parent: str | None = None
    conversation: tuple[ChatMessage, ...] = ()
    answer: ModelAnswer


@dataclass(frozen=True)
class Budget:
    """Limits of all calls of a run. Prices are per million tokens, and costs are in their currency."""

    max_calls: int
    max_tokens: int
    max_cost: float | None = None
    price_per_million_read: float = 0.0
    price_per_million_written: float = 0.0

    def cost(self, read: int, written: int) -> float:
        """Return the cost of prompt (`read`) and completion (`written`) tokens."""
        return (read * self.price_per_million_read + written * self.price_per_million_written) / 1e6


class RecordedModel:
    """Replays the answers of a transcript in order, independent of the conversation.

    Raises:
        ModelError: The file does not exist or is not a transcript.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._answers = [call.answer for call in read_transcript(path)]
        self._next = 0

    def skip(self, answers: int) -> None:
        """Skip answers that were used before an interruption."""
        self._next += answers

    def complete(self, conversation: Conversation) -> ModelAnswer:
        """Return the next answer.

        Raises:
            ModelError: There are no more answers.
        """
        if self._next >= len(self._answers):
            raise ModelError(f"the transcript has only {len(self._answers)} answers", where=str(self._path))
        self._next += 1
        return self._answers[self._next - 1]


class TranscribedModel:
    """Model that records and counts calls, and answers the calls of an interrupted run from the transcript.

    Args:
        model: Model that answers new calls.
        path: Transcript; appended to if it exists.
        budget: Limits of all calls.

    Raises:
        ModelError: The file is not a transcript.
    """

    def __init__(self, model: ChatModel, path: Path, budget: Budget) -> None:
        self._model = model
        self._path = path
        self._budget = budget
        self._earlier = list(read_transcript(path, cut_short=True)) if path.exists() else []
        if isinstance(model, RecordedModel):
            model.skip(len(self._earlier))
        self.calls = 0
        self.read = 0
        self.written = 0

    @property
    def cost(self) -> float:
        """Cost of all calls so far."""
        return self._budget.cost(self.read, self.written)

    def complete(self, conversation: Conversation, *, purpose: Purpose, parent: str | None) -> ModelAnswer:
        """Return the next answer.

        Raises:
            ModelError: The model does not answer, or the budget is exhausted.
        """
        if self.calls < len(self._earlier):
            answer = self._earlier[self.calls].answer
        else:
            self._require_budget(conversation)
            answer = self._model.complete(conversation)
            row = RecordedCall(
                call=self.calls + 1, purpose=purpose, parent=parent, conversation=tuple(conversation), answer=answer
            )
            self._append(row)
        self.calls += 1
        self.read += answer.usage.read
        self.written += answer.usage.written
        return answer

    def _require_budget(self, conversation: Conversation) -> None:
        budget = self._budget
        if self.calls >= budget.max_calls:
            raise ModelError(f"optimizer.llm.max_calls ({budget.max_calls}) reached")
        asked = estimated_tokens(*(message.content for message in conversation))
        if self.read + self.written + asked > budget.max_tokens:
            raise ModelError(
                f"optimizer.llm.max_tokens ({budget.max_tokens:,}) reached: {self.read + self.written:,} used, "
                f"the next prompt needs about {asked:,}"
            )
        cost = self.cost + budget.cost(asked, 0)
        if budget.max_cost is not None and cost > budget.max_cost:
            raise ModelError(f"optimizer.llm.max_cost ({budget.max_cost:g}) reached: {self.cost:.4g} used")

    def _append(self, call: RecordedCall) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as sink:
            sink.write(call.model_dump_json().encode() + b"\n")
            sink.flush()
            os.fsync(sink.fileno())


def read_transcript(path: Path, *, cut_short: bool = False) -> tuple[RecordedCall, ...]:
    """Return the calls of a transcript.

    Args:
        path: Transcript.
        cut_short: Remove an incomplete last line, from the file too.

    Raises:
        ModelError: The file cannot be read, or a line is invalid.
    """
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
    calls = []
    for number, line in enumerate(content.splitlines(), start=1):
        if line.strip():
            try:
                calls.append(RecordedCall.model_validate_json(line))
            except ValidationError as error:
                first = error.errors()[0]
                raise ModelError(
                    f"invalid line in a transcript: {first['msg']} at {'.'.join(map(str, first['loc'])) or 'its top'}",
                    where=f"{path}:{number}",
                    hint="set optimizer.llm.transcript to a transcript.jsonl of an earlier run",
                ) from error
    return tuple(calls)
