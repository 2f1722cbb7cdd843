"""Emulated times in a search: ties, the choice among them, and what the model may rule out."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import optuna
import pytest
from rich.console import Console

from rocm_perf_lab.autotune.classic import ClassicSearch
from rocm_perf_lab.autotune.objective import Measurement
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.spaces.space_files import space_of_list
from rocm_perf_lab.autotune.strategy import Observations
from rocm_perf_lab.autotune.surrogate import Targets
from rocm_perf_lab.autotune.tuner import EXHAUSTED, Tuner, outcome
from rocm_perf_lab.jobs.autotune.show import show_result
from rocm_perf_lab.statistics.error_bands import RatioBand, TimeBand
from rocm_perf_lab.target.timing_errors import TimingErrors

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.spaces.space import Configuration
    from rocm_perf_lab.autotune.tuner import TuningResult

BAND = RatioBand(coverage=0.95, factor=1.25)
TIMES_MS = {1: 12.5, 2: 10.0, 3: 12.6, 4: 10.0, 5: 40.0, 6: 11.0}
SPACE = space_of_list([{"x": x} for x in TIMES_MS], where="test")


def searched(band: RatioBand | None) -> TuningResult:
    """All six configurations, measured in the order of their times in the table."""
    study = optuna.create_study(sampler=RegressionSampler(SPACE))
    for x in TIMES_MS:
        study.enqueue_trial({"x": x})

    def time_of(configuration: Configuration) -> Measurement:
        return Measurement(TIMES_MS[int(configuration["x"])])

    tuner = Tuner(study, SPACE, time_of, budget=6, band=lambda: band)
    tuner.run()
    return tuner.result()


def test_configurations_inside_the_band_are_ties_fastest_first() -> None:
    found = searched(BAND)

    # 10 * 1.25 = 12.5 is still inside, 12.6 is beyond.
    assert [trial.parameters["x"] for trial in found.tied] == [4, 6, 1]
    assert found.band == BAND


def test_of_ties_the_smallest_time_and_then_the_first_trial_is_chosen() -> None:
    found = searched(BAND)

    assert found.best is not None
    assert (found.best.parameters, found.best.runtime_ms) == ({"x": 2}, 10.0)


def test_measured_times_have_no_ties() -> None:
    assert searched(None).tied == ()


def test_the_result_lists_the_ties_and_the_criterion() -> None:
    errors = TimingErrors(
        status="estimated", source="50 cases", time=(TimeBand(coverage=0.8, low=0.8, high=1.25),), ratio=(BAND,)
    )
    console = Console(file=io.StringIO(), width=100, no_color=True)

    show_result(console, searched(BAND), "emulated", "k", errors)

    assert isinstance(console.file, io.StringIO)
    text = " ".join(console.file.getvalue().split())
    assert "10.000 ms emulated, 8 to 12.5 ms expected: x=2" in text
    assert (
        "3 configurations are indistinguishable from the best on the emulator (slower by less than 1.25x): trials 3, 5, 0" in text
    )
    assert "chosen by the smallest emulated time; of equal times, the first trial" in text


def test_a_configuration_inside_the_band_is_not_excluded() -> None:
    # Times of 100 * 1.01^x: with every fourth one known, the polynomial predicts the others within a percent.
    space = space_of_list([{"x": x} for x in range(80)], where="test")
    times = 100 * 1.01 ** np.arange(80.0)
    rows = np.arange(0, 80, 4)
    seen = Observations(rows, times[rows])

    def excluded(slack: float) -> set[int]:
        return set(ClassicSearch(space, seed=1, seeds=8, slack=slack).assess(seen).pruned_rows.tolist())

    # 1.01^22 = 1.245 and 1.01^23 = 1.257.
    assert excluded(1.0) & set(range(23))
    assert not excluded(1.25) & set(range(23))
    assert excluded(1.25) >= {70, 75, 79}
    assert excluded(1.25) < excluded(1.0)


@pytest.mark.parametrize("compress", [False, True])
def test_a_target_of_a_time_is_the_inverse_of_the_time_of_a_target(compress: bool) -> None:
    targets = Targets.of(np.array([1.0, 1.5, 2.0, 5.0, 30.0]), compress=compress)

    for time in (0.5, 1.0, 2.0, 4.0, 100.0):
        assert targets.as_time(targets.of_time(time)) == pytest.approx(time)
    assert targets.of_time(1.0) == pytest.approx(targets.values[0])


def test_an_outcome_of_a_stored_study_has_the_same_ties() -> None:
    study = optuna.create_study(sampler=RegressionSampler(SPACE))
    for x, time in TIMES_MS.items():
        trial = optuna.trial.create_trial(params={"x": x}, distributions=dict(SPACE.distributions()), value=time)
        study.add_trial(trial)

    assert [trial.number for trial in outcome(study, SPACE, EXHAUSTED, BAND).tied] == [3, 5, 0]
