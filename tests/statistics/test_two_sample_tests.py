"""Ratios, intervals and p-values checked by hand, by brute force and against SciPy."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from rocm_perf_lab.statistics.error_control import adjusted_p_values
from rocm_perf_lab.statistics.two_sample_tests import (
    TimeSummary,
    autocorrelation_time,
    least_p_value,
    rank_test,
    summary_test,
)


def test_samples_without_overlap_have_the_smallest_p_value() -> None:
    base, new = np.arange(10.0, 16.0), 2 * np.arange(10.0, 16.0)

    found = rank_test(base, new, 0.95)

    # Of the 924 ways to choose six of twelve, two are as extreme.
    assert found.p_value == pytest.approx(2 / 924)
    assert least_p_value(6, 6) == pytest.approx(2 / 924)
    assert found.ratio == pytest.approx(2.0)
    # Wilcoxon's table has U = 5 as the critical value of 6 and 6 at 5 %: the sixth smallest of the 36 ratios is the bound.
    assert found.interval[0] == pytest.approx(np.sort(np.outer(new, 1 / base).ravel())[5])


@given(
    st.lists(st.floats(1, 100), min_size=1, max_size=5, unique=True),
    st.lists(st.floats(1, 100), min_size=1, max_size=5, unique=True),
)
@settings(deadline=None)
def test_the_p_value_is_the_fraction_of_orders_at_least_as_extreme(base: list[float], new: list[float]) -> None:
    if set(base) & set(new):
        return
    every = np.array([*base, *new])

    def above(chosen: tuple[int, ...]) -> int:
        rest = [i for i in range(len(every)) if i not in chosen]
        return sum(int(every[i] > every[j]) for i in chosen for j in rest)

    pairs, seen = len(base) * len(new), above(tuple(range(len(base), len(every))))
    counts = [above(chosen) for chosen in combinations(range(len(every)), len(new))]
    extreme = sum(min(count, pairs - count) <= min(seen, pairs - seen) for count in counts)
    doubled = 2 * min(seen, pairs - seen) == pairs

    found = rank_test(np.array(base), np.array(new), 0.95)

    assert found.p_value == pytest.approx(1.0 if doubled else extreme / len(counts))


@pytest.mark.parametrize(("base_runs", "new_runs"), [(6, 6), (12, 7), (20, 20), (40, 60), (100, 100)])
def test_the_p_value_agrees_with_scipys_mannwhitneyu(base_runs: int, new_runs: int) -> None:
    generator = np.random.default_rng(base_runs)
    base, new = 1 + generator.random(base_runs), 1.1 + generator.random(new_runs)

    found = rank_test(base, new, 0.95)

    exact = "exact" if base_runs * new_runs <= 400 else "asymptotic"
    assert found.autocorrelation_time == 1.0
    assert found.p_value == pytest.approx(mannwhitneyu(base, new, method=exact).pvalue)


POSITIVE = st.lists(st.integers(90, 110).map(lambda tick: tick / 100), min_size=6, max_size=30)


@given(POSITIVE, POSITIVE)
@settings(deadline=None)
def test_interval_and_p_value_agree(base: list[float], new: list[float]) -> None:
    found = rank_test(np.array(base), np.array(new), 0.95)

    low, high = found.interval
    assert low <= found.ratio <= high
    assert (found.p_value <= 0.05) == (not low <= 1 <= high)


@given(POSITIVE, st.floats(0.5, 2))
@settings(deadline=None)
def test_scaled_times_have_the_ratio_of_their_scale(base: list[float], factor: float) -> None:
    times = np.array(base)

    assert rank_test(times, factor * times, 0.95).ratio == pytest.approx(factor)


def test_correlated_times_carry_less_information() -> None:
    independent = np.random.default_rng(0).standard_normal(100)
    blocks = np.repeat(np.random.default_rng(1).standard_normal(10), 10) + 0.01 * independent

    assert autocorrelation_time(independent) == 1.0
    assert autocorrelation_time(np.arange(7.0)) == 1.0  # too few times
    assert 5 < autocorrelation_time(blocks) < 25  # blocks of ten


def test_holm_adjusted_p_values_by_hand() -> None:
    # Holm: 4 * 0.01, 3 * 0.02, 2 * 0.03, and 0.9 as the last one; never below the one before.
    assert adjusted_p_values([0.02, 0.01, 0.9, 0.03]) == pytest.approx([0.06, 0.04, 0.9, 0.06])
    assert adjusted_p_values([]) == []


def test_samples_without_overlap_differ_even_if_consecutive_runs_are_correlated() -> None:
    rising = np.linspace(1, 1.1, 12)

    found = rank_test(rising, 1.2 * rising, 0.95)

    assert found.autocorrelation_time == pytest.approx(0.3 * 12)
    assert found.p_value < 0.05
    assert found.interval[0] > 1


def test_a_summary_test_is_a_z_test_of_the_medians() -> None:
    # Each median has the relative error sqrt(pi / 2) * 4 / sqrt(16) / 100 = 1.2533 %, their ratio 1.7725 %.
    found = summary_test(TimeSummary(100.0, 4.0, 16), TimeSummary(100.0, 4.0, 16), 0.95)

    assert found.interval == pytest.approx((1 - 1.96 * 0.017725, 1 + 1.96 * 0.017725), abs=1e-5)
    assert (found.ratio, found.p_value) == (1.0, 1.0)


def test_summaries_without_spread_differ_exactly() -> None:
    assert summary_test(TimeSummary(100.0, 0.0, 10), TimeSummary(101.0, 0.0, 10), 0.95).p_value == 0.0
