"""Protocol of transforms, which propose rewrites of a source, and their order by bottleneck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from rocm_perf_lab.optimize.source_tree import SourceUnit


@dataclass(frozen=True)
class Rewrite:
    """Complete new source text and a description of the change."""

    description: str
    text: str


@dataclass(frozen=True)
class Rejection:
    """Line that a transform examined and did not change, with the reason."""

    line: int
    reason: str


class Transform(Protocol):
    """One kind of rewrite, named by `_target_` in YAML.

    A transform may have an attribute `addresses` with the bottleneck classes (`analysis/causes.yaml`) that it can relieve. It is
    then tried before others if the ledger contains a loss of such a class. Transforms must accept sources that are already
    rewritten.
    """

    name: str

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return rewrites in a deterministic order."""
        ...

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return the locations that were examined and not changed."""
        ...


def order_transforms(transforms: Sequence[Transform], bottlenecks: Iterable[str]) -> tuple[Transform, ...]:
    """Return all transforms: those that address a bottleneck first, then the others, each in their order.

    Args:
        transforms: Configured transforms.
        bottlenecks: Bottleneck classes of the losses in the ledger.
    """
    found = frozenset(bottlenecks)
    return tuple(sorted(transforms, key=lambda transform: not addresses_any(transform, found)))


def addresses_any(transform: Transform, bottlenecks: Collection[str]) -> bool:
    """Return True if the transform can relieve one of the bottlenecks; a transform without `addresses` can relieve any."""
    addressed = getattr(transform, "addresses", None)
    return addressed is None or not addressed.isdisjoint(bottlenecks)
