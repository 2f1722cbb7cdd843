"""Gaussian process over encoded configurations, for a few hundred points and many thousand candidates.

The kernel is Matérn 5/2 over a distance with one length scale per column and one learned direction across all columns (the factor
analysis distance, Rasmussen and Williams 2006, equation 5.22): threads, LDS and registers are products of parameters, so times
change along sums of their logarithms. A trend adds a parabola per column, with normal weights of one learned variance (same book,
section 2.7), because a time is largely a product of contributions of its parameters; it extrapolates far from measurements.
Hyperparameters maximise the posterior under broad priors. Candidates are predicted in single precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.spaces.formula import Column

_ROOT5 = 5**0.5
_JITTER = 1e-8
_BOUNDS = {"scale": (-4.0, 4.0), "amplitude": (-4.0, 4.0), "noise": (-12.0, 1.0), "trend": (-9.0, 4.0), "direction": (-4.0, 4.0)}
_PRIOR_NOISE = (-5.0, 1.5)
_PRIOR_TREND = (-2.0, 1.5)
_PRIOR_DIRECTION = (0.3, 0.5)
"""Mean and deviation of the prior of each weight of the direction: the product of all parameters."""

_UNIMPORTANT = 1.0
"""Length scale (as a logarithm) at which a column has little influence."""


@dataclass(frozen=True)
class Prediction:
    """Mean and standard deviation of each candidate; those not evaluated have an infinite mean."""

    mean: Column
    deviation: Column


class GaussianProcess:
    """Gaussian process that keeps its hyperparameters: each tuning starts from the previous result."""

    def __init__(self, columns: int) -> None:
        mean, deviation = zip(_PRIOR_NOISE, _PRIOR_TREND, _PRIOR_DIRECTION, strict=True)
        self._prior_mean = np.concatenate([np.zeros(columns + 1), mean[:2], np.full(columns, mean[2])])
        self._prior_weight = 1 / np.concatenate([np.ones(columns + 1), deviation[:2], np.full(columns, deviation[2])]) ** 2
        self._theta = self._prior_mean.copy()
        self._columns = columns

    def start_from(self, simpler: GaussianProcess) -> None:
        """Start from the hyperparameters of a model without the last column, which gets little influence."""
        columns = simpler._columns
        learned = simpler._theta
        self._theta = np.concatenate([learned[:columns], [_UNIMPORTANT], learned[columns:], [0.0]])

    def tune(self, points: Column, targets: Column, iterations: int = 30) -> float:
        """Maximise the posterior of the hyperparameters, and return its logarithm.

        It is comparable between models of the same targets: an irrelevant input does not raise it.
        """
        from scipy.optimize import minimize

        steps, trend = self._steps(points)
        found = minimize(
            self._loss,
            self._theta,
            (targets, steps, steps**2, trend),
            "L-BFGS-B",
            jac=True,
            bounds=self._bounds(),
            options={"maxiter": iterations},
        )
        if np.isfinite(found.x).all():
            self._theta = found.x
        return -float(found.fun)

    def fit(self, points: Column, targets: Column) -> None:
        """Condition the process on measurements."""
        from scipy.linalg import cho_solve

        covariance = self._covariance(points, points, self._theta)
        covariance[np.diag_indices(len(points))] += self.noise + _JITTER
        self._factor = np.linalg.cholesky(covariance)
        self._weights = cho_solve((self._factor, True), targets)
        self._points, self._targets = points, targets

    def predict(self, candidates: Column, most: int | None = None) -> Prediction:
        """Return mean and deviation; with `most`, only of that many candidates with the smallest means."""
        from scipy.linalg import solve_triangular

        cross = self._covariance(self._points.astype(np.float32), candidates, self._theta.astype(np.float32))
        mean = self._weights.astype(np.float32) @ cross
        kept = slice(None) if most is None or most >= len(mean) else np.argpartition(mean, most)[:most]
        solved = solve_triangular(self._factor.astype(np.float32), cross[:, kept], lower=True, check_finite=False)
        variance = self._variance(candidates[kept]) - np.einsum("ij,ij->j", solved, solved)
        means, deviations = np.full(len(mean), np.inf), np.full(len(mean), 1e-5)
        means[kept], deviations[kept] = mean[kept], np.sqrt(np.maximum(variance, 1e-10))
        return Prediction(means, deviations)

    def draws(self, candidates: Column, count: int, random: np.random.Generator) -> Column:
        """Return functions drawn from the process, at all candidates together (count, candidates)."""
        from scipy.linalg import solve_triangular

        cross = self._covariance(self._points, candidates, self._theta)
        solved = solve_triangular(self._factor, cross, lower=True, check_finite=False)
        covariance = self._covariance(candidates, candidates, self._theta) - solved.T @ solved
        values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
        root = vectors * np.sqrt(np.maximum(values, 0))
        return np.asarray(self._weights @ cross + random.standard_normal((count, len(candidates))) @ root.T)

    def left_out(self) -> Column:
        """Return the leave-one-out prediction of each measurement, in closed form."""
        from scipy.linalg import cho_solve

        inverse = cho_solve((self._factor, True), np.eye(len(self._targets)))
        return np.asarray(self._targets - self._weights / np.diag(inverse))

    @property
    def noise(self) -> float:
        """Variance that the inputs do not explain."""
        return float(np.exp(self._theta[self._columns + 1]))

    def _variance(self, candidates: Column) -> Column:
        """Return the variance of each candidate before any measurement."""
        trend = np.einsum("ij,ij->i", *[_parabolas(candidates)] * 2) * np.exp(self._theta[self._columns + 2])
        return np.asarray(np.exp(self._theta[self._columns]) + trend)

    def _covariance(self, left: Column, right: Column, theta: Column) -> Column:
        scales, direction = np.exp(theta[: self._columns]), theta[self._columns + 3 :]
        trend = np.exp(theta[self._columns + 2]) * (_parabolas(left) @ _parabolas(right).T)
        left, right = np.column_stack([left / scales, left @ direction]), np.column_stack([right / scales, right @ direction])
        squares = (left * left).sum(1)[:, None] + (right * right).sum(1) - 2 * left @ right.T
        np.maximum(squares, 0, out=squares)
        root = _ROOT5 * np.sqrt(squares)
        squares *= 5 / 3
        squares += root
        squares += 1
        np.negative(root, out=root)
        squares *= np.exp(root, out=root)
        squares *= np.exp(theta[self._columns])
        squares += trend
        return np.asarray(squares)

    def _loss(self, theta: Column, targets: Column, steps: Column, squares: Column, trend: Column) -> tuple[float, Column]:
        """Return the negative log posterior and its gradient.

        Args:
            theta: Hyperparameters.
            targets: Targets (points,).
            steps: Differences of inputs (points, points, columns).
            squares: Squares of `steps`.
            trend: Covariance of the trend at unit variance (points, points).
        """
        columns, count = self._columns, len(targets)
        parts = self._parts(theta, steps, squares, trend)
        noise = np.exp(theta[columns + 1])
        likelihood = self._likelihood(theta, parts.signal + parts.trend + (noise + _JITTER) * np.eye(count), targets)
        if likelihood is None:
            return 1e10, np.zeros_like(theta)
        loss, gradient, residual = likelihood
        gradient += self._slopes(residual, theta, parts, steps, squares)
        gradient[columns + 1] += 0.5 * noise * np.trace(residual)
        return loss, gradient

    def _likelihood(self, theta: Column, covariance: Column, targets: Column) -> tuple[float, Any, Column] | None:
        """Return the negative logarithm of the posterior, the gradient of its prior, and the matrix that multiplies slopes.

        None if the covariance (points, points) is not positive definite.
        """
        from scipy.linalg import cho_solve

        try:
            factor = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            return None
        inverse = cho_solve((factor, True), np.eye(len(targets)))
        solved = inverse @ targets
        off = theta - self._prior_mean
        loss = 0.5 * targets @ solved + np.log(np.diag(factor)).sum() + 0.5 * (self._prior_weight * off * off).sum()
        return float(loss), self._prior_weight * off, inverse - np.outer(solved, solved)

    def _bounds(self) -> list[tuple[float, float]]:
        scales, directions = [_BOUNDS["scale"]] * self._columns, [_BOUNDS["direction"]] * self._columns
        return [*scales, _BOUNDS["amplitude"], _BOUNDS["noise"], _BOUNDS["trend"], *directions]

    def _steps(self, points: Column) -> tuple[Column, Column]:
        """Return the differences of inputs (points, points, columns), and the covariance of the trend at unit variance."""
        trend = _parabolas(points)
        return points[:, None, :] - points[None], trend @ trend.T

    def _parts(self, theta: Column, steps: Column, squares: Column, trend: Column) -> _Parts:
        columns = self._columns
        weights = np.exp(-2 * theta[:columns])
        along = steps @ theta[columns + 3 :]
        distance = np.sqrt(squares @ weights + along * along)
        decay = np.exp(theta[columns] - _ROOT5 * distance)
        slope = 1 + _ROOT5 * distance
        signal = (slope + 5 / 3 * distance * distance) * decay
        return _Parts(signal, np.exp(theta[columns + 2]) * trend, decay, slope, along)

    def _slopes(self, residual: Column, theta: Column, parts: _Parts, steps: Column, squares: Column) -> Column:
        """Return the gradient of the likelihood in all hyperparameters but the noise."""
        columns = self._columns
        gradient: Any = np.zeros_like(theta)
        core = residual * (5 / 3 * parts.slope * parts.decay)
        gradient[:columns] = 0.5 * (core.ravel() @ squares.reshape(-1, columns)) * np.exp(-2 * theta[:columns])
        gradient[columns] = 0.5 * (residual * parts.signal).sum()
        gradient[columns + 2] = 0.5 * (residual * parts.trend).sum()
        gradient[columns + 3 :] = -0.5 * ((core * parts.along).ravel() @ steps.reshape(-1, columns))
        return np.asarray(gradient)


@dataclass(frozen=True)
class _Parts:
    """Terms of a covariance and of its derivatives."""

    signal: Column
    trend: Column
    decay: Column
    slope: Column
    along: Column


def _parabolas(points: Column) -> Column:
    """Return the basis of the trend: a line and a parabola per column, around its centre."""
    middle = points - 0.5
    return np.column_stack([middle, 2 * middle * middle - 0.25])
