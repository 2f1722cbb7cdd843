"""Model behind an OpenAI-compatible endpoint, called through the official client.

Temporary errors (429, 5xx, broken connections, time-outs, invalid responses) are retried with increasing waits, or the wait of
`Retry-After`. One attempt, including its whole answer, ends after `timeout_s`.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rocm_perf_lab.optimize.proposers.bounded_client import FINISHED, ResponseTooLong, open_client
from rocm_perf_lab.optimize.proposers.endpoint_errors import (
    EmptyStream,
    IncompleteAnswer,
    InvalidResponse,
    accepted_request,
    advice,
    asked_wait_s,
    is_temporary,
    may_be_charged,
    short_text,
)
from rocm_perf_lab.optimize.proposers.model import FailedAttempt, ModelAnswer, ModelError, TokenUsage, estimated_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openai import AsyncOpenAI

    from rocm_perf_lab.optimize.proposers.model import Conversation

_NO_KEY = "none"
_LONGEST_WAIT_S = 60.0
_JSON_ESCAPE = 6
"""Maximum number of JSON bytes for one byte of an answer: `\\u001b`."""
_ENVELOPE = 128
"""Maximum number of stream bytes for one byte of an answer: one event per token."""
_HEADROOM_BYTES = 1 << 20
AUTO_MODEL = "auto"
"""Placeholder for the only model of a server."""


@dataclass(frozen=True)
class Endpoint:
    """Address and parameters of a model.

    Args:
        base_url: URL with the version, for example `http://localhost:8000/v1`.
        model: Name of the model; `auto` asks a server that has only one.
        api_key_env: Environment variable with the API key.
        temperature: Sampling temperature; None uses the endpoint's default.
        seed: Sampling seed; None uses the endpoint's default.
        stream: Stream the answer.
        timeout_s: Time limit of one attempt in seconds, including the whole answer.
        max_retries: Maximum number of retries after the first attempt.
        first_wait_s: Wait before the first retry in seconds; later waits double.
        max_answer_tokens: Token limit that is sent to the endpoint.
        max_answer_bytes: Size in bytes at which reading stops.
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
    """Calls one endpoint; safe for concurrent calls from several threads.

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
        try:
            import openai  # noqa: F401
        except ImportError as error:
            raise ModelError("the client library for models is not installed", hint="pip install 'rocm-perf-lab[llm]'") from error

    def complete(self, conversation: Conversation) -> ModelAnswer:
        """Return the answer to a conversation; retry after temporary errors.

        Raises:
            ModelError: The last attempt failed, or the error is not temporary.
        """
        from openai import APIError

        asked = estimated_tokens(*(message.content for message in conversation))
        request = self._request(conversation)
        failures: list[FailedAttempt] = []
        start = time.monotonic()
        while True:
            received = _Received()
            try:
                asyncio.run(self._attempt(request, received))
                return self._answer(received.cut(self.endpoint.max_answer_bytes), asked, failures, start)
            except (APIError, InvalidResponse, IncompleteAnswer) as error:
                reduced = accepted_request(request, error)
                if reduced is not None:
                    request = reduced
                    continue
                if len(failures) >= self.endpoint.max_retries or not is_temporary(error):
                    raise self._failed(error, len(failures) + 1) from error
                wait = asked_wait_s(error)
                wait = self.endpoint.first_wait_s * 2 ** len(failures) if wait is None else wait
                charged = TokenUsage(read=asked, written=estimated_tokens(received.text), estimated=True)
                failures.append(
                    FailedAttempt(
                        error=short_text(error),
                        waited_s=min(wait, _LONGEST_WAIT_S),
                        usage=charged if may_be_charged(error) else None,
                    )
                )
                if isinstance(error, EmptyStream):
                    request = {name: value for name, value in request.items() if not name.startswith("stream")}
                self.sleep(failures[-1].waited_s)

    def _request(self, conversation: Conversation) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": [message.model_dump() for message in conversation],
            "temperature": self.endpoint.temperature,
            "seed": self.endpoint.seed,
            "max_tokens": self.endpoint.max_answer_tokens,
        }
        if self.endpoint.stream:
            request |= {"stream": True, "stream_options": {"include_usage": True}}
        return {name: value for name, value in request.items() if value is not None}

    async def _attempt(self, request: Mapping[str, Any], received: _Received) -> None:
        """Fill `received`, within the limits of time and size."""
        from openai import APIConnectionError

        most = self.endpoint.max_answer_bytes
        client = open_client(
            self.endpoint.base_url,
            self._key,
            timeout_s=self.endpoint.timeout_s,
            most_bytes=_ENVELOPE * most + _HEADROOM_BYTES,
            most_line_bytes=_JSON_ESCAPE * most + _HEADROOM_BYTES,
        )
        try:
            async with asyncio.timeout(self.endpoint.timeout_s), client:
                if request["model"] == AUTO_MODEL:
                    request = {**request, "model": await self._only_model(client)}
                if "stream" in request:
                    await received.listen(client, request, most)
                else:
                    received.take(await client.chat.completions.create(**request))
        except TimeoutError as error:
            raise IncompleteAnswer(f"the answer was not complete after {self.endpoint.timeout_s:g} s") from error
        except ResponseTooLong:
            received.finish_reason = "too long"
        except (ValueError, AttributeError, TypeError, LookupError) as error:  # The client raises these for invalid responses.
            raise InvalidResponse(f"{type(error).__name__}: {error}") from error
        except APIConnectionError as error:
            if not isinstance(error.__cause__, ResponseTooLong):
                raise
            received.finish_reason = "too long"

    async def _only_model(self, client: AsyncOpenAI) -> str:
        names = [model.id async for model in client.models.list()]
        if len(names) != 1:
            raise ModelError(
                f"the server has {len(names)} models" + (f": {', '.join(names[:8])}" if names else ""),
                where=f"{self.endpoint.base_url}, optimizer.llm.model=auto",
                hint="set optimizer.llm.model=NAME",
            )
        return names[0]

    def _answer(self, received: _Received, asked: int, failures: list[FailedAttempt], start: float) -> ModelAnswer:
        read, written = _count(received.usage, "prompt_tokens"), _count(received.usage, "completion_tokens")
        counted = TokenUsage(
            read=read or asked,
            written=written or estimated_tokens(received.text),
            estimated=not read or (not written and bool(received.text)),
        )
        return ModelAnswer(
            text=received.text,
            finish_reason=received.finish_reason,
            usage=counted,
            model=received.model,
            failures=tuple(failures),
            seconds=time.monotonic() - start,
        )

    def _failed(self, error: Exception, attempts: int) -> ModelError:
        times = f" {attempts} times" if attempts > 1 else ""
        return ModelError(
            f"the model did not answer{times}: {short_text(error)}",
            where=f"{self.endpoint.base_url}, model {self.endpoint.model}",
            hint=advice(error, self.endpoint.api_key_env),
        )


@dataclass
class _Received:
    """The part of an answer that has arrived. All fields are validated, because endpoints deviate from the protocol."""

    text: str = ""
    finish_reason: str | None = None
    usage: object = None
    model: str = ""

    def take(self, whole: Any) -> None:
        """Process a complete response."""
        choice = whole.choices[0]
        self.text = _string(choice.message.content)
        self.finish_reason = _string(choice.finish_reason) or None
        self.usage, self.model = whole.usage, _string(whole.model)

    async def listen(self, client: AsyncOpenAI, request: Mapping[str, Any], most_bytes: int) -> None:
        """Process the chunks of a stream until it ends or the text is too long."""
        chunks = size = 0
        async with await client.chat.completions.create(**request) as stream:
            async for chunk in stream:
                chunks += 1
                self.usage = chunk.usage or self.usage
                self.model = _string(chunk.model) or self.model
                for choice in (chunk.choices or [])[:1]:
                    part = _string(choice.delta.content) if choice.delta is not None else ""  # the last chunk of some servers
                    self.text += part
                    size += len(part.encode())
                    self.finish_reason = _string(choice.finish_reason) or self.finish_reason
                if size > most_bytes:
                    return
        if not chunks:
            raise EmptyStream("the stream was empty")
        if self.finish_reason is None and not stream.response.extensions.get(FINISHED):
            raise IncompleteAnswer("the stream ended before the answer did")

    def cut(self, most_bytes: int) -> _Received:
        """Return the answer, truncated and marked if its text is too long."""
        content = self.text.encode()
        if len(content) > most_bytes:
            self.text, self.finish_reason = content[:most_bytes].decode(errors="ignore"), "too long"
        return self


def _string(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidResponse(f"a field of the response is {type(value).__name__}, not a string")
    return value


def _count(usage: object, name: str) -> int:
    """Return a token count, or 0 if it is missing or not a number."""
    value = getattr(usage, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
