"""Protocol of proposers, which offer sources one by one and receive the verdict on each before offering the next."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rocm_perf_lab.optimize.proposal import Proposal, Verdict

if TYPE_CHECKING:
    from rocm_perf_lab.optimize.search import ParentSelection


@dataclass(frozen=True)
class UnusableAnswer:
    """Answer without a usable source. `proposal` contains the answer itself."""

    proposal: Proposal
    reason: str


Offer = Proposal | UnusableAnswer
Offers = Generator[Offer, Verdict, str | None]
"""Yields offers, receives the verdict on each, and returns the reason to stop the whole search, or None."""


class Proposer(Protocol):
    """Source of proposals."""

    @property
    def learns(self) -> bool:
        """Return whether offers depend on verdicts. The search then continues after a round without an accepted proposal."""
        ...

    def offers(self, parents: Sequence[ParentSelection], verdicts: Sequence[Verdict]) -> Offers:
        """Offer rewrites of the parents of a round; `verdicts` are all verdicts so far."""
        ...
