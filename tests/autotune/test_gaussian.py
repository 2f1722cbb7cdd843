"""The Gaussian process: gradient, predictions, and leave-one-out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.optimize import check_grad

from rocm_perf_lab.autotune.gaussian import GaussianProcess

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.spaces.formula import Column


def points_of(count: int, columns: int, seed: int = 0) -> Column:
    return np.random.default_rng(seed).random((count, columns))


def test_the_gradient_of_the_posterior_agrees_with_finite_differences() -> None:
    random = np.random.default_rng(1)
    points, targets = points_of(15, 3), random.normal(size=15)
    model = GaussianProcess(3)
    steps = points[:, None] - points[None]
    trend = points @ points.T
    theta = random.normal(size=9) * 0.4

    def loss(theta: Column) -> tuple[float, Column]:
        return model._loss(theta, targets, steps, steps**2, trend)

    off = check_grad(lambda t: loss(t)[0], lambda t: loss(t)[1], theta)

    assert off < 1e-3 * np.abs(loss(theta)[1]).max()


def test_the_trend_extrapolates_far_from_measurements() -> None:
    # A straight line of five columns, learned from its slow half alone: the fast end is extrapolated.
    points = points_of(400, 5)
    times = points @ np.array([3.0, -2.0, 1.0, 0.5, 0.0])
    slow, fast = np.flatnonzero(times > 1.5)[:30], times < 0.5
    model = GaussianProcess(5)
    model.tune(points[slow], times[slow] - 2)
    model.fit(points[slow], times[slow] - 2)
    off = model.predict(points[fast].astype(np.float32)).mean - (times[fast] - 2)

    assert np.sqrt(np.mean(off**2)) < 0.4  # 0.56 without a trend


def test_the_deviation_grows_with_the_distance_from_measurements() -> None:
    points = points_of(40, 2)
    targets = np.sin(5 * points[:, 0]) + points[:, 1]
    model = GaussianProcess(2)
    model.tune(points, targets)
    model.fit(points, targets)
    near = model.predict(points.astype(np.float32))
    far = model.predict(np.array([[5.0, 5.0]], np.float32))

    assert near.mean == pytest.approx(targets, abs=0.02)
    assert near.deviation.max() < 0.1 < far.deviation[0]


def test_deviations_are_computed_for_the_smallest_means_only() -> None:
    points = points_of(20, 2)
    model = GaussianProcess(2)
    model.fit(points, points[:, 0])
    few = model.predict(points_of(100, 2, 3).astype(np.float32), 10)

    assert np.isfinite(few.mean).sum() == 10


def test_a_product_of_parameters_is_learned_as_one_direction() -> None:
    # A cliff along the sum of six columns: what axes alone would need many points for.
    points, fresh = points_of(60, 6), points_of(400, 6, 7)
    model = GaussianProcess(6)

    def times(at: Column) -> Column:
        return np.asarray(np.tanh(8 * (at.sum(axis=1) - 3)))

    model.tune(points, times(points))
    model.fit(points, times(points))
    guess = model.predict(fresh.astype(np.float32)).mean

    assert 1 - ((guess - times(fresh)) ** 2).mean() / times(fresh).var() > 0.9


def test_leave_one_out_agrees_with_a_fit_without_the_point() -> None:
    points, targets = points_of(12, 2), np.random.default_rng(2).normal(size=12)
    model, without = GaussianProcess(2), GaussianProcess(2)
    model.fit(points, targets)
    without.fit(points[1:], targets[1:])

    assert model.left_out()[0] == pytest.approx(without.predict(points[:1].astype(np.float32)).mean[0], rel=1e-3)
