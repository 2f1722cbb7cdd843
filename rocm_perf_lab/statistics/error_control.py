"""Error rates of several tests together.

Written here because SciPy corrects for the false discovery rate only (`scipy.stats.false_discovery_control`).
"""

from __future__ import annotations

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


def level_per_look(confidence: float, looks: int) -> float:
    """Return the significance level of each look of a sequential test (Bonferroni), so that all looks keep `confidence`."""
    return (1 - confidence) / looks
