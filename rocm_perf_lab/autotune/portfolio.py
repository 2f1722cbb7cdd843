"""Selection of few configurations for many shapes: at most k, so that the weighted mean slowdown of the shapes is smallest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.autotune.spaces.formula import Column

_UNCOVERED = 1e6
"""Slowdown of a shape without a selected configuration that runs: covering it comes first."""


@dataclass(frozen=True)
class Portfolio:
    """Selected configurations.

    Args:
        columns: Numbers of the selected configurations, most useful first.
        choice: Configuration of each shape; -1 if it has no measured one.
    """

    columns: tuple[int, ...]
    choice: tuple[int, ...]


def select(slowdown: Column, weights: Sequence[float], most: int) -> Portfolio:
    """Select greedily, then exchange single configurations as long as that helps.

    Args:
        slowdown: Time relative to the best of the shape, infinite where unknown: (shapes, configurations).
        weights: Weight of each shape.
        most: Largest number of selected configurations.
    """
    costs = np.where(np.isfinite(slowdown), slowdown, _UNCOVERED) * np.asarray(weights)[:, None]
    selected: list[int] = []
    current = np.full(len(costs), np.inf)
    for _ in range(min(most, costs.shape[1])):
        totals = np.minimum(costs, current[:, None]).sum(axis=0)
        best = int(np.argmin(totals))
        if selected and totals[best] >= current.sum():
            break
        selected.append(best)
        current = np.minimum(current, costs[:, best])
    while _exchange(costs, selected):
        pass
    choice = np.array(selected)[np.argmin(costs[:, selected], axis=1)]
    known = np.isfinite(slowdown[np.arange(len(slowdown)), choice])
    used = [column for column in selected if (choice[known] == column).any()]
    return Portfolio(tuple(used), tuple(np.where(known, choice, -1).tolist()))


def _exchange(costs: Column, selected: list[int]) -> bool:
    """Replace one selected configuration by the one that lowers the total most; return whether any does."""
    total = costs[:, selected].min(axis=1).sum()
    best = (total * (1 - 1e-12), -1, -1)
    for place in range(len(selected)):
        others = selected[:place] + selected[place + 1 :]
        rest = costs[:, others].min(axis=1) if others else np.full(len(costs), np.inf)
        totals = np.minimum(costs, rest[:, None]).sum(axis=0)
        column = int(np.argmin(totals))
        if totals[column] < best[0]:
            best = (float(totals[column]), place, column)
    if best[1] < 0:
        return False
    selected[best[1]] = best[2]
    return True
