"""Stability of a series of times: values by hand, SciPy as a reference, and properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.statistics.bootstrap import bootstrap_medians, median_interval
from rocm_perf_lab.statistics.drift import drift
from rocm_perf_lab.statistics.stability import outlier_positions, stability, warm_up_runs

SETTLED = [100, 101, 99, 100, 102, 98, 100, 101, 99, 100]
DURATIONS = st.lists(st.integers(1, 10**9), min_size=1, max_size=60)


def array(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_warm_up_runs_are_excluded_from_the_statistics() -> None:
    found = stability((180, 130, *SETTLED), deterministic=False)

    assert (found.runs, found.warm_up_runs) == (12, 2)
    assert (found.mean_ns, found.median_ns, found.mad_ns) == (100, 100, 1)
    assert found.classification == "stable"
    assert "warm-up" in str(found.note)
    assert found.warnings == ("warming up: of 12 runs, the first 2 runs are slower and excluded from the statistics",)


@pytest.mark.parametrize(
    ("times", "runs"),
    [
        ([104, *SETTLED], 0),  # not even 5 % slower
        ([106, *SETTLED], 1),
        ([200, 200, 200, 200, *SETTLED[:7]], 0),  # more than a third: a change, not warm-up
        ([100, 200, *SETTLED], 0),  # slow, but not leading
        ([200, 100, 100, 100], 0),  # too few runs
        ([200, 100, 100, 100, 100], 1),
        ([50, *SETTLED], 0),  # a fast start
    ],
)
def test_warm_up_runs_are_leading_slow_runs(times: list[int], runs: int) -> None:
    assert warm_up_runs(array(times)) == runs


def test_a_deterministic_device_does_not_warm_up() -> None:
    found = stability((200, *SETTLED), deterministic=True)

    assert (found.warm_up_runs, found.drift) == (0, None)


def test_outliers_have_a_modified_z_score_above_3_5() -> None:
    # Median 100, MAD 1: 0.6745 * 5 / 1 = 3.37 is inside, 0.6745 * 6 / 1 = 4.05 is outside.
    assert outlier_positions(array([*SETTLED, 105])).tolist() == []
    assert outlier_positions(array([*SETTLED, 106])).tolist() == [10]


def test_one_clock_tick_among_equal_times_is_not_an_outlier() -> None:
    assert outlier_positions(array([10_000] * 9 + [10_010])).tolist() == []
    assert outlier_positions(array([10_000] * 9 + [20_000])).tolist() == [9]


def test_positions_of_outliers_include_warm_up_runs() -> None:
    found = stability((180, *SETTLED, 150), deterministic=False)

    assert (found.warm_up_runs, found.outliers, found.outlier_count) == (1, (11,), 1)


def test_the_interval_needs_six_runs() -> None:
    assert median_interval(array(SETTLED[:5])) is None
    assert median_interval(array(SETTLED[:6])) is not None


def test_the_interval_agrees_with_scipys_bootstrap() -> None:
    from scipy.stats import bootstrap

    times = np.random.default_rng(3).normal(1000, 30, 41)

    reference = bootstrap((times,), np.median, n_resamples=4000, method="percentile", rng=5).confidence_interval

    found = median_interval(times)
    assert found is not None
    assert found == pytest.approx((reference.low, reference.high), abs=3)


@pytest.mark.parametrize("count", [6, 7])
def test_resampled_medians_have_the_moments_of_real_resamples(count: int) -> None:
    times = array([100, 130, 90, 200, 110, 105, 95][:count])
    generator = np.random.default_rng(0)

    real = np.median(generator.choice(times, (40_000, count)), axis=1)

    assert bootstrap_medians(times).mean() == pytest.approx(real.mean(), rel=0.01)
    assert bootstrap_medians(times).std() == pytest.approx(real.std(), rel=0.1)


def test_the_interval_covers_the_true_median_at_its_confidence() -> None:
    generator = np.random.default_rng(11)
    intervals = [median_interval(generator.normal(100, 5, 15)) for _ in range(300)]

    covered = sum(one is not None and one[0] <= 100 <= one[1] for one in intervals) / 300

    assert 0.90 <= covered <= 0.99


def test_a_rising_series_drifts_with_the_exact_p_value() -> None:
    # Of the 720 orders of six values two are monotonic.
    found = drift(array([100, 110, 120, 130, 140, 150]))

    assert found is not None
    assert found.tau == pytest.approx(1.0)
    assert found.p_value == pytest.approx(2 / 720)
    assert found.change == pytest.approx(50 / 125)
    assert found.is_drifting


def test_a_small_trend_is_not_drift() -> None:
    found = drift(array([10_000 + i for i in range(20)]))

    assert found is not None
    assert found.p_value < 1e-6
    assert not found.is_drifting


@pytest.mark.parametrize("seed", range(5))
def test_the_p_value_agrees_with_scipys_kendall_tau(seed: int) -> None:
    from scipy.stats import kendalltau

    times = np.random.default_rng(seed).permutation(12).astype(float)

    found, reference = drift(times), kendalltau(range(12), times, method="exact")

    assert found is not None
    assert found.tau == pytest.approx(reference.statistic)
    assert found.p_value == pytest.approx(reference.pvalue)


def test_the_drift_warning_names_the_direction() -> None:
    found = stability([1000 - 20 * i for i in range(10)], deterministic=False)

    assert any("faster from first to last run" in warning for warning in found.warnings)


def test_an_unstable_series_is_reported() -> None:
    assert "profile it again with --runs 30" in stability((100, 150, 80), deterministic=False).warnings[0]


def test_a_million_times_are_evaluated_within_seconds() -> None:
    import time

    times = np.random.default_rng(0).integers(900, 1100, 1_000_000).tolist()
    start = time.process_time()

    found = stability(times, deterministic=False)

    assert time.process_time() - start < 15  # 1 s on an idle machine; a quadratic method would need hours
    assert found.median_interval_ns == pytest.approx((1000, 1000), abs=2)


@given(DURATIONS)
@settings(deadline=None)
def test_statistics_are_ordered_and_deterministic(durations: list[int]) -> None:
    found = stability(durations, deterministic=False)

    assert found == stability(durations, deterministic=False)
    assert min(durations) <= found.median_ns <= max(durations)
    assert 0 <= found.warm_up_runs <= len(durations) // 3
    assert found.mad_ns <= max(durations) - min(durations)
    assert all(found.warm_up_runs <= position < len(durations) for position in found.outliers)
    if found.median_interval_ns is not None:
        low, high = found.median_interval_ns
        assert min(durations) <= low <= high <= max(durations)


@given(DURATIONS, st.sampled_from([2, 4, 1024]))
@settings(deadline=None)
def test_results_do_not_depend_on_the_unit_of_time(durations: list[int], factor: int) -> None:
    found, scaled = stability(durations, deterministic=False), stability([factor * d for d in durations], deterministic=False)

    assert scaled.median_ns == factor * found.median_ns
    assert (scaled.warm_up_runs, scaled.outliers, scaled.classification) == (
        found.warm_up_runs, found.outliers, found.classification,
    )  # fmt: skip
    if found.drift is not None and scaled.drift is not None:
        assert (scaled.drift.tau, scaled.drift.p_value) == (found.drift.tau, found.drift.p_value)


@given(st.integers(1, 10**6), st.integers(1, 40))
def test_equal_times_have_no_warnings(duration: int, count: int) -> None:
    found = stability([duration] * count, deterministic=True)

    assert (found.cv, found.outliers, found.warm_up_runs, found.warnings) == (0.0, (), 0, ())


@given(st.lists(st.integers(1, 10**6), min_size=6, max_size=25, unique=True))
def test_a_reversed_series_has_the_opposite_trend(times: list[int]) -> None:
    forwards, backwards = drift(array(times)), drift(array(times[::-1]))

    assert forwards is not None
    assert backwards is not None
    assert backwards.tau == pytest.approx(-forwards.tau)
    assert backwards.p_value == pytest.approx(forwards.p_value)
