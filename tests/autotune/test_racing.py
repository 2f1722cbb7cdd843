"""Races: noise does not decide, a real difference does, an irrelevant one ends the race."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.autotune.objective import Infeasible
from rocm_perf_lab.autotune.racing import race
from rocm_perf_lab.autotune.repeats import Gate, measure

if TYPE_CHECKING:
    from collections.abc import Sequence


class Noisy:
    """Times that scatter around a true median by a share of it."""

    def __init__(self, seed: int, medians: dict[int, float], noise: float = 0.05) -> None:
        self._random = np.random.default_rng(seed)
        self._medians = medians
        self._noise = noise
        self.asked: list[int] = []

    def sample(self, trial: int) -> Sequence[float]:
        self.asked.append(trial)
        return list(self._medians[trial] * (1 + self._noise * self._random.standard_normal(10)))


def test_the_truly_faster_one_wins_though_its_first_times_were_unlucky() -> None:
    noisy = Noisy(1, {1: 1.00, 2: 1.03})
    first = {1: [1.05] * 4 + [0.99] * 3, 2: [1.02] * 4 + [1.06] * 3}

    found = race(first, noisy.sample, max_rounds=40)

    assert found is not None and found.decided
    assert found.winner.trial == 1
    assert [standing.outcome for standing in found.standings] == ["winner", "slower"]
    assert set(noisy.asked) == {1, 2}


@pytest.mark.parametrize("seed", range(10))
def test_the_winner_is_hardly_ever_worse_than_the_best_by_more_than_what_does_not_matter(seed: int) -> None:
    medians = {number: 1.0 + 0.015 * number for number in range(6)}
    noisy = Noisy(seed, medians)

    found = race({number: noisy.sample(number) for number in medians}, noisy.sample, max_rounds=20)

    assert found is None or medians[found.winner.trial] <= 1.015


def test_equally_fast_ones_end_the_race() -> None:
    noisy = Noisy(3, {1: 1.0, 2: 1.0}, noise=0.001)

    found = race({1: [1.0, 1.01, 0.99], 2: [1.0, 1.01, 0.99]}, noisy.sample, max_rounds=50)

    assert found is not None and found.decided
    assert {standing.outcome for standing in found.standings} == {"winner", "equal"}
    assert len(noisy.asked) < 20


def test_a_clear_winner_needs_no_race() -> None:
    assert race({1: [1.0, 1.01, 1.02, 1.0], 2: [2.0, 2.1, 2.05, 2.0]}, lambda trial: [], max_rounds=5) is None


def test_after_one_time_each_only_those_that_noise_may_have_swapped_race() -> None:
    noisy = Noisy(7, {1: 1.0, 2: 1.05, 3: 1.5}, noise=0.01)

    found = race({1: [1.0], 2: [1.05], 3: [1.5]}, noisy.sample, max_rounds=5)

    assert found is not None
    assert [standing.trial for standing in found.standings] == [1, 2]


def test_rounds_are_limited_and_what_they_did_not_decide_is_said() -> None:
    noisy = Noisy(4, {1: 1.0, 2: 1.001}, noise=0.3)

    found = race({1: noisy.sample(1), 2: noisy.sample(2)}, noisy.sample, max_rounds=2)

    assert found is not None
    assert not found.decided
    assert len(noisy.asked) == 2 + 2 * 2


def test_one_that_fails_in_the_race_is_out() -> None:
    noisy = Noisy(5, {1: 1.0, 2: 1.0})

    found = race(
        {1: noisy.sample(1), 2: noisy.sample(2)},
        lambda trial: Infeasible("gone") if trial == 1 else noisy.sample(trial),
        max_rounds=5,
    )

    assert found is not None
    assert found.winner.trial == 2
    assert {standing.trial: standing.outcome for standing in found.standings} == {1: "failed", 2: "winner"}


def test_equal_inputs_give_equal_races() -> None:
    first, second = (
        race({1: noisy.sample(1), 2: noisy.sample(2)}, noisy.sample, max_rounds=6)
        for noisy in (Noisy(6, {1: 1.0, 2: 1.01}), Noisy(6, {1: 1.0, 2: 1.01}))
    )

    assert first == second


@pytest.mark.parametrize(("spread", "rounds"), [(0.02, 1), (0.5, 3)])
def test_times_that_vary_too_much_are_taken_again_up_to_the_limit(spread: float, rounds: int) -> None:
    times = iter(np.tile([1.0, 1.0 + spread, 1.0 - spread], 20))

    found = measure(lambda runs: [next(times) for _ in range(runs)], Gate(runs=6, max_cv=0.1, max_rounds=3), deterministic=False)

    assert found.details["rounds"] == rounds
    assert found.details["runs"] == 6 * rounds
    assert found.runtime_ms == pytest.approx(1.0)


def test_a_deterministic_device_is_asked_once() -> None:
    asked: list[int] = []

    def sample(runs: int) -> list[float]:
        asked.append(runs)
        return [0.25] * runs

    found = measure(sample, Gate(runs=10), deterministic=True)

    assert asked == [1]
    assert (found.runtime_ms, found.details["cv"]) == (0.25, 0.0)
