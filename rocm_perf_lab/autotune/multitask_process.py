"""Gaussian process over the configurations of several related tasks, such as the shapes of one kernel on several GPUs.

The covariance of two measurements is that of their configurations (:mod:`.gaussian`) times that of their tasks: a squared
exponential with one learned length scale per feature of a task, so that alike tasks learn from each other and unlike ones do not.
Each task also has its own level, which is linear in the features up to an own part: twice the work often has twice the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.gaussian import GaussianProcess

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.spaces.formula import Column

_JITTER = 1e-8
_OWN_LEVEL = 0.1
"""Variance of the part of a task's level that its features do not explain, relative to the part that they explain."""
_SAME = 1e-9
"""Squared distance of the features below which two tasks are the same."""
_PRIOR_SCALE = (0.7, 1.0)
"""Mean and deviation of the prior of the logarithm of a length scale: tasks are alike unless measurements say otherwise."""
_BOUNDS_SCALE = (-3.0, 4.0)
_PRIOR_LEVEL = (1.0, 1.5)
_BOUNDS_LEVEL = (-6.0, 5.0)


class MultiTaskProcess(GaussianProcess):
    """Gaussian process whose points are encoded configurations, followed by the features of their task.

    Args:
        columns: Number of columns of a configuration.
        features: Number of features of a task, each between 0 and 1.
    """

    def __init__(self, columns: int, features: int) -> None:
        super().__init__(columns)
        self._features = features
        self._own = len(self._theta)
        """Number of hyperparameters of the configurations."""
        mean = np.array([*[_PRIOR_SCALE[0]] * features, _PRIOR_LEVEL[0]])
        deviation = np.array([*[_PRIOR_SCALE[1]] * features, _PRIOR_LEVEL[1]])
        self._prior_mean = np.concatenate([self._prior_mean, mean])
        self._prior_weight = np.concatenate([self._prior_weight, 1 / deviation**2])
        self._theta = self._prior_mean.copy()

    def tune(self, points: Column, targets: Column, iterations: int = 30) -> float:
        """Maximise the posterior of the hyperparameters, and return its logarithm."""
        from scipy.optimize import minimize

        configurations, tasks = self._split(points)
        steps, trend = self._steps(configurations)
        apart = (tasks[:, None, :] - tasks[None]) ** 2
        found = minimize(
            self._joint_loss,
            self._theta,
            (targets, steps, steps**2, trend, apart, _levels(tasks, tasks)),
            "L-BFGS-B",
            jac=True,
            bounds=[*self._bounds(), *[_BOUNDS_SCALE] * self._features, _BOUNDS_LEVEL],
            options={"maxiter": iterations},
        )
        if np.isfinite(found.x).all():
            self._theta = found.x
        return -float(found.fun)

    def _split(self, points: Column) -> tuple[Column, Column]:
        return points[:, : self._columns], points[:, self._columns :]

    def _variance(self, candidates: Column) -> Column:
        configurations, tasks = self._split(candidates)
        level = np.exp(self._theta[-1]) * (1 + _OWN_LEVEL + (_centred(tasks) ** 2).sum(axis=1))
        return np.asarray(super()._variance(configurations) + level)

    def _covariance(self, left: Column, right: Column, theta: Column) -> Column:
        (left, left_tasks), (right, right_tasks) = self._split(left), self._split(right)
        within = super()._covariance(left, right, theta[: self._own])
        scales = np.exp(theta[self._own : -1])
        within *= np.exp(-0.5 * _squares(left_tasks / scales, right_tasks / scales))
        within += np.exp(theta[-1]) * _levels(left_tasks, right_tasks)
        return np.asarray(within)

    def _joint_loss(
        self, theta: Column, targets: Column, steps: Column, squares: Column, trend: Column, apart: Column, levels: Column
    ) -> tuple[float, Column]:
        """Return the negative log posterior and its gradient; `apart` are squared differences of the tasks' features."""
        own, count = theta[: self._own], len(targets)
        parts = self._parts(own, steps, squares, trend)
        closeness = 0.5 * np.exp(-2 * theta[self._own : -1])
        alike = np.exp(-(apart @ closeness))
        level, noise = np.exp(theta[-1]) * levels, np.exp(own[self._columns + 1])
        within = (parts.signal + parts.trend) * alike
        likelihood = self._likelihood(theta, within + level + (noise + _JITTER) * np.eye(count), targets)
        if likelihood is None:
            return 1e10, np.zeros_like(theta)
        loss, gradient, residual = likelihood
        gradient[: self._own] += self._slopes(residual * alike, own, parts, steps, squares)
        gradient[self._columns + 1] += 0.5 * noise * np.trace(residual)
        gradient[self._own : -1] += ((residual * within).ravel() @ apart.reshape(-1, self._features)) * closeness
        gradient[-1] += 0.5 * (residual * level).sum()
        return loss, gradient


def _centred(tasks: Column) -> Column:
    return tasks - 0.5


def _levels(left: Column, right: Column) -> Column:
    """Return the covariance of the levels of tasks at unit variance."""
    same = _squares(left, right) < _SAME
    return 1 + _centred(left) @ _centred(right).T + _OWN_LEVEL * same.astype(left.dtype)


def _squares(left: Column, right: Column) -> Column:
    found = np.zeros((len(left), len(right)), left.dtype)
    for one, other in zip(left.T, right.T, strict=True):
        found += (one[:, None] - other) ** 2
    return found
