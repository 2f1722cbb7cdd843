"""How likely a configuration is to run at all, learned from those that did and those that failed.

A Gaussian process of its own on the labels 1 (ran) and -1 (failed), read as a probit: limits of registers, LDS and workgroups
lie elsewhere than the cliffs of the times, and the fastest configurations are often beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.gaussian import GaussianProcess
from rocm_perf_lab.autotune.surrogate import POINTS, TUNED, informative, patience

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.formula import Column
    from rocm_perf_lab.autotune.strategy import Observations

_ITERATIONS = 15


class Feasibility:
    """The probability that a configuration runs.

    Args:
        inputs: What is known of every configuration, one row each.
        seed: Decides what is left out of very many measurements.
    """

    def __init__(self, inputs: Column, *, seed: int) -> None:
        self._inputs, self._seed = inputs, seed
        self._candidates = inputs.astype(np.float32)
        self._model = GaussianProcess(inputs.shape[1])
        self._base = 0.0
        self._tuned = 0

    def fit(self, seen: Observations) -> None:
        """Learn from what was measured."""
        count = len(seen.rows)
        used = informative(seen.times, self._seed, POINTS)
        labels = np.where(seen.feasible[used], 1.0, -1.0)
        self._base = float((labels.sum() + 0.5) / (len(labels) + 1))
        points = self._inputs[seen.rows[used]]
        if (count >= self._tuned + patience(count) or count < self._tuned) and np.ptp(labels) > 0:
            subset = informative(seen.times[used], self._seed, TUNED)
            self._model.tune(points[subset], labels[subset] - self._base, _ITERATIONS)
            self._tuned = count
        self._model.fit(points, labels - self._base)

    def log_probability(self, rows: Column) -> Column:
        """Logarithm of the probability that each of these configurations runs."""
        from scipy.special import log_ndtr

        predicted = self._model.predict(self._candidates[rows])
        return np.asarray(log_ndtr((predicted.mean + self._base) / np.sqrt(predicted.deviation**2 + 0.05)))
