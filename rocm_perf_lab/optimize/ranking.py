"""Which kernel is worth rewriting, and whether anything is: contribution to the critical path times headroom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True)
class KernelShare:
    """One kernel. `critical_share` of the run's critical path; `headroom`: how many times faster the roof would allow."""

    name: str
    critical_share: float
    headroom: float | None

    @property
    def possible_gain(self) -> float:
        """Part of the whole time that would be saved at the roof (Amdahl); the whole share where the roof is unknown."""
        if self.headroom is None:
            return self.critical_share
        return self.critical_share * (1 - 1 / max(self.headroom, 1.0))


def rank(kernels: list[KernelShare]) -> list[KernelShare]:
    """Most worthwhile first."""
    return sorted(kernels, key=lambda k: (-k.possible_gain, k.name))


def rank_by_looking(kernels: Sequence[KernelShare], look: Callable[[KernelShare], KernelShare]) -> list[KernelShare]:
    """Most worthwhile first, with as few looks as that takes.

    A kernel saves its share of the critical path at most, so those whose share is not above the best gain that was found need
    no look, and keep a headroom of None. Looking costs runs of the application.

    Args:
        kernels: With their shares alone.
        look: Finds the headroom of one.
    """
    known: list[KernelShare] = []
    rest = rank(list(kernels))
    while rest and (not known or rest[0].critical_share > max(k.possible_gain for k in known)):
        known.append(look(rest.pop(0)))
    return [*rank(known), *rest]


def reason_to_stop(kernel: KernelShare, min_improvement: float) -> str | None:
    """Why rewriting `kernel` cannot pay, or None."""
    if kernel.possible_gain >= min_improvement:
        return None
    return (
        f"{kernel.name} could save at most {kernel.possible_gain:.1%} of the whole time, "
        f"less than optimizer.min_improvement ({min_improvement:.1%})"
    )
