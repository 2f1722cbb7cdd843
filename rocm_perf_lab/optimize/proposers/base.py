"""What a proposer is: it offers sources, one after another, and is told what became of each before it offers the next."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rocm_perf_lab.optimize.proposal import Proposal, Verdict

if TYPE_CHECKING:
    from rocm_perf_lab.optimize.source_tree import SourceUnit


@dataclass(frozen=True)
class UnusableAnswer:
    """An answer in which there is no source. `proposal` holds the answer itself, for the record."""

    proposal: Proposal
    reason: str


Offer = Proposal | UnusableAnswer
Offers = Generator[Offer, Verdict, str | None]
"""Yields offers, is sent the verdict on each, and returns why there will be no more for any parent, or None."""


class Proposer(Protocol):
    """Where rewrites come from."""

    @property
    def learns(self) -> bool:
        """Whether verdicts change what it offers: then a round without success is no reason to stop."""
        ...

    def offers(self, parent: Proposal, unit: SourceUnit, judged: Sequence[Verdict]) -> Offers:
        """Rewrites of `parent`, which is parsed in `unit`; `judged` are the verdicts so far."""
        ...
