"""Budgets and spending of calls to models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.proposers.model import ModelError

if TYPE_CHECKING:
    from rocm_perf_lab.optimize.proposers.model import ModelAnswer


class BudgetError(ModelError):
    """Limit of calls, tokens or cost that the next call would exceed."""


@dataclass(frozen=True)
class TokenPrices:
    """Prices per million prompt (`read`) and completion (`written`) tokens."""

    read: float = 0.0
    written: float = 0.0

    def cost(self, read: int, written: int) -> float:
        """Return the cost of prompt and completion tokens."""
        return (read * self.read + written * self.written) / 1e6


@dataclass(frozen=True)
class Budget:
    """Limits of all calls of a run; the cost is in the currency of the prices."""

    max_calls: int
    max_tokens: int
    max_cost: float | None = None


@dataclass
class Spending:
    """Calls, tokens and cost so far, including failed attempts and lost calls."""

    calls: int = 0
    read: int = 0
    written: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens."""
        return self.read + self.written

    def add(self, read: int, written: int, prices: TokenPrices) -> None:
        """Count tokens at the prices of their model."""
        self.read += read
        self.written += written
        self.cost += prices.cost(read, written)

    def add_answer(self, answer: ModelAnswer, prices: TokenPrices) -> None:
        """Count an answer, and preceding failed attempts for which the endpoint may charge."""
        self.calls += 1
        for usage in (answer.usage, *(failure.usage for failure in answer.failures if failure.usage is not None)):
            self.add(usage.read, usage.written, prices)

    def require(self, budget: Budget, asked: int, prices: TokenPrices) -> None:
        """Check that another call fits into the budget.

        Args:
            budget: Limits.
            asked: Estimated prompt tokens of the call.
            prices: Prices of its model.

        Raises:
            BudgetError: A limit is reached.
        """
        if self.calls >= budget.max_calls:
            raise BudgetError(f"optimizer.llm.max_calls ({budget.max_calls}) reached")
        if self.tokens + asked > budget.max_tokens:
            raise BudgetError(
                f"optimizer.llm.max_tokens ({budget.max_tokens:,}) reached: {self.tokens:,} used, "
                f"the next prompt needs about {asked:,}"
            )
        if budget.max_cost is not None and self.cost + prices.cost(asked, 0) > budget.max_cost:
            raise BudgetError(f"optimizer.llm.max_cost ({budget.max_cost:g}) reached: {self.cost:.4g} used")
