"""Output of a running search: the line on the terminal, and the command that opens its study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.autotune.goals import Goal, Goals
from rocm_perf_lab.autotune.storage import dashboard_command
from rocm_perf_lab.autotune.trials import TrialRecord
from rocm_perf_lab.jobs.autotune.records import TrialLog
from rocm_perf_lab.tracking.run import NullTracker

if TYPE_CHECKING:
    from collections.abc import Mapping


def test_the_line_has_the_best_its_gain_the_probability_of_better_and_the_time_left() -> None:
    said: list[str] = []
    log = TrialLog(NullTracker(), 40, lambda: "measured", said.append, remaining=lambda: 0.25)

    for number in range(15):
        log.told(TrialRecord(number, {"x": number}, "seed", 4.0 / (number + 1), None, {}, None, None, {}))

    assert said[0] == "trial 1 of 40 (seed), best 4.000 ms measured, 0 s left"
    assert said[9] == "trial 10 of 40 (seed), best 400.00 us measured, 10.00x the first, 0 s left"  # calibrated from 12 trials
    assert said[14] == "trial 15 of 40 (seed), best 266.67 us measured, 15.00x the first, 25% that 2% are left, 0 s left"


@pytest.mark.parametrize(
    ("url", "command"),
    [
        (None, "optuna-dashboard sqlite:////run/study.db"),
        ("journal:////shared/study.log", "optuna-dashboard /shared/study.log"),
        ("postgresql://me:secret@host/db", "optuna-dashboard 'postgresql+psycopg://me:***@host/db'"),
    ],
)
def test_one_command_opens_the_study(url: str | None, command: str) -> None:
    assert dashboard_command(url, directory=Path("/run")) == command


def test_a_continued_search_counts_its_earlier_trials() -> None:
    said: list[str] = []
    earlier = [
        TrialRecord(number, {"x": number}, "seed", time, None, {}, None, None, {}) for number, time in enumerate((8.0, 2.0))
    ]
    log = TrialLog(NullTracker(), 4, lambda: "measured", said.append, known=earlier)

    log.told(TrialRecord(2, {"x": 2}, "seed", 4.0, None, {}, None, None, {}))

    assert said == ["trial 3 of 4 (seed), best 2.000 ms measured, 4.00x the first, 0 s left"]


def test_the_line_of_several_shapes_has_their_mean_gain_also_over_earlier_trials() -> None:
    said: list[str] = []
    times = {"n=1": (8.0, 2.0), "n=2": (4.0, 4.0)}
    earlier = [
        TrialRecord(number, {"shape": shape, "x": number}, "seed", times[shape][number], None, {}, None, None, {})
        for number in range(2)
        for shape in times
    ]
    log = TrialLog(NullTracker(), 5, lambda: "measured", said.append, known=earlier)

    log.told(TrialRecord(4, {"shape": "n=2", "x": 3}, "seed", 2.0, None, {}, None, None, {}))

    assert said == ["trial 5 of 5 (seed, n=2), mean 3.00x the first"]  # 8 / 2 and 4 / 2


def test_a_trial_beyond_a_limit_is_not_the_best() -> None:
    said: list[str] = []
    log = TrialLog(NullTracker(), None, lambda: "measured", said.append, goals=Goals(limits=("x < 2",)))

    for x, time in ((1, 4.0), (2, 1.0)):
        log.told(TrialRecord(x, {"x": x}, "seed", time, None, {}, None, None, {}))

    assert said[-1] == "trial 2 (seed), best 4.000 ms measured"


def test_another_objective_decides_about_the_best() -> None:
    said: list[str] = []
    tracker = RecordingTracker()
    goals = Goals((Goal("2 * rate", maximise=True),))
    log = TrialLog(tracker, None, lambda: "measured", said.append, goals=goals)

    for x, time, rate in ((1, 4.0, 10.0), (2, 1.0, 5.0), (3, 8.0, 20.0)):
        log.told(TrialRecord(x, {"x": x}, "seed", time, None, {}, None, None, {"rate": rate}))

    assert said[1:] == ["trial 2 (seed), best 2 * rate 20", "trial 3 (seed), best 2 * rate 40"]
    assert [(metrics["runtime_us"], metrics["best 2 _ rate"]) for metrics in tracker.logged] == [(4e3, 20), (4e3, 20), (8e3, 40)]


class RecordingTracker(NullTracker):
    """Tracker that keeps the metrics of the run."""

    def __init__(self) -> None:
        super().__init__()
        self.logged: list[dict[str, float]] = []

    def log_metrics(self, metrics: Mapping[str, float], step: int = 0) -> None:
        self.logged.append(dict(metrics))
