"""Protocol of language models, which answer a conversation with one message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, NonNegativeInt

from rocm_perf_lab.core.errors import LabError


class ModelError(LabError):
    """Failure to obtain an answer, because of the endpoint, the API key, the budget or the transcript."""


class ChatMessage(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Literal["system", "user", "assistant"]
    content: str


class TokenUsage(BaseModel):
    """Prompt (`read`) and completion (`written`) tokens of one call; `estimated` if the endpoint does not count them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    read: NonNegativeInt
    written: NonNegativeInt
    estimated: bool = False


class FailedAttempt(BaseModel):
    """Failed attempt, and the wait before the next one in seconds.

    `usage` is an estimate of the tokens that the endpoint may charge for; None if it refused the request.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    error: str
    waited_s: float
    usage: TokenUsage | None = None


class ModelAnswer(BaseModel):
    """Answer of a model. `finish_reason` is that of the endpoint, or `too long` for a truncated answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    finish_reason: str | None = None
    usage: TokenUsage
    model: str = ""
    failures: tuple[FailedAttempt, ...] = ()
    seconds: float = 0.0


Conversation = Sequence[ChatMessage]


class ChatModel(Protocol):
    """Model, live or recorded."""

    def complete(self, conversation: Conversation) -> ModelAnswer:
        """Return the next message.

        Raises:
            ModelError: The model does not answer.
        """
        ...


_BYTES_PER_TOKEN = 4


def estimated_tokens(*texts: str) -> int:
    """Return an estimate of the token count, at four bytes per token."""
    return sum(-(-len(text.encode()) // _BYTES_PER_TOKEN) for text in texts)
