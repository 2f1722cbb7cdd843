"""Racing of configurations with noisy times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.statistics.racing import race

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


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
    noisy = NoisyTimes(8, dict.fromkeys(range(6), 1.0), noise=0.3)  # never decided

    race({trial: [1.0, 1.5, 0.5] for trial in range(6)}, noisy.sample, max_rounds=4)

    asked = noisy.asked
    rounds = [tuple(asked[start : start + 6]) for start in range(0, 24, 6)]
    assert all(sorted(order) == list(range(6)) for order in rounds)
    assert len(set(rounds)) > 1


def test_a_race_has_no_more_measurements_than_allowed() -> None:
    noisy = NoisyTimes(9, dict.fromkeys(range(6), 1.0), noise=0.3)

    race({trial: [1.0, 1.5, 0.5] for trial in range(6)}, noisy.sample, max_rounds=10, max_samples=20)

    assert 2 * 6 < len(noisy.asked) <= 20


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "drift", "of_a_round"), [(0.1, 0.0, 0.0), (0.05, 0.03, 0.0), (0.02, 0.03, 0.01)])
def test_few_winners_are_slower_than_the_best_although_rounds_differ_and_clocks_drift(
    noise: float, drift: float, of_a_round: float
) -> None:
    random = np.random.default_rng(11)
    wrong = decided = decided_wrongly = 0
    for _ in range(30):
        slowdown, clock = np.sort(random.exponential(0.05, 30)), float(random.uniform(0, 6))

        def sample(trial: int, slowdown: NDArray[np.float64] = slowdown) -> list[float]:
            nonlocal clock
            clock += 0.025
            log = slowdown[trial] + drift * np.sin(clock) + of_a_round * random.standard_normal()
            return list(np.exp(log + noise * random.standard_normal(30)))

        first = {trial: sample(trial) for trial in random.permutation(30).tolist()}
        found = race(first, sample, max_rounds=20, max_samples=60)
        winner = found.winner.trial if found else min(first, key=lambda trial: float(np.median(first[trial])))
        is_wrong = slowdown[winner] - slowdown[0] > 0.01
        wrong += is_wrong
        if found is None or found.decided:
            decided += 1
            decided_wrongly += is_wrong

    assert wrong <= 0.05 * 30 + 2
    assert decided_wrongly <= 0.05 * decided + 2
