"""Models of configurations that are drawn anew for every trial, instead of being the rows of a space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.feasibility import Feasibility
from rocm_perf_lab.autotune.search import log_expected_improvement
from rocm_perf_lab.autotune.strategy import Observations
from rocm_perf_lab.autotune.surrogate import TUNED, Surrogate

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.gaussian import Prediction
    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.surrogate import Targets


@dataclass(frozen=True)
class PoolGain:
    """Logarithm of the expected improvement of each candidate, times its probability to run, with its inputs."""

    log_gain: Column
    predicted: Prediction
    targets: Targets


@dataclass(frozen=True)
class PoolModels:
    """Models of times and of failures, which keep their hyperparameters from trial to trial."""

    times: Surrogate
    feasibility: Feasibility

    @classmethod
    def of(cls, points: Column, seed: int, *, tuned: int = TUNED) -> PoolModels:
        """Create the models; `tuned` is the largest number of measurements for tuning hyperparameters."""
        return cls(
            Surrogate(points, seed=seed, compress=True, most_tuned=tuned), Feasibility(points, seed=seed, most_tuned=tuned)
        )

    def gain(self, times: Column, taken: Column, points: Column) -> PoolGain:
        """Evaluate candidates.

        Args:
            times: Times of the finished trials.
            taken: Inputs of the finished trials, then of the running ones.
            points: Inputs of the candidates.
        """
        count = len(times)
        inputs, rows = np.vstack([taken, points]), len(taken) + np.arange(len(points))
        seen = Observations(np.arange(count), times, np.arange(count, len(taken)))
        self.times.replace_inputs(inputs)
        targets = self.times.fit(seen)
        predicted = self.times.model.predict(self.times.candidates[rows])
        gain = log_expected_improvement(predicted.mean, predicted.deviation, float(targets.values.min()))
        if not seen.feasible.all():
            self.feasibility.replace_inputs(inputs)
            self.feasibility.fit(seen)
            gain = gain + self.feasibility.log_probability(rows)
        return PoolGain(gain, predicted, targets)
