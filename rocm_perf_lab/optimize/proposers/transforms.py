"""Proposer that applies every transform to the parents, in the order of the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.proposal import Proposal
from rocm_perf_lab.optimize.source_tree import parse_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocm_perf_lab.optimize.proposal import Verdict
    from rocm_perf_lab.optimize.proposers.base import Offers
    from rocm_perf_lab.optimize.search import ParentSelection
    from rocm_perf_lab.optimize.transforms.base import Transform


class TransformProposer:
    """Offers the rewrites of transforms, independent of verdicts.

    Args:
        transforms: Transforms in the order in which they are tried.
        entry: Name or symbol of the kernel.
    """

    learns = False

    def __init__(self, transforms: Sequence[Transform], entry: str) -> None:
        self._transforms = tuple(transforms)
        self._entry = entry

    def offers(self, parents: Sequence[ParentSelection], verdicts: Sequence[Verdict]) -> Offers:
        """Offer all rewrites in a deterministic order."""
        for selection in parents:
            yield from self.rewrites(selection.parent)
        return None

    def rewrites(self, parent: Proposal) -> Iterator[Proposal]:
        """Yield the rewrites of one source."""
        unit = parse_source(parent.text.encode(), self._entry)
        for transform in self._transforms:
            for rewrite in transform.propose(unit):
                yield Proposal.of(rewrite.text, transform=transform.name, description=rewrite.description, parent=parent)
