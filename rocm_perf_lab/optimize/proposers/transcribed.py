"""Models of one run, called in parallel, with transcript and budget.

A resumed run reads the answers of earlier calls from its transcript instead of repeating them. Calls are numbered in the order of
the requests, not of the answers, so that a resumed run finds each answer.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.proposers.model import ModelAnswer, ModelError, estimated_tokens
from rocm_perf_lab.optimize.proposers.spending import Budget, BudgetError, Spending, TokenPrices
from rocm_perf_lab.optimize.proposers.transcript import AskedCall, RecordedCall, RecordedModel, read_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.optimize.proposers.model import ChatModel, Conversation
    from rocm_perf_lab.optimize.proposers.transcript import Purpose


@dataclass(frozen=True)
class PricedModel:
    """Model with the prices of its tokens."""

    model: ChatModel
    prices: TokenPrices = field(default_factory=TokenPrices)


@dataclass(frozen=True)
class ModelRequest:
    """Request to one of the models. `parent` is the id of the source to rewrite."""

    arm: str
    conversation: Conversation
    purpose: Purpose = "propose"
    parent: str | None = None

    @property
    def tokens(self) -> int:
        """Estimated tokens of the prompt."""
        return estimated_tokens(*(message.content for message in self.conversation))


@dataclass(frozen=True)
class CallOutcome:
    """Result of one request: an answer or an error. `number` is the number of the call; None if it was not sent."""

    number: int | None
    answer: ModelAnswer | None = None
    error: ModelError | None = None


class TranscribedModel:
    """Models whose calls are recorded and counted; calls of an interrupted run are answered from the transcript.

    Args:
        models: Models by name.
        path: Transcript; appended to if it exists.
        budget: Limits of all calls.
        report: Called with the total spending after each batch of calls.

    Raises:
        ModelError: The file is not a transcript.
    """

    def __init__(
        self,
        models: Mapping[str, PricedModel],
        path: Path,
        budget: Budget,
        report: Callable[[Spending], None] = lambda _: None,
    ) -> None:
        self.models = dict(models)
        self.budget = budget
        self.spending = Spending()
        self._path = path
        self._report = report
        self._lock = threading.Lock()
        self._next = 1
        rows = read_rows(path, cut_short=True) if path.exists() else []
        self._earlier = {row.call: row for row in rows if isinstance(row, RecordedCall)}
        sent = [row for row in rows if isinstance(row, AskedCall)]
        unanswered = Counter(row.asked for row in sent) - Counter(self._earlier.keys())
        for row in sent:
            if unanswered[row.asked]:  # The answer was lost; the endpoint may charge for it.
                unanswered[row.asked] -= 1
                self.spending.add(row.read, 0, self._prices(row.arm))
        for name, priced in self.models.items():
            if isinstance(priced.model, RecordedModel):
                priced.model.skip(sum(1 for row in self._earlier.values() if row.answer and row.arm in (name, "")))

    def complete(self, request: ModelRequest) -> ModelAnswer:
        """Return the answer to one request.

        Raises:
            ModelError: The model does not answer, or the budget is exhausted.
        """
        (outcome,) = self.complete_all([request])
        if outcome.answer is None:
            raise outcome.error or ModelError("the model did not answer")
        return outcome.answer

    def complete_all(self, requests: Sequence[ModelRequest]) -> list[CallOutcome]:
        """Return the outcomes of requests that are sent at the same time, in their order."""
        planned = replace(self.spending)
        outcomes: dict[int, CallOutcome] = {}
        pending: dict[int, tuple[int, ModelRequest]] = {}
        for place, request in enumerate(requests):
            prices, earlier = self._prices(request.arm), self._earlier.get(self._next)
            if earlier is not None:
                outcomes[place] = self._recalled(earlier, request)
            else:
                try:
                    planned.require(self.budget, request.tokens, prices)
                except BudgetError as error:
                    outcomes[place] = CallOutcome(None, error=error)
                    continue
                pending[place] = (self._next, request)
                planned.add(request.tokens, 0, prices)
            planned.calls += 1
            self._next += 1
        outcomes |= self._ask_all(pending)
        for place, request in enumerate(requests):
            answer = outcomes[place].answer
            if answer is not None:
                self.spending.add_answer(answer, self._prices(request.arm))
        self._report(self.spending)
        return [outcomes[place] for place in range(len(requests))]

    def record_failure(self, request: ModelRequest, outcome: CallOutcome) -> None:
        """Record that the run continues without this model, so that a resumed run does the same."""
        if outcome.number is None or outcome.error is None or outcome.number in self._earlier:
            return
        row = RecordedCall(
            call=outcome.number, purpose=request.purpose, parent=request.parent, arm=request.arm, error=outcome.error.what
        )
        self._append(row.model_dump_json(exclude={"answer"}))
        self._earlier[outcome.number] = row

    def _prices(self, arm: str) -> TokenPrices:
        priced = self.models.get(arm)
        return priced.prices if priced is not None else TokenPrices()

    def _recalled(self, earlier: RecordedCall, request: ModelRequest) -> CallOutcome:
        known = earlier.parent is None or request.parent is None or earlier.parent == request.parent
        if not known or earlier.arm not in ("", request.arm):
            foreign = BudgetError(
                f"call {earlier.call} of the transcript is not the next call of this run",
                where=str(self._path),
                hint="start a new run: this one was continued with another configuration",
            )
            return CallOutcome(None, error=foreign)
        error = ModelError(earlier.error) if earlier.error is not None else None
        return CallOutcome(earlier.call, earlier.answer, error)

    def _ask_all(self, pending: Mapping[int, tuple[int, ModelRequest]]) -> dict[int, CallOutcome]:
        """Send requests, with one thread per call for several calls of live models. An interrupt also ends the threads."""
        outcomes: dict[int, CallOutcome] = {}

        def ask(place: int) -> None:
            number, request = pending[place]
            try:
                outcomes[place] = CallOutcome(number, answer=self._ask(number, request))
            except ModelError as error:
                outcomes[place] = CallOutcome(number, error=error)

        live = [p for p, (_, request) in pending.items() if not isinstance(self.models[request.arm].model, RecordedModel)]
        threads = [threading.Thread(target=ask, args=(place,), daemon=True) for place in live] if len(live) > 1 else []
        for thread in threads:
            thread.start()
        for place in pending:
            if not threads or place not in live:
                ask(place)
        for thread in threads:
            thread.join()
        return outcomes

    def _ask(self, number: int, request: ModelRequest) -> ModelAnswer:
        model = self.models[request.arm].model
        if not isinstance(model, RecordedModel):
            self._append(AskedCall(asked=number, arm=request.arm, read=request.tokens).model_dump_json())
        answer = model.complete(request.conversation)
        row = RecordedCall(
            call=number,
            purpose=request.purpose,
            parent=request.parent,
            arm=request.arm,
            conversation=tuple(request.conversation),
            answer=answer,
        )
        self._append(row.model_dump_json(exclude={"error"}))
        self._earlier[number] = row
        return answer

    def _append(self, line: str) -> None:
        with self._lock:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as sink:
                sink.write(line.encode() + b"\n")
                sink.flush()
                os.fsync(sink.fileno())
