"""`job=autotune` on kernels: searches on the emulator, warm starts, samplers, and tracking."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import optuna
import pytest
from mlflow import MlflowClient

from rocm_perf_lab.autotune.spaces.space_files import load_space
from rocm_perf_lab.cli.entry import run_lab
from rocm_perf_lab.jobs.autotune.resume import resume
from rocm_perf_lab.jobs.autotune.spaces import find_space
from tests.builders.report_pages import run_data

SPACE = """
parameters: {block_m: [16, 32], block_n: [32, 64], block_k: [16, 512], num_warps: [1, 4]}
constraints: [block_m * block_n >= 256 * num_warps, block_k == 16 or block_m == 16 and num_warps == 1]
defaults: {block_m: 32, block_n: 64, block_k: 16, num_warps: 4}
"""
SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "autotune.schema.json"
SMALL = ("kernel.params.m=64", "kernel.params.n=64", "kernel.params.k=32", "device=emulator")


def tuned(directory: Path, *words: str) -> Any:
    space = directory.parent / "space.yaml"
    space.write_text(SPACE)
    where = (f"autotune.space={space}", f"hydra.run.dir={directory}")
    assert run_lab(["job=autotune", "kernel=gemm_hip", *SMALL, *where, *words]) == 0
    content = json.loads((directory / "autotune.json").read_text())
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(content)
    return content


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'runs.db'}"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, store: str) -> tuple[Path, Any]:
    directory = tmp_path_factory.mktemp("tune") / "run"
    return directory, tuned(directory, "autotune.features=[parameters,compiled]", "autotune.budget=6", f"tracking.uri={store}")


def test_configurations_that_cannot_run_are_discarded_before_the_search(run: tuple[Path, Any]) -> None:
    _, result = run

    assert result["search_space_size"] == 9
    assert result["discarded_configs"] == 2  # block_k = 512 needs 4 * 512 * (16 + 1 + 32) bytes of LDS and more
    assert "exceeds limit (65536)" in result["discarded"][0]["reason"]
    assert all(trial["parameters"]["block_k"] == 16 for trial in result["trials"])


def test_the_best_is_the_fastest_of_verified_emulated_times(run: tuple[Path, Any]) -> None:
    _, result = run
    times = [trial["runtime_ms"] for trial in result["trials"]]

    assert result["evaluated_configs"] == len(times) == 6
    assert result["best_config"]["runtime_ms"] == min(times)
    assert result["time_kind"] == "emulated"
    assert result["provenance"]["emulated"] is True
    assert result["trials"][0]["parameters"] == {"block_m": 32, "block_n": 64, "block_k": 16, "num_warps": 4}  # the default
    assert result["stop_reason"] == "the budget is used up"
    assert set(result["model"]) == {"name", "r2", "residual_std"}
    assert result["warning"] in (None, "low_model_confidence")
    assert result["race"] is None


def test_the_report_holds_the_result(run: tuple[Path, Any]) -> None:
    page = run_data(run[0] / "report.html")

    assert page["autotune"] == run[1]
    assert page["time_kind"] == "emulated"
    assert any("exceeds limit (65536)" in row["reason"] for row in page["autotune"]["discarded"])


def test_mlflow_has_a_child_run_for_every_trial(run: tuple[Path, Any], store: str) -> None:
    _, result = run
    client = MlflowClient(tracking_uri=store)
    (experiment,) = client.search_experiments(filter_string="name = 'rocm-perf-lab'")
    runs = client.search_runs([experiment.experiment_id])
    parents = [one for one in runs if "mlflow.parentRunId" not in one.data.tags]
    (parent,) = [one for one in parents if one.data.metrics.get("evaluated_configs") == 6]
    children = [one for one in runs if one.data.tags.get("mlflow.parentRunId") == parent.info.run_id]

    assert len(children) == 6
    assert {child.data.metrics["runtime_us"] for child in children} == {1000 * t["runtime_ms"] for t in result["trials"]}
    assert all(child.data.tags["phase"] == "seed" and child.data.params["block_k"] == "16" for child in children)
    assert parent.info.status == "FINISHED"
    assert json.loads(parent.data.tags["phases"]) == result["phases"]
    assert parent.data.metrics["runtime_us"] == 1000 * result["best_config"]["runtime_ms"]
    assert parent.data.tags["best.block_k"] == "16"


def test_a_resumed_search_continues_its_tracking_run(run: tuple[Path, Any], store: str, tmp_path: Path) -> None:
    directory = tmp_path / "first"
    tuned(directory, "autotune.features=[parameters,compiled]", "autotune.budget=3", f"tracking.uri={store}")
    client = MlflowClient(tracking_uri=store)
    (experiment,) = client.search_experiments(filter_string="name = 'rocm-perf-lab'")
    before = {one.info.run_id for one in client.search_runs([experiment.experiment_id])}

    resume(directory, {"autotune.budget": 5})

    result = json.loads((directory / "autotune.json").read_text())
    after = {one.info.run_id for one in client.search_runs([experiment.experiment_id])}
    assert result["evaluated_configs"] == 5
    assert len(after - before) == 2  # the two new trials


def test_an_equal_run_reads_its_results_from_the_cache(run: tuple[Path, Any], tmp_path: Path) -> None:
    again = tuned(tmp_path / "again", "autotune.features=[parameters,compiled]", "autotune.budget=6", "tracking=none")

    assert all(trial["details"].pop("cached") for trial in again["trials"])
    for trial in run[1]["trials"]:
        trial["details"].pop("cached", None)
    assert again == run[1]


@pytest.mark.parametrize("source", ["directory", "file", "study", "mlflow"])
def test_a_warm_start_measures_the_earlier_best_early(run: tuple[Path, Any], store: str, tmp_path: Path, source: str) -> None:
    directory, result = run
    client = MlflowClient(tracking_uri=store)
    (experiment,) = client.search_experiments(filter_string="name = 'rocm-perf-lab'")
    (parent,) = [r for r in client.search_runs([experiment.experiment_id]) if r.data.metrics.get("evaluated_configs") == 6]
    prior = {
        "directory": str(directory),
        "file": str(directory / "autotune.json"),
        "study": f"'study:autotune-gemm_hip@sqlite:///{directory}/study.db'",
        "mlflow": f"'mlflow:{parent.info.run_id}'",
    }[source]

    warm = tuned(tmp_path / "warm", f"autotune.prior={prior}", "autotune.budget=5", f"tracking.uri={store}")

    assert result["best_config"]["parameters"] in [trial["parameters"] for trial in warm["trials"]]


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("nowhere.json.gz", "no earlier results found"),
        ("study:x", "names no storage"),
        ("study:x@sqlite:///none.db", "no storage of studies found"),
        ("study:x@sqlite:///some.db", "there is no study 'x'"),
        ("space.yaml", "cannot read the landscape"),
    ],
)
def test_an_unreadable_prior_is_an_error(
    prior: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.yaml").write_text(SPACE)
    optuna.create_study(storage="sqlite:///some.db", study_name="other")

    words = ["job=autotune", "kernel=gemm_hip", "autotune.space=space.yaml", *SMALL, "tracking=none", f"autotune.prior='{prior}'"]

    assert run_lab(words) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()


EMULATED = ("autotune.prior=emulated", "autotune.emulated.budget=8")


def test_emulated_runs_of_a_smaller_problem_are_a_prior(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = tuned(tmp_path / "run", *EMULATED, "autotune.emulated.params={m:32,n:64}", "autotune.budget=4", "tracking=none")

    assert "prior   8 configurations from the emulator at m=32, n=64" in capsys.readouterr().out
    assert len(result["trials"]) == 4
    assert all(trial["runtime_ms"] is None or trial["runtime_ms"] > 0 for trial in result["trials"])


def test_emulated_runs_of_smaller_shapes_are_a_prior_of_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "space.yaml").write_text(SPACE)
    shapes = ["autotune.shapes=[{m:64,n:64},{m:128,n:64}]", "autotune.emulated.params={m:32}", "autotune.budget=4"]
    words = [*SMALL, f"autotune.space={tmp_path}/space.yaml", f"hydra.run.dir={tmp_path}/run", "tracking=none"]

    assert run_lab(["job=autotune", "kernel=gemm_hip", *words, *EMULATED, *shapes]) == 0

    # Both shapes are m=32, n=64 then; with block_k=512, two of the eight configurations have too much LDS.
    assert "prior   6 configurations from the emulator at m=32" in capsys.readouterr().out
    found = json.loads((tmp_path / "run" / "shapes.json").read_text())
    assert (len(found["shapes"]), found["evaluated_configs"]) == (2, 4)
    assert {trial["parameters"]["shape"] for trial in found["trials"]} == {"m=64,n=64", "m=128,n=64"}


def test_sizes_of_emulated_runs_without_these_runs_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tuned(tmp_path / "run", "autotune.emulated.params={m:32}", "autotune.budget=2", "tracking=none")

    assert "autotune.emulated has no effect without autotune.prior=emulated" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["autotune.emulated.params=null"], "the search itself is emulated at this size"),
        (["autotune.emulated.params={m:64,n:64}"], "the search itself is emulated at this size"),
        (["autotune.emulated.params={rows:64}"], "has no parameter 'rows'"),
        (["autotune.emulated.params={block_m:16}"], "the space varies 'block_m'"),
        (["autotune.emulated.params={m:0}"], "0 of 8 emulated configurations ran, 5 are needed; trial 0: "),
        (["autotune.shapes=[{m:32},{m:64}]", "autotune.emulated.params={m:32}"], "the search itself is emulated at this size"),
        (["autotune.shapes=[{m:32},{m:64}]", "autotune.emulated.params={rows:32}"], "has no parameter 'rows'"),
    ],
)
def test_an_impossible_emulated_prior_is_an_error(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "space.yaml").write_text(SPACE)
    where = (f"autotune.space={tmp_path}/space.yaml", f"hydra.run.dir={tmp_path}/run", "tracking=none")

    assert run_lab(["job=autotune", "kernel=gemm_hip", *SMALL, *where, *EMULATED, *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["kernel=gemm_hip", *SMALL], "emulator does not measure energy, which is never emulated"),
        (["job.command='echo {block_m}'"], "the energy of a command is not measured"),
        (["kernel=gemm_hip", *SMALL, "hydra/launcher=joblib", "--multirun"], "a sweep does not measure energy"),
    ],
)
def test_energy_needs_a_gpu(words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "space.yaml").write_text(SPACE)
    where = [f"autotune.space={tmp_path}/space.yaml", f"hydra.run.dir={tmp_path}/run", f"hydra.sweep.dir={tmp_path}/sweep"]

    assert run_lab(["job=autotune", *where, "tracking=none", "autotune.objectives=[energy_mj]", *words]) == 2
    assert message in capsys.readouterr().err


def test_constraints_read_parameters_of_the_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space = tmp_path / "space.yaml"
    space.write_text("{parameters: {block_m: [16, 32, 64, 128], block_k: [8, 16]}, constraints: [block_m <= m]}")
    words = ["job=autotune", "kernel=gemm_hip", *SMALL, f"autotune.space={space}", "tracking=none", "autotune.budget=2"]

    assert run_lab([*words, f"hydra.run.dir={tmp_path / 'run'}"]) == 0
    result = json.loads((tmp_path / "run" / "autotune.json").read_text())
    assert result["search_space_size"] == 6  # 128 exceeds m = 64
    assert all(trial["parameters"].keys() == {"block_m", "block_k"} for trial in result["trials"])

    capsys.readouterr()
    emulated = ["autotune.prior=emulated", "autotune.emulated={params: {m: 0}, budget: 5}"]
    assert run_lab([*words, *emulated, f"hydra.run.dir={tmp_path / 'none'}"]) == 2
    assert "0 of 5 emulated configurations ran" in capsys.readouterr().err  # m is the one of the emulated runs


@pytest.mark.parametrize("sampler", ["TPESampler", "RandomSampler"])
def test_an_optuna_sampler_measures_no_configuration_twice(sampler: str, tmp_path: Path) -> None:
    result = tuned(
        tmp_path / "run", f"+autotune.sampler._target_=optuna.samplers.{sampler}", "autotune.budget=5", "tracking=none"
    )

    taken = [tuple(trial["parameters"].values()) for trial in result["trials"]]
    assert len(set(taken)) == len(taken) == 5
    assert all(m * n >= 256 * warps for m, n, _, warps in taken)
    assert result["model"] is None


def test_the_classic_model_is_selectable(tmp_path: Path) -> None:
    result = tuned(tmp_path / "run", "autotune.model=classic", "autotune.budget=3", "tracking=none")

    assert result["model"]["name"] == "polynomial_2"


def test_an_installed_space_is_found_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert len(load_space(find_space(Path("conf/space/gemm.yaml")))) == 864
    (tmp_path / "conf" / "space").mkdir(parents=True)
    (tmp_path / "conf" / "space" / "gemm.yaml").write_text(SPACE)
    assert len(load_space(find_space(Path("conf/space/gemm.yaml")))) == 9


def test_an_unreachable_storage_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "space.yaml").write_text(SPACE)
    words = ["job=autotune", "kernel=gemm_hip", f"autotune.space={tmp_path}/space.yaml", *SMALL, "tracking=none"]

    code = run_lab([*words, "autotune.storage='postgresql://nobody@127.0.0.1:9/none'", f"hydra.run.dir={tmp_path}/run"])

    assert code == 2
    assert "autotune.storage" in capsys.readouterr().err
