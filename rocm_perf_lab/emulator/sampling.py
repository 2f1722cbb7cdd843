"""Which workgroups of a launch are traced for the timing engine."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class SamplePolicy:
    """At most `workgroups` of them: one from each of so many equal parts of the linear order.

    Their places in the parts follow the golden ratio: equal distances could be in step with the kernel's own strides, and
    sampled workgroups would then seem to share memory that others do not.
    """

    workgroups: int

    def choose(self, total: int) -> tuple[int, ...]:
        """Sorted linear ids out of `total`."""
        wanted = min(self.workgroups, total)
        borders = [n * total // wanted for n in range(wanted)] + [total] if wanted else []
        return tuple(first + int((n + 1) * _GOLDEN % 1 * (end - first)) for n, (first, end) in enumerate(pairwise(borders)))
