"""Proposer that asks language models: several conversations at a time, each continued until an answer is faster."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.adaptive_weights import AdaptiveWeights
from rocm_perf_lab.optimize.proposal import Proposal
from rocm_perf_lab.optimize.proposers.answers import AnswerError, read_answer
from rocm_perf_lab.optimize.proposers.base import UnusableAnswer
from rocm_perf_lab.optimize.proposers.model import ChatMessage, ModelError
from rocm_perf_lab.optimize.proposers.spending import BudgetError
from rocm_perf_lab.optimize.proposers.transcribed import ModelRequest
from rocm_perf_lab.optimize.source_tree import SourceError, parse_source

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from rocm_perf_lab.optimize.proposal import Verdict
    from rocm_perf_lab.optimize.proposers.base import Offer, Offers
    from rocm_perf_lab.optimize.proposers.model import ModelAnswer
    from rocm_perf_lab.optimize.proposers.prompt import PromptWriter
    from rocm_perf_lab.optimize.proposers.transcribed import CallOutcome, TranscribedModel
    from rocm_perf_lab.optimize.search import ParentSelection

_MAX_UNUSABLE = 6
"""Consecutive answers without a usable source after which the search stops."""
_MEASURED_CREDIT = 0.1
"""Credit of a model for a correct answer that is not faster."""


@dataclass
class _Conversation:
    """Conversation about a parent. `current` is the source to which edits in the next answer apply."""

    selection: ParentSelection
    arm: str
    messages: list[ChatMessage]
    current: str
    attempt: int = 0

    def request(self) -> ModelRequest:
        purpose = "repair" if self.attempt else "crossover" if self.selection.partners else "propose"
        return ModelRequest(self.arm, tuple(self.messages), purpose, self.selection.parent.id)  # type: ignore[arg-type]


@dataclass(frozen=True)
class AnswerRules:
    """Number of requested answers, and limits for reading them.

    Args:
        candidates: Conversations per parent and round.
        parallel: Number of concurrent conversations; the prompts of one batch do not contain each other's verdicts.
        repairs: Maximum number of follow-up questions after an answer that is not accepted.
        max_answer_bytes: Maximum size of an answer in bytes.
        max_proposals: Number of verdicts after which the search ends; no further answers are requested. None for no limit.
    """

    candidates: int = 1
    parallel: int = 1
    repairs: int = 2
    max_answer_bytes: int = 256 * 1024
    max_proposals: int | None = None

    def askable(self, verdicts: int) -> int | None:
        """Return the number of answers that can still be evaluated, at least one; None for no limit."""
        return None if self.max_proposals is None else max(1, self.max_proposals - verdicts)


@dataclass
class LlmProposer:
    """Asks models for rewrites; prompts contain earlier verdicts, and models that succeed are asked more often.

    Args:
        name: Value of `Proposal.transform`.
        model: Models.
        prompt: Renders prompts.
        entry: Name or symbol of the kernel.
        rules: Number and maximum size of answers.
        seed: Seed of the selection of models.
    """

    name: str
    model: TranscribedModel
    prompt: PromptWriter
    entry: str
    rules: AnswerRules = AnswerRules()
    seed: int = 0
    learns: bool = field(default=True, init=False)
    failure: ModelError | None = field(default=None, init=False)
    """Error that ended the conversations, or None."""

    def __post_init__(self) -> None:
        self._weights = AdaptiveWeights(dict.fromkeys(self.model.models, 1.0))
        self._random = Random(self.seed)
        self._failed_arms: set[str] = set()
        self._unusable_answers = 0

    @property
    def weights(self) -> dict[str, float]:
        """Probability of each model to receive the next request."""
        return self._weights.weights(self._failed_arms)

    def offers(self, parents: Sequence[ParentSelection], verdicts: Sequence[Verdict]) -> Offers:
        """Offer rewrites of the parents; the search stops if no model answers any longer."""
        known = list(verdicts)
        selections = [selection for selection in parents for _ in range(self.rules.candidates)]
        for first in range(0, len(selections), self.rules.parallel):
            batch = selections[first : first + self.rules.parallel][: self.rules.askable(len(known))]
            talks = [self._start(selection, known) for selection in batch]
            while talks:
                talks = yield from self._advance(talks[: self.rules.askable(len(known))], known)
                if self.failure is not None:
                    return self.failure.what
                if self._unusable_answers >= _MAX_UNUSABLE:
                    return f"{self._unusable_answers} consecutive answers had no usable source"
        return None

    def _start(self, selection: ParentSelection, verdicts: Sequence[Verdict]) -> _Conversation:
        arm = self._weights.choose(self._random, self._failed_arms)
        assert arm is not None, "the search stops with the last model"
        return _Conversation(selection, arm, self.prompt.question(selection, verdicts), selection.parent.text)

    def _advance(self, talks: Sequence[_Conversation], known: list[Verdict]) -> Generator[Offer, Verdict, list[_Conversation]]:
        """Ask one question of each conversation, offer the answers, and return the conversations that continue."""
        requests = [talk.request() for talk in talks]
        continued = []
        for talk, request, outcome in zip(talks, requests, self.model.complete_all(requests), strict=True):
            if outcome.answer is None:
                self._drop(request, outcome)
                continue
            offer = self._offer(outcome.answer, talk)
            verdict = yield offer
            known.append(verdict)
            self._weights.reward(talk.arm, _credit(verdict))
            self._unusable_answers = self._unusable_answers + 1 if verdict.stage == "answer" else 0
            if isinstance(offer, Proposal):
                talk.current = offer.text
            talk.attempt += 1
            if not verdict.accepted and verdict.stage != "duplicate" and talk.attempt <= self.rules.repairs:
                text = outcome.answer.text or "(empty)"
                talk.messages += [ChatMessage(role="assistant", content=text), self.prompt.repair(verdict, talk.selection.parent)]
                continued.append(talk)
        return continued

    def _drop(self, request: ModelRequest, outcome: CallOutcome) -> None:
        """Continue without a model that failed; the search stops if the budget is exhausted or no model is left."""
        error = outcome.error or ModelError("the model did not answer")
        left = set(self.model.models) - self._failed_arms - {request.arm}
        if isinstance(error, BudgetError) or not left:
            self.failure = error
            return
        self._failed_arms.add(request.arm)
        self.model.record_failure(request, outcome)

    def _offer(self, answer: ModelAnswer, talk: _Conversation) -> Offer:
        parent = talk.selection.parent
        try:
            rewritten = read_answer(
                answer.text,
                current=talk.current,
                finish_reason=answer.finish_reason,
                most_bytes=self.rules.max_answer_bytes,
                problem=self._problem,
            )
        except AnswerError as error:
            proposal = Proposal.of(
                answer.text, transform=self.name, description="an answer without a usable source", parent=parent
            )
            return UnusableAnswer(proposal, error.what)
        description = rewritten.description or "a rewrite without a description"
        return Proposal.of(rewritten.text, transform=self.name, description=description, parent=parent)

    def _problem(self, text: str) -> str | None:
        """Return the reason why a text is not a source of the kernel, or None."""
        try:
            parse_source(text.encode(), self.entry)
        except SourceError as error:
            return error.what
        return None


def _credit(verdict: Verdict) -> float:
    if verdict.stage != "measurement":
        return 0.0
    return _MEASURED_CREDIT + (1 - _MEASURED_CREDIT) * max(verdict.improvement or 0.0, 0.0)
