"""A real HTTP server that speaks the chat completions protocol: streaming, usage, errors, rate limits, silence, garbage.

Each request consumes the next step of a script; the last step repeats. `requests` holds all requests.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PIECE = 7


@dataclass(frozen=True)
class Says:
    """An answer. `pause_s` before each piece of a stream; `cut` ends the connection in the middle of it."""

    text: str
    finish_reason: str = "stop"
    usage: tuple[int, int] | None = (100, 50)
    pause_s: float = 0.0
    cut: bool = False


@dataclass(frozen=True)
class Fails:
    """An HTTP error."""

    status: int
    code: str = "some_error"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sends:
    """Raw bytes instead of the protocol."""

    body: bytes
    content_type: str = "application/json"


@dataclass(frozen=True)
class Hangs:
    """No answer for some time."""

    seconds: float


@dataclass(frozen=True)
class Repeats:
    """The same bytes again and again until the client closes the connection; before the headers end, if `in_headers`."""

    piece: bytes
    pause_s: float = 0.0
    content_type: str = "text/event-stream"
    in_headers: bool = False


@dataclass(frozen=True)
class Refuses:
    """HTTP 400 for requests with a parameter, else an answer."""

    parameter: str
    text: str


Step = Says | Fails | Sends | Hangs | Repeats | Refuses


@dataclass
class ChatServer:
    """The running server."""

    url: str
    script: list[Step]
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    models: tuple[str, ...] = ("served",)

    def next(self) -> Step:
        """Return the step for the next request."""
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]


@contextmanager
def chat_server(script: Sequence[Step]) -> Iterator[ChatServer]:
    """Serve on a free port of this machine."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    httpd.daemon_threads = True
    server = ChatServer(f"http://127.0.0.1:{httpd.server_address[1]}/v1", list(script))
    httpd.chat = server  # type: ignore[attr-defined]
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """List the models."""
        server: ChatServer = self.server.chat  # type: ignore[attr-defined]
        rows = [{"id": name, "object": "model", "created": 0, "owned_by": "test"} for name in server.models]
        self._send(200, json.dumps({"object": "list", "data": rows}).encode(), {})

    def do_POST(self) -> None:
        """Answer one completion request."""
        server: ChatServer = self.server.chat  # type: ignore[attr-defined]
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.requests.append(request)
        server.keys.append(self.headers.get("Authorization", ""))
        if self.path != "/v1/chat/completions":
            self._send(404, b'{"error": {"message": "no such path"}}', {})
            return
        step = server.next()
        if isinstance(step, Hangs):
            time.sleep(step.seconds)
            self.close_connection = True
        elif isinstance(step, Fails):
            error = {"error": {"message": f"status {step.status}", "type": "error", "code": step.code}}
            self._send(step.status, json.dumps(error).encode(), step.headers)
        elif isinstance(step, Repeats):
            self._repeat(step)
        elif isinstance(step, Refuses) and step.parameter in request:
            error = {"error": {"message": f"Unsupported parameter: {step.parameter}", "type": "invalid_request_error"}}
            self._send(400, json.dumps(error).encode(), {})
        elif isinstance(step, Refuses):
            self._answer(Says(step.text), request)
        elif isinstance(step, Sends):
            self._send(200, step.body, {"Content-Type": step.content_type})
        else:
            self._answer(step, request)

    def _answer(self, step: Says, request: Mapping[str, Any]) -> None:
        if request.get("stream"):
            self._stream(step, request)
        else:
            self._send(200, json.dumps(_whole(step, request["model"])).encode(), {})

    def _repeat(self, step: Repeats) -> None:
        self.close_connection = True
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: " + step.content_type.encode() + b"\r\n")
            self.wfile.write(b"" if step.in_headers else b"Connection: close\r\n\r\n")
            while True:
                self.wfile.write(step.piece)
                self.wfile.flush()
                time.sleep(step.pause_s)
        except (BrokenPipeError, ConnectionResetError):
            return  # the client has heard enough

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, step: Says, request: Mapping[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        size = max(_PIECE, len(step.text) // 50)
        pieces = [step.text[at : at + size] for at in range(0, len(step.text), size)]
        try:
            for number, piece in enumerate(pieces):
                time.sleep(step.pause_s)
                if step.cut and number == len(pieces) // 2:
                    return
                self._event(_chunk(request["model"], {"content": piece}, None))
            self._event(_chunk(request["model"], {}, step.finish_reason))
            if step.usage and request.get("stream_options", {}).get("include_usage"):
                self._event({**_chunk(request["model"], {}, None), "choices": [], "usage": _usage(step.usage)})
            self.wfile.write(b"data: [DONE]\n\n")
        except (BrokenPipeError, ConnectionResetError):
            return  # the client has heard enough

    def _event(self, chunk: Mapping[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Suppress log output."""


def _chunk(model: str, delta: Mapping[str, Any], finish_reason: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": dict(delta), "finish_reason": finish_reason}
    return {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": model, "choices": [choice]}


def _whole(step: Says, model: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": step.text}
    choice = {"index": 0, "message": message, "finish_reason": step.finish_reason}
    usage = {"usage": _usage(step.usage)} if step.usage else {}
    return {"id": "c", "object": "chat.completion", "created": 0, "model": model, "choices": [choice], **usage}


def _usage(counts: tuple[int, int]) -> dict[str, int]:
    read, written = counts
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
