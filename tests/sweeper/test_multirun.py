"""`--multirun` with a space, through each launcher."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
import yaml
from mlflow import MlflowClient

from rocm_perf_lab.cli.entry import run_lab
from rocm_perf_lab.target.catalog import load_target
from tests.builders.sweep_place import BLOCKS, SweepPlace

if TYPE_CHECKING:
    from pathlib import Path

    from mlflow.entities import Run


def needs(module: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"{module} is not installed")


def runs_in(client: MlflowClient) -> list[Run]:
    return [run for experiment in client.search_experiments() for run in client.search_runs([experiment.experiment_id])]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SweepPlace:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return SweepPlace(tmp_path)


def test_the_basic_launcher_searches_the_space_in_this_process(place: SweepPlace, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_lab(place.words("+job.refuse=96", "+job.fail=128"))

    shown = capsys.readouterr()
    assert code == 0, shown.err
    result = place.result()
    best = result["best_config"]
    assert (best["parameters"], best["runtime_ms"]) == ({"block": 256}, 1.0)
    assert best["expected_ms"] == list(load_target("mi300x").timing_errors.around(1.0))
    assert result["search_space_size"] == result["evaluated_configs"] == len(BLOCKS)
    reasons = {failure["parameters"]["block"]: failure["reason"].splitlines()[0] for failure in result["failures"]}
    assert reasons == {96: "the kernel computes something else", 128: "ZeroDivisionError: by hand"}
    assert {job["pid"] for job in place.told()} == {os.getpid()}
    assert {job["display"] for job in place.told()} == {"none"}
    results = yaml.safe_load((place.directory / "swept" / "optimization_results.yaml").read_text())
    assert (results["best_params"], results["best_value"], results["failed"]) == ({"block": 256}, 1.0, 2)
    assert "block=256" in shown.out
    assert "left    every configuration is evaluated" in shown.out


def test_a_continued_sweep_compares_with_the_best_of_all_trials(place: SweepPlace, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"autotune.storage=sqlite:///{place.directory}/study.db", "autotune.study=continued"]
    assert run_lab(place.words(*words, f"autotune.budget={len(BLOCKS) - 1}")) == 0
    assert place.result()["best_config"]["runtime_ms"] == 1.0
    capsys.readouterr()

    assert run_lab(place.words(*words, f"autotune.budget={len(BLOCKS)}", "hydra.sweep.dir=again")) == 0

    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("trial ") and "block=" in line][:1]
    assert not line.endswith("best")  # the fastest configuration was known


def test_a_sweep_races_the_fastest_measured_configurations(place: SweepPlace, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_lab(place.words("+job.lucky=512"))

    shown, result = capsys.readouterr(), place.result()
    assert code == 0, shown.err
    trials = {trial["parameters"]["block"]: trial["runtime_ms"] for trial in result["trials"]}
    assert min(trials, key=trials.__getitem__) == 512  # 1.04 ms in its trial, 1.08 ms in the race
    outcomes = {standing["trial"]: standing["outcome"] for standing in result["race"]["standings"]}
    assert result["race"]["decided"]
    assert "slower" in outcomes.values()
    assert result["best_config"]["parameters"] != {"block": 512}
    raced = {int(path.parent.name) for path in (place.directory / "swept" / "race").glob("*/told.json")}
    assert min(raced) == len(BLOCKS)  # numbers follow those of the trials
    assert len(result["trials"]) == len(BLOCKS)


def test_a_sweep_of_several_shapes_races_each_shape(place: SweepPlace, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_lab(place.words("+job.lucky=512", "autotune.shapes=[{n: 512},{n: 4096}]", "autotune.max_races=3"))

    found = json.loads((place.directory / "swept" / "shapes.json").read_text())
    assert code == 0
    assert "of 2 decided" in capsys.readouterr().out
    assert all(shape["race"]["standings"] for shape in found["shapes"])
    assert all(shape["best_parameters"] != {"block": 512} for shape in found["shapes"])


def test_without_races_the_trials_decide(place: SweepPlace) -> None:
    code = run_lab(place.words("+job.lucky=512", "autotune.max_races=0"))

    assert code == 0
    assert place.result()["race"] is None
    assert place.result()["best_config"]["parameters"] == {"block": 512}
    assert not (place.directory / "swept" / "race").exists()


def test_a_race_that_cannot_be_measured_leaves_the_result_of_the_trials(
    place: SweepPlace, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    code = run_lab(place.words("+job.lucky=512", "+job.kill_race=true", "hydra/launcher=joblib", "hydra.launcher.n_jobs=1"))

    assert code == 0, capsys.readouterr().err
    assert "the race was given up" in caplog.text
    assert place.result()["best_config"]["parameters"] == {"block": 512}


def test_a_sweep_has_objectives_and_limits(place: SweepPlace) -> None:
    code = run_lab(
        place.words("autotune.objectives=[{metric: block, direction: maximise}]", "autotune.limits=['runtime_ms < 300']")
    )

    assert code == 0
    assert place.result()["best_config"]["parameters"] == {"block": 512}
    assert place.result()["front"][0]["values"] == {"block": 512}
    results = yaml.safe_load((place.directory / "swept" / "optimization_results.yaml").read_text())
    assert results["best_value"] == 512


def test_a_job_that_hangs_in_this_process_ends_at_the_limit_even_if_it_is_the_first(place: SweepPlace) -> None:
    start = time.monotonic()

    code = run_lab(place.words("+job.hang=64", "autotune.first_cutoff_s=5", "autotune.budget=6"))

    result = place.result()
    assert code == 0
    assert time.monotonic() - start < 120  # the job sleeps for 600 s
    assert result["best_config"]["parameters"] == {"block": 256}
    (failure,) = result["failures"]
    assert failure["parameters"] == {"block": 64}
    assert failure["reason"].startswith("not finished after")


def test_a_sweep_tunes_several_shapes_together(place: SweepPlace, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_lab(
        place.words("autotune.shapes=[{n: 512},{n: 4096}]", "autotune.limits=['block * 8 <= n']", "autotune.configurations=1")
    )

    found = json.loads((place.directory / "swept" / "shapes.json").read_text())
    assert code == 0
    assert "1 configuration for 2 shapes of vector_add" in capsys.readouterr().out
    assert {job["n"] for job in place.told()} == {512, 4096}
    assert found["configurations"] == [{"block": 64}]  # the only one within the limits of both shapes
    best = {shape["shape"]["n"]: (shape["best_parameters"], shape["best_ms"]) for shape in found["shapes"]}
    assert best == {512: ({"block": 64}, 193.0), 4096: ({"block": 256}, 1.0)}
    assert (place.directory / "swept" / "configurations.hpp").is_file()
    assert not (place.directory / "swept" / "optimization_results.yaml").exists()  # no single best one


def test_jobs_are_child_runs_of_the_sweep(place: SweepPlace) -> None:
    store = f"sqlite:///{place.directory}/runs.db"

    code = run_lab(place.words("tracking=mlflow", f"tracking.uri={store}", "+job.refuse=96", "autotune.budget=6"))

    assert code == 0
    client = MlflowClient(store)
    runs = runs_in(client)
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    assert [run.info.run_name for run in parents] == ["sweep stand_job vector_add"]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parents[0].info.run_id}
    assert sorted(int(run.data.tags["trial"]) for run in children) == list(range(6))
    assert Counter(run.info.status for run in children) == {"FINISHED": 5, "FAILED": 1}
    assert parents[0].data.params["sampler"] == "RegressionSampler"
    assert parents[0].data.metrics["runtime_us"] == 1000.0
    assert {"autotune.json", "optimization_results.yaml"} <= {a.path for a in client.list_artifacts(parents[0].info.run_id)}


def test_an_optuna_sampler_is_named_in_yaml(place: SweepPlace) -> None:
    code = run_lab(place.words("autotune.sampler={_target_: optuna.samplers.GridSampler}", "autotune.budget=4"))

    assert code == 0
    results = yaml.safe_load((place.directory / "swept" / "optimization_results.yaml").read_text())
    assert (results["sampler"], results["trials"]) == ("GridSampler", 4)
    assert len({job["block"] for job in place.told()}) == 4


def test_without_a_space_all_combinations_run(place: SweepPlace) -> None:
    words = [word for word in place.words("kernel.params.block=64,128", "kernel.params.n=10,20") if "autotune.space" not in word]

    code = run_lab(words)

    assert code == 0
    assert [job["block"] for job in place.told()] == [64, 64, 128, 128]


def test_a_space_is_an_option_of_its_group(place: SweepPlace) -> None:
    words = [word for word in place.words("space=vector_add", "autotune.budget=1") if "autotune.space" not in word]

    code = run_lab(words)

    assert code == 0
    assert [job["block"] for job in place.told()] == [256], "what the space calls `first`"


def test_the_key_defaults_in_an_option_is_explained(place: SweepPlace, capsys: pytest.CaptureFixture[str]) -> None:
    (place.directory / "experiments" / "mine").mkdir(parents=True)
    (place.directory / "experiments" / "mine" / "space.yaml").write_text("parameters: {block: [64]}\ndefaults: {block: 64}")

    text = refused(place.words("space=mine"), capsys)

    assert "write `first:`" in text


def test_an_autotune_job_runs_once_per_combination(place: SweepPlace) -> None:
    code = run_lab(
        [
            "job=autotune", "kernel=vector_add", "kernel.params.n=64,128", "space=vector_add", "autotune.budget=1",
            "device=emulator", "tracking=none", "hydra.sweep.dir=swept", "--multirun",
        ]
    )  # fmt: skip

    assert code == 0
    assert [place.result(f"swept/{number}")["evaluated_configs"] for number in range(2)] == [1, 1]


@pytest.mark.slow
@needs("joblib")
def test_joblib_runs_a_worker_per_slot_and_replaces_a_killed_one(place: SweepPlace) -> None:
    done = place.sweep(
        "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "hydra.sweeper.gpus=[5,7]", "+job.kill=512", "+job.pause=0.3"
    )

    assert done.returncode == 0, done.stderr
    result, told = place.result(), place.told()
    assert result["best_config"]["parameters"] == {"block": 256}
    assert Counter(job["block"] for job in told) == Counter([*BLOCKS, 512]), "once more in another worker"
    killed = next(failure for failure in result["failures"] if failure["parameters"]["block"] == 512)
    assert "killed by SIGKILL" in killed["reason"]
    assert len(result["failures"]) == 1
    gpus: dict[int, set[str]] = {}
    for job in told:
        gpus.setdefault(job["pid"], set()).add(job["gpu"])
    assert len(gpus) >= 2
    assert {gpu for seen in gpus.values() for gpu in seen} == {"5", "7"}
    assert all(len(seen) == 1 for seen in gpus.values()), "a worker keeps its GPU"
    assert {job["threads"] for job in told} == {max(1, (os.cpu_count() or 1) // 2)}


@pytest.mark.slow
@needs("joblib")
def test_a_search_spreads_its_trials_over_the_workers_of_a_launcher(place: SweepPlace) -> None:
    words = ["job=autotune", "kernel=vector_add", "kernel.params.n=64", "space=vector_add", "autotune.budget=3"]
    launcher = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "device=emulator", "tracking=none", "hydra.sweep.dir=spread"]

    code = run_lab([*words, *launcher, "--multirun"])

    assert code == 0
    result = place.result("spread")
    assert result["evaluated_configs"] == 3
    assert len({trial["details"]["directory"] for trial in result["trials"]}) == 3, "each trial is a job of its own"


@pytest.mark.slow
@needs("submitit")
def test_submitit_submits_each_trial(place: SweepPlace) -> None:
    done = place.sweep("hydra/launcher=submitit_local", "hydra.sweeper.slots=2", "autotune.budget=4", "+job.kill=1024")

    assert done.returncode == 0, done.stderr
    result = place.result()
    assert result["evaluated_configs"] == 4
    assert len({job["pid"] for job in place.told()}) == 4
    assert len({job["block"] for job in place.told()}) == 4


@pytest.mark.slow
@needs("ray")
def test_ray_schedules_trials(place: SweepPlace) -> None:
    done = place.sweep("hydra/launcher=ray", "+hydra.launcher.ray.init.num_cpus=2", "+job.kill=1024", "+job.refuse=96")

    assert done.returncode == 0, done.stderr
    result = place.result()
    assert result["best_config"]["parameters"] == {"block": 256}
    assert sorted(job["block"] for job in place.told()) == BLOCKS
    assert {failure["parameters"]["block"] for failure in result["failures"]} == {96, 1024}
    assert "2 slots" in done.stdout


def interrupt(place: SweepPlace, kind: signal.Signals, trials: int, *words: str) -> subprocess.CompletedProcess[str]:
    """Send a signal to a sweep that has begun that many trials and does not end by itself."""
    process = place.begin(*words)
    waited = time.monotonic()
    while len(place.told()) < trials and process.poll() is None and time.monotonic() - waited < 200:
        time.sleep(0.1)
    time.sleep(1)
    os.killpg(process.pid, kind)
    out, err = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.mark.slow
def test_sigterm_ends_a_sweep_like_ctrl_c(place: SweepPlace) -> None:
    place.space.write_text("parameters: {block: [64, 128]}\ndefaults: {block: 64}")

    done = interrupt(place, signal.SIGTERM, 2, "+job.hang=128")

    assert done.returncode == 130, done.stderr
    assert [trial["parameters"]["block"] for trial in place.result()["trials"]] == [64]
    assert place.result()["stop_reason"] == "interrupted"


@pytest.mark.slow
@needs("joblib")
def test_an_interrupted_sweep_keeps_its_trials_and_resumes(place: SweepPlace) -> None:
    store = f"sqlite:///{place.directory}/runs.db"
    words = [
        "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", f"autotune.storage=sqlite:///{place.directory}/study.db",
        "tracking=mlflow", f"tracking.uri={store}",
    ]  # fmt: skip

    done = interrupt(place, signal.SIGINT, 4, *words, "+job.hang=128")

    assert done.returncode == 130, done.stderr
    assert "completed work is kept" in done.stderr
    kept = {trial["parameters"]["block"] for trial in place.result()["trials"]}
    assert kept and 128 not in kept
    assert place.result()["stop_reason"] == "interrupted"
    client = MlflowClient(store)
    runs = runs_in(client)
    assert {run.info.status for run in runs} <= {"FINISHED", "KILLED"}

    again = place.sweep(*words, "hydra.sweep.dir=again")

    assert again.returncode == 0, again.stderr
    assert {trial["parameters"]["block"] for trial in place.result("again")["trials"]} == set(BLOCKS)
    assert not {job["block"] for job in place.told("again")} & kept


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    code = run_lab(words)
    text = capsys.readouterr().err
    assert code == 2
    assert "Traceback" not in text
    return text


def test_an_unknown_launcher_is_reported_with_the_available_ones(place: SweepPlace, capsys: pytest.CaptureFixture[str]) -> None:
    text = refused(place.words("hydra/launcher=slumr"), capsys)

    assert "no hydra/launcher named 'slumr'" in text
    assert "basic" in text
    assert "rocm-perf-lab[cluster]" in text
    assert not (place.directory / "swept").exists()


def test_an_unknown_kernel_parameter_is_refused_before_any_run(place: SweepPlace, capsys: pytest.CaptureFixture[str]) -> None:
    place.space.write_text("parameters: {tile: [1, 2]}")

    text = refused(place.words(), capsys)

    assert "'tile'" in text
    assert "block" in text
    assert not (place.directory / "swept").exists()


def test_lists_and_a_space_exclude_each_other(place: SweepPlace, capsys: pytest.CaptureFixture[str]) -> None:
    text = refused(place.words("kernel.params.n=10,20"), capsys)

    assert "kernel.params.n=10,20" in text


@needs("psycopg")
def test_an_unreachable_storage_is_one_error(place: SweepPlace, capsys: pytest.CaptureFixture[str]) -> None:
    text = refused(place.words("autotune.storage=postgresql://lab:secret@127.0.0.1:1/none"), capsys)

    assert "refused" in text
    assert "secret" not in text


def test_a_study_is_not_resumed_with_another_space(place: SweepPlace, capsys: pytest.CaptureFixture[str]) -> None:
    shared = ["autotune.storage=sqlite:///shared.db", "autotune.study=blocks"]
    assert run_lab(place.words(*shared, "autotune.budget=2")) == 0
    place.space.write_text("parameters: {block: [64, 2048]}")

    text = refused(place.words(*shared), capsys)

    assert "block is [64, 96, 128, 256, 512, 1024] in the study and [64, 2048] here" in " ".join(text.split())


def test_more_slots_than_the_launcher_has_is_an_error(place: SweepPlace, capsys: pytest.CaptureFixture[str]) -> None:
    text = refused(place.words("hydra.sweeper.slots=3"), capsys)

    assert "hydra/launcher=joblib" in text


@pytest.mark.parametrize("slots", [0, -1])
def test_fewer_than_one_slot_is_an_error(slots: int, place: SweepPlace, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{slots} slots" in refused(place.words("hydra/launcher=joblib", f"hydra.sweeper.slots={slots}"), capsys)


def test_a_sweep_without_results_reports_the_reasons(place: SweepPlace, capsys: pytest.CaptureFixture[str]) -> None:
    place.space.write_text("parameters: {block: [96]}")

    text = refused(place.words("+job.refuse=96"), capsys)

    assert "the kernel computes something else" in text
