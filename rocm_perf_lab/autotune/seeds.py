"""Seeds: the configurations that are measured before the first prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.spaces.encoding import encode

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.space import Space
    from rocm_perf_lab.autotune.strategy import Observations

_SAMPLE = 1000
"""Size of the sample of the space from which seeds are chosen."""
_TRIES = 300


class Seeds:
    """Design that represents the valid configurations: each seed minimises the mean distance of all to their nearest seed.

    Unlike a maximin design, it does not prefer corners of the space, where GPU kernels are slow. Defaults come first.
    """

    def __init__(self, space: Space, seed: int, count: int) -> None:
        self._random = np.random.default_rng([seed, 0])
        points = encode(space, factors=False).astype(np.float32)
        sample = self._random.choice(len(space), min(_SAMPLE, len(space)), replace=False)
        self._rows, self._sample, self._candidates = sample, points[sample], points
        start = space.index(space.defaults) if space.defaults else None
        self._planned: list[int] = []
        self._distance = np.full(len(sample), np.inf, np.float32)
        if start is not None:
            self._add(start)
        self.count = min(count, len(space))

    def next(self, seen: Observations, size: int) -> int | None:
        """Return the first free seed, or None if all are taken."""
        free = seen.open(size)
        position = 0
        while position < self.count:
            if position == len(self._planned):
                self._add(self._representative())
            if free[self._planned[position]]:
                return self._planned[position]
            position += 1
        return None

    def design(self) -> list[int]:
        """Return the rows of all seeds."""
        while len(self._planned) < self.count:
            self._add(self._representative())
        return self._planned

    def more(self, free: Column) -> int:
        """Return a free row of the continued design, for a search in which no seed ran."""
        position = 0
        while True:
            if position == len(self._planned):
                self._add(self._representative())
            if free[self._planned[position]]:
                return self._planned[position]
            position += 1

    def _representative(self) -> int:
        if not self._planned:
            return int(self._rows[0])
        fresh = np.setdiff1d(self._rows, self._planned, assume_unique=True)
        if not len(fresh):
            return int(self._random.choice(np.setdiff1d(np.arange(len(self._candidates)), self._planned)))
        tried = self._random.permutation(fresh)[:_TRIES]
        nearer = np.minimum(_distances(self._candidates[tried], self._sample), self._distance)
        return int(tried[np.argmin(nearer.sum(axis=1))])

    def _add(self, row: int) -> None:
        self._planned.append(row)
        self._distance = np.minimum(self._distance, _distances(self._candidates[[row]], self._sample)[0])


def _distances(left: Column, right: Column) -> Column:
    """Return Euclidean distances of shape (left, right)."""
    squares = (left * left).sum(1)[:, None] + (right * right).sum(1) - 2 * left @ right.T
    return np.asarray(np.sqrt(np.maximum(squares, 0)))
