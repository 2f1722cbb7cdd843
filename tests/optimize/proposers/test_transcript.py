"""Calls that are kept: replay byte for byte, budgets, interruptions."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.optimize.proposers.model import ChatMessage, FailedAttempt, ModelAnswer, ModelError, TokenUsage
from rocm_perf_lab.optimize.proposers.spending import Budget, Spending, TokenPrices
from rocm_perf_lab.optimize.proposers.transcribed import ModelRequest, PricedModel, TranscribedModel
from rocm_perf_lab.optimize.proposers.transcript import RecordedModel, read_transcript

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.optimize.proposers.model import ChatModel, Conversation

QUESTION = [ChatMessage(role="user", content="q" * 40)]  # ten tokens by estimate


@dataclass
class Counting:
    """Answers with its number."""

    asked: list[Conversation] = field(default_factory=list)

    def complete(self, conversation: Conversation) -> ModelAnswer:
        """The next number."""
        self.asked.append(conversation)
        return ModelAnswer(
            text=f"ä {len(self.asked)}\r\n", finish_reason="stop", usage=TokenUsage(read=100, written=20), seconds=0.5
        )


def transcribed(model: ChatModel, path: Path, budget: Budget, prices: TokenPrices | None = None) -> TranscribedModel:
    return TranscribedModel({"m": PricedModel(model, prices or TokenPrices())}, path, budget)


def request(arm: str = "m", parent: str = "base") -> ModelRequest:
    return ModelRequest(arm, tuple(QUESTION), "propose", parent)


def calls(model: TranscribedModel, count: int) -> list[str]:
    return [model.complete(request()).text for _ in range(count)]


PLENTY = Budget(max_calls=100, max_tokens=10**6)


def test_a_transcript_replays_its_answers_exactly(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    said = calls(transcribed(Counting(), path, PLENTY), 3)

    recorded = RecordedModel(path)

    assert [recorded.complete([]).text for _ in range(3)] == said == ["ä 1\r\n", "ä 2\r\n", "ä 3\r\n"]
    with pytest.raises(ModelError, match="only 3 answers"):
        recorded.complete([])


def test_a_replay_writes_an_equal_transcript(tmp_path: Path) -> None:
    calls(transcribed(Counting(), tmp_path / "first.jsonl", PLENTY), 3)

    calls(transcribed(RecordedModel(tmp_path / "first.jsonl"), tmp_path / "second.jsonl", PLENTY), 3)

    assert read_transcript(tmp_path / "first.jsonl") == read_transcript(tmp_path / "second.jsonl")


def test_conversations_are_recorded(tmp_path: Path) -> None:
    calls(transcribed(Counting(), tmp_path / "t.jsonl", PLENTY), 1)

    (call,) = read_transcript(tmp_path / "t.jsonl")
    assert (call.call, call.purpose, call.parent, list(call.conversation)) == (1, "propose", "base", QUESTION)


@pytest.mark.parametrize("cut", [0, 1, 30])
def test_a_resumed_run_repeats_no_call(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "t.jsonl"
    calls(transcribed(Counting(), path, PLENTY), 2)
    path.write_bytes(path.read_bytes()[: -cut or None])
    kept = 2 if cut == 0 else 1

    live = Counting()
    again = transcribed(live, path, PLENTY)
    calls(again, 3)

    assert len(live.asked) == 3 - kept
    lost = 2 - kept  # its prompt of ten tokens was sent, and may have been charged
    assert again.spending == Spending(calls=3, read=300 + 10 * lost, written=60)
    assert [call.call for call in read_transcript(path)] == [1, 2, 3]


def test_a_resumed_replay_continues_with_the_next_answer(tmp_path: Path) -> None:
    calls(transcribed(Counting(), tmp_path / "whole.jsonl", PLENTY), 3)
    calls(transcribed(RecordedModel(tmp_path / "whole.jsonl"), tmp_path / "cut.jsonl", PLENTY), 2)

    calls(transcribed(RecordedModel(tmp_path / "whole.jsonl"), tmp_path / "cut.jsonl", PLENTY), 3)

    assert read_transcript(tmp_path / "cut.jsonl") == read_transcript(tmp_path / "whole.jsonl")


@pytest.mark.parametrize(
    ("budget", "allowed", "reason"),
    [
        (Budget(max_calls=2, max_tokens=10**6), 2, r"optimizer\.llm\.max_calls \(2\) reached"),
        (Budget(max_calls=9, max_tokens=370), 4, r"max_tokens \(370\) reached: 480 used, the next prompt needs about 10"),
        (Budget(max_calls=9, max_tokens=369), 3, "max_tokens"),
        (Budget(9, 10**6, max_cost=0.5), 3, r"max_cost \(0\.5\)"),
    ],
)  # each call costs 0.1 + 0.1; asking costs 0.01
def test_budgets_are_checked_before_a_call(tmp_path: Path, budget: Budget, allowed: int, reason: str) -> None:
    live = Counting()
    model = transcribed(live, tmp_path / "t.jsonl", budget, TokenPrices(read=1000, written=5000))

    with pytest.raises(ModelError, match=reason):
        calls(model, 9)

    assert len(live.asked) == allowed


@pytest.mark.parametrize(
    "line", ["{}", "null", "no json", '{"call": 0, "answer": {"text": "", "usage": {"read": 0, "written": 0}}}']
)
def test_an_invalid_file_is_rejected_with_the_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "t.jsonl").write_text("\n" + line + "\n")

    with pytest.raises(ModelError, match="invalid line in a transcript") as error:
        RecordedModel(tmp_path / "t.jsonl")

    assert error.value.where == f"{tmp_path / 't.jsonl'}:2"


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the transcript cannot be read: No such file"):
        RecordedModel(tmp_path / "none.jsonl")


@dataclass
class Together:
    """Answers only when `count` calls wait at the same time."""

    barrier: threading.Barrier

    def complete(self, conversation: Conversation) -> ModelAnswer:
        """Wait for the others."""
        self.barrier.wait(10)
        return ModelAnswer(text="together", usage=TokenUsage(read=10, written=1))


@dataclass
class Broken:
    """Never answers."""

    def complete(self, conversation: Conversation) -> ModelAnswer:
        """Fail."""
        raise ModelError("out of order")


def test_calls_of_one_batch_run_at_the_same_time_and_keep_their_numbers(tmp_path: Path) -> None:
    model = transcribed(Together(threading.Barrier(3)), tmp_path / "t.jsonl", PLENTY)

    outcomes = model.complete_all([request(parent=name) for name in "abc"])

    assert [(outcome.number, outcome.answer is not None) for outcome in outcomes] == [(1, True), (2, True), (3, True)]
    assert [(call.call, call.parent) for call in read_transcript(tmp_path / "t.jsonl")] == [(1, "a"), (2, "b"), (3, "c")]


def test_a_batch_does_not_exceed_the_budget(tmp_path: Path) -> None:
    model = transcribed(Counting(), tmp_path / "t.jsonl", Budget(max_calls=2, max_tokens=10**6))

    outcomes = model.complete_all([request()] * 3)

    assert [outcome.number for outcome in outcomes] == [1, 2, None]
    assert "max_calls (2) reached" in str(outcomes[2].error)


def test_a_failed_model_is_not_asked_again_after_an_interruption(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    models = {"good": PricedModel(Counting()), "bad": PricedModel(Broken())}
    first = TranscribedModel(models, path, PLENTY)
    requests = [request("bad"), request("good")]
    failed, answered = first.complete_all(requests)
    first.record_failure(requests[0], failed)

    again = TranscribedModel({"good": PricedModel(Broken()), "bad": PricedModel(Counting())}, path, PLENTY)
    replayed = again.complete_all(requests)

    assert [str(outcome.error) for outcome in (failed, replayed[0])] == ["out of order"] * 2
    assert replayed[1].answer == answered.answer


def test_an_answer_to_another_parent_is_not_used(tmp_path: Path) -> None:
    calls(transcribed(Counting(), tmp_path / "t.jsonl", PLENTY), 1)

    with pytest.raises(ModelError, match="is not the next call of this run"):
        transcribed(Counting(), tmp_path / "t.jsonl", PLENTY).complete(request(parent="other"))


def test_each_model_has_its_own_prices(tmp_path: Path) -> None:
    models = {"cheap": PricedModel(Counting()), "dear": PricedModel(Counting(), TokenPrices(read=1000, written=5000))}
    model = TranscribedModel(models, tmp_path / "t.jsonl", PLENTY)

    model.complete_all([request("cheap"), request("dear")])

    assert model.spending.cost == pytest.approx(0.2)  # 100 tokens at 1000 and 20 at 5000 per million


def test_failed_attempts_that_may_be_charged_count(tmp_path: Path) -> None:
    failures = (
        FailedAttempt(error="429", waited_s=1.0),
        FailedAttempt(error="not complete after 1 s", waited_s=2.0, usage=TokenUsage(read=10, written=7, estimated=True)),
    )
    spending = Spending()

    spending.add_answer(ModelAnswer(text="", usage=TokenUsage(read=10, written=3), failures=failures), TokenPrices())

    assert (spending.calls, spending.read, spending.written) == (1, 20, 10)
