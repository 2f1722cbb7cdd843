"""A model behind an OpenAI-compatible endpoint, asked through the official client.

Errors that may pass (429, 5xx, broken connections, time-outs, garbage in place of the protocol) are tried again with growing
pauses, as long as the endpoint asks for where it says so. An answer that grows too long is not listened to to its end.
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
_ERRORS_THAT_PASS = frozenset({408, 409, 429, 500, 502, 503, 504, 529})


@dataclass(frozen=True)
class Endpoint:
    """How a model is reached and asked.

    Args:
        base_url: With the version, for example `http://localhost:8000/v1`.
        model: Name of the model there.
        api_key_env: Environment variable with the key.
        temperature: None leaves it to the endpoint.
        seed: None leaves it to the endpoint.
        stream: Read the answer as it is written.
        timeout_s: Of one attempt, until the last word.
        max_retries: After the first attempt.
        first_wait_s: Before the second attempt; each further pause is twice as long.
        max_answer_tokens: Asked of the endpoint.
        max_answer_bytes: Where the lab stops listening.
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
        """The key; an endpoint on this machine does without.

        Raises:
            ModelError: There is none.
        """
        key = os.environ.get(self.api_key_env, "").strip()
        if not key and not is_local(self.base_url):
            raise ModelError(
                f"there is no API key for {self.base_url}",
                where=f"the environment variable {self.api_key_env} (optimizer.llm.api_key_env) is not set",
                hint=f"export {self.api_key_env}=..., or replay earlier answers with optimizer.proposer=recorded",
            )
        return key or _NO_KEY


def is_local(url: str) -> bool:
    """Whether it is on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@dataclass
class EndpointModel:
    """Asks one endpoint.

    Args:
        endpoint: Which one, and how.
        sleep: Waits some seconds.

    Raises:
        ModelError: The address is none, the key is missing, or the client is not installed.
    """

    endpoint: Endpoint
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.endpoint.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ModelError(
                f"{self.endpoint.base_url!r} is no address of an endpoint",
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
            raise ModelError("the client for models is not installed", hint="pip install 'rocm-perf-lab[llm]'") from error
        return OpenAI(api_key=self._key, base_url=self.endpoint.base_url, timeout=self.endpoint.timeout_s, max_retries=0)

    def complete(self, conversation: Conversation) -> ModelAnswer:
        """Ask, and ask again after errors that may pass.

        Raises:
            ModelError: The last attempt failed too, or the endpoint refuses.
        """
        from openai import APIError

        failures: list[FailedAttempt] = []
        start = time.monotonic()
        while True:
            try:
                answer = self._ask(conversation)
                return answer.model_copy(update={"failures": tuple(failures), "seconds": time.monotonic() - start})
            except (APIError, _GarbledError, _SlowError) as error:
                last = len(failures) >= self.endpoint.max_retries
                if last or not _may_pass(error):
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
            heard = self._listen(chosen) if self.endpoint.stream else self._receive(chosen)
        except (ValueError, AttributeError, TypeError, LookupError) as error:  # what the client makes of garbage
            raise _GarbledError(f"{type(error).__name__}: {error}") from error
        usage = heard.usage
        counted = TokenUsage(
            read=usage.prompt_tokens if usage else estimated_tokens(*(m.content for m in conversation)),
            written=usage.completion_tokens if usage else estimated_tokens(heard.text),
            estimated=usage is None,
        )
        return ModelAnswer(text=heard.text, finish_reason=heard.finish_reason, usage=counted, model=heard.model)

    def _receive(self, request: dict[str, Any]) -> _Heard:
        whole = self._client.chat.completions.create(**request)
        choice = whole.choices[0]
        heard = _Heard(choice.message.content or "", choice.finish_reason, whole.usage, whole.model or "")
        return heard.cut(self.endpoint.max_answer_bytes)

    def _listen(self, request: dict[str, Any]) -> _Heard:
        heard = _Heard()
        size, deadline = 0, time.monotonic() + self.endpoint.timeout_s
        parts: list[str] = []
        chunks = 0
        with self._client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True}) as stream:
            for chunk in stream:
                chunks += 1
                heard.usage = chunk.usage or heard.usage
                heard.model = chunk.model or heard.model
                for choice in chunk.choices[:1]:
                    parts.append(choice.delta.content or "")
                    heard.finish_reason = choice.finish_reason or heard.finish_reason
                    size += len(parts[-1].encode())
                if size > self.endpoint.max_answer_bytes:
                    break
                if time.monotonic() > deadline:
                    raise _SlowError(f"no end of the answer after {self.endpoint.timeout_s:g} s")
        heard.text = "".join(parts)
        if not chunks:
            raise _GarbledError("a stream without any content")
        if heard.finish_reason is None and size <= self.endpoint.max_answer_bytes:
            raise _GarbledError("the stream ended before the answer did")
        return heard.cut(self.endpoint.max_answer_bytes)

    def _failed(self, error: APIError | _GarbledError | _SlowError, attempts: int) -> ModelError:
        times = f" {attempts} times" if attempts > 1 else ""
        return ModelError(
            f"the model did not answer{times}: {_in_words(error)}",
            where=f"{self.endpoint.base_url}, model {self.endpoint.model}",
            hint=_remedy(error, self.endpoint),
        )


class _GarbledError(Exception):
    """Something else than the protocol."""


class _SlowError(Exception):
    """An answer that does not end."""


@dataclass
class _Heard:
    text: str = ""
    finish_reason: str | None = None
    usage: CompletionUsage | None = None
    model: str = ""

    def cut(self, most_bytes: int) -> _Heard:
        content = self.text.encode()
        if len(content) > most_bytes:
            self.text, self.finish_reason = content[:most_bytes].decode(errors="ignore"), "too long"
        return self


def _may_pass(error: Exception) -> bool:
    from openai import APIConnectionError, APIStatusError

    if isinstance(error, APIStatusError):
        return error.status_code in _ERRORS_THAT_PASS and error.code != "insufficient_quota"
    return isinstance(error, APIConnectionError | _GarbledError | _SlowError) or type(error).__name__ == "APIError"


def _asked_wait_s(error: Exception) -> float | None:
    """`Retry-After` in seconds."""
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


def _remedy(error: Exception, endpoint: Endpoint) -> str:
    from openai import APIStatusError

    if isinstance(error, APIStatusError):
        if error.status_code in (401, 403):
            return f"put a valid key into the environment variable {endpoint.api_key_env}"
        if error.status_code == 404:
            return "check optimizer.llm.base_url (with its /v1) and optimizer.llm.model"
        if error.status_code == 429:
            return "wait, or raise optimizer.llm.max_retries"
    return "check that the endpoint is up (optimizer.llm.base_url), or replay earlier answers with optimizer.proposer=recorded"
