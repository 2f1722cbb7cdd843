"""What a transform is: it reads a source and proposes rewrites, and says what it left alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rocm_perf_lab.optimize.source_tree import SourceUnit


@dataclass(frozen=True)
class Rewrite:
    """A whole new source text, and what was done to get it."""

    description: str
    text: str


@dataclass(frozen=True)
class Rejection:
    """A place that the transform must not touch, and why."""

    line: int
    reason: str


class Transform(Protocol):
    """One kind of rewrite, named by `_target_` in YAML.

    A transform may also have `addresses`, the bottlenecks (names of `analysis/bottleneck.yaml`) that it can relieve; one
    without is tried whatever the bottleneck is. It has to take sources that were rewritten already.
    """

    name: str

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Rewrites in a fixed order."""
        ...

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Places that were considered and left alone."""
        ...
