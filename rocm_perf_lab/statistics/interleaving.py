"""Interleaved measurement of pairs: which source of a pair runs first is random.

If both sources are equally fast, exchanging them in a pair changes only the sign of its log ratio. The order is drawn
independently of the noise, so signs are fair coins, and the signed-rank test is exact whatever the noise is: heavy tails, a
drifting clock, and times that depend on earlier ones. An alternating order is exact for independent pairs only.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.statistics.paired_test import Pair


@dataclass
class InterleavedPairs:
    """Measures pairs of times, one source right after the other.

    Args:
        old: Measures the old source once and returns its time in ns.
        new: Measures the new source.
        name: Name of the comparison, from which the order follows; equal names have equal orders.
    """

    old: Callable[[], float]
    new: Callable[[], float]
    name: str
    _taken: int = field(default=0, init=False)

    def __call__(self, count: int) -> list[Pair]:
        """Return that many further pairs."""
        return [self._pair() for _ in range(count)]

    def _pair(self) -> Pair:
        old_first = runs_old_first(self.name, self._taken)
        self._taken += 1
        if old_first:
            old_ns = self.old()
            return old_ns, self.new()
        new_ns = self.new()
        return self.old(), new_ns


def runs_old_first(name: str, number: int) -> bool:
    """Return whether the old source runs first in a pair of a comparison."""
    return bool(hashlib.sha256(f"{name} {number}".encode()).digest()[0] & 1)
