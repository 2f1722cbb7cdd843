"""Runs of several kernels, GPUs and commits compare in one table, without preparation."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

import rocm_perf_lab as lab
from rocm_perf_lab.tracking.description import description
from rocm_perf_lab.tracking.store import RUNS_VIEW, open_mlflow_tracker

if TYPE_CHECKING:
    from pathlib import Path

N = 4096


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return uri


def test_two_gpus_compare_in_a_table(store: str, tmp_path: Path) -> None:
    profiled = {
        gpu: lab.profile("vector_add", n=N, target=gpu, device="emulator", output=tmp_path / gpu) for gpu in ("mi300x", "mi325x")
    }

    import mlflow

    mlflow.set_tracking_uri(store)
    found = mlflow.search_runs(experiment_names=["rocm-perf-lab"]).set_index("tags.target")
    table = lab.runs(kernel="vector_add").set_index("target")

    rows, ours = found.to_dict("index"), table.to_dict("index")
    for gpu, run in profiled.items():
        assert rows[gpu]["metrics.runtime_us"] == run.runtime_us == ours[gpu]["runtime_us"]
        assert rows[gpu]["tags.time_kind"] == "emulated"
        assert rows[gpu]["tags.shape"] == f"n={N} block=256"
        assert rows[gpu]["tags.mlflow.runName"] == f"profile vector_add n={N} block=256 on {gpu}"
        assert f"**{run.runtime_us:.4g} us** emulated" in rows[gpu]["tags.mlflow.note.content"]
    assert set(table["git_commit"]) == {_commit()}
    assert lab.runs(kernel="another's kernel").empty
    assert lab.runs(kernel="softmax").empty


def _commit() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


def test_children_have_the_tags_of_their_parent_and_progress_has_steps(store: str) -> None:
    common = {"kernel": "softmax", "target": "mi300x", "user": "someone"}
    with open_mlflow_tracker(run_name="optimize", common_tags=common) as parent:
        for step, time_us in enumerate((20.0, 15.0, 10.0)):
            parent.log_metrics({"runtime_us": time_us}, step)
        with parent.child("01 unroll", {"verdict": "accepted"}) as child:
            child.log_metrics({"improvement": 0.25})

    table = lab.runs(children=True).set_index("name")
    rows = table.to_dict("index")
    assert [rows["01 unroll"][name] for name in ("kernel", "target", "user")] == ["softmax", "mi300x", "someone"]
    assert rows["01 unroll"]["parent"] == rows["optimize"]["run_id"]
    assert rows["optimize"]["runtime_us"] == 10.0

    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store)
    history = client.get_metric_history(str(parent.run_id), "runtime_us")
    assert [(one.step, one.value) for one in history] == [(0, 20.0), (1, 15.0), (2, 10.0)]
    experiment = client.get_experiment_by_name("rocm-perf-lab")
    assert experiment is not None and experiment.tags["mlflow.experimentKind"] == "custom_model_development"


def test_the_view_of_the_runs_table_shows_time_and_speed_up(store: str) -> None:
    """Also in an experiment of an earlier version, which has no such view; a view that was changed stays."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store)
    number = client.create_experiment("rocm-perf-lab")
    tag = f"mlflow.sharedViewState.{RUNS_VIEW}"
    with open_mlflow_tracker(run_name="first"):
        pass
    columns = json.loads(client.get_experiment(number).tags[tag])["selectedColumns"]
    client.set_experiment_tag(number, tag, "{}")
    with open_mlflow_tracker(run_name="second"):
        pass

    assert {"metrics.`runtime_us`", "metrics.`speedup`", "tags.`time_kind`"} <= set(columns)
    assert client.get_experiment(number).tags[tag] == "{}"


@pytest.mark.slow
def test_a_search_has_parameters_and_device(store: str, tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text("{parameters: {block: [64, 128]}}")
    lab.autotune("vector_add", n=N, space=tmp_path / "space.yaml", budget=2, device="emulator", output=tmp_path / "tuned")

    found = lab.runs().iloc[0]
    expected = {"kernel": "vector_add", "target": "mi300x", "kernel.n": str(N), "budget": "2", "seed": "0", "device": "emulator"}
    assert {name: found[name] for name in expected} == expected


def test_a_description_has_the_main_figures() -> None:
    known: dict[str, str | float] = {
        "kernel": "softmax",
        "shape": "rows=4",
        "target": "mi300x",
        "time_kind": "measured",
        "runtime_us": 12.5,
        "speedup": 1.6,
    }

    assert description(known).splitlines() == [
        "**softmax rows=4** on mi300x", "", "- time: **12.5 us** measured", "- speed-up: **1.6x**",
    ]  # fmt: skip
    assert description({"kernel": "softmax"}) == ""


def test_a_wrong_configuration_leaves_no_run(store: str, tmp_path: Path) -> None:
    with pytest.raises(lab.LabError):
        lab.profile("vector_add", n=N, blok=64, output=tmp_path / "wrong")

    assert lab.runs().empty
