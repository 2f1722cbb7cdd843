"""Rewrites by a language model: one conversation per candidate, with the compiler's words until it compiles or gives up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.proposal import Proposal
from rocm_perf_lab.optimize.proposers.answers import AnswerError, read_answer
from rocm_perf_lab.optimize.proposers.base import UnusableAnswer
from rocm_perf_lab.optimize.proposers.model import ChatMessage, ModelError
from rocm_perf_lab.optimize.source_tree import SourceError, parse_source

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from rocm_perf_lab.optimize.proposal import Verdict
    from rocm_perf_lab.optimize.proposers.base import Offer, Offers
    from rocm_perf_lab.optimize.proposers.model import ModelAnswer
    from rocm_perf_lab.optimize.proposers.prompt import PromptWriter
    from rocm_perf_lab.optimize.proposers.transcript import TranscribedModel
    from rocm_perf_lab.optimize.source_tree import SourceUnit

_MENDABLE = ("answer", "compile")
_MOST_USELESS = 6
"""Answers in a row without a source: more of them cost money and teach nobody anything."""


class LlmProposer:
    """Asks a model, tells it every verdict.

    Args:
        name: Of the model or the transcript; it becomes the proposals' transform.
        model: Who answers.
        prompt: Writes what it is told.
        entry: The kernel.
        candidates: Conversations per parent and round.
        repairs: How often an answer without a source that compiles goes back.
        max_answer_bytes: Longest answer.
    """

    learns = True

    def __init__(
        self,
        *,
        name: str,
        model: TranscribedModel,
        prompt: PromptWriter,
        entry: str,
        candidates: int,
        repairs: int,
        max_answer_bytes: int,
    ) -> None:
        self._name = name
        self._model = model
        self._prompt = prompt
        self._entry = entry
        self._candidates = candidates
        self._repairs = repairs
        self._max_answer_bytes = max_answer_bytes
        self._useless = 0
        self.failure: ModelError | None = None
        """Why no more answers came, where that was not the plan."""

    def offers(self, parent: Proposal, unit: SourceUnit, judged: Sequence[Verdict]) -> Offers:
        """What the model makes of `parent`; ends for good when there are no more answers."""
        told = list(judged)
        for _ in range(self._candidates):
            try:
                yield from self._converse(parent, told)
            except ModelError as error:
                self.failure = error
                return error.what
            if self._useless >= _MOST_USELESS:
                return f"{self._useless} answers in a row held no source that could be judged"
        return None

    def _converse(self, parent: Proposal, told: list[Verdict]) -> Generator[Offer, Verdict, None]:
        conversation = self._prompt.question(parent, told)
        for attempt in range(1 + self._repairs):
            purpose = "repair" if attempt else "propose"
            answer = self._model.complete(conversation, purpose=purpose, parent=parent.id)  # type: ignore[arg-type]
            verdict = yield self._offer(answer, parent)
            told.append(verdict)
            self._useless = self._useless + 1 if verdict.stage == "answer" else 0
            if verdict.stage not in _MENDABLE:
                return
            said = answer.text or "(nothing)"
            conversation = [*conversation, ChatMessage(role="assistant", content=said), self._prompt.repair(verdict)]

    def _offer(self, answer: ModelAnswer, parent: Proposal) -> Offer:
        try:
            rewritten = read_answer(
                answer.text, parent=parent.text, finish_reason=answer.finish_reason, most_bytes=self._max_answer_bytes
            )
            parse_source(rewritten.text.encode(), self._entry)
        except AnswerError as error:
            return self._unusable(answer, parent, error.what)
        except SourceError as error:
            return self._unusable(answer, parent, f"the kernel has to keep its name: {error.what}")
        description = rewritten.description or "a rewrite without a description"
        return Proposal.of(rewritten.text, transform=self._name, description=description, parent=parent)

    def _unusable(self, answer: ModelAnswer, parent: Proposal, reason: str) -> UnusableAnswer:
        proposal = Proposal.of(answer.text, transform=self._name, description="an answer without a usable source", parent=parent)
        return UnusableAnswer(proposal, reason)
