"""The model of failures, and searches of spaces with many failures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import optuna

from rocm_perf_lab.autotune.ask_tell import search
from rocm_perf_lab.autotune.feasibility import Feasibility
from rocm_perf_lab.autotune.objective import Infeasible, Measurement
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.search import GaussianSearch
from rocm_perf_lab.autotune.seeds import Seeds
from rocm_perf_lab.autotune.spaces.enumeration import build_space
from rocm_perf_lab.autotune.spaces.space_description import describe
from rocm_perf_lab.autotune.strategy import Observations

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.spaces.space import Configuration

optuna.logging.set_verbosity(optuna.logging.ERROR)

LINE = np.linspace(0, 1, 21)[:, None]


def learned(times: dict[int, float]) -> Feasibility:
    """From measurements of some of 21 points of a line."""
    feasibility = Feasibility(LINE, seed=0)
    seen = Observations(np.array(list(times), np.int64), np.array(list(times.values()), float))
    feasibility.fit(seen)
    return feasibility


def test_the_probability_to_run_follows_the_nearest_observations() -> None:
    probability = np.exp(
        learned({0: 1.0, 4: 1.0, 8: 1.0, 12: math.inf, 16: math.inf, 20: math.inf}).log_probability(np.arange(21))
    )

    assert probability[2] > 0.8 and probability[6] > 0.8
    assert probability[14] < 0.2 and probability[18] < 0.2
    assert 0.2 < probability[10] < 0.8


def test_if_everything_failed_the_farthest_point_is_the_most_likely_to_run() -> None:
    probability = learned({0: math.inf, 2: math.inf, 4: math.inf}).log_probability(np.arange(21))

    assert np.argmax(probability) == 20


def test_a_search_learns_in_which_region_configurations_run() -> None:
    space = build_space(describe({"parameters": {"a": list(range(1, 21)), "b": list(range(1, 21))}}, where="test"))

    def objective(configuration: Configuration) -> Measurement | Infeasible:
        a, b = float(configuration["a"]), float(configuration["b"])
        if not 12 <= a <= 18 or not 3 <= b <= 8:
            return Infeasible("does not fit")
        return Measurement(1 + (a - 18) ** 2 / 50 + (b - 3) ** 2 / 50)  # the optimum touches both limits

    found = []
    for seed in range(3):
        study = optuna.create_study(sampler=RegressionSampler(space, seed=seed))
        search(study, space, objective, 60)
        found.append(study.best_value)

    assert max(found) <= 1.05


def test_the_design_continues_if_no_seed_ran() -> None:
    space = build_space(describe({"parameters": {"a": list(range(9)), "b": list(range(9))}}, where="test"))
    seeds = Seeds(space, seed=0, count=4)
    plan = list(seeds.design())
    free = np.ones(len(space), bool)
    free[plan] = False

    further = seeds.more(free)

    assert further not in plan
    free[further] = False
    assert seeds.more(free) not in {*plan, further}


def test_further_workers_continue_the_design_while_seeds_are_measured() -> None:
    space = build_space(describe({"parameters": {"a": list(range(9)), "b": list(range(9))}}, where="test"))
    strategy = GaussianSearch(space, seed=0, seeds=4)
    design = Seeds(space, seed=0, count=5).design()

    choice = strategy.choose(Observations(np.array(design[:1]), np.array([1.0]), np.array(sorted(design[1:4]))))

    assert choice is not None and choice.phase == "seed"
    assert choice.row == design[4]
