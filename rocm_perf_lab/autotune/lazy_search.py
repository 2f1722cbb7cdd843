"""Search of a :class:`.LazySpace`: candidates are a random part of the space, and the surroundings of the best configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.pool_models import PoolModels
from rocm_perf_lab.autotune.search import SEEDS
from rocm_perf_lab.autotune.seeds import Seeds
from rocm_perf_lab.autotune.spaces.encoding import FixedEncoding
from rocm_perf_lab.autotune.strategy import Assessment, Observations, StrategyChoice

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.pool_models import PoolGain
    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.lazy_space import LazySpace

_SPREAD = 1_500
"""Candidates from the whole space in one step."""
_AROUND = 4
_PAIRS = 60
"""Candidates around each of the best configurations with two other values."""
_TUNED = 50
"""Largest number of measurements for tuning hyperparameters, so that a step stays short."""
_SETTLED = 0.001


class LazySearch:
    """Strategy for a space that is not enumerated.

    Args:
        space: The search space.
        seed: Equal seeds and measurements lead to equal choices.
        seeds: Number of configurations measured before the first prediction.
    """

    name = "gaussian_process"

    def __init__(self, space: LazySpace, *, seed: int = 0, seeds: int = SEEDS) -> None:
        import scipy.linalg
        import scipy.optimize
        import scipy.special  # noqa: F401 - loaded here instead of in the first steps

        self._space, self._seed = space, seed
        sample = space.sample()
        self._encoding = FixedEncoding(sample)
        self._sample = sample.codes
        self._design = space.rows(sample.codes[Seeds(sample, seed, seeds).design()])
        self._models = PoolModels.of(self._encoding.columns(sample), seed, tuned=_TUNED)

    def choose(self, seen: Observations) -> StrategyChoice | None:
        """See :class:`.strategy.Strategy`."""
        taken = np.concatenate([seen.rows, seen.pending])
        planned = self._design[~np.isin(self._design, taken)]
        if len(planned):
            return StrategyChoice(int(planned[0]), "seed", {"why": "represents the space"})
        random = np.random.default_rng([self._seed, 1, len(seen.rows), len(seen.pending)])
        spread = self._sample[random.integers(len(self._sample), size=_SPREAD)]
        if seen.feasible.sum() < 2:
            rows = self._space.rows(spread)
            rows = rows[~np.isin(rows, taken)]
            return StrategyChoice(int(rows[0]), "seed", {"why": "too few configurations have run"}) if len(rows) else None
        best = self._space.codes_of(seen.rows[np.argsort(seen.times, kind="stable")[:_AROUND]])
        pool = np.vstack([spread, self._space.near(best, random, _PAIRS)])
        rows, first = np.unique(self._space.rows(pool), return_index=True)
        free = ~np.isin(rows, taken)
        if not free.any():
            return None
        rows, pool = rows[free], pool[first[free]]
        found = self._gain(seen, pool)
        place = int(np.argmax(found.log_gain))
        targets = found.targets
        expected = float(np.exp(found.log_gain[place])) * targets.scale
        decision = {
            "predicted_ms": targets.as_time(float(found.predicted.mean[place])),
            "log_std": float(found.predicted.deviation[place]) * targets.scale,
            "expected_improvement": expected,
            "candidates": len(rows),
        }
        return StrategyChoice(int(rows[place]), "confirmation" if expected < _SETTLED else "prediction", decision)

    def assess(self, seen: Observations) -> Assessment:
        """See :class:`.strategy.Strategy`."""
        if seen.feasible.sum() < 3:
            return Assessment(self.name, None, None)
        targets = self._gain(seen, self._sample[:1]).targets
        guess = self._models.times.model.left_out()[: len(targets.values)]
        spread = float(((targets.values - targets.values.mean()) ** 2).sum())
        r2 = 1 - float(((targets.values - guess) ** 2).sum()) / spread if spread > 0 else 0.0
        return Assessment(self.name, r2, float(np.std(targets.values - guess)) * targets.scale)

    def _gain(self, seen: Observations, pool: Column) -> PoolGain:
        taken = np.concatenate([seen.rows, seen.pending])
        every = np.vstack([self._space.codes_of(taken), pool])
        points = self._encoding.columns(self._space.with_codes(every))
        return self._models.gain(seen.times, points[: len(taken)], points[len(taken) :])
