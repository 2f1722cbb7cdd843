"""Changes in histories whose levels are known, and the rate of false changes."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.statistics.change_points import ALPHA, History, find_changes

SETTLED = [1000.0, 1004, 998, 1001, 997, 1003, 1000, 999, 1002, 1000]


def history(times: list[float]) -> History:
    return History(np.array(times), np.zeros(len(times)))


def positions(times: list[float]) -> list[int]:
    return [point.position for point in find_changes([history(times)])[0].points]


def test_another_level_is_one_change_with_its_size() -> None:
    (found,) = find_changes([history([*SETTLED, *(1.2 * time for time in SETTLED)])])

    (point,) = found.points
    assert (point.position, point.before, point.after) == (10, 10, 10)
    assert point.change == pytest.approx(0.2)
    assert point.p_value < 1e-6
    assert 0.003 <= found.noise < 0.01


def test_two_changes_of_one_history() -> None:
    found = positions([*SETTLED, *(0.8 * time for time in SETTLED), *(1.3 * time for time in SETTLED)])

    assert found == [10, 20]


@pytest.mark.parametrize(
    "times",
    [
        SETTLED,
        [1000.0] * 8,
        [1000.0],
        [],
        [*SETTLED, *(1.015 * time for time in SETTLED)],  # smaller than 2 %
        [1000.0, 1010.0],  # two runs differ by 1 %
        [800.0, 1250, 990, 1400, 700, 1100, 900, 1300, 820, 1200],  # noise of 25 %
    ],
    ids=["settled", "equal", "one run", "no run", "too small", "two runs", "noisy"],
)
def test_no_change(times: list[float]) -> None:
    assert positions(times) == []


def test_a_single_slow_run_is_odd_and_no_change() -> None:
    (found,) = find_changes([history([*SETTLED, 1600.0, *SETTLED])])

    assert (found.points, found.odd_runs) == ((), (10,))


def test_a_change_after_an_odd_run_keeps_its_position() -> None:
    (found,) = find_changes([history([*SETTLED[:5], 1700.0, *SETTLED[5:], *(1.25 * time for time in SETTLED)])])

    assert found.odd_runs == (5,)
    assert [(point.position, point.before, point.after) for point in found.points] == [(11, 10, 10)]


def test_the_last_run_can_be_a_change() -> None:
    assert positions([*SETTLED, 1300.0]) == [10]


def test_two_runs_that_differ_by_half_are_a_change() -> None:
    (found,) = find_changes([history([1000.0, 1500.0])])

    (point,) = found.points
    assert point.position == 1
    assert point.change == pytest.approx(0.5)


def test_an_uncertain_median_is_no_change() -> None:
    times = np.array([*SETTLED, *(1.1 * time for time in SETTLED)])

    (certain,), (uncertain,) = (find_changes([History(times, np.full(20, error))]) for error in (0.001, 0.2))

    assert len(certain.points) == 1
    assert uncertain.points == ()


def test_p_values_are_corrected_for_the_number_of_kernels() -> None:
    step = history([*SETTLED[:3], *(1.1 * time for time in SETTLED[:3])])
    others = [history([1000 + 7.0 * ((3 * i + 5 * j) % 4) for j in range(6)]) for i in range(300)]

    (alone,) = find_changes([step])
    among = find_changes([*others, step])[-1]

    assert alone.points[0].p_value <= ALPHA
    assert among.points == () or among.points[0].p_value > alone.points[0].p_value


@pytest.mark.parametrize("runs", [5, 12, 40])
@pytest.mark.parametrize("noise", ["normal", "heavy tails", "correlated"])
def test_false_changes_are_rare_among_twenty_kernels(runs: int, noise: str) -> None:
    random = np.random.default_rng(runs)
    false = 0
    for _ in range(25):
        deviations = deviations_of(noise, random, runs)
        scale = random.choice([0.005, 0.01, 0.03], (20, 1))
        histories = [History(times, np.zeros(runs)) for times in 1e4 * np.exp(scale * deviations)]
        false += any(found.points for found in find_changes(histories))

    assert false <= 4


def deviations_of(noise: str, random: np.random.Generator, runs: int) -> np.ndarray:
    """Noise of 20 kernels; the correlated one has 0.4 between consecutive runs."""
    if noise == "heavy tails":
        heavy: np.ndarray = random.standard_t(3, (20, runs)) / np.sqrt(3)
        return heavy
    values = random.normal(0, 1, (20, runs))
    for run in range(1, runs if noise == "correlated" else 0):
        values[:, run] = 0.4 * values[:, run - 1] + np.sqrt(1 - 0.16) * values[:, run]
    return values


def test_histories_do_not_depend_on_the_unit_of_time() -> None:
    times = [*SETTLED, *(1.2 * time for time in SETTLED)]

    first, second = (find_changes([history([scale * time for time in times])])[0].points[0] for scale in (1.0, 1e-6))

    assert first.position == second.position
    assert first.change == pytest.approx(second.change)
    assert first.p_value == pytest.approx(second.p_value)
