"""HTTP client for untrusted endpoints: the size of responses and of their lines is limited."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, MutableMapping

    from openai import AsyncOpenAI


FINISHED = "rocm_perf_lab.finished"
"""Name of the response extension that marks a stream whose last event was received."""
_LAST_EVENT = (b"data: [DONE]", b"data:[DONE]")
_END_BYTES = 32
"""Number of bytes at the end of a stream that contain the last event and its newlines."""


class ResponseTooLong(Exception):
    """Response that exceeds the limit of its size or of a line."""


def open_client(base_url: str, key: str, *, timeout_s: float, most_bytes: int, most_line_bytes: int) -> AsyncOpenAI:
    """Return a client of the official library that stops reading responses above the limits.

    Args:
        base_url: URL of the endpoint.
        key: API key.
        timeout_s: Time limit for connecting, and for waiting for the next byte, in seconds.
        most_bytes: Maximum size of a response.
        most_line_bytes: Maximum size of one of its lines.

    Raises:
        ImportError: The library is not installed.
    """
    import httpx2
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    class BoundedStream(httpx2.AsyncByteStream):
        def __init__(self, stream: httpx2.AsyncByteStream, extensions: MutableMapping[str, object]) -> None:
            self._stream = stream
            self._extensions = extensions

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = line = 0
            end = b""
            async for chunk in self._stream:
                size += len(chunk)
                first, newline, _ = chunk.partition(b"\n")
                longest = line + len(first)
                line = len(chunk) - 1 - chunk.rfind(b"\n") if newline else longest
                if size > most_bytes or max(longest, line) > most_line_bytes:
                    raise ResponseTooLong
                end = (end + chunk)[-_END_BYTES:]
                if end.rstrip().endswith(_LAST_EVENT):
                    self._extensions[FINISHED] = True
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def limit(response: httpx2.Response) -> None:
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = BoundedStream(response.stream, response.extensions)

    http = DefaultAsyncHttpxClient(
        timeout=timeout_s,
        headers={"Accept-Encoding": "identity"},  # The limits apply to received bytes.
        event_hooks={"response": [limit]},
    )
    return AsyncOpenAI(api_key=key, base_url=base_url, http_client=http, timeout=timeout_s, max_retries=0)
