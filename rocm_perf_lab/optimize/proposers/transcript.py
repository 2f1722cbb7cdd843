"""Every call to a model, on disk: one JSON line each, written before the answer is used.

A transcript is what a run can be repeated from without a model: :class:`RecordedModel` gives its answers byte for byte. It is
also where an interrupted run goes on: calls that are in it already are not made, and not paid for, again.
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
    """One line: what was asked, and what came back. A recorded line may leave out what was asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    call: PositiveInt
    purpose: Purpose = "propose"
    parent: str | None = None
    conversation: tuple[ChatMessage, ...] = ()
    answer: ModelAnswer


@dataclass(frozen=True)
class Budget:
    """What all calls of a run together may use; prices per million tokens, cost in their currency."""

    max_calls: int
    max_tokens: int
    max_cost: float | None = None
    price_per_million_read: float = 0.0
    price_per_million_written: float = 0.0

    def cost(self, read: int, written: int) -> float:
        """Of so many tokens."""
        return (read * self.price_per_million_read + written * self.price_per_million_written) / 1e6


class RecordedModel:
    """Answers from a transcript, in its order, whatever is asked.

    Raises:
        ModelError: There is no such file, or it is no transcript.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._answers = [call.answer for call in read_transcript(path)]
        self._next = 0

    def skip(self, answers: int) -> None:
        """Pass over answers that were given before an interruption."""
        self._next += answers

    def complete(self, conversation: Conversation) -> ModelAnswer:
        """The next answer."""
        if self._next >= len(self._answers):
            raise ModelError(f"the transcript has no more than {len(self._answers)} answers", where=str(self._path))
        self._next += 1
        return self._answers[self._next - 1]


class TranscribedModel:
    """A model whose calls are kept and counted; calls that are in the file from an interrupted run are answered from it.

    Args:
        model: Who answers.
        path: The transcript; continued where it exists.
        budget: What may be used.

    Raises:
        ModelError: The file is no transcript.
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
        """Of all calls so far."""
        return self._budget.cost(self.read, self.written)

    def complete(self, conversation: Conversation, *, purpose: Purpose, parent: str | None) -> ModelAnswer:
        """The next answer.

        Raises:
            ModelError: There is none, or the budget does not allow to ask.
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
                f"the next question alone is about {asked:,}"
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
    """All calls of a file.

    Args:
        path: The file.
        cut_short: Drop a last line that an interruption cut short, from the file too.

    Raises:
        ModelError: It cannot be read, or a line is no call.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"the transcript cannot be read: {error.strerror}",
            where=str(path),
            hint="optimizer.llm.transcript names a transcript.jsonl of an earlier run",
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
                    f"no call of a transcript: {first['msg']} at {'.'.join(map(str, first['loc'])) or 'its top'}",
                    where=f"{path}:{number}",
                    hint="optimizer.llm.transcript names a transcript.jsonl of an earlier run",
                ) from error
    return tuple(calls)
