"""Ranking of kernels by possible gain: share of the critical path and headroom below the roofline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True)
class KernelShare:
    """Share of one kernel in the critical path, from 0 to 1, and `headroom`, its time divided by its roofline time, if known."""

    name: str
    critical_share: float
    headroom: float | None

    @property
    def possible_gain(self) -> float:
        """Fraction of the total time saved at the roofline (Amdahl's law); the whole share if the headroom is unknown."""
        if self.headroom is None:
            return self.critical_share
        return self.critical_share * (1 - 1 / max(self.headroom, 1.0))


def rank(kernels: list[KernelShare]) -> list[KernelShare]:
    """Return kernels by possible gain, largest first."""
    return sorted(kernels, key=lambda k: (-k.possible_gain, k.name))


def rank_by_measuring(kernels: Sequence[KernelShare], measure: Callable[[KernelShare], KernelShare]) -> list[KernelShare]:
    """Return kernels by possible gain, and measure the headroom of as few as necessary.

    The gain is at most the share of the critical path, so kernels whose share does not exceed the best known gain are not
    measured and keep a headroom of None. Each measurement runs the application.

    Args:
        kernels: Kernels with shares only.
        measure: Returns a kernel with its headroom.
    """
    known: list[KernelShare] = []
    rest = rank(list(kernels))
    while rest and (not known or rest[0].critical_share > max(k.possible_gain for k in known)):
        known.append(measure(rest.pop(0)))
    return [*rank(known), *rest]


def reason_to_stop(kernel: KernelShare, min_improvement: float) -> str | None:
    """Return the reason why rewriting a kernel cannot gain enough, or None."""
    if kernel.possible_gain >= min_improvement:
        return None
    return (
        f"{kernel.name} can save at most {kernel.possible_gain:.1%} of the total time, "
        f"less than optimizer.min_improvement ({min_improvement:.1%})"
    )
