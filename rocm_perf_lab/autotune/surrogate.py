"""Surrogate models of the logarithm of times, optionally with the slow half compressed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.gaussian import GaussianProcess

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.strategy import Observations

POINTS = 240
"""Largest number of measurements for a fit."""
TUNED = 100
"""Largest number of measurements for tuning hyperparameters; more cost far more, and change little."""


class Surrogate:
    """Surrogate model of the times.

    Args:
        inputs: Encoded configurations, one row each.
        seed: Seed of the sample of measurements, if there are too many.
        compress: Compress times above the median, and ignore failed configurations instead of counting them as slow, so that
            configurations next to a limit of the GPU are not underrated (:mod:`.feasibility` models the limits).
        most_tuned: Largest number of measurements for tuning hyperparameters.
    """

    def __init__(self, inputs: Column, *, seed: int, compress: bool, most_tuned: int = TUNED) -> None:
        self.model = GaussianProcess(inputs.shape[1])
        self.candidates = inputs.astype(np.float32)
        self.learns_failures = not compress
        self.evidence = 0.0
        self.tuned = 0
        self.used = np.zeros(0, np.int64)
        self._inputs, self._seed, self._compress, self._most_tuned = inputs, seed, compress, most_tuned

    def replace_inputs(self, inputs: Column) -> None:
        """Replace the configurations and keep the hyperparameters."""
        self.candidates, self._inputs = inputs.astype(np.float32), inputs

    def fit(self, seen: Observations) -> Targets:
        """Fit to the measurements. Pending configurations count with their predicted value.

        Sets `used` to the positions of the measurements that were used.
        """
        count = len(seen.rows)
        able = np.arange(count) if self.learns_failures else np.flatnonzero(seen.feasible)
        self.used = able[informative(seen.times[able], self._seed, POINTS)]
        times = np.minimum(seen.times[self.used], seen.times[seen.feasible].max())
        targets = Targets.of(times, compress=self._compress)
        points = self._inputs[seen.rows[self.used]]
        if count >= self.tuned + patience(count) or count < self.tuned:
            subset = informative(times, self._seed, self._most_tuned)
            self.evidence = self.model.tune(points[subset], targets.values[subset])
            self.tuned = count
        self.model.fit(points, targets.values)
        if len(seen.pending):
            waiting = self._inputs[seen.pending]
            believed = self.model.predict(waiting.astype(np.float32)).mean
            self.model.fit(np.vstack([points, waiting]), np.concatenate([targets.values, believed]))
        return targets


def patience(count: int) -> int:
    """Return after how many new measurements hyperparameters are tuned again."""
    return max(1, min(5, count // 10), count // 20)


@dataclass(frozen=True)
class Targets:
    """Targets of a model: logarithms of times, centred and scaled, with the part above `knee` compressed."""

    values: Column
    centre: float
    scale: float
    knee: float
    width: float

    @classmethod
    def of(cls, times: Column, *, compress: bool) -> Targets:
        """Transform finite times in ms."""
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

    def of_time(self, time_ms: float) -> float:
        """Return the target of a time in ms; the inverse of :meth:`as_time`."""
        log = float(np.log(time_ms))
        if log > self.knee:
            log = self.knee + self.width / 2 * float(np.log1p((log - self.knee) / self.width))
        return (log - self.centre) / self.scale

    def as_time(self, value: float) -> float:
        """Return a target as a time in ms."""
        log = value * self.scale + self.centre
        if log > self.knee:
            log = self.knee + self.width * float(np.expm1(2 * (log - self.knee) / self.width))
        return float(np.exp(min(log, 700.0)))


def informative(times: Column, seed: int, most: int) -> Column:
    """Return the positions to learn from: all, or if there are more than `most`, the fastest half and a random sample."""
    count = len(times)
    if count <= most:
        return np.arange(count)
    order = np.argsort(times, kind="stable")
    half = most // 2
    others = np.random.default_rng([seed, 2, count]).choice(order[half:], most - half, replace=False)
    return np.sort(np.concatenate([order[:half], others]))
