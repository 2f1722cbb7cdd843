"""The stopping condition of a search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import optuna
import pytest

from rocm_perf_lab.autotune.ask_tell import search
from rocm_perf_lab.autotune.objective import Measurement
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.spaces.space_files import space_of_list
from rocm_perf_lab.autotune.trials import TrialRecord
from rocm_perf_lab.autotune.tuner import StoppingCondition, Tuner

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.spaces.space import Configuration


def trial(phase: str, runtime_ms: float | None) -> TrialRecord:
    decision: dict[str, Any] = {"expected_improvement": 1e-5 if phase == "confirmation" else 0.1}
    return TrialRecord(0, {}, phase, runtime_ms, None, decision, None, None, {})


def length(trials: list[TrialRecord], *, unlimited: bool = True) -> int | None:
    end = StoppingCondition(unlimited, [])
    return next((number for number, each in enumerate(trials, start=1) if end.reached(each)), None)


def test_eight_confirmations_end_a_search() -> None:
    best, hope, none = trial("seed", 1.0), trial("prediction", 2.0), trial("confirmation", 1.5)

    assert length([best, *([none] * 20)]) == 9
    assert length([best, *([none, hope] * 20)]) == 16


def test_a_better_time_restarts_the_count() -> None:
    none, better = trial("confirmation", 1.5), trial("prediction", 0.5)

    assert length([trial("seed", 1.0), *([none] * 7), better, *([none] * 20)]) == 17


def test_a_budget_overrides_the_confirmations() -> None:
    assert length([trial("seed", 1.0), *([trial("confirmation", 1.5)] * 100)], unlimited=False) is None


def test_a_search_ends_after_fifty_failures() -> None:
    failed = trial("seed", None)

    assert length([failed] * 100) == 50
    assert length([trial("seed", 1.0), *([failed] * 100)]) is None


class NoisyTimes:
    """Nearly equal times with noise: the time of x is 1 + x / 1000 ms, and each third run 10 % slower."""

    deterministic = False

    def __call__(self, configuration: Configuration) -> Measurement:
        times = self.sample(configuration, 6)
        return Measurement(times[0], {"runs": 6, "times_ms": times})

    def sample(self, configuration: Configuration, runs: int) -> list[float]:
        return [(1 + float(configuration["x"]) / 1000) * (1.1 if run % 3 == 2 else 1.0) for run in range(runs)]


def test_the_winner_of_an_earlier_race_does_not_hide_faster_trials_that_follow() -> None:
    space = space_of_list([{"x": x} for x in range(5, 15)], where="test")
    study = optuna.create_study(sampler=RegressionSampler(space, seeds=3))
    Tuner(study, space, NoisyTimes(), budget=6, max_races=5).run()
    assert study.user_attrs["race"]["standings"]
    told: list[TrialRecord] = []

    def interrupt(trial: TrialRecord) -> None:
        told.append(trial)
        raise KeyboardInterrupt

    continued = Tuner(study, space, lambda _: Measurement(0.001), budget=7, told=interrupt)
    with pytest.raises(KeyboardInterrupt):
        continued.run()

    best = continued.result().best
    assert best is not None
    assert best.number == told[0].number == 6


def test_the_budget_counts_trials_of_other_processes() -> None:
    space = space_of_list([{"x": x} for x in range(1, 11)], where="test")
    study = optuna.create_study(sampler=RegressionSampler(space))
    asked: list[int] = []

    def objective(configuration: Configuration) -> Measurement:
        asked.append(int(configuration["x"]))
        return Measurement(float(configuration["x"]))

    def shared(configuration: Configuration) -> Measurement:
        if not asked:
            search(study, space, objective, 3)  # another process, meanwhile
        return objective(configuration)

    tuner = Tuner(study, space, shared, budget=5, exclusive=False)
    tuner.run()

    assert len(asked) == len(set(asked)) == 5
    assert tuner.stop_reason == "the budget is used up"
