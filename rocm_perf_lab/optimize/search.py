"""Which lineages are followed: the best one alone (greedy), or several at once (beam).

A beam finds combinations whose first step alone does not pay, and does not lose the second best lineage to the best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.optimize.proposal import Verdict


class Search(Protocol):
    """Chooses the parents of the next round."""

    def follow(self, round_: Sequence[Verdict], winner: Verdict | None, best_ns: float) -> list[Verdict]:
        """Those of the round whose rewrites are rewritten further.

        Args:
            round_: All verdicts of the round.
            winner: The new best source, where there is one.
            best_ns: Runtime of the best source, that of `winner` included.
        """
        ...


class GreedySearch:
    """Only a new best source is followed."""

    def follow(self, round_: Sequence[Verdict], winner: Verdict | None, best_ns: float) -> list[Verdict]:
        """The winner."""
        return [winner] if winner is not None else []


@dataclass(frozen=True)
class BeamSearch:
    """The fastest correct rewrites of the round, at most `width`, none of them slower than the best by more than `slack`."""

    width: int = 3
    slack: float = 0.05

    def follow(self, round_: Sequence[Verdict], winner: Verdict | None, best_ns: float) -> list[Verdict]:
        """Fastest first; of equal ones the earlier."""
        limit = best_ns * (1 + self.slack)
        timed = [(v.runtime_ns, v) for v in round_ if v.runtime_ns is not None]
        ranked = sorted((pair for pair in timed if pair[0] <= limit), key=lambda pair: pair[0])
        return [verdict for _, verdict in ranked[: self.width]]
