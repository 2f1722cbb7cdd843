"""Result of the closed loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocm_perf_lab.optimize.proposal import Proposal, Verdict
    from rocm_perf_lab.statistics.paired_test import PairedComparison


@dataclass(frozen=True)
class LoopResult:
    """Result of the loop.

    `verdicts` are in evaluation order. `comparison` compares the baseline with the last accepted source, measured again at the
    end; it is None if no proposal was accepted. `best` is that source if the comparison confirmed it, else the baseline.
    `final_reason` is the reason of this decision.
    """

    baseline: Proposal
    baseline_runtime_ns: float
    best: Proposal
    best_runtime_ns: float
    verdicts: tuple[Verdict, ...]
    stop_reason: str
    comparison: PairedComparison | None = None
    final_reason: str = ""
    by_counters: bool = False
    """True if exact counters confirmed the best source; its emulated time is indistinguishable from the baseline's."""

    @property
    def is_confirmed(self) -> bool | None:
        """True if the final comparison confirmed the best source; None without a final comparison."""
        return None if self.comparison is None else self.best.id != self.baseline.id

    @property
    def speedup(self) -> float:
        """Baseline runtime divided by best runtime; 1 if the baseline is the best source, or only exact counters differ."""
        if self.best.id == self.baseline.id or self.by_counters or not self.best_runtime_ns:
            return 1.0
        return self.comparison.speedup if self.comparison is not None else self.baseline_runtime_ns / self.best_runtime_ns

    @property
    def weakest_comparison(self) -> PairedComparison | None:
        """Comparison of measured times with the largest gain that it could miss; None without measured times."""
        verdicts = [verdict.comparison for verdict in self.verdicts]
        found = [c for c in (*verdicts, self.comparison) if c is not None and c.smallest_gain is not None]
        return max(found, key=lambda c: c.smallest_gain or 0.0, default=None)
