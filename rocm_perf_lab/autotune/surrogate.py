"""Times as a model learns them: on a logarithmic scale, as they are or compressed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.gaussian import GaussianProcess

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.formula import Column
    from rocm_perf_lab.autotune.strategy import Observations


class Surrogate:
    """One model of the times, as they are or compressed."""

    def __init__(self, inputs: Column, *, compress: bool) -> None:
        self.model = GaussianProcess(inputs.shape[1])
        self.candidates = inputs.astype(np.float32)
        self._inputs = inputs
        self.evidence = 0.0
        self._compress = compress
        self.tuned = 0

    def fit(self, seen: Observations, used: Column) -> Targets:
        """Learn from the rows `used` of what was measured, all of which ran.

        What is being measured counts with the value that is expected of it.
        """
        targets = Targets.of(seen.times[used], compress=self._compress)
        points, count = self._inputs[seen.rows[used]], len(seen.rows)
        if count >= self.tuned + patience(count) or count < self.tuned:
            self.evidence = self.model.tune(points, targets.values)
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
