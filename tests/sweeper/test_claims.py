"""Optuna samplers on a space with constraints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution
from optuna.trial import TrialState

from rocm_perf_lab.autotune.ask_tell import ask
from rocm_perf_lab.autotune.claims import ClaimError
from rocm_perf_lab.autotune.sampler import RegressionSampler, SamplerError
from rocm_perf_lab.autotune.slots import sweep
from rocm_perf_lab.autotune.storage import open_storage, open_study
from rocm_perf_lab.autotune.wrapped_sampler import WrappedSampler
from tests.builders.sweeps import ThreadSlots, proposed, small_space

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from optuna import Study
    from optuna.samplers import BaseSampler

SPACE = small_space()

pytestmark = pytest.mark.filterwarnings("ignore:.*QMC.*", "ignore:Constraints have been set")


GRID: dict[str, Any] = {name: list(values) for name, values in SPACE.values.items()}
SAMPLERS: dict[str, tuple[Callable[..., BaseSampler], dict[str, Any]]] = {
    "random": (optuna.samplers.RandomSampler, {}),
    "tpe": (optuna.samplers.TPESampler, {"n_startup_trials": 5}),
    "multivariate tpe": (optuna.samplers.TPESampler, {"n_startup_trials": 5, "multivariate": True, "constant_liar": True}),
    "grid": (optuna.samplers.GridSampler, {"search_space": GRID}),
    "cma-es": (optuna.samplers.CmaEsSampler, {"warn_independent_sampling": False}),
    "qmc": (optuna.samplers.QMCSampler, {}),
    "nsga-ii": (optuna.samplers.NSGAIISampler, {"population_size": 4}),
}


def new_study(directory: Path, inner: BaseSampler) -> Study:
    return open_study(
        open_storage(f"journal:///{directory}/journal", directory=directory), "study", SPACE, WrappedSampler(SPACE, inner)
    )


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_measures_exactly_the_valid_configurations(name: str, tmp_path: Path) -> None:
    kind, settings = SAMPLERS[name]
    study = new_study(tmp_path, kind(seed=1, **settings))

    sweep(study, SPACE, ThreadSlots(3), budget=100)

    measured = [trial for trial in study.trials if trial.state == TrialState.COMPLETE]
    assert len(measured) == len(SPACE)
    assert all(SPACE.index(trial.params) is not None for trial in measured)
    assert len(proposed(study)) == len(set(proposed(study)))
    assert study.best_params == {"x": 3, "y": 2, "order": "a"}


def test_a_violated_constraint_is_reported_to_optuna(tmp_path: Path) -> None:
    study = new_study(tmp_path, optuna.samplers.RandomSampler(seed=1))

    sweep(study, SPACE, ThreadSlots(1), budget=20)

    refused = [trial for trial in study.trials if trial.state == TrialState.PRUNED]
    assert refused
    for trial in refused:
        tile = trial.params["x"] * trial.params["y"]
        expected = {"tile <= 12": 1.0} if tile > 12 else {"tile != 4": 1.0}
        assert trial.constraints == expected


def test_after_repeated_violations_the_nearest_valid_configuration_is_measured(tmp_path: Path) -> None:
    excluded = {"x": 6, "y": 3, "order": "b"}

    class Stubborn(optuna.samplers.RandomSampler):
        def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
            return excluded[param_name]

    study = new_study(tmp_path, Stubborn())

    sweep(study, SPACE, ThreadSlots(1), budget=2)

    first, second, third = study.trials
    assert (first.state, first.params) == (TrialState.PRUNED, excluded)
    for trial in (second, third):
        assert trial.state == TrialState.COMPLETE
        assert sum(trial.params[name] != excluded[name] for name in excluded) == 1


def test_two_samplers_of_one_study_claim_different_configurations(tmp_path: Path) -> None:
    a = new_study(tmp_path, optuna.samplers.RandomSampler(seed=1))
    b = new_study(tmp_path, optuna.samplers.RandomSampler(seed=1))

    claims = [study.ask(dict(SPACE.distributions())).params for study in (a, b) * 6]

    assert len({tuple(params.items()) for params in claims}) == 12


def test_equal_seeds_give_equal_trials(tmp_path: Path) -> None:
    runs = []
    for directory in (tmp_path / "a", tmp_path / "b"):
        study = new_study(directory, optuna.samplers.TPESampler(seed=3, n_startup_trials=4))
        sweep(study, SPACE, ThreadSlots(1), budget=12)
        runs.append([(trial.params, trial.state) for trial in study.trials])

    assert runs[0] == runs[1]


def foreign_study(**options: Any) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    return optuna.create_study(sampler=RegressionSampler(SPACE), **options)


def test_an_objective_that_ignores_a_parameter_is_refused() -> None:
    with pytest.raises(ClaimError, match="did not suggest y, order"):
        foreign_study().optimize(lambda trial: float(trial.suggest_categorical("x", SPACE.values["x"]) or 0), n_trials=5)


def test_trials_of_other_values_are_ignored() -> None:
    study = foreign_study()
    other = {**SPACE.distributions(), "x": CategoricalDistribution((99, *SPACE.values["x"]))}
    study.add_trial(optuna.create_trial(params={**SPACE.example(), "x": 99}, distributions=dict(other), value=0.5))

    assert study.sampler.sample_relative(study, optuna.trial.create_trial(state=TrialState.RUNNING), {})


def test_an_enqueued_value_that_the_space_lacks_is_refused() -> None:
    study = foreign_study()
    study.enqueue_trial({"x": 99})

    with pytest.raises(ClaimError, match="enqueued with x = 99"):
        ask(study, SPACE)


def test_several_objectives_are_refused_once() -> None:
    with pytest.raises(SamplerError, match="optimises one value, not 2"):
        foreign_study(directions=["minimize", "minimize"]).optimize(
            lambda trial: (float(trial.suggest_categorical("x", SPACE.values["x"]) or 0), 1.0), n_trials=2
        )
