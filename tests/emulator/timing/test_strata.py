"""Strata of workgroups, the choice of traced workgroups and the assignment of all others."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.timing.strata import (
    WORKGROUP_COUNTS,
    assign,
    choose_workgroups,
    is_represented,
    strata_of,
    stratify,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

XCDS = 8


def counts_of(instructions: Sequence[int] | NDArray[np.int64], load_bytes: Sequence[int] | None = None) -> NDArray[np.void]:
    counts = np.zeros(len(instructions), WORKGROUP_COUNTS)
    counts["waves"], counts["instructions"] = 4, instructions
    counts["load_bytes"] = instructions if load_bytes is None else load_bytes
    return counts


def test_equal_counts_are_one_stratum() -> None:
    assert stratify(counts_of([500] * 100), 8).tolist() == [0] * 100


def test_distinct_counts_are_separate_strata() -> None:
    strata = stratify(counts_of([10, 500, 10, 8000, 500, 10]), 8)

    assert [len(set(strata[np.array(group)])) for group in ([0, 2, 5], [1, 4], [3])] == [1, 1, 1]
    assert len(set(strata.tolist())) == 3


def test_every_behaviour_is_a_stratum_if_the_sample_can_hold_it() -> None:
    instructions = np.resize(np.arange(1, 17) * 1000, 1600)

    strata = strata_of(counts_of(instructions), 16)

    assert len(set(strata.tolist())) == 16
    assert len(set(zip(strata.tolist(), instructions.tolist(), strict=True))) == 16


@pytest.mark.parametrize("seed", range(3))
def test_behaviours_beyond_the_sample_are_merged_with_the_nearest_and_none_is_dropped(seed: int) -> None:
    instructions = np.resize(np.arange(1, 65) * 1000, 6400)
    counts = counts_of(instructions)
    strata = strata_of(counts, 16)
    random = np.random.default_rng(seed)

    chosen = choose_workgroups(counts, strata, 16, xcds=XCDS, random=random)
    sample = assign(counts, strata, chosen, xcds=XCDS, random=random)

    represented = instructions[np.array(sample.chosen)[sample.representatives]]
    assert len(set(strata.tolist())) == 8
    assert set(strata[list(chosen)].tolist()) == set(range(8))
    assert 64_000 in represented  # the heaviest
    assert (represented * sample.scale).sum() == pytest.approx(instructions.sum())
    assert np.abs(np.log(represented[instructions >= 8000] / instructions[instructions >= 8000])).max() < np.log(2)


@pytest.mark.parametrize("seed", range(5))
def test_one_heavy_workgroup_among_ten_thousand_is_always_chosen(seed: int) -> None:
    instructions = np.full(10_000, 200)
    instructions[6173] = 4000  # 0.2 % of the work
    counts = counts_of(instructions)

    chosen = choose_workgroups(counts, strata_of(counts, 16), 16, xcds=XCDS, random=np.random.default_rng(seed))

    assert 6173 in chosen


def test_equal_instructions_with_other_bytes_are_separate_strata() -> None:
    strata = stratify(counts_of([500] * 4, [64, 4096, 64, 4096]), 8)

    assert strata[0] == strata[2] != strata[1] == strata[3]


def test_many_distinct_counts_are_grouped_by_size() -> None:
    instructions = np.random.default_rng(1).integers(100, 100_000, 20_000)

    strata = stratify(counts_of(instructions), 6)

    assert len(set(strata.tolist())) == 6
    ranges = sorted((instructions[strata == s].min(), instructions[strata == s].max()) for s in range(6))
    assert all(low >= high - 0.05 * high for (_, high), (low, _) in itertools.pairwise(ranges))


@pytest.mark.parametrize("seed", range(5))
def test_the_choice_has_pairs_of_neighbours_from_all_parts_of_a_uniform_launch(seed: int) -> None:
    counts = counts_of([500] * 4096)
    chosen = choose_workgroups(counts, stratify(counts, 8), 16, xcds=XCDS, random=np.random.default_rng(seed))

    assert len(chosen) == 16
    assert sum(workgroup + XCDS in chosen for workgroup in chosen) >= 8
    assert {workgroup // 512 for workgroup in chosen} == set(range(8))


@pytest.mark.parametrize("seed", range(5))
def test_every_stratum_and_the_heaviest_workgroup_are_chosen(seed: int) -> None:
    instructions = np.full(1000, 100)
    instructions[::10] = 5000
    instructions[777] = 90_000
    counts = counts_of(instructions)
    strata = stratify(counts, 4)

    chosen = choose_workgroups(counts, strata, 8, xcds=XCDS, random=np.random.default_rng(seed))

    assert len(chosen) <= 8
    assert {100, 5000, 90_000} == {int(instructions[workgroup]) for workgroup in chosen}


def test_a_limit_of_instructions_leaves_one_workgroup_of_every_stratum() -> None:
    counts = counts_of([10_000] * 32 + [200_000] * 2)
    strata = stratify(counts, 8)

    chosen = choose_workgroups(counts, strata, 16, xcds=XCDS, random=np.random.default_rng(1), instructions=250_000)

    assert sorted(int(counts["instructions"][n]) for n in chosen) == [10_000] * 5 + [200_000]


def test_all_workgroups_of_a_small_launch_are_chosen() -> None:
    counts = counts_of([1, 2, 3])

    assert choose_workgroups(counts, stratify(counts, 8), 16, xcds=XCDS, random=np.random.default_rng(1)) == (0, 1, 2)


def test_representatives_are_the_nearest_and_balanced() -> None:
    instructions = np.where(np.arange(640) % 4 == 0, 4000, 500)
    counts = counts_of(instructions)
    strata = stratify(counts, 8)
    random = np.random.default_rng(1)
    chosen = choose_workgroups(counts, strata, 8, xcds=XCDS, random=random)

    sample = assign(counts, strata, chosen, xcds=XCDS, random=random)

    represented = instructions[np.array(sample.chosen)[sample.representatives]]
    assert np.array_equal(represented, instructions)
    assert (sample.scale == 1.0).all()
    assert sample.representatives[list(sample.chosen)].tolist() == list(range(len(chosen)))
    light = np.bincount(sample.representatives)[[instructions[n] == 500 for n in sample.chosen]]
    assert light.max() <= 2.2 * light.min()  # a workgroup without a neighbour stands for half as many as a pair


def test_neighbours_have_neighbouring_representatives() -> None:
    counts = counts_of([500] * 1024)
    strata = np.zeros(1024, np.int64)

    sample = assign(counts, strata, [16, 24, 300, 308], xcds=XCDS, random=np.random.default_rng(1))

    representative = np.array(sample.chosen)[sample.representatives]
    pairs = [(representative[n], representative[n + XCDS]) for n in range(1024 - XCDS) if n // XCDS % 2 == 0]
    assert np.mean([b - a == XCDS for a, b in pairs]) > 0.95  # all but those of traced workgroups, which have themselves


def test_the_scale_is_the_ratio_of_instructions() -> None:
    counts = counts_of([100, 200, 400])

    sample = assign(counts, np.zeros(3, np.int64), [1], xcds=XCDS, random=np.random.default_rng(1))

    assert sample.representatives.tolist() == [0, 0, 0]
    assert sample.scale.tolist() == [0.5, 1.0, 2.0]


def test_a_sample_that_misses_a_heavy_stratum_is_not_representative() -> None:
    counts = counts_of([100] * 90 + [1000] * 10)
    strata = stratify(counts, 4)

    assert is_represented(counts, strata, [0, 95])
    assert not is_represented(counts, strata, [0, 1])
    assert not is_represented(counts, strata, [])


def test_a_stratum_of_a_negligible_share_may_be_missing() -> None:
    counts = counts_of([100_000] * 99 + [10])

    assert is_represented(counts, stratify(counts, 4), [3])
