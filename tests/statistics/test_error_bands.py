"""Error bands: quantiles that can be counted by hand, and coverage on simulated cases."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rocm_perf_lab.statistics.error_bands import (
    Decisions,
    ErrorCase,
    RatioBand,
    TimeBand,
    conformal_quantile,
    coverage_of_new_families,
    decisions,
    ratio_band,
    time_band,
)


def test_the_quantile_has_rank_n_plus_1_times_the_coverage() -> None:
    # Nine errors: rank ceil(10 * 0.8) = 8 of 0.1 ... 0.9.
    found = conformal_quantile([-0.1, 0.2, -0.3, 0.4, 0.5, -0.6, 0.7, -0.8, 0.9], 0.8, units=9)

    assert (found.value, found.coverage) == (0.8, 0.8)


def test_nineteen_cases_are_the_fewest_for_95_percent() -> None:
    errors = [n / 100 for n in range(1, 20)]

    assert conformal_quantile(errors, 0.95, units=19).coverage == 0.95
    too_few = conformal_quantile(errors[:18], 0.95, units=18)
    assert too_few.value == 0.18
    assert too_few.coverage == pytest.approx(18 / 19)


def test_a_family_with_many_cases_weighs_as_much_as_a_family_with_one() -> None:
    # Four families, so 80 % needs rank ceil(5 * 0.8) = 4 of 4: the worst family decides, although it is 1 of 103 cases.
    cases = [ErrorCase.of("many", estimated=1.1, true=1.0) for _ in range(100)]
    cases += [ErrorCase.of(name, estimated=factor, true=1.0) for name, factor in (("a", 1.2), ("b", 0.5), ("c", 0.9))]

    band = time_band(cases, 0.8)

    assert (band.coverage, band.low, band.high) == pytest.approx((0.8, 0.5, 2.0))


def test_an_error_that_a_family_shares_cancels_in_the_ratio() -> None:
    cases = [ErrorCase.of("gemm", estimated=0.5 * time, true=time) for time in (1.0, 2.0, 3.0, 4.0, 5.0)]
    cases += [ErrorCase.of("copy", estimated=2.0 * time, true=time) for time in (1.0, 2.0, 3.0, 4.0, 5.0)]

    assert time_band(cases, 0.8).high == pytest.approx(2.0)
    assert ratio_band(cases, 0.8).factor == pytest.approx(1.0)


def test_the_ratio_band_is_the_largest_pair_error_of_few_variants() -> None:
    # Errors of the variants: 1, 1.1 and 1.3, so the largest ratio of two errors is 1.3; three variants support 75 %.
    cases = [ErrorCase.of("gemm", estimated=e * t, true=t) for e, t in ((1.0, 5.0), (1.1, 7.0), (1.3, 9.0))]

    band = ratio_band(cases, 0.95)

    assert (band.factor, band.coverage) == pytest.approx((1.3, 0.75))


def test_decisions_count_pairs_beyond_the_band_and_those_in_true_order() -> None:
    # Estimated 10, 11, 20, 40 against true 10, 9, 30, 25. Beyond a factor of 1.5: all pairs but (10, 11); (20, 40) is reversed.
    cases = [ErrorCase.of("k", estimated=e, true=t) for e, t in ((10, 10), (11, 9), (20, 30), (40, 25))]

    assert decisions(cases, RatioBand(coverage=0.95, factor=1.5)) == Decisions(pairs=6, decided=5, right=4)


def test_pairs_that_are_far_apart_do_not_widen_the_band() -> None:
    # Errors 1, 1.1 and 2; the third case is estimated five times as long, so it is no near variant.
    cases = [ErrorCase.of("gemm", estimated=e, true=t) for e, t in ((10.0, 10.0), (11.0, 10.0), (55.0, 27.5))]

    assert ratio_band(cases, 0.95).factor == pytest.approx(1.1)


def test_the_band_is_widened_until_its_decisions_are_right() -> None:
    # In 80 families, two variants are estimated 0.5 % apart with an error of 1 %. In two families, 10 and 13 are reversed. The
    # errors of 97.6 % of the families are 1 %, but both pairs that a factor of 1.01 distinguishes are wrong; none is beyond 1.3.
    near = [ErrorCase.of(f"f{n}", estimated=e, true=t) for n in range(80) for e, t in ((10.0, 10.0), (10.05, 9.95))]
    reversed_pairs = [ErrorCase.of(f"r{n}", estimated=e, true=t) for n in range(2) for e, t in ((10.0, 13.0), (13.0, 10.0))]

    assert ratio_band(near, 0.95).factor == pytest.approx(10.05 / 9.95)
    assert ratio_band(near + reversed_pairs, 0.95).factor == pytest.approx(1.3)
    assert decisions(near + reversed_pairs, RatioBand(coverage=0.95, factor=1.29)) == Decisions(pairs=82, decided=2, right=0)


def test_a_band_distinguishes_only_beyond_its_factor() -> None:
    band = RatioBand(coverage=0.95, factor=1.25)

    assert not band.distinguishes(10.0, 12.5)
    assert band.distinguishes(10.0, 12.6)
    assert band.distinguishes(12.6, 10.0)
    assert not RatioBand(coverage=0.95, factor=1.0).distinguishes(7.0, 7.0)
    assert band.around(2.0) == (1.6, 2.5)
    assert TimeBand(coverage=0.8, low=0.75, high=1.5).around(12.0) == (9.0, 18.0)


def test_bands_cover_new_families_as_often_as_stated() -> None:
    random = np.random.default_rng(7)
    inside = decided = wrong = 0
    for _ in range(400):
        cases = _simulated(random, families=20, variants=4)
        band, ratio = time_band(cases, 0.8), ratio_band(cases, 0.95)
        new = _simulated(random, families=1, variants=2)
        inside += sum(abs(case.error) <= math.log(band.high) for case in new[:1])
        verdict = decisions(new, ratio)
        decided += verdict.decided
        wrong += verdict.decided - verdict.right
    assert inside / 400 > 0.75  # 80 % within three standard errors of 2 %
    assert decided > 100
    assert wrong / 400 < 0.05


def test_coverage_of_left_out_families() -> None:
    # Every family has the same errors, so a band of the others covers all cases of the left-out one.
    cases = [ErrorCase.of(f"f{n}", estimated=e, true=1.0) for n in range(6) for e in (0.8, 1.25)]

    assert coverage_of_new_families(cases, 0.8) == 1.0


def _simulated(random: np.random.Generator, *, families: int, variants: int) -> list[ErrorCase]:
    """Draw cases with an error of 20 % per family and of 10 % per variant, and times that differ by up to a factor of two."""
    cases = []
    for family in range(families):
        shared = random.normal(0, 0.2)
        for _ in range(variants):
            true = random.uniform(0, math.log(2))
            cases.append(ErrorCase(str(family), true + shared + random.normal(0, 0.1), true))
    return cases
