"""Proposer that asks a language model: one conversation per candidate, with compiler output until it compiles."""

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

_REPAIRABLE_STAGES = ("answer", "compile")
_MAX_UNUSABLE = 6
"""Consecutive answers without a usable source after which the search stops."""


class LlmProposer:
    """Asks a model for rewrites; prompts contain earlier verdicts.

    Args:
        name: Value of `Proposal.transform`.
        model: Model.
        prompt: Renders prompts.
        entry: Name or symbol of the kernel.
        candidates: Conversations per parent and round.
        repairs: Maximum number of further questions after an answer that does not compile.
        max_answer_bytes: Maximum size of an answer in bytes.
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
        self._unusable_answers = 0
        self.failure: ModelError | None = None
        """Error that ended the conversation, or None."""

    def offers(self, parent: Proposal, unit: SourceUnit, verdicts: Sequence[Verdict]) -> Offers:
        """Offer the model's rewrites of `parent`; the search stops if the model does not answer."""
        known = list(verdicts)
        for _ in range(self._candidates):
            try:
                yield from self._converse(parent, known)
            except ModelError as error:
                self.failure = error
                return error.what
            if self._unusable_answers >= _MAX_UNUSABLE:
                return f"{self._unusable_answers} consecutive answers had no usable source"
        return None

    def _converse(self, parent: Proposal, verdicts: list[Verdict]) -> Generator[Offer, Verdict, None]:
        conversation = self._prompt.question(parent, verdicts)
        for attempt in range(1 + self._repairs):
            purpose = "repair" if attempt else "propose"
            answer = self._model.complete(conversation, purpose=purpose, parent=parent.id)  # type: ignore[arg-type]
            verdict = yield self._offer(answer, parent)
            verdicts.append(verdict)
            self._unusable_answers = self._unusable_answers + 1 if verdict.stage == "answer" else 0
            if verdict.stage not in _REPAIRABLE_STAGES:
                return
            text = answer.text or "(nothing)"
            conversation = [*conversation, ChatMessage(role="assistant", content=text), self._prompt.repair(verdict)]

    def _offer(self, answer: ModelAnswer, parent: Proposal) -> Offer:
        try:
            rewritten = read_answer(
                answer.text, parent=parent.text, finish_reason=answer.finish_reason, most_bytes=self._max_answer_bytes
            )
            parse_source(rewritten.text.encode(), self._entry)
        except AnswerError as error:
            return self._unusable(answer, parent, error.what)
        except SourceError as error:
            return self._unusable(answer, parent, f"the kernel must keep its name: {error.what}")
        description = rewritten.description or "a rewrite without a description"
        return Proposal.of(rewritten.text, transform=self._name, description=description, parent=parent)

    def _unusable(self, answer: ModelAnswer, parent: Proposal, reason: str) -> UnusableAnswer:
        proposal = Proposal.of(answer.text, transform=self._name, description="an answer without a usable source", parent=parent)
        return UnusableAnswer(proposal, reason)
