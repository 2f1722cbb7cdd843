"""Paired comparison: estimates, bounds, and error rates of the sequential test."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.statistics.error_bands import RatioBand
from rocm_perf_lab.statistics.paired_test import (
    AcceptanceRule,
    compare_emulated,
    compare_pairs,
    compare_sequentially,
    critical_rank,
    walsh_averages,
)

NO_ERROR = RatioBand(coverage=0.95, factor=1.0)


class DriftingGpu:
    """Two kernels on a GPU with a drifting clock: one clock per pair, independent noise per time."""

    def __init__(self, true_ratio: float, seed: int, *, noise: float = 0.02) -> None:
        self._random = np.random.default_rng(seed)
        self._ratio = true_ratio
        self._noise = noise
        self.pairs = 0

    def measure(self, count: int) -> list[tuple[float, float]]:
        """More pairs."""
        self.pairs += count
        clock = 1 + 0.3 * self._random.random(count)
        old, new = np.exp(self._noise * self._random.standard_normal((2, count)))
        return list(zip(1000 * clock * old, 1000 * self._ratio * clock * new, strict=True))


def test_two_emulated_times_have_the_bounds_of_the_error_band() -> None:
    comparison = compare_emulated(1000.0, 750.0, RatioBand(coverage=0.9, factor=1.25))

    # 750 / 1000 is between 0.6 and 0.9375 on hardware.
    assert (comparison.improvement, comparison.pairs, comparison.confidence) == (0.25, 1, 0.95)
    assert (comparison.least, comparison.most) == pytest.approx((0.0625, 0.4))
    assert comparison.speedup == pytest.approx(4 / 3)
    assert comparison.speedup_interval == pytest.approx((1 / 0.9375, 1 / 0.6))
    assert not comparison.is_indistinguishable
    assert not comparison.is_exact


def test_emulated_times_inside_the_error_band_are_indistinguishable() -> None:
    band = RatioBand(coverage=0.95, factor=1.25)

    assert compare_emulated(1000.0, 801.0, band).is_indistinguishable
    assert compare_emulated(1000.0, 1249.0, band).is_indistinguishable
    assert not compare_emulated(1000.0, 1251.0, band).is_indistinguishable


def test_walsh_averages_of_three_values_by_hand() -> None:
    assert walsh_averages(np.array([1.0, 2.0, 6.0])).tolist() == [1.0, 1.5, 2.0, 3.5, 4.0, 6.0]


@pytest.mark.parametrize(
    ("n", "level", "rank"),
    [
        (5, 0.05, 0),  # 1/32 = 0.03125 for T+ = 0, 2/32 for T+ <= 1
        (5, 0.03, None),
        (8, 0.025, 3),  # the table of Hollander and Wolfe: P(T+ >= 33) = 0.020, so T+ <= 36 - 33
        (10, 0.025, 8),
    ],
)
def test_critical_ranks_are_those_of_the_tables(n: int, level: float, rank: int | None) -> None:
    assert critical_rank(n, level) == rank


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_is_the_shift_at_which_wilcoxons_test_changes(seed: int) -> None:
    ratios = np.random.default_rng(seed).normal(0.1, 0.05, size=12)
    pairs = [(math.exp(r), 1.0) for r in ratios]

    bound = -math.log1p(-compare_pairs(pairs, level=0.025, confidence=0.95).least)

    below = stats.wilcoxon(ratios - (bound - 1e-9), alternative="greater", method="exact").pvalue
    above = stats.wilcoxon(ratios - (bound + 1e-9), alternative="greater", method="exact").pvalue
    assert below <= 0.025 < above


def test_one_outlier_has_little_influence() -> None:
    calm = [(1000.0 + n, 800.0 + n) for n in range(16)]
    wild = [*calm[:-1], (1015.0, 80_000.0)]

    assert compare_pairs(wild, 0.025, 0.95).improvement == pytest.approx(compare_pairs(calm, 0.025, 0.95).improvement, abs=0.002)
    assert compare_pairs(wild, 0.025, 0.95).least > 0.19


def test_too_few_pairs_have_infinite_bounds() -> None:
    comparison = compare_pairs([(2.0, 1.0), (2.0, 1.0)], level=0.01, confidence=0.95)

    assert (comparison.improvement, comparison.least, comparison.most) == (0.5, -math.inf, 1.0)
    assert not AcceptanceRule(0.0).accepts(comparison)


def test_the_looks_double_up_to_the_last() -> None:
    assert AcceptanceRule(0.02, first_pairs=8, most_pairs=32).looks == (8, 16, 32)
    assert AcceptanceRule(0.02, first_pairs=8, most_pairs=20).looks == (8, 16, 20)
    assert AcceptanceRule(0.02, first_pairs=8, most_pairs=4).looks == (4,)


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_a_clear_answer_is_found_at_the_first_look(ratio: float) -> None:
    machine = DriftingGpu(ratio, seed=1)

    compare_sequentially(machine.measure, AcceptanceRule(0.02))

    assert machine.pairs == 16


def test_a_gain_that_is_just_insufficient_takes_all_planned_pairs() -> None:
    machine = DriftingGpu(0.982, seed=1)

    comparison = compare_sequentially(machine.measure, AcceptanceRule(0.02, most_pairs=64))

    assert machine.pairs == comparison.pairs == comparison.planned_pairs
    assert 0 < comparison.least < comparison.improvement < 0.02 < comparison.most


@pytest.mark.parametrize("bar", [0.0, 0.02])
def test_a_rewrite_that_is_not_faster_is_accepted_in_at_most_5_percent(bar: float) -> None:
    acceptance = AcceptanceRule(bar, most_pairs=64)

    wrong = sum(acceptance.accepts(compare_sequentially(DriftingGpu(1.0, seed).measure, acceptance)) for seed in range(600))

    assert (0 if bar else 1) <= wrong <= 41  # 30 are allowed on average; 41 is two standard deviations more


@pytest.mark.parametrize("noise", [0.001, 0.03, 0.3])
def test_pairs_are_planned_from_the_noise(noise: float) -> None:
    acceptance = AcceptanceRule(0.02, level=0.001)

    comparison = compare_sequentially(DriftingGpu(1.0, seed=6, noise=noise).measure, acceptance)

    # Noise of 3 % per time is 4.2 % per pair: 49 pairs for a gain of 3 % at level 0.0005 with power 0.95, more with its error.
    assert comparison.planned_pairs in {0.001: (16,), 0.03: (64, 128), 0.3: (256,)}[noise]


def test_the_smallest_gain_is_stated() -> None:
    comparison = compare_sequentially(DriftingGpu(1.0, seed=5, noise=0.03).measure, AcceptanceRule(0.02, level=0.001))

    # 4.2 % / sqrt(0.955 * 64) = 0.54 %; times 3.29 + 0.84, at level 0.0005 with power 0.8
    assert comparison.smallest_gain == pytest.approx(0.0223, rel=0.2)


def test_the_level_is_an_argument_of_the_rule() -> None:
    pairs = [(1000.0 + n, 990.0 - n % 5) for n in range(16)]

    def measure(count: int) -> list[tuple[float, float]]:
        return pairs[:count]

    strict = compare_sequentially(measure, AcceptanceRule(0.0, level=1e-6, most_pairs=16))
    loose = compare_sequentially(measure, AcceptanceRule(0.0, level=0.01, most_pairs=16))

    assert strict.least == -math.inf  # 2 ** -16 = 1.5e-5 is the smallest p-value
    assert loose.least > 0


def test_a_gain_of_a_tenth_is_found_in_two_per_cent_of_noise() -> None:
    acceptance = AcceptanceRule(0.02)

    found = sum(acceptance.accepts(compare_sequentially(DriftingGpu(0.9, seed).measure, acceptance)) for seed in range(100))

    assert found == 100


def test_a_zero_gain_is_never_accepted() -> None:
    acceptance = AcceptanceRule(0.0)

    assert not acceptance.accepts(compare_emulated(1000.0, 1000.0, NO_ERROR))
    assert acceptance.refuses(compare_emulated(1000.0, 1000.0, NO_ERROR))
    assert acceptance.accepts(compare_emulated(1000.0, 999.0, NO_ERROR))


@pytest.mark.parametrize("pairs", [[], [(1.0, 0.0)], [(math.nan, 1.0)], [(-1.0, 1.0)]])
def test_invalid_times_are_refused(pairs: list[tuple[float, float]]) -> None:
    with pytest.raises(LabError, match="cannot be compared"):
        compare_pairs(pairs, 0.05, 0.95)
