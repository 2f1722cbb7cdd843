"""Model behind an OpenAI-compatible endpoint, called through the official client.

Temporary errors (429, 5xx, broken connections, time-outs, invalid responses) are retried with increasing waits, or the wait of
`Retry-After`. Reading stops when an answer exceeds the maximum size.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rocm_perf_lab.optimize.proposers.model import FailedAttempt, ModelAnswer, ModelError, TokenUsage, estimated_tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from openai import APIError, OpenAI
    from openai.types import CompletionUsage

    from rocm_perf_lab.optimize.proposers.model import Conversation

_NO_KEY = "none"
_LONGEST_WAIT_S = 60.0
_LONGEST_ERROR = 300
_TEMPORARY_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504, 529})


@dataclass(frozen=True)
class Endpoint:
    """Address and parameters of a model.

    Args:
        base_url: URL with the version, for example `http://localhost:8000/v1`.
        model: Name of the model.
        api_key_env: Environment variable with the API key.
        temperature: Sampling temperature; None means the endpoint's default.
        seed: Sampling seed; None means the endpoint's default.
        stream: Stream the answer.
        timeout_s: Limit of one attempt in seconds, including the whole answer.
        max_retries: Retries after the first attempt.
        first_wait_s: Wait before the first retry in seconds; later waits double.
        max_answer_tokens: Limit sent to the endpoint.
        max_answer_bytes: Size at which reading stops.
    """

    base_url: str
    model: str
    api_key_env: str = "OPENAI_API_KEY"
    temperature: float | None = None
    seed: int | None = None
    stream: bool = True
    timeout_s: float = 300.0
    max_retries: int = 4
    first_wait_s: float = 1.0
    max_answer_tokens: int | None = None
    max_answer_bytes: int = 256 * 1024

    def key(self) -> str:
        """Return the API key; an endpoint on this machine needs none.

        Raises:
            ModelError: The environment variable is not set.
        """
        key = os.environ.get(self.api_key_env, "").strip()
        if not key and not is_local(self.base_url):
            raise ModelError(
                f"there is no API key for {self.base_url}",
                where=f"the environment variable {self.api_key_env} (optimizer.llm.api_key_env) is not set",
                hint=f"export {self.api_key_env}=..., or replay recorded answers with optimizer.proposer=recorded",
            )
        return key or _NO_KEY


def is_local(url: str) -> bool:
    """Return whether a URL refers to this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@dataclass
class EndpointModel:
    """Calls one endpoint.

    Args:
        endpoint: Address and parameters.
        sleep: Waits the given number of seconds.

    Raises:
        ModelError: The URL is invalid, the API key is missing, or the client is not installed.
    """

    endpoint: Endpoint
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.endpoint.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ModelError(
                f"{self.endpoint.base_url!r} is not a valid URL of an endpoint",
                where="optimizer.llm.base_url",
                hint="for example http://localhost:8000/v1",
            )
        self._key = self.endpoint.key()
        _ = self._client

    @cached_property
    def _client(self) -> OpenAI:
        try:
            from openai import OpenAI
        except ImportError as error:
            raise ModelError("the client library for models is not installed", hint="pip install 'rocm-perf-lab[llm]'") from error
        return OpenAI(api_key=self._key, base_url=self.endpoint.base_url, timeout=self.endpoint.timeout_s, max_retries=0)

    def complete(self, conversation: Conversation) -> ModelAnswer:
        """Return the answer to a conversation; retry after temporary errors.

        Raises:
            ModelError: The last attempt failed, or the error is not temporary.
        """
        from openai import APIError

        failures: list[FailedAttempt] = []
        start = time.monotonic()
        while True:
            try:
                answer = self._ask(conversation)
                return answer.model_copy(update={"failures": tuple(failures), "seconds": time.monotonic() - start})
            except (APIError, _ProtocolError, _TimeoutError) as error:
                last = len(failures) >= self.endpoint.max_retries
                if last or not _is_temporary(error):
                    raise self._failed(error, len(failures) + 1) from error
                wait = _asked_wait_s(error) or self.endpoint.first_wait_s * 2 ** len(failures)
                failures.append(FailedAttempt(error=_in_words(error), waited_s=min(wait, _LONGEST_WAIT_S)))
                self.sleep(failures[-1].waited_s)

    def _ask(self, conversation: Conversation) -> ModelAnswer:
        request = {
            "model": self.endpoint.model,
            "messages": [message.model_dump() for message in conversation],
            "temperature": self.endpoint.temperature,
            "seed": self.endpoint.seed,
            "max_tokens": self.endpoint.max_answer_tokens,
        }
        chosen = {name: value for name, value in request.items() if value is not None}
        try:
            received = self._listen(chosen) if self.endpoint.stream else self._receive(chosen)
        except (ValueError, AttributeError, TypeError, LookupError) as error:  # raised by the client for invalid responses
            raise _ProtocolError(f"{type(error).__name__}: {error}") from error
        usage = received.usage
        counted = TokenUsage(
            read=usage.prompt_tokens if usage else estimated_tokens(*(m.content for m in conversation)),
            written=usage.completion_tokens if usage else estimated_tokens(received.text),
            estimated=usage is None,
        )
        return ModelAnswer(text=received.text, finish_reason=received.finish_reason, usage=counted, model=received.model)

    def _receive(self, request: dict[str, Any]) -> _Received:
        whole = self._client.chat.completions.create(**request)
        choice = whole.choices[0]
        received = _Received(choice.message.content or "", choice.finish_reason, whole.usage, whole.model or "")
        return received.cut(self.endpoint.max_answer_bytes)

    def _listen(self, request: dict[str, Any]) -> _Received:
        received = _Received()
        size, deadline = 0, time.monotonic() + self.endpoint.timeout_s
        parts: list[str] = []
        chunks = 0
        with self._client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True}) as stream:
            for chunk in stream:
                chunks += 1
                received.usage = chunk.usage or received.usage
                received.model = chunk.model or received.model
                for choice in chunk.choices[:1]:
                    parts.append(choice.delta.content or "")
                    received.finish_reason = choice.finish_reason or received.finish_reason
                    size += len(parts[-1].encode())
                if size > self.endpoint.max_answer_bytes:
                    break
                if time.monotonic() > deadline:
                    raise _TimeoutError(f"the answer was not complete after {self.endpoint.timeout_s:g} s")
        received.text = "".join(parts)
        if not chunks:
            raise _ProtocolError("the stream was empty")
        if received.finish_reason is None and size <= self.endpoint.max_answer_bytes:
            raise _ProtocolError("the stream ended before the answer did")
        return received.cut(self.endpoint.max_answer_bytes)

    def _failed(self, error: APIError | _ProtocolError | _TimeoutError, attempts: int) -> ModelError:
        times = f" {attempts} times" if attempts > 1 else ""
        return ModelError(
            f"the model did not answer{times}: {_in_words(error)}",
            where=f"{self.endpoint.base_url}, model {self.endpoint.model}",
            hint=_hint(error, self.endpoint),
        )


class _ProtocolError(Exception):
    """A response that violates the protocol."""


class _TimeoutError(Exception):
    """An answer that takes too long."""


@dataclass
class _Received:
    text: str = ""
    finish_reason: str | None = None
    usage: CompletionUsage | None = None
    model: str = ""

    def cut(self, most_bytes: int) -> _Received:
        content = self.text.encode()
        if len(content) > most_bytes:
            self.text, self.finish_reason = content[:most_bytes].decode(errors="ignore"), "too long"
        return self


def _is_temporary(error: Exception) -> bool:
    from openai import APIConnectionError, APIStatusError

    if isinstance(error, APIStatusError):
        return error.status_code in _TEMPORARY_STATUSES and error.code != "insufficient_quota"
    return isinstance(error, APIConnectionError | _ProtocolError | _TimeoutError) or type(error).__name__ == "APIError"


def _asked_wait_s(error: Exception) -> float | None:
    """Return `Retry-After` in seconds, if present."""
    from openai import APIStatusError

    if not isinstance(error, APIStatusError):
        return None
    try:
        return max(0.0, float(error.response.headers.get("retry-after", "")))
    except ValueError:
        return None


def _in_words(error: Exception) -> str:
    from openai import APIStatusError

    text = " ".join(str(error).split())[:_LONGEST_ERROR] or type(error).__name__
    if isinstance(error, APIStatusError) and str(error.status_code) not in text:
        return f"HTTP {error.status_code}: {text}"
    return text


def _hint(error: Exception, endpoint: Endpoint) -> str:
    from openai import APIStatusError

    if isinstance(error, APIStatusError):
        if error.status_code in (401, 403):
            return f"put a valid key into the environment variable {endpoint.api_key_env}"
        if error.status_code == 404:
            return "check optimizer.llm.base_url (with its /v1) and optimizer.llm.model"
        if error.status_code == 429:
            return "wait, or raise optimizer.llm.max_retries"
    return "check that the endpoint is up (optimizer.llm.base_url), or replay recorded answers with optimizer.proposer=recorded"
