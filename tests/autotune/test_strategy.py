"""A search strategy added without touching the package, as described in docs/DEVELOPER_GUIDE.md."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import optuna
import pytest

from rocm_perf_lab.autotune.ask_tell import search
from rocm_perf_lab.autotune.config import AutotuneConfig
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.strategy import Assessment, Observations, StrategyChoice
from rocm_perf_lab.autotune.tuner import Tuner
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.autotune.samplers import configured_sampler
from tests.builders.sweeps import small_space, time_of

SPACE = small_space()


class NearestToBest:
    """Toy strategy: measure the free configuration that shares most values with the fastest one."""

    def __init__(self, space: Any, *, seed: int = 0) -> None:
        self._codes = space.codes
        self._first = seed % len(space)

    def choose(self, seen: Observations) -> StrategyChoice | None:
        free = seen.open(len(self._codes))
        if not free.any():
            return None
        best = int(seen.rows[np.argmin(seen.times)]) if len(seen.rows) else self._first
        shared = (self._codes == self._codes[best]).sum(axis=1)
        return StrategyChoice(int(np.argmax(np.where(free, shared, -1))), "prediction", {"near": best})

    def assess(self, seen: Observations) -> Assessment:
        return Assessment("nearest_to_best", None, None)


def sampler() -> RegressionSampler:
    component = {"_target_": f"{__name__}.NearestToBest"}
    config = SimpleNamespace(autotune=AutotuneConfig.model_validate({"sampler": component, "seed": 5}))
    made = configured_sampler(cast("Any", config), SPACE)
    assert isinstance(made, RegressionSampler)
    return made


@pytest.mark.parametrize("target", ["builtins.dict", "math.floor", "pathlib.Path", "math.pi"])
def test_another_object_is_refused_as_sampler(target: str) -> None:
    config = SimpleNamespace(autotune=AutotuneConfig.model_validate({"sampler": {"_target_": target}}))
    with pytest.raises(LabError, match=r"neither a sampler of Optuna nor|rejects its arguments|needs"):
        configured_sampler(cast("Any", config), SPACE)


def test_a_strategy_named_in_yaml_searches_the_space() -> None:
    study = optuna.create_study(sampler=sampler())

    search(study, SPACE, time_of, len(SPACE))

    assert len({tuple(trial.params.items()) for trial in study.trials}) == len(SPACE)
    assert study.trials[0].params == SPACE.configuration(5)
    assert study.trials[1].user_attrs["decision"] == {"near": 5}


def test_the_result_names_the_strategy() -> None:
    tuner = Tuner(optuna.create_study(sampler=sampler()), SPACE, time_of, budget=9)

    tuner.run()

    result = tuner.result()
    assert result.model == {"name": "nearest_to_best", "r2": None, "residual_std": None}
    assert result.best is not None and result.best.runtime_ms == pytest.approx(1.0, abs=2.0)
