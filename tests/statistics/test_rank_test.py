"""Ratios, intervals and p-values against counts by hand, brute force and SciPy."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from rocm_perf_lab.statistics.rank_test import adjusted_p_values, least_p_value, memory_of, ratio_test


def test_six_times_each_of_which_is_above_six_others_differ_by_the_least_chance() -> None:
    base, new = np.arange(10.0, 16.0), 2 * np.arange(10.0, 16.0)

    found = ratio_test(base, new, 0.95)

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
def test_the_p_value_is_the_share_of_orders_that_are_as_extreme(base: list[float], new: list[float]) -> None:
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

    found = ratio_test(np.array(base), np.array(new), 0.95)

    assert found.p_value == pytest.approx(1.0 if doubled else extreme / len(counts))


@pytest.mark.parametrize(("base_runs", "new_runs"), [(6, 6), (12, 7), (20, 20), (40, 60), (100, 100)])
def test_it_is_the_test_of_mann_and_whitney(base_runs: int, new_runs: int) -> None:
    generator = np.random.default_rng(base_runs)
    base, new = 1 + generator.random(base_runs), 1.1 + generator.random(new_runs)

    found = ratio_test(base, new, 0.95)

    exact = "exact" if base_runs * new_runs <= 400 else "asymptotic"
    assert found.memory == 1.0
    assert found.p_value == pytest.approx(mannwhitneyu(base, new, method=exact).pvalue)


POSITIVE = st.lists(st.integers(90, 110).map(lambda tick: tick / 100), min_size=6, max_size=30)


@given(POSITIVE, POSITIVE)
@settings(deadline=None)
def test_interval_and_p_value_never_contradict_each_other(base: list[float], new: list[float]) -> None:
    found = ratio_test(np.array(base), np.array(new), 0.95)

    low, high = found.interval
    assert low <= found.ratio <= high
    assert (found.p_value <= 0.05) == (not low <= 1 <= high)


@given(POSITIVE, st.floats(0.5, 2))
@settings(deadline=None)
def test_times_that_all_grew_by_a_factor_have_this_ratio(base: list[float], factor: float) -> None:
    times = np.array(base)

    assert ratio_test(times, factor * times, 0.95).ratio == pytest.approx(factor)


def test_times_that_remember_say_less() -> None:
    independent = np.random.default_rng(0).standard_normal(100)
    blocks = np.repeat(np.random.default_rng(1).standard_normal(10), 10) + 0.01 * independent

    assert memory_of(independent) == 1.0
    assert memory_of(np.arange(7.0)) == 1.0  # too few to tell
    assert 5 < memory_of(blocks) < 25  # ten alike: about ten say as much as one


def test_holm_corrects_the_smallest_most_and_keeps_their_order() -> None:
    # Holm: 4 * 0.01, 3 * 0.02, 2 * 0.03, and 0.9 as the last one; never below the one before.
    assert adjusted_p_values([0.02, 0.01, 0.9, 0.03]) == pytest.approx([0.06, 0.04, 0.9, 0.06])
    assert adjusted_p_values([]) == []


def test_samples_that_do_not_overlap_differ_even_where_every_run_follows_the_one_before() -> None:
    rising = np.linspace(1, 1.1, 12)

    found = ratio_test(rising, 1.2 * rising, 0.95)

    assert found.memory == pytest.approx(0.3 * 12)
    assert found.p_value < 0.05
    assert found.interval[0] > 1
