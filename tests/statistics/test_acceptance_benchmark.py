"""Simulated optimizations: error rate and power over whole runs, with few runs; the benchmark has many."""

from __future__ import annotations

import pytest

from benchmarks.acceptance import MODELS, simulate
from benchmarks.figures import Result

RUNS = 12


@pytest.mark.parametrize("model", list(MODELS))
def test_runs_find_a_small_gain_and_accept_no_other_candidate(model: str) -> None:
    null = [simulate(model, seed, with_gain=False) for seed in range(RUNS)]
    real = [simulate(model, seed, with_gain=True) for seed in range(RUNS)]

    assert sum(run.false_step for run in null) <= 3  # 0.6 are allowed on average; more than 3 have a probability of 0.3 %
    assert not any(run.false_result for run in null)
    assert sum(run.found for run in real) >= 7  # 9.6 at a power of 80 %; fewer than 7 have a probability of 2 %


def test_a_run_is_reproducible() -> None:
    assert simulate("heavy", 3, with_gain=True) == simulate("heavy", 3, with_gain=True)


@pytest.mark.parametrize("model", list(MODELS))
def test_the_stored_results_reach_their_goals(model: str) -> None:
    row = Result.load("acceptance").data[model]

    assert row["false_steps_upper"] <= 0.05
    assert row["found_lower"] >= 0.8
