"""Error rates of several tests together.

Written here because SciPy corrects for the false discovery rate only (`scipy.stats.false_discovery_control`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def adjusted_p_values(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values in the order of the input (Scand. J. Stat. 6, 1979).

    They control the probability of one or more false positives among all tests.
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, position in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[position]))
        adjusted[position] = largest
    return adjusted


class AlphaError(ValueError):
    """More than the remaining error probability was requested."""


@dataclass
class AlphaBudget:
    """Error probability of a run of tests, distributed while it runs.

    Each test receives an equal part of the rest for the tests that may follow. The level of a test that rejects its null
    hypothesis is available again: it was wrong, or the hypothesis was false and the level is still unused on true ones. So the
    levels of the true null hypotheses up to the first error never add up to more than `alpha`, and the probability of one or more
    errors in the run is at most `alpha` (union bound). This holds for tests that are chosen from earlier results, since each is
    made on new measurements at a level that is known before they are made.

    Args:
        alpha: Probability of one or more errors in the run.
    """

    alpha: float
    spent: float = field(default=0.0, init=False)

    def level(self, tests_left: int) -> float:
        """Return the level of the next test, of at most `tests_left` that may follow including it."""
        return (self.alpha - self.spent) / max(1, tests_left)

    def spend(self, level: float) -> None:
        """Record a test that did not reject its null hypothesis at a level.

        Raises:
            AlphaError: The level is larger than the rest.
        """
        if level > (self.alpha - self.spent) * (1 + _ROUNDING):
            raise AlphaError(f"level {level} exceeds the rest of {self.alpha}")
        self.spent = min(self.alpha, self.spent + level)


_ROUNDING = 1e-9
