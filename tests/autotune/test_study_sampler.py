"""The sampler for objectives that suggest their parameters as they run: kinds of parameters, directions, threads, pruning."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np
import optuna
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import TrialState

from rocm_perf_lab.autotune.sampler import SamplerError
from rocm_perf_lab.autotune.study_sampler import Axis, StudySampler

if TYPE_CHECKING:
    from optuna import Trial

optuna.logging.set_verbosity(optuna.logging.ERROR)


def mixed(trial: Trial) -> float:
    """Smallest at rate = 0.01, depth = 6, momentum = 0.5, kind = b: -10."""
    rate = trial.suggest_float("rate", 1e-5, 1.0, log=True)
    depth = trial.suggest_int("depth", 1, 12)
    momentum = trial.suggest_float("momentum", 0.0, 1.0)
    kind = trial.suggest_categorical("kind", ["a", "b", "c"])
    return -10 + (math.log10(rate) + 2) ** 2 + 0.1 * (depth - 6) ** 2 + 4 * (momentum - 0.5) ** 2 + (kind != "b")


def best_of(
    sampler: optuna.samplers.BaseSampler,
    *,
    direction: Literal["minimize", "maximize"] = "minimize",
    jobs: int = 1,
    trials: int = 50,
) -> float:
    sign = 1 if direction == "minimize" else -1
    study = optuna.create_study(sampler=sampler, direction=direction)
    study.optimize(lambda trial: sign * mixed(trial), n_trials=trials, n_jobs=jobs)
    return sign * study.best_value


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_integers_real_numbers_and_categories_are_optimised(direction: Literal["minimize", "maximize"]) -> None:
    assert best_of(StudySampler(seed=1), direction=direction) < -9.8


@pytest.mark.slow
def test_it_is_better_than_optunas_default() -> None:
    ours = [best_of(StudySampler(seed=seed)) for seed in range(5)]
    theirs = [best_of(optuna.samplers.TPESampler(seed=seed)) for seed in range(5)]

    assert sum(ours) < sum(theirs)


def test_parallel_trials_differ() -> None:
    study = optuna.create_study(sampler=StudySampler())
    study.optimize(mixed, n_trials=10)

    asked = [study.ask({"rate": FloatDistribution(1e-5, 1.0, log=True), "depth": IntDistribution(1, 12)}) for _ in range(4)]
    study.optimize(mixed, n_trials=4, n_jobs=2)

    assert len({str(trial.params) for trial in asked}) == 4
    assert len(study.get_trials(states=(TrialState.COMPLETE,))) == 14


def test_equal_seeds_ask_equal_trials() -> None:
    def asked(seed: int) -> list[dict[str, object]]:
        study = optuna.create_study(sampler=StudySampler(seed=seed))
        study.optimize(mixed, n_trials=14)
        return [trial.params for trial in study.trials]

    assert asked(3) == asked(3)
    assert asked(3) != asked(4)


def test_an_integer_is_not_measured_twice_while_there_are_others() -> None:
    study = optuna.create_study(sampler=StudySampler())
    study.optimize(lambda trial: float((trial.suggest_int("x", 0, 24, step=2) - 8) ** 2), n_trials=12)

    assert len({trial.params["x"] for trial in study.trials}) == 12
    assert study.best_params == {"x": 8}


def test_failed_and_pruned_trials_are_avoided() -> None:
    def objective(trial: Trial) -> float:
        x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        if x > 0.5:
            raise ValueError("out of memory")
        if y > 0.5:
            raise optuna.TrialPruned
        return (x - 0.4) ** 2 + (y - 0.2) ** 2

    study = optuna.create_study(sampler=StudySampler())
    study.optimize(objective, n_trials=40, catch=(ValueError,))

    assert study.best_value < 0.002
    assert sum(trial.state != TrialState.COMPLETE for trial in study.trials[20:]) < 8  # 15 of 20 by chance


def test_parameters_that_some_trials_lack_are_drawn_at_random() -> None:
    def objective(trial: Trial) -> float:
        x = trial.suggest_float("x", -1, 1)
        return x**2 + (trial.suggest_float("extra", 0, 1) if trial.number % 2 else 0)

    study = optuna.create_study(sampler=StudySampler())
    study.optimize(objective, n_trials=20)

    assert abs(study.best_params["x"]) < 0.1


def test_several_objectives_are_refused() -> None:
    study = optuna.create_study(sampler=StudySampler(), directions=["minimize", "minimize"])

    with pytest.raises(SamplerError, match="optimises one value, not 2"):
        study.ask({"x": FloatDistribution(0, 1)})


@given(st.integers(1, 50), st.integers(1, 400), st.integers(1, 7), st.booleans(), st.integers(0, 2**32))
def test_drawn_integers_are_allowed_values(low: int, span: int, step: int, log: bool, seed: int) -> None:
    distribution = IntDistribution(low, low + span * step, log=log, step=1 if log else step)
    axis, random = Axis("x", distribution), np.random.default_rng(seed)
    assume(not distribution.single())
    drawn = axis.drawn(8, random)
    moved = axis.near(drawn, 0.05, random)
    columns = axis.columns(moved)

    assert all(distribution._contains(axis.value(number)) for number in (*drawn, *moved))
    assert ((columns >= 0) & (columns <= 1 + 1e-12)).all()
