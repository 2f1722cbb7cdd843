"""The classic strategy: its features and fit by hand, and low confidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest

from rocm_perf_lab.autotune.ask_tell import search
from rocm_perf_lab.autotune.classic import ClassicSearch, Polynomial, polynomial_features
from rocm_perf_lab.autotune.objective import Measurement
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.spaces.enumeration import build_space
from rocm_perf_lab.autotune.spaces.space_description import describe
from rocm_perf_lab.autotune.strategy import Observations

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.spaces.space import Space


def space(**parameters: Any) -> Space:
    return build_space(describe({"parameters": parameters}, where="test"))


def test_cross_validation_by_hand() -> None:
    # A constant model: each of five points is predicted as the mean of the other four.
    times = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    model = Polynomial.fit(np.ones((5, 1)), times)

    assert model.weights == pytest.approx([3.0])
    assert model.r2 == pytest.approx(1 - 15.625 / 10)  # the misses are 5/4 of the distances to the mean: 10 * 25 / 16
    assert model.residual_std == pytest.approx((15.625 / 5) ** 0.5)


def test_a_quadratic_is_fitted_exactly() -> None:
    x = np.arange(10.0)
    model = Polynomial.fit(np.column_stack([np.ones(10), x, x * x]), 2 + 3 * x - 0.5 * x * x)

    assert model.weights == pytest.approx([2, 3, -0.5])
    assert model.r2 == pytest.approx(1)
    assert model.residual_std == pytest.approx(0, abs=1e-9)


def test_the_features_of_a_tiled_kernel() -> None:
    a = space(BLOCK_M=[64], BLOCK_N=[128], BLOCK_K=[16, 32], num_warps=[4], num_stages=[2])

    # 64 * 128 accumulators over 4 * 64 work-items.
    assert polynomial_features(a).tolist() == [[1, 32, 1024, 16, 4, 2, 256], [1, 32, 1024, 32, 4, 2, 256]]


def test_the_features_of_other_spaces_are_parameters_squares_and_products() -> None:
    a = space(u=[1, 2, 3], v=[0, 1])

    assert polynomial_features(a)[3].tolist() == [1, 0.5, 1, 0.25, 0.5, 1]  # u = 2, v = 1, scaled to 0..1


def test_a_model_that_fits_prunes_and_ends_the_search_early() -> None:
    a = space(u=list(range(20)), v=list(range(10)))
    sampler = RegressionSampler(a, model="classic", seeds=20)
    study = optuna.create_study(sampler=sampler)

    search(study, a, lambda c: Measurement(5 + (float(c["u"]) - 7) ** 2 + (float(c["v"]) - 3) ** 2), 200)
    report = sampler.report(study)

    assert study.best_params == {"u": 7, "v": 3}
    assert report.evaluated_configs < 40
    assert report.pruned_configs == 200 - report.evaluated_configs
    assert report.model["r2"] == pytest.approx(1) and report.warning is None
    assert report.phases.keys() == {"seed", "confirmation"}


def test_a_model_with_low_confidence_prunes_nothing() -> None:
    a = space(u=list(range(8)), v=list(range(6)))
    times = np.random.default_rng(3).lognormal(size=len(a))
    strategy = ClassicSearch(a, seeds=15)
    rows: list[int] = []
    while (choice := strategy.choose(Observations(np.array(rows, int), times[rows]))) is not None:
        rows.append(choice.row)
    assessment = strategy.assess(Observations(np.array(rows[:30]), times[rows[:30]]))

    assert sorted(rows) == list(range(48))
    assert assessment.warning == "low_model_confidence" and assessment.pruned == 0
