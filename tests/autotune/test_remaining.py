"""The probability that something better is left: computed from draws by hand, and stated by searches of known landscapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import optuna
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.families import drawn
from rocm_perf_lab.autotune.objective import Measurement
from rocm_perf_lab.autotune.remaining import MARGINS, Outlook
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.search import GaussianSearch
from rocm_perf_lab.autotune.spaces.space_files import space_of_list
from rocm_perf_lab.autotune.strategy import Observations
from rocm_perf_lab.autotune.tuner import Improbable, Tuner

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.spaces.space import Configuration

optuna.logging.set_verbosity(optuna.logging.WARNING)
PARABOLA = space_of_list([{"x": x} for x in range(60)], where="test")


def outlook(gains: list[list[float]], *, evaluated: int = 50, unmeasured: int = 950, stalled: int = 10) -> Outlook:
    spacing = np.array([0.01, 0.05, 0.1, 0.2])
    return Outlook(evaluated, unmeasured, stalled, 0.1, spacing, np.log(np.array([*gains, *gains])))


def time_of(configuration: Configuration) -> Measurement:
    return Measurement(1 + (float(configuration["x"]) - 40) ** 2 / 100)


def test_the_share_counts_draws_below_the_margin() -> None:
    # Of the first model one draw of three is at most 0.95 of the best, of the second model all: (1 + 0.5) / 4 and (3 + 0.5) / 4.
    found = outlook([[0.9, 0.97, 1.2], [0.5, 0.6, 0.7]])

    assert found.share(0.05).tolist() == [0.375, 0.875] * 2


def test_nothing_is_left_if_everything_is_measured() -> None:
    assert outlook([[0.5], [0.5]], unmeasured=0).probability(0.01) == 0


@given(st.lists(st.floats(0.3, 3), min_size=2, max_size=40), st.integers(2, 500), st.integers(1, 10**6), st.data())
def test_a_larger_gain_is_never_more_probable(gains: list[float], evaluated: int, unmeasured: int, data: st.DataObject) -> None:
    stalled = data.draw(st.integers(0, evaluated - 1))
    found = outlook([gains, gains[::-1]], evaluated=evaluated, unmeasured=unmeasured, stalled=stalled)
    shares = [found.probability(margin) for margin in (0.001, *MARGINS, 0.5)]

    assert all(0 <= share <= 1 for share in shares)
    assert shares == sorted(shares, reverse=True)


def test_a_search_that_has_found_the_optimum_of_a_parabola_expects_nothing() -> None:
    rows = np.array([0, 8, 16, 24, 32, 38, 39, 40, 41, 42, 48, 59])
    seen = Observations(rows, np.array([time_of({"x": int(x)}).runtime_ms for x in rows]))

    left = GaussianSearch(PARABOLA).assess(seen).outlook

    assert isinstance(left, Outlook)
    assert (left.evaluated, left.unmeasured, left.stalled) == (12, 48, 4)
    assert left.probability(0.05) < 0.25


def test_a_search_that_has_seen_only_one_slope_expects_an_improvement() -> None:
    rows = np.array([0, 3, 6, 9, 12, 15, 18, 20])
    seen = Observations(rows, np.array([time_of({"x": int(x)}).runtime_ms for x in rows]))

    left = GaussianSearch(PARABOLA).assess(seen).outlook

    assert left is not None and left.probability(0.05) > 0.5


def test_the_stopping_rule_ends_a_search_that_would_go_on() -> None:
    study = optuna.create_study(sampler=RegressionSampler(PARABOLA))
    tuner = Tuner(study, PARABOLA, time_of, 60, stop_when=Improbable(0.02, 0.1))

    tuner.run()
    result = tuner.result()

    assert len(result.trials) < 50
    assert result.best is not None and result.best.parameters == {"x": 40}
    assert result.stop_reason == "with 90% probability nothing is more than 2% better"
    assert result.remaining[0.02] <= 0.1


def test_the_reason_to_stop_has_small_margins_and_probabilities() -> None:
    assert str(Improbable(0.005, 0.001)) == "with 99.9% probability nothing is more than 0.5% better"


def test_random_slow_configurations_of_a_rugged_space_leave_an_improvement() -> None:
    landscape = drawn("rugged", 7)
    slow = np.flatnonzero(landscape.times_ms > 1.5 * landscape.optimum_ms)
    rows = np.random.default_rng(0).choice(slow, 40, replace=False)

    left = GaussianSearch(landscape.space).assess(Observations(rows, landscape.times_ms[rows])).outlook

    assert left is not None and left.probability(0.1) > 0.5
