"""Acceptance and stopping rules of the closed loop."""

from __future__ import annotations

from dataclasses import dataclass

from rocm_perf_lab.statistics.paired_test import AcceptanceRule


@dataclass(frozen=True)
class LoopPolicy:
    """Acceptance and stopping rules. `min_improvement` is relative to the best runtime so far.

    `1 - confidence` is the probability that the run ever accepts a rewrite that is not faster. The final comparison uses the
    fraction `final_share` of it, all others together the rest.
    """

    min_improvement: float
    max_iterations: int
    max_proposals: int
    confidence: float = 0.95
    first_pairs: int = 16
    most_pairs: int = 256
    final_share: float = 0.2
    max_seconds: float | None = None
    """Limit of the whole run in seconds of wall-clock time, across interruptions."""
    use_counters: bool = False
    """Exact counters decide between indistinguishable emulated times."""

    def acceptance(self, level: float) -> AcceptanceRule:
        """Return the rule for accepting a rewrite; `level` is the significance level of its comparison."""
        return AcceptanceRule(self.min_improvement, self.confidence, level, self.first_pairs, self.most_pairs)

    @property
    def search_alpha(self) -> float:
        """Error probability of all comparisons except the final one."""
        return (1 - self.confidence) * (1 - self.final_share)

    @property
    def final_alpha(self) -> float:
        """Error probability of the final comparison."""
        return (1 - self.confidence) * self.final_share
