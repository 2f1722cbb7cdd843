"""Sets of time intervals, and step functions integrated over them.

Intervals are two integer arrays, starts and ends, both sorted by start. All functions are linear in the number of intervals
after one sort, because a trace has millions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.signedinteger[Any]]
    Floats = NDArray[np.float64]


def union(starts: Integers, ends: Integers) -> tuple[Integers, Integers]:
    """Return disjoint intervals that cover the same time; intervals without length are dropped."""
    kept = ends > starts
    if not kept.all():
        starts, ends = starts[kept], ends[kept]
    if not len(starts):
        return starts, ends
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reached = np.maximum.accumulate(ends)
    lasts = np.append(np.flatnonzero(starts[1:] > reached[:-1]), len(starts) - 1)
    return starts[np.append(0, lasts[:-1] + 1)], reached[lasts]


def joined(parts: Sequence[tuple[Integers, Integers]]) -> tuple[Integers, Integers]:
    """Return the union of several sets of intervals."""
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    starts, ends = (np.concatenate(column) for column in zip(*parts, strict=True))
    return union(starts, ends)


def clipped(intervals: tuple[Integers, Integers], begin: int, end: int) -> tuple[Integers, Integers]:
    """Return the part of disjoint intervals between two times."""
    starts, ends = intervals
    kept = (ends > begin) & (starts < end)
    return np.maximum(starts[kept], begin), np.minimum(ends[kept], end)


def length(intervals: tuple[Integers, Integers]) -> int:
    """Return the total length of disjoint intervals."""
    return int((intervals[1] - intervals[0]).sum())


def served(times: Integers, clocks: Floats) -> tuple[Integers, Integers]:
    """Return starts and ends, in whole clocks, of requests that a unit serves sequentially, each as early as possible.

    Args:
        times: Arrival of each request, sorted, shape (n,).
        clocks: Service time of each request, shape (n,).
    """
    total = np.cumsum(clocks)
    ends = np.maximum.accumulate(times - (total - clocks)) + total
    return np.rint(ends - clocks).astype(np.int64), np.rint(ends).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Integral:
    """Piecewise linear, non-decreasing function of time: `values[i]` at `times[i]`, constant outside."""

    times: Floats
    values: Floats

    @classmethod
    def of_steps(cls, times: Integers, heights: Floats) -> Integral:
        """Return the integral of a step function: `heights[i]` from `times[i]` to `times[i + 1]`."""
        if not len(times):
            return cls.zero()
        areas = heights[:-1] * np.diff(times)
        return cls(times.astype(np.float64), np.concatenate([[0.0], np.cumsum(areas)]))

    @classmethod
    def of_intervals(cls, intervals: tuple[Integers, Integers]) -> Integral:
        """Return the time inside disjoint intervals."""
        starts, ends = intervals
        if not len(starts):
            return cls.zero()
        until = np.cumsum(ends - starts, dtype=np.float64)
        times = np.stack([starts, ends], axis=1).ravel().astype(np.float64)
        return cls(times, np.stack([until - (ends - starts), until], axis=1).ravel())

    @classmethod
    def of_spread(cls, starts: Integers, ends: Integers, amounts: Floats) -> Integral:
        """Return the integral of amounts, each spread evenly over an interval of positive length; intervals may overlap."""
        if not len(starts):
            return cls.zero()
        rates = amounts / (ends - starts)
        times, place = np.unique(np.concatenate([starts, ends]), return_inverse=True)
        changes = np.bincount(place.ravel(), weights=np.concatenate([rates, -rates]), minlength=len(times))
        return cls.of_steps(times, np.maximum(np.cumsum(changes), 0.0))

    @classmethod
    def zero(cls) -> Integral:
        """Return the function that is zero everywhere."""
        return cls(np.zeros(1), np.zeros(1))

    @property
    def is_zero(self) -> bool:
        """Return whether the function is zero everywhere."""
        return len(self.times) == 1

    def at(self, times: Integers | Floats) -> Floats:
        """Return the function at these times, shape (n,)."""
        if self.is_zero:
            return np.zeros(len(times))
        values: Floats = np.interp(times, self.times, self.values)
        return values
