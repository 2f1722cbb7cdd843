"""Objectives other than time, several at once, and limits."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.autotune.goals import Goal, Goals
from rocm_perf_lab.autotune.spaces.enumeration import build_space
from rocm_perf_lab.autotune.spaces.space_description import describe
from rocm_perf_lab.autotune.trials import TrialRecord
from rocm_perf_lab.cli.entry import run_lab
from rocm_perf_lab.core.expressions import ExpressionError

if TYPE_CHECKING:
    from pathlib import Path


def trial(number: int, runtime_ms: float | None, **details: float) -> TrialRecord:
    return TrialRecord(number, {"tile": 2**number}, "seed", runtime_ms, None, {}, None, None, dict(details))


def test_an_objective_is_an_expression_of_time_metrics_parameters_and_constants() -> None:
    goals = Goals((Goal("2 * n / runtime_ms", maximise=True), Goal("vgpr + tile")), (), {"n": 100})

    assert goals.values(trial(3, 4.0, vgpr=32.0)) == (50.0, 40.0)
    assert goals.values(trial(3, None)) is None


def test_a_trial_beyond_a_limit_has_no_values() -> None:
    goals = Goals(limits=("vgpr <= 128", "runtime_ms < 10"))

    assert goals.values(trial(0, 4.0, vgpr=128)) == (4.0,)
    assert goals.values(trial(0, 4.0, vgpr=129)) is None


def test_the_front_has_the_trials_that_no_other_beats() -> None:
    goals = Goals((Goal("runtime_ms"), Goal("gflops", maximise=True)))
    trials = [trial(0, 1.0, gflops=5), trial(1, 2.0, gflops=9), trial(2, 2.0, gflops=8), trial(3, 3.0, gflops=9), trial(4, None)]

    front = goals.front(trials)

    assert [(one.trial.number, one.values) for one in front] == [(0, (1.0, 5.0)), (1, (2.0, 9.0))]


def test_scores_prefer_a_trial_that_is_better_in_all_objectives() -> None:
    goals = Goals((Goal("a"), Goal("b")))
    costs = goals.costs([(2.0, -3.0), (1.0, -4.0), None])

    for seed in range(5):
        scores = goals.scores(costs, seed)
        assert scores[1] < scores[0] < np.inf
        assert scores[2] == np.inf


def test_expressions_tell_which_metrics_they_need() -> None:
    assert Goals((Goal("energy_mj * runtime_ms"),)).reads_energy
    assert not Goals((Goal("printed_energy_mj"),)).reads_energy
    assert Goals(limits=("compile_s < 3",)).timed_compilation


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ExpressionError, match="flops"):
        Goals((Goal("flops"),)).values(trial(0, 1.0))


PROGRAM = """
import sys
x, y = int(sys.argv[1]), int(sys.argv[2])
print(f"time: {1 + (x - 5) ** 2 + y / 100} ms\\nrate: {-x * y} units")
"""


def tuned(directory: Path, *words: str) -> tuple[int, Any]:
    program, space = directory / "program.py", directory / "space.json"
    program.write_text(PROGRAM)
    space.write_text(json.dumps([{"x": x, "y": y} for x in range(6) for y in range(1, 4)]))
    command = f"{sys.executable} {program} {{x}} {{y}}"
    settings = [f"autotune.space={space}", f"job.command='{command}'", "job.runs=1", f"hydra.run.dir={directory / 'run'}"]
    printed = ["job.time_regex='time: ([\\d.]+) ms'", "autotune.printed={rate: 'rate: (-?[\\d.]+)'}", "tracking=none"]
    code = run_lab(["job=autotune", *settings, *printed, "autotune.max_rounds=1", *words])
    result = directory / "run" / "autotune.json"
    return code, json.loads(result.read_text()) if result.is_file() else None


@pytest.mark.slow
def test_a_printed_metric_is_maximised_within_a_limit(tmp_path: Path) -> None:
    code, found = tuned(
        tmp_path, "autotune.objectives=[{metric: rate, direction: maximise}]", "autotune.limits=['x >= 2']", "autotune.budget=16"
    )

    assert code == 0
    assert found["objectives"] == ["maximise rate"]
    assert found["best_config"]["parameters"] == {"x": 2, "y": 1}  # the largest -x y with x of 2 or more
    assert [member["values"] for member in found["front"]] == [{"rate": -2.0}]


@pytest.mark.slow
def test_two_objectives_have_a_front(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = tuned(tmp_path, "autotune.objectives=[runtime_ms, x]", "autotune.budget=16")

    assert code == 0
    values = [tuple(member["values"].values()) for member in found["front"]]
    assert values == sorted(values)
    assert all(b[1] < a[1] for a, b in pairwise(values))  # slower ones have a smaller x
    assert len(values) >= 3  # x of 0 to 5 with y = 1 are 6
    first = found["front"][0]
    shown = " ".join(capsys.readouterr().out.split())
    assert f"front trial {first['trial']}: runtime_ms={values[0][0]:.4g}, x={values[0][1]:g};" in shown
    assert {row["predicted_ms"] for row in found["trials"]} == {None}  # the model predicts no times


@pytest.mark.slow
def test_limits_combine_with_the_stopping_rule_and_an_earlier_result_with_another_objective(tmp_path: Path) -> None:
    limits = ["autotune.limits=['x + y <= 5']", "autotune.stop_when={better_than: 0.02, probability: 0.2}"]
    code, first = tuned(tmp_path, *limits)
    (tmp_path / "run").rename(tmp_path / "first")
    again, second = tuned(
        tmp_path,
        "autotune.objectives=[{metric: rate, direction: maximise}]",
        f"autotune.prior={tmp_path / 'first'}",
        "autotune.budget=10",
    )

    assert (code, again) == (0, 0)
    assert first["best_config"]["parameters"] == {"x": 4, "y": 1}  # x = 5 exceeds the limit with every y but 0
    assert first["remaining"][1]["probability"] <= 0.2 or first["evaluated_configs"] == 18
    assert second["best_config"]["parameters"]["x"] == 0  # the largest -x y


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["autotune.objectives=[rate, x]", "autotune.stop_when={better_than: 0.1}"], "this setting is for one objective"),
        (["autotune.objectives=[rate, x]", "autotune.prior=earlier"], "this setting is for one objective"),
        (
            ["autotune.limits=['x > 1']", "autotune.sampler={_target_: optuna.samplers.RandomSampler}"],
            "a sampler of Optuna optimises the time alone",
        ),
        (
            ["autotune.model=classic", "autotune.stop_when={better_than: 0.1}"],
            "this search does not estimate the probability that something better is left",
        ),
    ],
)
def test_contradictory_settings_are_one_error(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = tuned(tmp_path, *words)

    assert code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run" / "study.db").exists()


def test_expressions_read_derived_values_of_the_space() -> None:
    space = build_space(describe({"parameters": {"tile": [1, 2]}, "derived": {"area": "tile * tile"}}, where="t"))
    goals = Goals(limits=("area <= 2",), space=space)

    assert goals.values(TrialRecord(0, {"tile": 1}, "seed", 4.0, None, {}, None, None, {})) == (4.0,)
    assert goals.values(TrialRecord(1, {"tile": 2}, "seed", 4.0, None, {}, None, None, {})) is None
