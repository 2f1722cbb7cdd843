"""Which kernel is worth rewriting, and whether anything is: contribution to the critical path times headroom."""

from __future__ import annotations

from dataclasses import dataclass


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


def reason_to_stop(kernel: KernelShare, min_improvement: float) -> str | None:
    """Why rewriting `kernel` cannot pay, or None."""
    if kernel.possible_gain >= min_improvement:
        return None
    return (
        f"{kernel.name} could save at most {kernel.possible_gain:.1%} of the whole time, "
        f"less than optimizer.min_improvement ({min_improvement:.1%})"
    )
