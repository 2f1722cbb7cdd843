"""Errors of endpoints: classification as temporary or charged, waits before retries, and hints."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_ERROR = 300
_TEMPORARY_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_REFUSED_PARAMETER = frozenset({400, 422})


class InvalidResponse(Exception):
    """Response that violates the protocol."""


class EmptyStream(InvalidResponse):
    """Stream without chunks; some servers send a whole response instead."""


class IncompleteAnswer(Exception):
    """Answer that exceeds its time limit, or whose stream ends early."""


def is_temporary(error: Exception) -> bool:
    """Return whether another attempt may succeed."""
    from openai import APIConnectionError, APIStatusError

    if isinstance(error, APIStatusError):
        return error.status_code in _TEMPORARY_STATUSES and error.code != "insufficient_quota"
    return isinstance(error, APIConnectionError | InvalidResponse | IncompleteAnswer) or type(error).__name__ == "APIError"


def may_be_charged(error: Exception) -> bool:
    """Return whether the endpoint may have generated tokens before a failure."""
    return isinstance(error, IncompleteAnswer | InvalidResponse)


def asked_wait_s(error: Exception) -> float | None:
    """Return the wait of `Retry-After` in seconds, given as a number or as a date; None if absent or invalid."""
    from openai import APIStatusError

    if not isinstance(error, APIStatusError):
        return None
    value = error.response.headers.get("retry-after", "").strip()
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def accepted_request(request: Mapping[str, Any], error: Exception) -> dict[str, Any] | None:
    """Return a request without the optional parameter that an endpoint rejects, or None for other errors.

    Some endpoints expect `max_completion_tokens` instead of `max_tokens`, or reject `stream_options`, seed or temperature.
    """
    from openai import APIStatusError

    if not isinstance(error, APIStatusError) or error.status_code not in _REFUSED_PARAMETER:
        return None
    text = str(error)
    for name in ("stream_options", "max_tokens", "temperature", "seed"):
        if name in request and name in text:
            reduced = {key: value for key, value in request.items() if key != name}
            return {**reduced, "max_completion_tokens": request[name]} if name == "max_tokens" else reduced
    return None


def short_text(error: Exception) -> str:
    """Return the message of an error on one line, with the HTTP status."""
    from openai import APIStatusError

    text = " ".join(str(error).split())[:_LONGEST_ERROR] or type(error).__name__
    if isinstance(error, APIStatusError) and str(error.status_code) not in text:
        return f"HTTP {error.status_code}: {text}"
    return text


def advice(error: Exception, key_variable: str) -> str:
    """Return a hint for the user; `key_variable` is the environment variable with the API key."""
    from openai import APIStatusError

    if isinstance(error, APIStatusError):
        if error.status_code in (401, 403):
            return f"put a valid key into the environment variable {key_variable}"
        if error.status_code == 404:
            return "check optimizer.llm.base_url (with its /v1) and optimizer.llm.model"
        if error.status_code == 429:
            return "wait, or raise optimizer.llm.max_retries"
    return "check that the endpoint runs (optimizer.llm.base_url), or replay recorded answers with optimizer.proposer=recorded"
