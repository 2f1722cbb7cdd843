"""Searches of degenerate landscapes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.trial import TrialState

from rocm_perf_lab.autotune.ask_tell import search
from rocm_perf_lab.autotune.objective import Infeasible, Measurement
from rocm_perf_lab.autotune.sampler import MODELS, RegressionSampler
from rocm_perf_lab.autotune.spaces.enumeration import build_space
from rocm_perf_lab.autotune.spaces.space_description import describe
from rocm_perf_lab.autotune.spaces.space_files import space_of_list
from rocm_perf_lab.autotune.tuner import NoFeasibleTrial, Tuner

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.autotune.spaces.space import Configuration, Space

optuna.logging.set_verbosity(optuna.logging.ERROR)

VALUES = st.one_of(
    st.integers(-(2**40), 2**40),
    st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 3)),
    st.booleans(),
    st.text(st.characters(codec="utf-8"), max_size=6),
)
TIMES = st.one_of(
    st.floats(1e-9, 1e9),
    st.sampled_from([1.0, 1.0, 1e-9, 1e9, math.nan, math.inf, 0.0, -1.0]),
    st.just(None),
)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """Lists of configurations: one parameter or several, one value or many, numbers, truths and text mixed."""
    columns = draw(st.lists(st.lists(VALUES, min_size=1, max_size=5, unique=True), min_size=1, max_size=4))
    rows: list[dict[str, Any]] = [{}]
    for number, values in enumerate(columns):
        rows = [{**row, f"p{number}": value} for row in rows for value in values]
    kept = draw(st.lists(st.sampled_from(range(len(rows))), min_size=1, max_size=15, unique=True))
    return space_of_list([rows[row] for row in kept], where="test")


@settings(max_examples=25, deadline=None)
@given(space=spaces(), data=st.data(), model=st.sampled_from(MODELS))
def test_any_space_is_searched_within_its_budget_without_repetition(space: Space, data: st.DataObject, model: str) -> None:
    times = data.draw(st.lists(TIMES, min_size=len(space), max_size=len(space)))
    budget = data.draw(st.integers(1, len(space) + 2))
    asked: list[int] = []

    def objective(configuration: Configuration) -> Measurement | Infeasible:
        row = space.index(configuration)
        assert row is not None
        asked.append(row)
        time = times[row]
        return Infeasible("refused") if time is None else Measurement(time)

    study = optuna.create_study(sampler=RegressionSampler(space, seed=3, model=model))
    tuner = Tuner(study, space, objective, budget)
    possible = {row for row, time in enumerate(times) if time is not None and 0 < time < math.inf}
    try:
        tuner.run()
    except NoFeasibleTrial:
        assert not possible.intersection(asked)

    result = tuner.result()
    assert len(asked) == len(set(asked)) == len(result.trials) <= min(budget, len(space))
    assert budget < len(space) or model == "classic" or len(asked) == len(space)
    best = min((time for row in asked if (time := times[row]) is not None and row in possible), default=None)
    assert (result.best.runtime_ms if result.best is not None else None) == best


def tiles() -> Space:
    content = {
        "parameters": {
            "m": [16, 32, 48, 64, 128],
            "n": [16, 32, 64],
            "layout": ["row", "col"],
            "pad": [True, False],
            "f": [0.5, 1.5],
        },
        "constraints": ["m * n <= 4096"],
    }
    return build_space(describe(content, where="test"))


def only(row: int) -> Callable[[int], float | None]:
    return lambda index: 1.0 if index == row else None


LANDSCAPES: dict[str, Callable[[int], float | None]] = {
    "constant": lambda row: 1.0,
    "all but one fail": only(61),
    "two levels": lambda row: 1.0 if row % 7 else 2.0,
    "outliers": lambda row: 1e12 if row % 3 else 1.0 + row / 100,
    "one outlier": lambda row: 1e15 if row == 5 else 1.0 + row / 100,
    "tiny": lambda row: 1e-9 * (1 + row),
    "nearly equal": lambda row: 1.0 + 1e-14 * row,
    "sixty decades": lambda row: 10.0 ** (row % 60 - 30),
}


@pytest.mark.parametrize("name", LANDSCAPES)
@pytest.mark.parametrize("budget", [None, 40])
def test_a_search_terminates(name: str, budget: int | None) -> None:
    space, time_of = tiles(), LANDSCAPES[name]
    study = optuna.create_study(sampler=RegressionSampler(space, seed=1))
    asked: list[int] = []

    def objective(configuration: Configuration) -> Measurement | Infeasible:
        row = space.index(configuration)
        assert row is not None
        asked.append(row)
        time = time_of(row)
        return Infeasible("no") if time is None else Measurement(time)

    tuner = Tuner(study, space, objective, budget)
    try:
        tuner.run()
    except NoFeasibleTrial:
        assert name == "all but one fail"

    result = tuner.result()
    assert len(asked) == len(set(asked)) <= (budget or len(space))
    assert budget is None or len(asked) == budget
    assert np.isfinite([trial.predicted_ms for trial in result.trials if trial.predicted_ms is not None]).all()
    ran = [time for time in map(time_of, asked) if time is not None]
    assert (result.best.runtime_ms if result.best is not None else None) == min(ran, default=None)


@pytest.mark.parametrize("time", [math.nan, math.inf, -math.inf, 0.0, -1.0])
def test_an_invalid_time_is_a_failure(time: float) -> None:
    space = space_of_list([{"x": 1}], where="test")
    study = optuna.create_study(sampler=RegressionSampler(space))

    search(study, space, lambda _: Measurement(time, {"runs": 1}), 1)

    (trial,) = study.trials
    assert (trial.state, trial.user_attrs["reason"]) == (TrialState.FAIL, f"a time of {time:g} ms is not valid")


def test_a_space_may_have_one_configuration() -> None:
    space = build_space(describe({"parameters": {"x": [4]}, "fixed": {"y": "a"}}, where="test"))
    study = optuna.create_study(sampler=RegressionSampler(space))
    tuner = Tuner(study, space, lambda configuration: Measurement(float(configuration["x"])), budget=10)

    tuner.run()

    assert [trial.runtime_ms for trial in tuner.result().trials] == [4.0]
    assert tuner.stop_reason == "no configuration worth measuring is left"


class Bowl:
    """A smooth time whose optimum is (8, "b", True), in an arbitrary unit."""

    def __init__(self, unit: float) -> None:
        self._unit = unit

    def __call__(self, configuration: Configuration) -> Measurement:
        tile, order, fast = float(configuration["tile"]), str(configuration["order"]), bool(configuration["fast"])
        return Measurement(self._unit * (1 + math.log2(tile / 8) ** 2 + "bac".index(order) + (not fast)))


MIXED = {"parameters": {"tile": [1, 2, 4, 8, 16, 32, 64, 128], "order": ["a", "b", "c"], "fast": [False, True]}}


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_the_search_does_not_depend_on_the_unit_of_time(unit: float) -> None:
    space = build_space(describe(MIXED, where="test"))
    study = optuna.create_study(sampler=RegressionSampler(space, seed=2))

    search(study, space, Bowl(unit), 20)

    assert study.best_params == {"tile": 8, "order": "b", "fast": True}
    assert study.best_value == unit


def test_eight_concurrent_workers_find_the_optimum() -> None:
    space = build_space(describe(MIXED, where="test"))
    study = optuna.create_study(sampler=RegressionSampler(space, seed=2))
    objective = Bowl(1.0)
    running: list[optuna.Trial] = []
    asked: list[int | None] = []
    while len(asked) < 32:
        while len(running) < 8:
            running.append(study.ask(dict(space.distributions())))
            asked.append(space.index(running[-1].params))
        first = running.pop(0)
        study.tell(first, objective(first.params).runtime_ms)

    assert len(set(asked)) == len(asked)
    assert study.best_params == {"tile": 8, "order": "b", "fast": True}


def test_a_single_parameter_with_many_values_is_searched() -> None:
    space = build_space(describe({"parameters": {"block": {"start": 1, "stop": 400, "step": 1}}}, where="test"))
    study = optuna.create_study(sampler=RegressionSampler(space, seed=0))

    search(study, space, lambda configuration: Measurement(1 + abs(float(configuration["block"]) - 137) / 100), 30)

    assert study.best_value < 1.05  # a twentieth of the values, or nearer
