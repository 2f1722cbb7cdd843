"""Calls that are kept: replay byte for byte, budgets, interruptions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.optimize.proposers.model import ChatMessage, ModelAnswer, ModelError, TokenUsage
from rocm_perf_lab.optimize.proposers.transcript import Budget, RecordedModel, TranscribedModel, read_transcript

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.optimize.proposers.model import Conversation

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


def calls(model: TranscribedModel, count: int) -> list[str]:
    return [model.complete(QUESTION, purpose="propose", parent="base").text for _ in range(count)]


PLENTY = Budget(max_calls=100, max_tokens=10**6)


def test_a_transcript_replays_its_answers_exactly(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    said = calls(TranscribedModel(Counting(), path, PLENTY), 3)

    recorded = RecordedModel(path)

    assert [recorded.complete([]).text for _ in range(3)] == said == ["ä 1\r\n", "ä 2\r\n", "ä 3\r\n"]
    with pytest.raises(ModelError, match="only 3 answers"):
        recorded.complete([])


def test_a_replay_writes_an_equal_transcript(tmp_path: Path) -> None:
    calls(TranscribedModel(Counting(), tmp_path / "first.jsonl", PLENTY), 3)

    calls(TranscribedModel(RecordedModel(tmp_path / "first.jsonl"), tmp_path / "second.jsonl", PLENTY), 3)

    assert (tmp_path / "first.jsonl").read_bytes() == (tmp_path / "second.jsonl").read_bytes()


def test_conversations_are_recorded(tmp_path: Path) -> None:
    calls(TranscribedModel(Counting(), tmp_path / "t.jsonl", PLENTY), 1)

    (call,) = read_transcript(tmp_path / "t.jsonl")
    assert (call.call, call.purpose, call.parent, list(call.conversation)) == (1, "propose", "base", QUESTION)


@pytest.mark.parametrize("cut", [0, 1, 30])
def test_a_resumed_run_repeats_no_call(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "t.jsonl"
    calls(TranscribedModel(Counting(), path, PLENTY), 2)
    path.write_bytes(path.read_bytes()[: -cut or None])
    kept = 2 if cut == 0 else 1

    live = Counting()
    again = TranscribedModel(live, path, PLENTY)
    calls(again, 3)

    assert len(live.asked) == 3 - kept
    assert (again.calls, again.read, again.written) == (3, 300, 60)
    assert [call.call for call in read_transcript(path)] == [1, 2, 3]


def test_a_resumed_replay_continues_with_the_next_answer(tmp_path: Path) -> None:
    calls(TranscribedModel(Counting(), tmp_path / "whole.jsonl", PLENTY), 3)
    calls(TranscribedModel(RecordedModel(tmp_path / "whole.jsonl"), tmp_path / "cut.jsonl", PLENTY), 2)

    calls(TranscribedModel(RecordedModel(tmp_path / "whole.jsonl"), tmp_path / "cut.jsonl", PLENTY), 3)

    assert (tmp_path / "cut.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("budget", "allowed", "reason"),
    [
        (Budget(max_calls=2, max_tokens=10**6), 2, r"optimizer\.llm\.max_calls \(2\) reached"),
        (Budget(max_calls=9, max_tokens=370), 4, r"max_tokens \(370\) reached: 480 used, the next prompt needs about 10"),
        (Budget(max_calls=9, max_tokens=369), 3, "max_tokens"),
        (Budget(9, 10**6, max_cost=0.5, price_per_million_read=1000, price_per_million_written=5000), 3, r"max_cost \(0\.5\)"),
    ],
)  # each call costs 0.1 + 0.1; asking costs 0.01
def test_budgets_are_checked_before_a_call(tmp_path: Path, budget: Budget, allowed: int, reason: str) -> None:
    live = Counting()
    model = TranscribedModel(live, tmp_path / "t.jsonl", budget)

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
