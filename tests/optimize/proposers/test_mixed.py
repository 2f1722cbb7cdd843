"""Transforms and models in one lineage, and several models that share the work by success."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.optimize.proposal import Proposal, Verdict
from rocm_perf_lab.optimize.proposers.llm import AnswerRules, LlmProposer
from rocm_perf_lab.optimize.proposers.mixed import MixedProposer
from rocm_perf_lab.optimize.proposers.model import ChatMessage, ModelAnswer, ModelError, TokenUsage
from rocm_perf_lab.optimize.proposers.spending import Budget
from rocm_perf_lab.optimize.proposers.transcribed import PricedModel, TranscribedModel
from rocm_perf_lab.optimize.proposers.transforms import TransformProposer
from rocm_perf_lab.optimize.search import ParentSelection
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rocm_perf_lab.optimize.proposers.base import Offer, Proposer
    from rocm_perf_lab.optimize.proposers.model import Conversation
    from rocm_perf_lab.optimize.source_tree import SourceUnit

SOURCE = "__global__ void k(float* x) {}\n"
BASE = Proposal.of(SOURCE, transform="none", description="", parent=None)


@dataclass
class Numbered:
    """A transform with as many rewrites as `count`."""

    count: int
    name: str = "numbered"

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """One rewrite for each number."""
        text = unit.content.decode()
        return tuple(Rewrite(f"number {n}", f"{text}// t{n}\n") for n in range(self.count))

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """None."""
        return ()


@dataclass
class Counter:
    """A model whose answers are numbered; `fails` makes it unavailable."""

    name: str
    fails: bool = False
    asked: int = 0
    conversations: list[Conversation] = field(default_factory=list)

    def complete(self, conversation: Conversation) -> ModelAnswer:
        """The next number."""
        self.asked += 1
        self.conversations.append(conversation)
        if self.fails:
            raise ModelError(f"{self.name} is down")
        text = f"{self.name} {self.asked}.\n```\n{SOURCE}// {self.name} {self.asked}\n```\n"
        return ModelAnswer(text=text, finish_reason="stop", usage=TokenUsage(read=1, written=1))


class Short:
    """A minimal prompt."""

    def question(self, selection: ParentSelection, verdicts: Sequence[Verdict]) -> list[ChatMessage]:
        """Return the number of verdicts and of partners."""
        return [ChatMessage(role="user", content=f"{len(verdicts)} verdicts, {len(selection.partners)} partners")]

    def repair(self, verdict: Verdict, parent: Proposal) -> ChatMessage:
        """The reason."""
        return ChatMessage(role="user", content=verdict.reason)


def models(
    path: Path, *named: Counter, parallel: int = 1, repairs: int = 0, max_calls: int = 999, max_proposals: int | None = None
) -> LlmProposer:
    transcribed = TranscribedModel({m.name: PricedModel(m) for m in named}, path / "t.jsonl", Budget(max_calls, 10**6))
    rules = AnswerRules(1, parallel, repairs, max_proposals=max_proposals)
    return LlmProposer("llm", transcribed, Short(), "k", rules)  # type: ignore[arg-type]


def run(
    proposer: Proposer, selections: Sequence[ParentSelection], gain: Callable[[Proposal], float], verdicts: Sequence[Verdict] = ()
) -> tuple[list[Verdict], str | None]:
    """Return the verdicts on all offers, each with its gain, and the reason to stop."""
    found = list(verdicts)
    offers = proposer.offers(selections, tuple(found))

    def verdict_on(offer: Offer) -> Verdict:
        assert isinstance(offer, Proposal)
        improvement = gain(offer)
        return Verdict(offer, improvement > 0, "measurement", "", runtime_ns=1.0, improvement=improvement)

    try:
        offer = next(offers)
        while True:
            found.append(verdict_on(offer))
            offer = offers.send(found[-1])
    except StopIteration as end:
        return found, end.value


def mixed(path: Path, count: int, *, share: float = 0.5) -> MixedProposer:
    return MixedProposer(TransformProposer([Numbered(count)], "k"), models(path, Counter("m")), share=share, per_parent=2)


def test_both_rewrite_the_same_parents(tmp_path: Path) -> None:
    verdicts, stop = run(mixed(tmp_path, 100), [ParentSelection(BASE)] * 12, lambda _: 0.0)

    assert {v.proposal.transform for v in verdicts} == {"numbered", "llm"}
    assert {v.proposal.parent_id for v in verdicts} == {BASE.id}
    assert stop is None


def test_rewrites_of_transforms_are_offered_once_and_then_models_take_over(tmp_path: Path) -> None:
    proposer = mixed(tmp_path, 3, share=0.999)
    first, _ = run(proposer, [ParentSelection(BASE)] * 3, lambda _: 0.5)

    assert [v.proposal.description for v in first] == ["number 0", "number 1", "number 2", "m 1."]
    second, _ = run(proposer, [ParentSelection(BASE)], lambda _: 0.5, first)
    assert [v.proposal.transform for v in second[len(first) :]] == ["llm"]


def test_a_crossover_is_left_to_models(tmp_path: Path) -> None:
    partner = Verdict(Proposal.of("other", transform="t", description="", parent=BASE), False, "measurement", "", runtime_ns=1.0)

    verdicts, _ = run(mixed(tmp_path, 9, share=0.999), [ParentSelection(BASE, (partner,))], lambda _: 0.0)

    assert [v.proposal.transform for v in verdicts] == ["llm"]


def test_the_more_successful_kind_is_chosen_more_often(tmp_path: Path) -> None:
    def gain(proposal: Proposal) -> float:
        return 0.5 if proposal.transform == "llm" else 0.0

    proposer = mixed(tmp_path, 10_000)
    verdicts: list[Verdict] = []
    for _ in range(40):
        verdicts, _ = run(proposer, [ParentSelection(BASE)], gain, verdicts)

    late = [v.proposal.transform for v in verdicts[-20:]]
    assert late.count("llm") > 14


def test_the_more_successful_model_is_asked_more_often(tmp_path: Path) -> None:
    good, bad = Counter("good"), Counter("bad")

    run(models(tmp_path, good, bad), [ParentSelection(BASE)] * 60, lambda p: 0.5 if "good" in p.text else 0.0)

    assert good.asked + bad.asked == 60
    assert good.asked > 35
    assert bad.asked >= 3  # it keeps a chance


def test_the_search_continues_without_a_model_that_fails(tmp_path: Path) -> None:
    up, down = Counter("up"), Counter("down", fails=True)
    proposer = models(tmp_path, down, up)

    verdicts, stop = run(proposer, [ParentSelection(BASE)] * 20, lambda _: 0.0)

    assert (down.asked, len(verdicts), stop) == (1, 19, None)
    assert proposer.weights == {"up": 1.0}


def test_the_search_stops_with_the_last_model(tmp_path: Path) -> None:
    proposer = models(tmp_path, Counter("a", fails=True))

    assert run(proposer, [ParentSelection(BASE)] * 3, lambda _: 0.0) == ([], "a is down")
    assert proposer.failure is not None


def test_prompts_of_one_batch_do_not_contain_each_other(tmp_path: Path) -> None:
    model = Counter("m")

    run(models(tmp_path, model, parallel=2), [ParentSelection(BASE)] * 4, lambda _: 0.0)

    assert sorted(c[0].content for c in model.conversations) == ["0 verdicts, 0 partners"] * 2 + ["2 verdicts, 0 partners"] * 2


@pytest.mark.parametrize("repairs", [0, 2])
def test_no_answer_is_bought_that_could_not_be_evaluated(tmp_path: Path, repairs: int) -> None:
    """The loop stops after five verdicts; batches of four would have bought eight answers."""
    model = Counter("m")
    proposer = models(tmp_path, model, parallel=4, repairs=repairs, max_proposals=5)
    offers = proposer.offers([ParentSelection(BASE)] * 12, ())
    found = [next(offers)]
    while len(found) < 5:
        assert isinstance(found[-1], Proposal)
        found.append(offers.send(Verdict(found[-1], False, "measurement", "slower", runtime_ns=1.0)))
    offers.close()

    assert model.asked == 5


def test_an_interrupted_search_repeats_its_choices_without_asking_again(tmp_path: Path) -> None:
    def whole(count: int) -> tuple[list[Verdict], int]:
        a, b = Counter("a"), Counter("b")
        verdicts, _ = run(models(tmp_path, a, b, parallel=3), [ParentSelection(BASE)] * count, lambda p: len(p.text) % 3 / 3)
        return verdicts, a.asked + b.asked

    first, asked = whole(12)
    again, asked_again = whole(15)

    assert (asked, asked_again) == (12, 3)
    assert [v.proposal.text for v in again[:12]] == [v.proposal.text for v in first]
