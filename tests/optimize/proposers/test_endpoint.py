"""The official client against a local server: requests, answers, retries."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from rocm_perf_lab.optimize.proposers.endpoint import Endpoint, EndpointModel, is_local
from rocm_perf_lab.optimize.proposers.model import ChatMessage, ModelAnswer, ModelError, TokenUsage
from tests.builders.chat_server import ChatServer, Fails, Hangs, Refuses, Repeats, Says, Sends, Step, chat_server

QUESTION = [ChatMessage(role="system", content="be brief"), ChatMessage(role="user", content="12345678")]


class Waits(list[float]):
    """A sleep that only writes down."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def ask(*script: Step, **settings: Any) -> tuple[ModelAnswer, ChatServer, Waits]:
    waits = Waits()
    with chat_server(script) as server:
        endpoint = replace(Endpoint(server.url, "llama"), **settings)
        return EndpointModel(endpoint, waits).complete(QUESTION), server, waits


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_is_complete_and_has_its_token_counts(stream: bool) -> None:
    text = "früher\n```\nint x;\n```\n" * 40

    answer, server, _ = ask(Says(text, usage=(321, 45)), stream=stream, temperature=0.5, seed=7, max_answer_tokens=99)

    assert (answer.text, answer.finish_reason, answer.model) == (text, "stop", "llama")
    assert answer.usage == TokenUsage(read=321, written=45)
    (request,) = server.requests
    assert request["messages"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "12345678"}]
    assert (request["model"], request["temperature"], request["seed"], request["max_tokens"]) == ("llama", 0.5, 7, 99)


def test_unset_parameters_are_not_sent() -> None:
    _, server, _ = ask(Says("x"))

    assert not {"temperature", "seed", "max_tokens"} & server.requests[0].keys()


def test_missing_token_counts_are_estimated_and_marked() -> None:
    answer, _, _ = ask(Says("123456789", usage=None))

    assert answer.usage == TokenUsage(read=2 + 2, written=3, estimated=True)  # four bytes a token, rounded up


@pytest.mark.parametrize("status", [429, 500, 502, 503, 408])
def test_temporary_errors_are_retried_with_increasing_waits(status: int) -> None:
    answer, server, waits = ask(Fails(status), Fails(status), Says("at last"), first_wait_s=0.5)

    assert answer.text == "at last"
    assert len(server.requests) == 3
    assert waits == [0.5, 1.0]
    assert [failure.waited_s for failure in answer.failures] == [0.5, 1.0]
    assert all(str(status) in failure.error for failure in answer.failures)


def test_retry_after_is_respected() -> None:
    _, _, waits = ask(Fails(429, headers={"Retry-After": "7"}), Fails(429, headers={"Retry-After": "9999"}), Says("x"))

    assert waits == [7.0, 60.0]


@pytest.mark.parametrize(
    "garbage",
    [
        Sends(b"data: {not json\n\n", "text/event-stream"),
        Sends(b"", "text/event-stream"),
        Sends(b"<html>proxy error</html>", "text/html"),
        Sends(b'data: {"choices": 5}\n\n', "text/event-stream"),
        Sends(b'data: {"choices": [{"delta": null}]}\n\n', "text/event-stream"),
        Sends(b'data: {"error": {"message": "overloaded"}}\n\n', "text/event-stream"),
        Says("half of an answer that never ends", cut=True),
    ],
    ids=["json", "empty", "html", "shape", "delta", "error", "cut"],
)
def test_an_invalid_response_is_retried(garbage: Step) -> None:
    answer, server, _ = ask(garbage, Says("proper"))

    assert answer.text == "proper"
    assert len(server.requests) == 2


@pytest.mark.parametrize("garbage", [b"{}", b"null", b"[1]", b'{"choices": []}', b"no json at all"])
def test_an_invalid_response_without_streaming_is_retried(garbage: bytes) -> None:
    answer, server, _ = ask(Sends(garbage), Says("proper"), stream=False)

    assert answer.text == "proper"
    assert len(server.requests) == 2


def test_the_last_chunk_of_a_stream_may_have_no_delta() -> None:
    chunks = [
        b'{"choices": [{"index": 0, "delta": {"content": "all of it"}}]}',
        b'{"choices": [{"index": 0, "delta": null, "finish_reason": "stop"}]}',
    ]
    body = b"".join(b"data: " + chunk + b"\n\n" for chunk in chunks)

    answer, server, _ = ask(Sends(body, "text/event-stream"))

    assert (answer.text, answer.finish_reason, len(server.requests)) == ("all of it", "stop", 1)


@pytest.mark.parametrize(("end", "answers"), [(b"data: [DONE]\n\n", 1), (b"data:[DONE]", 1), (b"", 2), (b": [DONE]\n\n", 2)])
def test_a_stream_without_a_finish_reason_is_complete_after_its_last_event(end: bytes, answers: int) -> None:
    chunk = b'data: {"choices": [{"index": 0, "delta": {"content": "all"}}]}\n\n'

    answer, server, _ = ask(Sends(chunk + end, "text/event-stream"), Says("again"))

    assert (answer.text, len(server.requests)) == (("all", 1) if answers == 1 else ("again", 2))


@pytest.mark.parametrize("slow", [Hangs(5.0), Says("never ends " * 40, pause_s=0.3)], ids=["silent", "dripping"])
def test_a_slow_answer_is_retried(slow: Step) -> None:
    answer, _, _ = ask(slow, Says("quick"), timeout_s=1.0, max_retries=5)

    assert answer.text == "quick"
    assert re.search(r"timed out|not complete after 1 s", answer.failures[0].error)


def test_reading_stops_if_an_answer_is_too_long() -> None:
    answer, _, _ = ask(Says("x" * 1_000_000), max_answer_bytes=10_000)

    assert len(answer.text) == 10_000
    assert answer.finish_reason == "too long"


DRIP = b'data: {"choices": [{"index": 0, "delta": {"content": "x"}}]}\n\n'


@pytest.mark.parametrize(
    ("stream", "slow"),
    [
        (True, Repeats(DRIP, pause_s=0.1)),
        (True, Repeats(b"x", pause_s=0.1)),
        (True, Repeats(b": comment\n\n", pause_s=0.1)),
        (True, Repeats(b"X: y\r\n", pause_s=0.1, in_headers=True)),
        (False, Repeats(b" ", pause_s=0.1, content_type="application/json")),
    ],
    ids=["tokens", "one line", "comments", "headers", "whole body"],
)
def test_the_time_limit_bounds_the_whole_answer_against_drip_feeding(stream: bool, slow: Step) -> None:
    begin = time.monotonic()

    answer, server, _ = ask(slow, Says("quick"), timeout_s=0.6, stream=stream)

    assert answer.text == "quick"
    assert answer.failures[0].error == "the answer was not complete after 0.6 s"
    assert 0.6 <= time.monotonic() - begin < 20.0  # without the limit it would never end
    assert len(server.requests) == 2


@pytest.mark.parametrize("stream", [True, False])
def test_an_endless_line_ends_at_the_byte_limit(stream: bool) -> None:
    content_type = "text/event-stream" if stream else "application/json"

    answer, server, _ = ask(Repeats(b"x" * 65536, content_type=content_type), max_answer_bytes=1000, stream=stream)

    assert (answer.text, answer.finish_reason) == ("", "too long")
    assert len(server.requests) == 1


def test_an_interrupted_stream_is_charged_as_far_as_it_arrived() -> None:
    answer, _, _ = ask(Says("12345678" * 50, cut=True), Fails(500), Says("ok"))

    cut, failed = answer.failures
    assert cut.usage is not None
    assert (cut.usage.read, cut.usage.estimated) == (4, True)  # two prompts of two tokens
    assert 0 < cut.usage.written < 100
    assert failed.usage is None  # a refused request generates nothing


@pytest.mark.parametrize(
    "usage",
    [
        "null",
        "{}",
        '{"prompt_tokens": null, "completion_tokens": null}',
        '{"prompt_tokens": -5, "completion_tokens": "many"}',
        '{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}',
        "7",
    ],
)
def test_odd_token_counts_are_replaced_by_estimates(usage: str) -> None:
    body = f'{{"choices": [{{"index": 0, "message": {{"content": "12345"}}, "finish_reason": "stop"}}], "usage": {usage}}}'

    answer, _, _ = ask(Sends(body.encode()), stream=False)

    assert answer.text == "12345"
    assert answer.usage == TokenUsage(read=4, written=2, estimated=True)


@pytest.mark.parametrize("parameter", ["stream_options", "max_tokens", "temperature", "seed"])
def test_an_optional_parameter_that_the_endpoint_refuses_is_left_out(parameter: str) -> None:
    answer, server, waits = ask(Refuses(parameter, "fine"), temperature=0.5, seed=1, max_answer_tokens=99)

    assert (answer.text, waits) == ("fine", [])
    assert parameter not in server.requests[-1]
    assert server.requests[-1].get("max_completion_tokens") == (99 if parameter == "max_tokens" else None)


def test_a_server_that_ignores_streaming_is_asked_without_it() -> None:
    whole = b'{"choices": [{"index": 0, "message": {"content": "whole"}, "finish_reason": "stop"}]}'

    answer, server, _ = ask(Sends(whole), first_wait_s=0)

    assert answer.text == "whole"
    assert [request.get("stream") for request in server.requests] == [True, None]


def test_retry_after_may_be_a_date() -> None:
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)

    _, _, waits = ask(Fails(429, headers={"Retry-After": moment}), Fails(429, headers={"Retry-After": "soon"}), Says("x"))

    assert 17 <= waits[0] <= 20
    assert waits[1] == 2.0  # as without the header: the second wait


def test_the_only_model_of_a_server_is_found() -> None:
    with chat_server([Says("x")]) as server:
        EndpointModel(Endpoint(server.url, "auto")).complete(QUESTION)
        assert server.requests[0]["model"] == "served"

        server.models = ("one", "two")
        with pytest.raises(ModelError, match="the server has 2 models: one, two") as error:
            EndpointModel(Endpoint(server.url, "auto")).complete(QUESTION)
    assert error.value.hint == "set optimizer.llm.model=NAME"


def refused(*script: Step, **settings: Any) -> tuple[ModelError, ChatServer]:
    with chat_server(script) as server, pytest.raises(ModelError) as error:
        EndpointModel(replace(Endpoint(server.url, "llama"), **settings), Waits()).complete(QUESTION)
    return error.value, server


def test_retries_have_a_limit() -> None:
    error, server = refused(Fails(500), max_retries=2)

    assert len(server.requests) == 3
    assert error.what.startswith("the model did not answer 3 times: ")
    assert "500" in error.what


@pytest.mark.parametrize(
    ("failure", "hint"),
    [
        (Fails(401), "put a valid key into the environment variable OPENAI_API_KEY"),
        (Fails(404), "check optimizer.llm.base_url (with its /v1) and optimizer.llm.model"),
        (Fails(400), "check that the endpoint runs"),
        (Fails(429, code="insufficient_quota"), "wait, or raise optimizer.llm.max_retries"),
    ],
)
def test_permanent_errors_are_reported_without_retries(failure: Fails, hint: str) -> None:
    error, server = refused(failure)

    assert len(server.requests) == 1
    assert error.hint is not None
    assert error.hint.startswith(hint)


def test_an_unreachable_endpoint_is_reported() -> None:
    with chat_server([Says("x")]) as server:
        pass

    with pytest.raises(ModelError, match="did not answer 2 times: Connection error") as error:
        EndpointModel(Endpoint(server.url, "llama", max_retries=1), Waits()).complete(QUESTION)

    assert error.value.where == f"{server.url}, model llama"


def test_the_api_key_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sesame")

    _, server, _ = ask(Says("x"), api_key_env="MY_KEY")

    assert server.keys == ["Bearer sesame"]


def test_only_a_local_endpoint_works_without_a_key() -> None:
    with pytest.raises(ModelError, match=r"there is no API key for https://api\.example\.org/v1") as error:
        EndpointModel(Endpoint("https://api.example.org/v1", "llama"))

    assert error.value.where is not None
    assert "OPENAI_API_KEY" in error.value.where


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://localhost/v1", "", "http://"])
def test_an_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(ModelError, match="is not a valid URL of an endpoint"):
        EndpointModel(Endpoint(url, "llama"))


def test_local_addresses_are_recognised() -> None:
    assert [is_local(f"http://{host}/v1") for host in ("localhost:8000", "127.0.0.1", "[::1]:80", "127.1.2.3")] == [True] * 4
    assert [is_local(f"http://{host}/v1") for host in ("10.0.0.1", "localhost.example.org", "api.openai.com")] == [False] * 3
