"""Protocol of transforms, which propose rewrites of a source, and their selection by bottleneck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocm_perf_lab.optimize.source_tree import SourceUnit


@dataclass(frozen=True)
class Rewrite:
    """Complete new source text and a description of the change."""

    description: str
    text: str


@dataclass(frozen=True)
class Rejection:
    """Line that a transform considered and did not change, with the reason."""

    line: int
    reason: str


class Transform(Protocol):
    """One kind of rewrite, named by `_target_` in YAML.

    A transform may have an attribute `addresses` with the bottlenecks (names in `analysis/bottleneck.yaml`) that it can relieve;
    without it, the transform is tried for every bottleneck. A transform must accept sources that are already rewritten.
    """

    name: str

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return rewrites in a deterministic order."""
        ...

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return the places that were considered and not changed."""
        ...


def select_transforms(transforms: Sequence[Transform], bottlenecks: Iterable[str]) -> tuple[Transform, ...]:
    """Return the transforms that address a bottleneck, in their order, or all transforms if none does.

    Args:
        transforms: Configured transforms.
        bottlenecks: Names in `analysis/bottleneck.yaml`.
    """
    found = frozenset(bottlenecks)
    chosen = tuple(t for t in transforms if getattr(t, "addresses", None) is None or t.addresses & found)  # type: ignore[attr-defined]
    return chosen or tuple(transforms)
