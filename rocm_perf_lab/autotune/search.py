"""The default search strategy: seeds that represent the space, then the largest expected improvement of a model.

Independent of Optuna and of the objective; :mod:`.sampler` connects it to a study.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.feasibility import Feasibility
from rocm_perf_lab.autotune.prior import Trust
from rocm_perf_lab.autotune.remaining import DRAWS, SPACING, Outlook
from rocm_perf_lab.autotune.seeds import Seeds
from rocm_perf_lab.autotune.spaces.encoding import encode
from rocm_perf_lab.autotune.strategy import FROM_PRIOR, Assessment, Observations, StrategyChoice
from rocm_perf_lab.autotune.surrogate import POINTS, Surrogate, Targets

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.prior import Prior
    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.space import Space

SEEDS = 8
_PREDICTED = 1500
"""Number of candidates with the smallest predicted means whose deviation is computed."""
_POOL = 16_000
"""Largest number of candidates; larger spaces are sampled, and searched around the best configurations."""
_ENTRIES = 800_000
"""Largest number of covariances in one step, which limits the candidates if there are many measurements."""
_AROUND = 8
_SETTLED = 0.001
"""Expected improvement, relative to the time, below which further trials only confirm the best."""
_COMPRESS = (False, True)
_DRAWN = 300
"""Number of candidates that are drawn together, those most likely to be faster than the best."""


class GaussianSearch:
    """Strategy with Gaussian processes on the logarithm of time, and expected improvement as acquisition function.

    Two models alternate, one of all times and one that compresses the slow half, so that the search does not depend on a region
    that one of them prefers.

    Args:
        space: The search space.
        seed: Equal seeds and measurements lead to equal choices.
        seeds: Number of configurations measured before the first prediction.
        prior: Earlier results of this space.
        features: Further inputs of the models, one row per configuration.
    """

    name = "gaussian_process"

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        seeds: int = SEEDS,
        prior: Prior | None = None,
        features: Column | None = None,
    ) -> None:
        self._space = space
        self._seed = seed
        points = encode(space) if features is None else np.column_stack([encode(space), features])
        self._views = [Surrogate(points, seed=seed, compress=compress) for compress in _COMPRESS]
        self._feasibility = Feasibility(points, seed=seed)
        self._seeds = Seeds(space, seed, seeds)
        self._trust = Trust(space, prior, self._seeds.design()) if prior is not None else None
        self._believing: list[Surrogate] = []
        if self._trust is not None:
            with_prior = np.column_stack([points, self._trust.column()])
            self._believing = [Surrogate(with_prior, seed=seed, compress=compress) for compress in _COMPRESS]

    def choose(self, seen: Observations) -> StrategyChoice | None:
        """See :class:`.strategy.Strategy`."""
        free = seen.open(len(self._space))
        if not free.any():
            return None
        seed = self._seed_choice(seen, free)
        if seed is not None:
            return seed
        learned = self._learned_from(seen)
        if learned.feasible.sum() < 2:
            return self._choose_what_may_run(learned, free)
        view, targets = self._fit(learned, len(learned.rows) + len(learned.pending))
        pool = self._pool(learned, free)
        predicted = view.model.predict(view.candidates[pool], _PREDICTED)
        gain = log_expected_improvement(predicted.mean, predicted.deviation, float(targets.values.min()))
        may_run = np.zeros(len(pool)) if view.learns_failures else self._may_run(learned, pool, predicted.mean)
        gain += may_run
        best = int(np.argmax(gain))
        decision = {
            "predicted_ms": targets.as_time(float(predicted.mean[best])),
            "log_std": float(predicted.deviation[best]) * targets.scale,
            "expected_improvement": float(np.exp(gain[best])) * targets.scale,
            "candidates": len(pool),
            "runs_probability": float(np.exp(may_run[best])),
        }
        if self._believing:
            decision["prior_believed"] = view in self._believing
        settled = decision["expected_improvement"] < _SETTLED
        return StrategyChoice(int(pool[best]), "confirmation" if settled else "prediction", decision)

    def _may_run(self, learned: Observations, pool: Column, mean: Column) -> Column:
        """Return the log probability that each candidate runs; 0 if no configuration failed, or for an infinite mean."""
        found = np.zeros(len(pool))
        if not learned.feasible.all():
            self._feasibility.fit(learned)
            hopeful = np.isfinite(mean)
            found[hopeful] = self._feasibility.log_probability(pool[hopeful])
        return found

    def _choose_what_may_run(self, learned: Observations, free: Column) -> StrategyChoice:
        """Return a further seed, or after failures the configuration most likely to run; for fewer than two successes."""
        if learned.feasible.all() or not learned.feasible.any():
            return StrategyChoice(self._seeds.more(free), "seed", {"why": "too few configurations have run"})
        pool = self._pool(learned, free)
        likely = self._may_run(learned, pool, np.zeros(len(pool)))
        return StrategyChoice(int(pool[np.argmax(likely)]), "seed", {"why": "too few configurations have run"})

    def _seed_choice(self, seen: Observations, free: Column) -> StrategyChoice | None:
        """Return the next seed, then the next proposal of the prior; None if there is neither."""
        row = self._seeds.next(seen, len(self._space))
        if row is not None:
            return StrategyChoice(row, "seed", {"why": "represents the space"})
        if self._trust is None or self._trust.believed:
            return None
        tried = seen.tried
        others = int((~tried).sum()) - self._seeds.count
        if len(seen.proposed) >= self._trust.entitled(int(seen.led[tried].sum()), others):
            return None
        row = self._trust.next(seen.rows[~tried], seen.times[~tried], free)
        if row is None:
            return None
        return StrategyChoice(row, "seed", {"why": f"fastest of its region according to {self._trust.source}", FROM_PRIOR: True})

    def _proven(self, seen: Observations) -> bool:
        assert self._trust is not None
        planned = np.isin(seen.rows, self._seeds.design())
        return self._trust.proven(seen.times[seen.tried], seen.times[planned])

    def _learned_from(self, seen: Observations) -> Observations:
        """Return the measurements to learn from: an unconfirmed prior's proposals count only if they were the fastest so far."""
        if self._trust is None or self._trust.believed or self._proven(seen):
            return seen
        kept = ~seen.tried | seen.led
        return Observations(seen.rows[kept], seen.times[kept], seen.pending)

    def assess(self, seen: Observations) -> Assessment:
        """See :class:`.strategy.Strategy`."""
        learned = self._learned_from(replace(seen, pending=np.zeros(0, np.int64)))
        if learned.feasible.sum() < 3:
            return Assessment(self.name, None, None)
        view, targets = self._fit(learned, 0)
        ran = learned.feasible[view.used]
        truth, guess = targets.values[ran], view.model.left_out()[ran]
        spread = float(((truth - truth.mean()) ** 2).sum())
        r2 = 1 - float(((truth - guess) ** 2).sum()) / spread if spread > 0 else 0.0
        residual_std = float(np.std(truth - guess)) * targets.scale
        return Assessment(self.name, r2, residual_std, outlook=self._outlook(seen, learned, residual_std))

    def _outlook(self, seen: Observations, learned: Observations, residual: float) -> Outlook:
        """Draw the times of the unmeasured configurations most likely to be faster than the best, from both models.

        Every model is drawn from twice: without and with the unexplained part of the times, as if that were new for every
        configuration.
        """
        free = replace(seen, pending=np.zeros(0, np.int64)).open(len(self._space))
        random = np.random.default_rng([self._seed, 3, len(seen.rows)])
        times = np.sort(np.log(seen.times[seen.feasible]))
        gains = np.full((2 * len(self._views), DRAWS), np.inf)
        for turn in range(len(self._views) if free.any() else 0):
            view, targets = self._fit(learned, turn)
            pool = self._pool(learned, free)
            predicted = view.model.predict(view.candidates[pool], _PREDICTED)
            limit = targets.of_time(float(np.exp(times[0])))
            order = np.argsort((predicted.mean - limit) / predicted.deviation, kind="stable")[:_PREDICTED]
            mean, deviation = predicted.mean[order], predicted.deviation[order]
            drawn = mean + deviation * random.standard_normal((DRAWS, len(order)))
            together = view.candidates[pool[order[:_DRAWN]]].astype(float)
            drawn[:, :_DRAWN] = view.model.draws(together, DRAWS, random)
            runs = np.log(random.random(drawn.shape)) < self._may_run(learned, pool[order], mean)
            unexplained = view.model.noise**0.5 * random.standard_normal(drawn.shape)
            for row, values in ((turn, drawn[:, :_DRAWN]), (turn + len(self._views), drawn + unexplained)):
                fastest = np.where(runs[:, : values.shape[1]], values, np.inf).min(axis=1)
                gains[row] = fastest * targets.scale + targets.centre - times[0]
        best = int(np.flatnonzero(seen.led & seen.feasible)[-1])
        spacing = times[np.minimum(SPACING, len(times) - 1)] - times[0]
        return Outlook(len(seen.rows), int(free.sum()), len(seen.rows) - 1 - best, residual, spacing, gains)

    def _fit(self, seen: Observations, turn: int) -> tuple[Surrogate, Targets]:
        """Fit and return the model whose turn it is, with the prior as input if it is confirmed.

        Until then, the model without the prior is fitted as often as in a search without a prior.
        """
        turn = turn % len(self._views)
        view, count = self._views[turn], len(seen.rows)
        if self._trust is None:
            return view, view.fit(seen)
        due = self._trust.due(turn, count)
        believing = self._believing[turn]
        if due or not self._trust.believed:
            targets = view.fit(seen)
            if due and view.tuned == count:
                if not self._trust.believed:
                    believing.model.start_from(view.model)
                believing.tuned = 0
                believing.fit(seen)
                factor = believing.evidence - view.evidence
                self._trust.judge(turn, factor, seen.rows, seen.times, proven=self._proven(seen))
            if not self._trust.believed:
                return view, targets
        return believing, believing.fit(seen)

    def _pool(self, learned: Observations, free: Column) -> Column:
        rows = np.flatnonzero(learned.open(len(self._space)))
        most = min(_POOL, _ENTRIES // max(1, min(len(learned.rows), POINTS)))
        if len(rows) > most:
            random = np.random.default_rng([self._seed, 1, len(learned.rows), len(learned.pending)])
            best = learned.rows[np.argsort(learned.times, kind="stable")[:_AROUND]]
            near = np.concatenate([self._space.neighbours(int(row)) for row in best])
            rows = np.unique(np.concatenate([random.choice(rows, most, replace=False), near]))
        return rows[free[rows]]


def log_expected_improvement(mean: Column, deviation: Column, best: float | Column) -> Column:
    """Return the logarithm of the expected improvement over `best`, which is finite even if no improvement is expected."""
    from scipy.special import ndtr

    z = np.maximum((best - mean) / deviation, -1e6)
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    near = np.log(np.maximum(z * ndtr(z) + density, 1e-300))
    far = -0.5 * z * z - 0.5 * np.log(2 * np.pi) - 2 * np.log(np.maximum(-z, 1))
    return np.asarray(np.where(z > -5, near, far) + np.log(deviation))
