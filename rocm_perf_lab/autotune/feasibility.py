"""Probability that a configuration runs, learned from those that ran and those that failed.

A separate Gaussian process on the labels 1 (ran) and -1 (failed), converted by a probit. The limits of registers, LDS and
workgroups do not coincide with features of the times, and the fastest configurations are often next to a limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.gaussian import GaussianProcess
from rocm_perf_lab.autotune.surrogate import POINTS, TUNED, informative, patience

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.strategy import Observations

_ITERATIONS = 15


class Feasibility:
    """Model of the probability that a configuration runs.

    Args:
        inputs: Encoded configurations, one row each.
        seed: Seed of the sample of measurements, if there are too many.
        most_tuned: Largest number of measurements for tuning hyperparameters.
    """

    def __init__(self, inputs: Column, *, seed: int, most_tuned: int = TUNED) -> None:
        self._inputs, self._seed, self._most_tuned = inputs, seed, most_tuned
        self._candidates = inputs.astype(np.float32)
        self._model = GaussianProcess(inputs.shape[1])
        self._base = 0.0
        self._tuned = 0

    def replace_inputs(self, inputs: Column) -> None:
        """Replace the configurations and keep the hyperparameters."""
        self._candidates, self._inputs = inputs.astype(np.float32), inputs

    def fit(self, seen: Observations) -> None:
        """Fit to the measurements."""
        count = len(seen.rows)
        used = informative(seen.times, self._seed, POINTS)
        labels = np.where(seen.feasible[used], 1.0, -1.0)
        self._base = float((labels.sum() + 0.5) / (len(labels) + 1))
        points = self._inputs[seen.rows[used]]
        if (count >= self._tuned + patience(count) or count < self._tuned) and np.ptp(labels) > 0:
            subset = informative(seen.times[used], self._seed, self._most_tuned)
            self._model.tune(points[subset], labels[subset] - self._base, _ITERATIONS)
            self._tuned = count
        self._model.fit(points, labels - self._base)

    def log_probability(self, rows: Column) -> Column:
        """Return the logarithm of the probability that each of these configurations runs."""
        from scipy.special import log_ndtr

        predicted = self._model.predict(self._candidates[rows])
        return np.asarray(log_ndtr((predicted.mean + self._base) / np.sqrt(predicted.deviation**2 + 0.05)))
