"""Proposer that applies every transform to the parent, in the order of the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.proposal import Proposal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.optimize.proposal import Verdict
    from rocm_perf_lab.optimize.proposers.base import Offers
    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.optimize.transforms.base import Transform


class TransformProposer:
    """Offers the rewrites of transforms, independent of verdicts."""

    learns = False

    def __init__(self, transforms: Sequence[Transform]) -> None:
        self._transforms = tuple(transforms)

    def offers(self, parent: Proposal, unit: SourceUnit, verdicts: Sequence[Verdict]) -> Offers:
        """Offer rewrites in a deterministic order."""
        for transform in self._transforms:
            for rewrite in transform.propose(unit):
                yield Proposal.of(rewrite.text, transform=transform.name, description=rewrite.description, parent=parent)
        return None
