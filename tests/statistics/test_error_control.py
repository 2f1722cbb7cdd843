"""Distribution of an error probability over the tests of a run."""

from __future__ import annotations

import pytest

from rocm_perf_lab.statistics.error_control import AlphaBudget, AlphaError, adjusted_p_values


def test_levels_of_a_run_without_success_are_equal_and_use_the_whole_budget() -> None:
    budget = AlphaBudget(0.04)
    levels = []

    for left in range(40, 0, -1):
        levels.append(budget.level(left))
        budget.spend(levels[-1])

    assert levels == pytest.approx([0.001] * 40)
    assert budget.spent == pytest.approx(0.04)


def test_proposals_that_were_not_measured_leave_their_part_to_later_ones() -> None:
    budget = AlphaBudget(0.04)
    budget.spend(budget.level(4))  # 0.01

    assert budget.level(2) == pytest.approx(0.015)  # one of three was not measured


def test_the_level_of_a_success_is_available_again() -> None:
    budget = AlphaBudget(0.04)

    first = budget.level(2)  # accepted, and so not spent

    assert first == pytest.approx(0.02)
    assert budget.level(1) == pytest.approx(0.04)


def test_no_test_gets_more_than_the_rest() -> None:
    budget = AlphaBudget(0.04)
    budget.spend(0.03)

    with pytest.raises(AlphaError, match="exceeds the rest"):
        budget.spend(0.02)


def test_adjusted_p_values_by_hand() -> None:
    assert adjusted_p_values([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
