"""Racing of configurations with noisy times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.statistics.racing import race

if TYPE_CHECKING:
    from collections.abc import Sequence


class NoisyTimes:
    """Times with normal noise around a true median."""

    def __init__(self, seed: int, medians: dict[int, float], noise: float = 0.05) -> None:
        self._random = np.random.default_rng(seed)
        self._medians = medians
        self._noise = noise
        self.asked: list[int] = []

    def sample(self, trial: int) -> Sequence[float]:
        self.asked.append(trial)
        return list(self._medians[trial] * (1 + self._noise * self._random.standard_normal(10)))


def test_the_faster_candidate_wins_despite_slow_first_times() -> None:
    noisy = NoisyTimes(1, {1: 1.00, 2: 1.03})
    first = {1: [1.05] * 4 + [0.99] * 3, 2: [1.02] * 4 + [1.06] * 3}

    found = race(first, noisy.sample, max_rounds=40)

    assert found is not None and found.decided
    assert found.winner.trial == 1
    assert [standing.outcome for standing in found.standings] == ["winner", "slower"]
    assert set(noisy.asked) == {1, 2}


@pytest.mark.parametrize("seed", range(6))
def test_the_winner_is_within_the_tolerance_of_the_best(seed: int) -> None:
    medians = {number: 1.0 + 0.015 * number for number in range(6)}
    noisy = NoisyTimes(seed, medians)

    found = race({number: noisy.sample(number) for number in medians}, noisy.sample, max_rounds=20)

    assert found is None or medians[found.winner.trial] <= 1.015


def test_equally_fast_candidates_end_the_race() -> None:
    noisy = NoisyTimes(3, {1: 1.0, 2: 1.0}, noise=0.001)

    found = race({1: [1.0, 1.01, 0.99], 2: [1.0, 1.01, 0.99]}, noisy.sample, max_rounds=50)

    assert found is not None and found.decided
    assert {standing.outcome for standing in found.standings} == {"winner", "equal"}
    assert len(noisy.asked) < 20


def test_a_clear_winner_needs_no_race() -> None:
    assert race({1: [1.0, 1.01, 1.02, 1.0], 2: [2.0, 2.1, 2.05, 2.0]}, lambda trial: [], max_rounds=5) is None


def test_after_one_time_each_only_candidates_within_the_likely_spread_race() -> None:
    noisy = NoisyTimes(7, {1: 1.0, 2: 1.05, 3: 1.5}, noise=0.01)

    found = race({1: [1.0], 2: [1.05], 3: [1.5]}, noisy.sample, max_rounds=5)

    assert found is not None
    assert [standing.trial for standing in found.standings] == [1, 2]


def test_a_race_stops_at_the_last_round_and_reports_undecided_candidates() -> None:
    noisy = NoisyTimes(4, {1: 1.0, 2: 1.001}, noise=0.3)

    found = race({1: noisy.sample(1), 2: noisy.sample(2)}, noisy.sample, max_rounds=2)

    assert found is not None
    assert not found.decided
    assert len(noisy.asked) == 2 + 2 * 2


def test_a_candidate_that_fails_is_eliminated() -> None:
    noisy = NoisyTimes(5, {1: 1.0, 2: 1.0})

    found = race(
        {1: noisy.sample(1), 2: noisy.sample(2)},
        lambda trial: None if trial == 1 else noisy.sample(trial),
        max_rounds=5,
    )

    assert found is not None
    assert found.winner.trial == 2
    assert {standing.trial: standing.outcome for standing in found.standings} == {1: "failed", 2: "winner"}


def test_equal_inputs_return_equal_results() -> None:
    first, second = (
        race({1: noisy.sample(1), 2: noisy.sample(2)}, noisy.sample, max_rounds=6)
        for noisy in (NoisyTimes(6, {1: 1.0, 2: 1.01}), NoisyTimes(6, {1: 1.0, 2: 1.01}))
    )

    assert first == second


def test_rounds_have_different_orders() -> None:
    asked: list[int] = []

    def sample(trial: int) -> list[float]:
        asked.append(trial)
        return [1.0, 1.5, 0.5]  # never decided

    race({trial: [1.0, 1.5, 0.5] for trial in range(6)}, sample, max_rounds=4)

    rounds = [tuple(asked[start : start + 6]) for start in range(0, 24, 6)]
    assert all(sorted(order) == list(range(6)) for order in rounds)
    assert len(set(rounds)) > 1
