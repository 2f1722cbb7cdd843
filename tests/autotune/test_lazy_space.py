"""Spaces that are too large to enumerate: constraints on demand, and searches of them."""

from __future__ import annotations

import math
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from rocm_perf_lab.autotune.ask_tell import search
from rocm_perf_lab.autotune.objective import Measurement
from rocm_perf_lab.autotune.prior import Prior, PriorError
from rocm_perf_lab.autotune.sampler import RegressionSampler, SamplerError
from rocm_perf_lab.autotune.spaces.enumeration import build_space
from rocm_perf_lab.autotune.spaces.lazy_space import LazySpace
from rocm_perf_lab.autotune.spaces.space import Configuration, Space, SpaceError
from rocm_perf_lab.autotune.spaces.space_description import describe
from rocm_perf_lab.autotune.wrapped_sampler import WrappedSampler

POWERS = [2**i for i in range(10)]
NAMES = [f"p{number}" for number in range(12)]
CHAINED = {
    "parameters": dict.fromkeys(NAMES, POWERS),
    "derived": {"both": "p0 * p1"},
    "constraints": ["both <= 64", *(f"{left} % {right} == 0" for left, right in pairwise(NAMES[2:]))],
}


def built(content: dict[str, Any]) -> Space:
    return build_space(describe(content, where="test"))


@pytest.fixture(scope="module")
def chained() -> LazySpace:
    space = built(CHAINED)
    assert isinstance(space, LazySpace)
    return space


def test_a_space_of_a_million_millions_is_not_enumerated(chained: LazySpace) -> None:
    # 28 pairs of exponents with a sum of at most 6; sequences of 10 exponents that do not grow: binomial(10 + 9, 10).
    valid = 28 * math.comb(19, 10)

    assert chained.combinations == 10**12
    assert len(chained) == pytest.approx(valid, rel=0.3)
    assert len(chained.codes) == 8000
    assert chained.allowed(chained.codes).all()


def test_rows_configurations_and_constraints_agree(chained: LazySpace) -> None:
    row = int(chained.rows(chained.codes[:1])[0])
    configuration = chained.configuration(row)

    assert chained.index(configuration) == row
    assert chained.code_of(row) == tuple(chained.codes[0].tolist())
    assert chained.index({**configuration, "p0": 512, "p1": 512}) is None
    assert chained.violated({**configuration, "p0": 512, "p1": 512}) == ("both <= 64",)


def test_neighbours_are_those_of_the_enumerated_space() -> None:
    whole = built({"parameters": {"a": POWERS, "b": [1, 2, 3]}, "constraints": ["a >= 2 * b"]})
    kept = {field.name: getattr(whole, field.name) for field in fields(whole)}
    lazy = LazySpace(**{**kept, "codes": whole.codes[:4]}, valid=len(whole))
    assert (whole.size_text, lazy.size_text) == ("24", "about 2.4e+01")  # 9 + 8 + 7 powers of two
    row = whole.index({"a": 16, "b": 2})
    assert row is not None

    near = {tuple(whole.configuration(i).values()) for i in whole.neighbours(row)}
    found = lazy.neighbours(int(lazy.rows(whole.codes[[row]])[0]))

    assert {tuple(lazy.configuration(i).values()) for i in found.tolist()} == near


def test_an_empty_space_names_the_constraint() -> None:
    with pytest.raises(SpaceError, match="constraint 'both > 600000' excludes"):
        built({**CHAINED, "constraints": ["both > 600000"]})


def test_a_search_measures_valid_configurations_once_and_improves(chained: LazySpace) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=RegressionSampler(chained, seed=1))

    def objective(configuration: Configuration) -> Measurement:
        return Measurement(1 + sum((math.log2(int(configuration[name])) - 3) ** 2 for name in NAMES))

    search(study, chained, objective, 40)

    rows = [chained.index(trial.params) for trial in study.trials]
    assert None not in rows
    assert len(set(rows)) == 40
    drawn = 1 + ((chained.codes - 3.0) ** 2).sum(axis=1)
    assert study.best_value <= np.quantile(drawn, 0.001)  # among the best 8 of 8000 random ones


def test_priors_and_the_classic_model_need_an_enumerated_space(chained: LazySpace) -> None:
    with pytest.raises(SamplerError, match="too many for the classic model"):
        RegressionSampler(chained, model="classic")
    with pytest.raises(PriorError, match="too many for a prior"):
        Prior.from_results(chained, [], "earlier")


@pytest.mark.parametrize("inner", [optuna.samplers.TPESampler, optuna.samplers.RandomSampler])
def test_a_sampler_of_optuna_measures_valid_configurations_once(
    inner: type[optuna.samplers.TPESampler | optuna.samplers.RandomSampler], chained: LazySpace
) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=WrappedSampler(chained, inner(seed=1)))

    search(study, chained, lambda configuration: Measurement(float(configuration["p11"])), 20)

    measured = [trial.params for trial in study.trials if trial.state == TrialState.COMPLETE]
    assert len(measured) >= 5
    assert all(chained.index(parameters) is not None for parameters in measured)
    assert len({str(parameters) for parameters in measured}) == len(measured)
