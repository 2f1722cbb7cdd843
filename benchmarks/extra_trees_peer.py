"""A peer of the default search strategy: extremely randomised trees with expected improvement, as in SMAC and ytopt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.search import log_expected_improvement
from rocm_perf_lab.autotune.spaces.encoding import encode
from rocm_perf_lab.autotune.strategy import Assessment, Observations, StrategyChoice

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.spaces.space import Space

_SEEDS = 10
_TREES = 50
_CANDIDATES = 2000
_SMALLEST_DEVIATION = 1e-6


class ExtraTrees:
    """Strategy: random configurations, then the largest expected improvement of a forest on the logarithm of the time.

    Failed configurations count as the slowest time. The deviation of a prediction is that of the trees. Of larger spaces, each
    step predicts a random sample.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self._points = encode(space).astype(np.float32)
        self._seed = seed

    def choose(self, seen: Observations) -> StrategyChoice | None:
        """See :class:`.strategy.Strategy`."""
        from sklearn.ensemble import ExtraTreesRegressor

        free = np.flatnonzero(seen.open(len(self._points)))
        if not len(free):
            return None
        random = np.random.default_rng([self._seed, len(seen.rows)])
        if len(seen.rows) < _SEEDS or not seen.feasible.any():
            return StrategyChoice(int(random.choice(free)), "seed", {})
        candidates = free if len(free) <= _CANDIDATES else random.choice(free, _CANDIDATES, replace=False)
        logs = np.log(np.where(seen.feasible, seen.times, seen.times[seen.feasible].max()))
        forest = ExtraTreesRegressor(_TREES, min_samples_leaf=1, bootstrap=False, random_state=int(random.integers(1 << 31)))
        forest.fit(self._points[seen.rows], logs)
        trees = np.array([tree.predict(self._points[candidates]) for tree in forest.estimators_])
        gain = log_expected_improvement(trees.mean(axis=0), trees.std(axis=0) + _SMALLEST_DEVIATION, float(logs.min()))
        return StrategyChoice(int(candidates[np.argmax(gain)]), "prediction", {})

    def assess(self, seen: Observations) -> Assessment:
        """See :class:`.strategy.Strategy`."""
        return Assessment("extra_trees", None, None)
