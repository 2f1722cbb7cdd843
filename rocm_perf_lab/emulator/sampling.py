"""Which workgroups of a launch are traced for the timing engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SamplePolicy:
    """At most `workgroups` of them, evenly spread over the linear order from the first to the last."""

    workgroups: int

    def choose(self, total: int) -> tuple[int, ...]:
        """Sorted linear ids out of `total`."""
        wanted = min(self.workgroups, total)
        if wanted < 2:
            return tuple(range(wanted))
        return tuple(n * (total - 1) // (wanted - 1) for n in range(wanted))
