"""Proposer that mixes transforms and models in one lineage, with weights that adapt to their success."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.adaptive_weights import AdaptiveWeights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.optimize.proposal import Proposal, Verdict
    from rocm_perf_lab.optimize.proposers.base import Offers
    from rocm_perf_lab.optimize.proposers.llm import LlmProposer
    from rocm_perf_lab.optimize.proposers.transforms import TransformProposer
    from rocm_perf_lab.optimize.search import ParentSelection

_TRANSFORMS, _MODELS = "transforms", "models"


class MixedProposer:
    """Offers rewrites of transforms for some parents of a round, and of models for the others.

    Args:
        transforms: Proposer of transforms.
        models: Proposer of models.
        share: Initial share of parents that transforms rewrite, between 0 and 1.
        per_parent: Maximum number of transforms' rewrites for one parent and round; later rounds continue.
        seed: Seed of the choice.
    """

    learns = True

    def __init__(
        self, transforms: TransformProposer, models: LlmProposer, *, share: float, per_parent: int, seed: int = 0
    ) -> None:
        self.models = models
        self._transforms = transforms
        self._per_parent = per_parent
        self._weights = AdaptiveWeights({_TRANSFORMS: share, _MODELS: 1 - share})
        self._random = Random(seed)
        self._offered: set[str] = set()

    def offers(self, parents: Sequence[ParentSelection], verdicts: Sequence[Verdict]) -> Offers:
        """Offer rewrites of the parents: first those of transforms, then those of models."""
        self._offered |= {v.proposal.id for v in verdicts} | {selection.parent.id for selection in parents}
        asked: list[ParentSelection] = []
        known = list(verdicts)
        for selection in parents:
            rewrites = self._new_rewrites(selection.parent) if self._chooses_transforms(selection) else []
            if not rewrites:
                asked.append(selection)
            for rewrite in rewrites:
                verdict = yield rewrite
                known.append(verdict)
                self._weights.reward(_TRANSFORMS, _credit(verdict))
        offers = self.models.offers(asked, known)
        try:
            offer = next(offers)
            while True:
                verdict = yield offer
                self._weights.reward(_MODELS, _credit(verdict))
                offer = offers.send(verdict)
        except StopIteration as end:
            stop: str | None = end.value
            return stop

    def _chooses_transforms(self, selection: ParentSelection) -> bool:
        """Draw the proposer of a parent; a crossover is always rewritten by models."""
        chosen = self._weights.choose(self._random)
        return chosen == _TRANSFORMS and not selection.partners

    def _new_rewrites(self, parent: Proposal) -> list[Proposal]:
        """Return rewrites that were not offered before."""
        found: list[Proposal] = []
        for rewrite in self._transforms.rewrites(parent):
            if len(found) == self._per_parent:
                break
            if rewrite.id not in self._offered:
                self._offered.add(rewrite.id)
                found.append(rewrite)
        return found


def _credit(verdict: Verdict) -> float:
    return max(verdict.improvement or 0.0, 0.0)
