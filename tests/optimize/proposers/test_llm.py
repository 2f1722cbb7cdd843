"""The proposer that asks a model: one conversation per candidate, repairs, and prompts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.optimize.proposal import Proposal, Verdict
from rocm_perf_lab.optimize.proposers.base import UnusableAnswer
from rocm_perf_lab.optimize.proposers.llm import AnswerRules, LlmProposer
from rocm_perf_lab.optimize.proposers.model import ChatMessage, ModelAnswer, TokenUsage
from rocm_perf_lab.optimize.proposers.spending import Budget
from rocm_perf_lab.optimize.proposers.transcribed import PricedModel, TranscribedModel
from rocm_perf_lab.optimize.search import ParentSelection

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.optimize.proposers.base import Offer
    from rocm_perf_lab.optimize.proposers.model import Conversation
    from rocm_perf_lab.optimize.proposers.prompt import PromptWriter

SOURCE = "__global__ void k(float* x) {}\n"
PARENT = Proposal.of(SOURCE, transform="none", description="", parent=None)


@dataclass
class Scripted:
    """Answers from a list."""

    answers: list[str]
    conversations: list[list[ChatMessage]] = field(default_factory=list)

    def complete(self, conversation: Conversation) -> ModelAnswer:
        """The next one."""
        self.conversations.append(list(conversation))
        return ModelAnswer(text=self.answers.pop(0), finish_reason="stop", usage=TokenUsage(read=1, written=1))


class Short:
    """A minimal prompt, and a repair that repeats the reason."""

    def question(self, selection: ParentSelection, verdicts: Sequence[Verdict]) -> list[ChatMessage]:
        """Return the number of verdicts."""
        return [ChatMessage(role="user", content=f"go {len(verdicts)}")]

    def repair(self, verdict: Verdict, parent: Proposal) -> ChatMessage:
        """The reason."""
        return ChatMessage(role="user", content=verdict.reason)


def answer(body: str) -> str:
    return f"Change {body}.\n```cpp\n{SOURCE}// {body}\n```\n"


def run(
    tmp_path: Path, answers: list[str], stages: dict[str, str], *, candidates: int = 1, repairs: int = 2, max_calls: int = 99
) -> tuple[list[Offer], Scripted, str | None]:
    model = Scripted(answers)
    prompt: PromptWriter = Short()  # type: ignore[assignment]
    proposer = LlmProposer(
        name="llm",
        model=TranscribedModel({"m": PricedModel(model)}, tmp_path / "t.jsonl", Budget(max_calls, 10**6)),
        prompt=prompt,
        entry="k",
        rules=AnswerRules(candidates, 1, repairs, 10_000),
    )
    offers = proposer.offers([ParentSelection(PARENT)], ())
    seen: list[Offer] = []
    try:
        offer = next(offers)
        while True:
            seen.append(offer)
            if isinstance(offer, UnusableAnswer):
                verdict = Verdict(offer.proposal, False, "answer", offer.reason)
            else:
                stage = stages.get(offer.description, "accepted")
                verdict = Verdict(offer, stage == "accepted", stage, f"{stage} said no")  # type: ignore[arg-type]
                verdict = replace(verdict, stage="measurement") if verdict.accepted else verdict
            offer = offers.send(verdict)
    except StopIteration as end:
        return seen, model, end.value


def test_a_usable_answer_is_a_proposal(tmp_path: Path) -> None:
    offers, _, end = run(tmp_path, [answer("a")], {})

    assert offers == [Proposal.of(f"{SOURCE}// a\n", transform="llm", description="Change a.", parent=PARENT)]
    assert end is None


def test_compiler_output_is_sent_back(tmp_path: Path) -> None:
    offers, model, _ = run(tmp_path, [answer("a"), answer("b")], {"Change a.": "compile"})

    assert [o.description for o in offers if isinstance(o, Proposal)] == ["Change a.", "Change b."]
    assert [m.content for m in model.conversations[1]] == ["go 0", answer("a"), "compile said no"]


def test_repairs_have_a_limit(tmp_path: Path) -> None:
    offers, model, _ = run(tmp_path, [answer("a"), "prose", answer("c")], {"Change a.": "compile"}, repairs=1)

    assert len(offers) == 2
    assert model.answers == [answer("c")]


def test_an_unusable_answer_is_an_offer_too(tmp_path: Path) -> None:
    renamed = answer("r").replace("void k(", "void kernel(")
    offers, model, _ = run(tmp_path, ["prose", renamed, answer("c")], {})

    reasons = [o.reason for o in offers if isinstance(o, UnusableAnswer)]
    assert "no code block" in reasons[0]
    assert reasons[1].startswith("the kernel must keep its name: ")
    assert isinstance(offers[2], Proposal)
    assert model.conversations[2][-1].content == reasons[1]


@pytest.mark.parametrize("stage", ["compile", "guard", "gate", "verification", "measurement"])
def test_every_rejection_is_sent_back(tmp_path: Path, stage: str) -> None:
    _, model, _ = run(tmp_path, [answer("a"), answer("b")], {"Change a.": stage})

    assert model.conversations[1][-1].content == f"{stage} said no"


def test_a_repetition_is_not_repaired(tmp_path: Path) -> None:
    _, model, _ = run(tmp_path, [answer("a"), answer("b")], {"Change a.": "duplicate"})

    assert model.answers == [answer("b")]


def test_later_conversations_contain_earlier_verdicts(tmp_path: Path) -> None:
    _, model, _ = run(tmp_path, [answer("a"), answer("b"), answer("c")], {}, candidates=3)

    assert [[m.content for m in conversation] for conversation in model.conversations] == [["go 0"], ["go 1"], ["go 2"]]


def test_edits_in_a_repair_apply_to_the_last_version(tmp_path: Path) -> None:
    edit = "Shorter.\n<<<<<<< SEARCH\n// a\n=======\n// b\n>>>>>>> REPLACE\n"

    offers, _, _ = run(tmp_path, [answer("a"), edit], {"Change a.": "verification"})

    assert [offer.text for offer in offers if isinstance(offer, Proposal)] == [f"{SOURCE}// a\n", f"{SOURCE}// b\n"]


def test_an_exhausted_budget_is_the_stop_reason(tmp_path: Path) -> None:
    offers, _, end = run(tmp_path, [answer("a"), answer("b")], {}, candidates=5, max_calls=1)

    assert len(offers) == 1
    assert end == "optimizer.llm.max_calls (1) reached"
