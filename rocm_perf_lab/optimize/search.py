"""Search strategies: which sources of a round become parents of the next round.

Greedy search follows only the best proposal. Beam search follows several, and can find combinations whose first step does not
improve the runtime. :mod:`rocm_perf_lab.optimize.evolution` follows a diverse archive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.optimize.proposal import Proposal, Verdict


@dataclass(frozen=True)
class ParentSelection:
    """Source to rewrite, and verdicts on other sources whose ideas may be combined with it."""

    parent: Proposal
    partners: tuple[Verdict, ...] = ()


class Search(Protocol):
    """Strategy that selects the parents of each round."""

    def start(self, baseline: Verdict) -> list[ParentSelection]:
        """Return the parents of the first round; `baseline` has the runtime of the unmodified source."""
        ...

    def follow(self, round_: Sequence[Verdict], winner: Verdict | None, best_ns: float) -> list[ParentSelection]:
        """Return the parents of the next round.

        Args:
            round_: All verdicts of the round.
            winner: New best proposal of the round, if any.
            best_ns: Runtime of the best source so far in ns, including `winner`.
        """
        ...


class GreedySearch:
    """Follows a new best proposal only."""

    def start(self, baseline: Verdict) -> list[ParentSelection]:
        """Return the unmodified source."""
        return [ParentSelection(baseline.proposal)]

    def follow(self, round_: Sequence[Verdict], winner: Verdict | None, best_ns: float) -> list[ParentSelection]:
        """Return the winner, if any."""
        return [ParentSelection(winner.proposal)] if winner is not None else []


@dataclass(frozen=True)
class BeamSearch:
    """Follows at most `width` correct proposals, none slower than the best by more than the fraction `slack`."""

    width: int = 3
    slack: float = 0.05

    def start(self, baseline: Verdict) -> list[ParentSelection]:
        """Return the unmodified source."""
        return [ParentSelection(baseline.proposal)]

    def follow(self, round_: Sequence[Verdict], winner: Verdict | None, best_ns: float) -> list[ParentSelection]:
        """Return the fastest proposals; of equally fast ones, the earlier first."""
        limit = best_ns * (1 + self.slack)
        timed = [(v.runtime_ns, v) for v in round_ if v.runtime_ns is not None]
        ranked = sorted((pair for pair in timed if pair[0] <= limit), key=lambda pair: pair[0])
        return [ParentSelection(verdict.proposal) for _, verdict in ranked[: self.width]]
