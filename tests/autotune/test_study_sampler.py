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

from rocm_perf_lab.autotune.study_axes import Axis
from rocm_perf_lab.autotune.study_sampler import StudySampler

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
    assert sum(trial.state != TrialState.COMPLETE for trial in study.trials[20:]) < 11  # 15 of 20 by chance


def test_few_valid_trials_lead_to_more_valid_ones() -> None:
    """7.7 % of the space is valid."""

    def objective(trial: Trial) -> float:
        point = np.array([trial.suggest_float(f"x{i}", -2, 2) for i in range(4)])
        if (point**2).sum() > 2:
            raise ValueError("out of memory")
        return float(((point - 1) ** 2).sum())

    study = optuna.create_study(sampler=StudySampler(seed=1))
    study.optimize(objective, n_trials=60, catch=(ValueError,))

    assert study.best_value < 1.5
    assert sum(trial.state == TrialState.COMPLETE for trial in study.trials[30:]) > 4


def conditional(trial: Trial) -> float:
    """Smallest at kind = tree, depth = 9, share = 0.7: 0.1."""
    if trial.suggest_categorical("kind", ["kernel", "tree"]) == "kernel":
        return 0.3 + abs(math.log10(trial.suggest_float("width", 1e-4, 1e4, log=True)) - 1) * 0.1
    return 0.1 + abs(trial.suggest_int("depth", 1, 32) - 9) * 0.02 + abs(trial.suggest_float("share", 0.1, 1) - 0.7)


def test_parameters_that_only_some_trials_have_are_optimised() -> None:
    study = optuna.create_study(sampler=StudySampler(seed=1))
    study.optimize(conditional, n_trials=40)

    assert study.best_value < 0.102


def test_a_range_that_changes_is_optimised() -> None:
    study = optuna.create_study(sampler=StudySampler())
    study.optimize(lambda trial: (trial.suggest_float("x", -5 - trial.number % 3, 5) - 2) ** 2, n_trials=25)

    assert study.best_value < 1e-4


def test_names_that_never_repeat_do_not_make_trials_slower() -> None:
    study = optuna.create_study(sampler=StudySampler())
    study.optimize(lambda trial: trial.suggest_float(f"x{trial.number}", 0, 1) + trial.suggest_float("y", 0, 1), n_trials=30)

    assert study.best_params["y"] < 0.05
    assert set(study.sampler.infer_relative_search_space(study, study.trials[0])) == {"y"}


@pytest.mark.parametrize("offset", [-1e6, -1e-3, 0.0, 1e6])
@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1.0, 1e9, 1e200])
def test_offset_and_scale_of_values_change_nothing(offset: float, scale: float) -> None:
    study = optuna.create_study(sampler=StudySampler(seed=1))
    study.optimize(lambda trial: scale * ((trial.suggest_float("x", -5, 5) - 2) ** 2 + offset), n_trials=20)

    assert abs(study.best_params["x"] - 2) < 0.05


def test_values_without_bound_are_ordered() -> None:
    values = [math.inf, -math.inf, math.nan, 1e308, 1.0]
    study = optuna.create_study(sampler=StudySampler())
    study.optimize(lambda trial: values[trial.suggest_int("x", 0, 4)] + trial.suggest_float("y", 0, 1), n_trials=30)

    assert study.best_value == -math.inf
    assert sum(trial.params["x"] in (0, 2) for trial in study.trials[10:]) < 8


def test_one_outlier_does_not_hide_the_others() -> None:
    study = optuna.create_study(sampler=StudySampler(seed=1))
    study.optimize(lambda trial: 1e18 if trial.number == 3 else (trial.suggest_float("x", -5, 5) - 2) ** 2 - 1, n_trials=25)

    assert study.best_value < -0.999


def test_one_sampler_serves_several_studies() -> None:
    sampler = StudySampler()
    for name in "ab":
        study = optuna.create_study(sampler=sampler)
        study.optimize(lambda trial, name=name: trial.suggest_float(name, 0, 1), n_trials=15)  # type: ignore[misc]

        assert study.best_value < 0.01


def test_two_processes_with_equal_seeds_begin_with_different_trials() -> None:
    first = optuna.create_study(sampler=StudySampler())
    second = optuna.load_study(study_name=first.study_name, storage=first._storage, sampler=StudySampler())
    trials = [first.ask(), second.ask()]

    assert len({trial.suggest_float("x", 0, 1) for trial in trials}) == 2


def test_no_combination_is_measured_twice_by_threads() -> None:
    study = optuna.create_study(sampler=StudySampler())
    study.optimize(lambda trial: trial.suggest_int("x", 0, 7) + 8.0 * trial.suggest_int("y", 0, 3), n_trials=8)
    study.optimize(lambda trial: trial.suggest_int("x", 0, 7) + 8.0 * trial.suggest_int("y", 0, 3), n_trials=24, n_jobs=4)

    assert len({str(trial.params) for trial in study.trials}) == 32


def test_pruned_trials_count_with_their_last_value() -> None:
    def objective(trial: Trial) -> float:
        final = (trial.suggest_float("x", -5, 5) - 2) ** 2 + (trial.suggest_float("y", -5, 5) + 1) ** 2
        for step in range(10):
            trial.report(final + 20 * math.exp(-step / 2), step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return final

    for pruner in (optuna.pruners.MedianPruner(), optuna.pruners.HyperbandPruner(max_resource=10)):
        # Hyperband assigns trials to its brackets by a hash of the name, which is random by default.
        study = optuna.create_study(sampler=StudySampler(seed=1), pruner=pruner, study_name="pruned")
        study.optimize(objective, n_trials=40)

        assert study.best_value < 0.05


@pytest.mark.parametrize("count", [20, 2000])
def test_a_category_with_many_numbers_is_ordered_and_fast(count: int) -> None:
    study = optuna.create_study(sampler=StudySampler(seed=1))
    choices = list(range(count))
    study.optimize(lambda trial: abs(trial.suggest_categorical("x", choices) - count // 3) / count, n_trials=25)

    assert study.best_value < 0.01


def test_choices_of_any_type() -> None:
    study = optuna.create_study(sampler=StudySampler())
    choices = [None, True, 1.5, "a", "", 3]
    study.optimize(lambda trial: -float(trial.suggest_categorical("x", choices) == "a"), n_trials=20)

    assert study.best_params == {"x": "a"}


def test_violated_constraints_are_avoided() -> None:
    def objective(trial: Trial) -> float:
        x, y = trial.suggest_float("x", -5, 5), trial.suggest_float("y", -5, 5)
        trial.set_constraint("y", y - 2)
        return x * x + (y - 3) ** 2

    study = optuna.create_study(sampler=StudySampler(seed=1))
    study.optimize(objective, n_trials=50)

    assert study.best_trial.params["y"] <= 2 and study.best_value < 1.5


def test_constraints_may_be_a_function() -> None:
    sampler = StudySampler(seed=1, constraints_func=lambda trial: (1 - trial.params["x"],))
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: trial.suggest_float("x", -5, 5) ** 2, n_trials=30)

    assert 1 <= study.best_params["x"] < 1.05


def test_several_objectives_are_weighted() -> None:
    study = optuna.create_study(sampler=StudySampler(seed=1), directions=["minimize", "maximize"])
    study.optimize(lambda trial: (trial.suggest_float("x", -3, 3) ** 2, -((trial.params["x"] - 1) ** 2)), n_trials=30)

    assert sum(0 <= trial.params["x"] <= 1 for trial in study.trials[10:]) > 15


def test_enqueued_values_decide_about_the_others() -> None:
    study = optuna.create_study(sampler=StudySampler(seed=1))

    def objective(trial: Trial) -> float:
        return (trial.suggest_float("x", -5, 5) - trial.suggest_float("y", -5, 5)) ** 2

    study.optimize(objective, n_trials=25)
    study.enqueue_trial({"x": 4.0})
    study.optimize(objective, n_trials=1)

    assert abs(study.trials[-1].params["y"] - 4.0) < 2


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
