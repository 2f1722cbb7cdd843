"""How likely a configuration is to run at all, learned from those that did and those that failed.

A Gaussian process of its own on the labels 1 (ran) and -1 (failed), read as a probit: limits of registers, LDS and workgroups
lie elsewhere than the cliffs of the times, and the fastest configurations are often beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.gaussian import GaussianProcess

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.formula import Column
    from rocm_perf_lab.autotune.strategy import Observations

_ITERATIONS = 15


class Feasibility:
    """Args: inputs: What is known of every configuration, one row each."""

    def __init__(self, inputs: Column) -> None:
        self._inputs = inputs
        self._candidates = inputs.astype(np.float32)
        self._model = GaussianProcess(inputs.shape[1])
        self._base = 0.0
        self._tuned = 0

    def fit(self, seen: Observations, used: Column, *, patience: int) -> None:
        """Learn from the rows `used` of what was measured; length scales after `patience` new measurements."""
        ran, count = seen.feasible[used], len(seen.rows)
        labels = np.where(ran, 1.0, -1.0)
        self._base = float((labels.sum() + 0.5) / (len(labels) + 1))
        points = self._inputs[seen.rows[used]]
        if (count >= self._tuned + patience or count < self._tuned) and 0 < ran.sum() < len(ran):
            self._model.tune(points, labels - self._base, _ITERATIONS)
            self._tuned = count
        self._model.fit(points, labels - self._base)

    def log_probability(self, rows: Column) -> Column:
        """Logarithm of the probability that each of these configurations runs."""
        from scipy.special import log_ndtr

        predicted = self._model.predict(self._candidates[rows])
        return np.asarray(log_ndtr((predicted.mean + self._base) / np.sqrt(predicted.deviation**2 + 0.05)))
