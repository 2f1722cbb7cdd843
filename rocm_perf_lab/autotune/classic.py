"""The classic strategy: seeds, a polynomial of degree 2 that predicts and prunes, and confirmation in predicted order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.autotune.seeds import Seeds
from rocm_perf_lab.autotune.spaces.encoding import encode
from rocm_perf_lab.autotune.strategy import LOW_CONFIDENCE, Assessment, Observations, StrategyChoice

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.space import Space

_FOLDS = 5
_WAVE = 64
_FEWEST_SEEDS = 15
_FEWEST_CONFIRMED = 5
_NAMES = {
    "rows": ("block_m", "bm", "tile_m"),
    "columns": ("block_n", "bn", "tile_n"),
    "depth": ("block_k", "bk", "tile_k"),
    "warps": ("num_warps", "warps"),
    "stages": ("num_stages", "stages"),
    "threads": ("threads_per_block", "threads", "block_size"),
}


@dataclass(frozen=True)
class Polynomial:
    """Least-squares fit with its cross-validated R² and residual."""

    weights: Column
    r2: float
    residual_std: float

    @classmethod
    def fit(cls, features: Column, times: Column) -> Polynomial:
        """Fit, and cross-validate with five folds."""
        count = len(times)
        guess = np.empty(count)
        folds = min(_FOLDS, count)
        for fold in range(folds):
            out = np.arange(count) % folds == fold
            guess[out] = features[out] @ _least_squares(features[~out], times[~out])
        spread = float(((times - times.mean()) ** 2).sum())
        missed = times - guess
        r2 = 1 - float((missed**2).sum()) / spread if spread > 0 else 0.0
        return cls(_least_squares(features, times), r2, float(np.sqrt((missed**2).mean())))

    def predict(self, features: Column) -> Column:
        """Return the predicted times."""
        return np.asarray(features @ self.weights)


def _least_squares(features: Column, times: Column) -> Column:
    return np.asarray(np.linalg.lstsq(features, times, rcond=None)[0])


def polynomial_features(space: Space) -> Column:
    """Return the inputs of the polynomial, one row per configuration.

    For the space of a tiled kernel: a constant, ACC, ACC², BLOCK_K, num_warps, num_stages and threads_per_block, with the
    accumulators per work-item ACC = BLOCK_M · BLOCK_N / threads. For any other space: a constant, the parameters, their squares
    and products.
    """
    tiled = _tiled(space)
    if tiled is not None:
        return tiled
    own = encode(space, factors=False)
    count = own.shape[1]
    products = [own[:, i] * own[:, j] for i in range(count) for j in range(i, count)]
    return np.column_stack([np.ones(len(space)), own, *products])


def _tiled(space: Space) -> Column | None:
    by_name = {name.lower(): name for name in space.names}
    found: dict[str, Any] = {}
    for role, names in _NAMES.items():
        for name in names:
            if name in by_name:
                column = space.column(by_name[name])
                if column.dtype.kind in "if":
                    found[role] = column.astype(float)
                    break
    if not {"rows", "columns", "depth", "warps"} <= found.keys():
        return None
    threads = found.get("threads", found["warps"] * _WAVE)
    accumulators = found["rows"] * found["columns"] / threads
    columns = [accumulators, accumulators**2, found["depth"], found["warps"], found.get("stages"), threads]
    return np.column_stack([np.ones(len(space)), *(column for column in columns if column is not None)])


class ClassicSearch:
    """Classic strategy, for comparison. If the fit is unreliable, it measures all configurations in predicted order.

    Args:
        space: The search space.
        seed: Equal seeds and measurements lead to equal choices.
        seeds: Number of configurations measured before the fit; None: a tenth of the space.
        features: Further inputs of the polynomial, one row per configuration.
        slack: Factor by which a configuration must be slower than the best to be ruled out, for times with an error band.
    """

    name = "polynomial_2"

    def __init__(
        self, space: Space, *, seed: int = 0, seeds: int | None = None, features: Column | None = None, slack: float = 1.0
    ) -> None:
        self._space = space
        self._slack = slack
        own = polynomial_features(space)
        self._features = own if features is None else np.column_stack([own, features])
        self._seeds = Seeds(space, seed, max(_FEWEST_SEEDS, len(space) // 10) if seeds is None else seeds)
        self._model: Polynomial | None = None
        self._fitted_to = -1

    def choose(self, seen: Observations) -> StrategyChoice | None:
        """See :class:`.strategy.Strategy`."""
        free = seen.open(len(self._space))
        if not free.any():
            return None
        row = self._seeds.next(seen, len(self._space))
        if row is not None:
            return StrategyChoice(row, "seed", {"why": "represents the space"})
        if seen.feasible.sum() < 2:
            return StrategyChoice(self._seeds.more(free), "seed", {"why": "too few configurations have run"})
        model, predicted, keep = self._fit(seen)
        worth = free & keep
        if not worth.any():
            return None
        best = int(np.argmin(np.where(worth, predicted, np.inf)))
        trusted = model.r2 >= LOW_CONFIDENCE
        decision = {"predicted_ms": float(predicted[best]), "kept": int(keep.sum()), "r2": model.r2}
        return StrategyChoice(best, "confirmation" if trusted else "prediction", decision)

    def assess(self, seen: Observations) -> Assessment:
        """See :class:`.strategy.Strategy`."""
        if seen.feasible.sum() < 3:
            return Assessment(self.name, None, None)
        model, _, keep = self._fit(seen)
        pruned = np.flatnonzero(seen.open(len(self._space)) & ~keep)
        return Assessment(self.name, model.r2, model.residual_std, pruned)

    def _fit(self, seen: Observations) -> tuple[Polynomial, Column, Column]:
        """Return the model, its predictions, and a mask of the configurations that may still be the best."""
        if self._model is None or self._fitted_to < self._seeds.count:
            rows = seen.rows[seen.feasible]
            self._model = Polynomial.fit(self._features[rows], seen.times[seen.feasible])
            self._fitted_to = len(seen.rows)
        predicted = self._model.predict(self._features)
        keep = np.ones(len(self._space), bool)
        if self._model.r2 >= LOW_CONFIDENCE:
            keep = predicted - 2 * self._model.residual_std <= seen.times.min() * self._slack
            keep[np.argsort(predicted, kind="stable")[:_FEWEST_CONFIRMED]] = True
        return self._model, predicted, keep
