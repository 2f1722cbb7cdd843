"""Probability that an unmeasured configuration is faster than the best one by a margin.

The models of the search are drawn from many times, and each draw says how fast its fastest unmeasured configuration is. Models
are too certain on rugged spaces and too careful on smooth ones, so the share of draws is recalibrated by a logistic regression,
fitted to searches of landscapes of which every time is known (`python -m benchmarks.remaining --fit`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.resources import load_yaml

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.spaces.formula import Column

DRAWS = 300
SPACING = (1, 4, 9, 19)
"""Ranks of measured times, from 0 for the best."""
MARGINS = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Margins of a report: 0.05 is a time at most 0.95 of the best."""
FEWEST = 12
"""Number of evaluations from which probabilities are calibrated."""
_SMALLEST = 1e-3
CALIBRATION_FILE = Path(__file__).with_name("remaining.yaml")


@dataclass(frozen=True)
class Outlook:
    """Uncalibrated view of the configurations that are not measured.

    Args:
        evaluated: Number of measured configurations.
        unmeasured: Number of the others.
        stalled: Number of evaluations since the best was found.
        residual: Standard deviation of the model's leave-one-out residuals, in the logarithm of times.
        spacing: Logarithm of (time / best time) of the measured configurations of the ranks :data:`SPACING`.
        gains: Logarithm of (fastest unmeasured time / best time), one column per draw: a row for each of two models, then for
            each of them with the unexplained part of the times.
    """

    evaluated: int
    unmeasured: int
    stalled: int
    residual: float
    spacing: Column
    gains: Column

    def share(self, margin: float) -> Column:
        """Return for each model the share of its draws in which a configuration is faster than the best by `margin`."""
        below = self.gains < math.log1p(-margin)
        return np.asarray((below.sum(axis=1) + 0.5) / (below.shape[1] + 1))

    def features(self, margin: float) -> Column:
        """Return the inputs of the calibration: log odds of the models, the progress of the search, and the measured times.

        The spread of the residuals and of the best times is relative to the margin: a space in which many of the best times are
        nearly equal has rarely a faster one.
        """
        share = self.share(margin)
        odds = np.log(share / (1 - share)).reshape(2, -1)
        size = self.evaluated + self.unmeasured
        progress = [math.log(self.evaluated), math.log(size), math.log1p(self.stalled), math.log(self.unmeasured / size)]
        spread = np.log((np.array([self.residual, *self.spacing]) + _SMALLEST) / -math.log1p(-margin))
        return np.concatenate([np.sort(odds[0]), np.sort(odds[1]), progress, spread])

    def probability(self, margin: float) -> float:
        """Return the calibrated probability that a configuration faster by `margin` is left.

        Args:
            margin: Between 0 and 1: 0.05 for a time at most 0.95 of the best.
        """
        if not self.unmeasured:
            return 0.0
        smaller = [other for other in MARGINS if other < margin]
        return min(_calibration().probability(self.features(each)) for each in (*smaller, margin))


@dataclass(frozen=True)
class WorkloadOutlook:
    """Views of all shapes of a workload."""

    shapes: tuple[Outlook, ...]

    @property
    def evaluated(self) -> int:
        """Number of measured configurations of all shapes."""
        return sum(shape.evaluated for shape in self.shapes)

    @property
    def unmeasured(self) -> int:
        """Number of configurations of all shapes that may still be measured."""
        return sum(shape.unmeasured for shape in self.shapes)

    def probability(self, margin: float) -> float:
        """Return the largest probability of a shape that a configuration faster by `margin` is left for it."""
        return max(shape.probability(margin) for shape in self.shapes)


@dataclass(frozen=True)
class Calibration:
    """Logistic regression from :meth:`Outlook.features` to a probability."""

    intercept: float
    weights: tuple[float, ...]

    def probability(self, features: Column) -> float:
        """Return a probability between 0 and 1."""
        return float(1 / (1 + np.exp(-(self.intercept + np.dot(self.weights, features)))))


@cache
def _calibration() -> Calibration:
    stored = load_yaml(CALIBRATION_FILE.read_text())
    return Calibration(stored["intercept"], tuple(stored["weights"]))
