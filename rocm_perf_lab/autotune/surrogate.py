"""Times as a model learns them: on a logarithmic scale, as they are or compressed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.gaussian import GaussianProcess

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.formula import Column
    from rocm_perf_lab.autotune.strategy import Observations

POINTS = 240
"""Measurements that a model learns from."""
TUNED = 100
"""Measurements of which length scales are found: more cost far more, and hardly change them."""


class Surrogate:
    """One model of the times.

    Args:
        inputs: What is known of every configuration, one row each.
        seed: Decides what is left out of very many measurements.
        compress: Care little how slow the slow half is; and leave out what failed instead of taking it for slow, so that
            a configuration beside the limits of a GPU is not blamed for them (:mod:`.feasibility` knows the limits).
    """

    def __init__(self, inputs: Column, *, seed: int, compress: bool) -> None:
        self.model = GaussianProcess(inputs.shape[1])
        self.candidates = inputs.astype(np.float32)
        self.learns_failures = not compress
        self.evidence = 0.0
        self.tuned = 0
        self.used = np.zeros(0, np.int64)
        self._inputs, self._seed, self._compress = inputs, seed, compress

    def fit(self, seen: Observations) -> Targets:
        """Learn from what was measured; what is being measured counts with the value that is expected of it.

        Which of the measurements were learned from is in `used`.
        """
        count = len(seen.rows)
        able = np.arange(count) if self.learns_failures else np.flatnonzero(seen.feasible)
        self.used = able[informative(seen.times[able], self._seed, POINTS)]
        times = np.minimum(seen.times[self.used], seen.times[seen.feasible].max())
        targets = Targets.of(times, compress=self._compress)
        points = self._inputs[seen.rows[self.used]]
        if count >= self.tuned + patience(count) or count < self.tuned:
            subset = informative(times, self._seed, TUNED)
            self.evidence = self.model.tune(points[subset], targets.values[subset])
            self.tuned = count
        self.model.fit(points, targets.values)
        if len(seen.pending):
            waiting = self._inputs[seen.pending]
            believed = self.model.predict(waiting.astype(np.float32)).mean
            self.model.fit(np.vstack([points, waiting]), np.concatenate([targets.values, believed]))
        return targets


def patience(count: int) -> int:
    """New measurements after which length scales are found anew: it takes longer and changes less, the more there are."""
    return max(1, min(5, count // 10), count // 20)


@dataclass(frozen=True)
class Targets:
    """Times as a model wants them: logarithms, centred and scaled.

    With `compress`, differences above the median shrink: how slow the slow half is then matters little.
    """

    values: Column
    centre: float
    scale: float
    knee: float
    width: float

    @classmethod
    def of(cls, times: Column, *, compress: bool) -> Targets:
        """Transform finite times."""
        logs = np.log(times)
        knee, width = np.inf, 1.0
        if compress:
            knee = float(np.median(logs))
            width = max(knee - float(logs.min()), 0.1)
            excess = np.maximum(logs - knee, 0) / width
            logs = np.minimum(logs, knee) + width / 2 * np.log1p(excess)
        spread = float(logs.std())
        scale = spread if spread > 0 else 1.0
        centre = float(logs.mean())
        return cls((logs - centre) / scale, centre, scale, knee, width)

    def as_time(self, value: float) -> float:
        """Back to ms."""
        log = value * self.scale + self.centre
        if log > self.knee:
            log = self.knee + self.width * float(np.expm1(2 * (log - self.knee) / self.width))
        return float(np.exp(min(log, 700.0)))


def informative(times: Column, seed: int, most: int) -> Column:
    """Positions of what a model learns from: all, or of more than `most` the fastest half and a sample of the others."""
    count = len(times)
    if count <= most:
        return np.arange(count)
    order = np.argsort(times, kind="stable")
    half = most // 2
    others = np.random.default_rng([seed, 2, count]).choice(order[half:], most - half, replace=False)
    return np.sort(np.concatenate([order[:half], others]))
