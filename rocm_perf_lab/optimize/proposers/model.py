"""What a language model is to a proposer: messages in, one answer out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, NonNegativeInt

from rocm_perf_lab.core.errors import LabError


class ModelError(LabError):
    """No answer, and none to be expected: the endpoint, the key, the budget or the transcript does not give one."""


class ChatMessage(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Literal["system", "user", "assistant"]
    content: str


class TokenUsage(BaseModel):
    """Tokens of one call; `estimated` where the endpoint does not count them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    read: NonNegativeInt
    written: NonNegativeInt
    estimated: bool = False


class FailedAttempt(BaseModel):
    """An attempt that gave no answer, and how long was waited before the next one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    error: str
    waited_s: float


class ModelAnswer(BaseModel):
    """What came back. `finish_reason` as the endpoint says it; `too long` where the lab stopped listening."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    finish_reason: str | None = None
    usage: TokenUsage
    model: str = ""
    failures: tuple[FailedAttempt, ...] = ()
    seconds: float = 0.0


Conversation = Sequence[ChatMessage]


class ChatModel(Protocol):
    """A model, or what stands in for one."""

    def complete(self, conversation: Conversation) -> ModelAnswer:
        """The next message.

        Raises:
            ModelError: There is none.
        """
        ...


_BYTES_PER_TOKEN = 4


def estimated_tokens(*texts: str) -> int:
    """A rough count: four bytes a token, rounded up."""
    return sum(-(-len(text.encode()) // _BYTES_PER_TOKEN) for text in texts)
