"""Series with one and with two typical times."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.statistics.modes import time_groups
from rocm_perf_lab.statistics.stability import stability


def test_two_clock_states_are_two_groups() -> None:
    fast, slow = time_groups(np.array([1000.0, 1001, 999, 1300, 1302] * 20))

    assert (fast.median_ns, slow.median_ns) == pytest.approx((1000, 1301), abs=1)
    assert (fast.share, slow.share) == pytest.approx((0.6, 0.4), abs=0.01)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("shape", ["normal", "uniform", "lognormal", "exponential", "outliers"])
@pytest.mark.parametrize("count", [40, 150, 2000])
def test_one_group_is_not_divided(seed: int, shape: str, count: int) -> None:
    random = np.random.default_rng(seed)
    times = {
        "normal": random.normal(1000, 100, count),
        "uniform": random.uniform(500, 1500, count),
        "lognormal": random.lognormal(7, 0.3, count),
        "exponential": 500 + random.exponential(300, count),
        "outliers": np.where(random.random(count) < 0.02, 5000, random.normal(1000, 20, count)),
    }[shape]

    assert time_groups(times) == ()


def test_clock_ticks_are_not_groups() -> None:
    assert time_groups(np.array([10_000.0, 10_040] * 50)) == ()


def test_equal_times_are_one_group() -> None:
    assert time_groups(np.full(100, 42.0)) == ()


def test_three_outliers_of_150_runs_are_reported_as_outliers() -> None:
    times = [1000 + 5 * (i % 7) for i in range(147)]
    times[40:40] = [9000, 7000, 8000]

    found = stability(times, deterministic=False)

    # CV: the outliers raise the standard deviation to 993, the mean to 1,154; robustly 10 / 0.6745 / 1015 = 1.5 %.
    assert found.cv == pytest.approx(0.8557, abs=0.0001)
    assert found.robust_cv == pytest.approx(10 / 0.6745 / 1015, rel=1e-3)
    assert (found.classification, found.outlier_count, found.outlier_share) == ("stable", 3, 0.02)
    assert found.outliers == (40, 41, 42)
    assert found.warnings == ()


def test_times_of_which_a_fifth_are_outliers_are_unstable() -> None:
    found = stability([1000, 1010, 990, 1000, 3000] * 4, deterministic=False)

    assert found.outlier_share == 0.2
    assert found.classification == "unstable"
    assert found.spread == found.cv


def test_two_groups_are_not_answered_with_more_runs() -> None:
    (advice,) = stability([1000, 1000, 1000, 1500, 1500] * 20, deterministic=False).warnings

    assert advice == (
        "unstable: two groups of times, 1 us (60%) and 1.5 us (40%): "
        "check inputs, clocks and cache contents, more runs do not help"
    )


def test_a_collective_is_not_answered_with_more_runs() -> None:
    random = np.random.default_rng(1)
    found = stability(random.lognormal(13, 1, 1310).tolist(), deterministic=False, waits_for_peers=True)

    assert found.classification == "unstable"
    assert "waiting for the other processes" in found.warnings[0]
    assert "--runs" not in " ".join(found.warnings)


@pytest.mark.parametrize(("count", "advised"), [(5, "--runs 30"), (25, "--runs 50"), (1310, None)])
def test_more_runs_are_advised_only_if_they_help(count: int, advised: str | None) -> None:
    times = np.random.default_rng(3).lognormal(10, 0.4, count).tolist()

    warnings = " ".join(stability(times, deterministic=False).warnings)

    assert "unstable" in warnings
    assert (advised in warnings) if advised else ("--runs" not in warnings and "the median of 1310 runs is known to" in warnings)
