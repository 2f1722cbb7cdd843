"""Which transforms to try: those that address what the evidence shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocm_perf_lab.optimize.transforms.base import Transform


def select_transforms(transforms: Sequence[Transform], bottlenecks: Iterable[str]) -> tuple[Transform, ...]:
    """Transforms for the bottlenecks that were found, in the order given; all of them where none fits.

    Args:
        transforms: Of the configuration.
        bottlenecks: The one that was named and the others that match, as `analysis/bottleneck.yaml` calls them.
    """
    found = frozenset(bottlenecks)
    chosen = tuple(t for t in transforms if getattr(t, "addresses", None) is None or t.addresses & found)  # type: ignore[attr-defined]
    return chosen or tuple(transforms)
