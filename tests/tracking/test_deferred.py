"""A deferred run arrives in the store, from the foreground and from a separate process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from mlflow import MlflowClient

from rocm_perf_lab.core.components import Component
from rocm_perf_lab.tracking.deferred import FAILURE, FOREGROUND, RECORD, DeferredTracker, main
from rocm_perf_lab.tracking.run import TrackingError
from rocm_perf_lab.tracking.store import open_mlflow_tracker

if TYPE_CHECKING:
    from pathlib import Path

TARGET = f"{open_mlflow_tracker.__module__}.{open_mlflow_tracker.__name__}"
PATIENCE_S = 120


def row(store: str) -> Component:
    return Component.model_validate({"_target_": TARGET, "uri": store, "experiment": "deferred"})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'runs.db'}"


def logged(tracker: DeferredTracker, directory: Path) -> None:
    (directory / "profile.json").write_text("{}")
    with tracker:
        tracker.set_tags({"job": "application"})
        tracker.log_params({"n": 4})
        tracker.log_metrics({"vgpr": 8.0})
        tracker.log_artifact(directory / "profile.json")


@pytest.mark.slow
def test_the_record_is_logged_in_the_foreground_and_in_the_background(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOREGROUND, "foreground")
    logged(DeferredTracker(row(store), "in front", tmp_path), tmp_path)
    monkeypatch.delenv(FOREGROUND)
    logged(DeferredTracker(row(store), "behind", tmp_path), tmp_path)
    deadline = time.monotonic() + PATIENCE_S
    while (tmp_path / RECORD).exists() and time.monotonic() < deadline:
        time.sleep(0.1)

    client = MlflowClient(tracking_uri=store)
    experiment = client.get_experiment_by_name("deferred")
    assert experiment is not None
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(runs) == {"in front", "behind"}
    for run in runs.values():
        assert run.info.status == "FINISHED"
        assert run.data.tags["job"] == "application"
        assert run.data.params == {"n": "4"}
        assert run.data.metrics == {"vgpr": 8.0}
        assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["profile.json"]


def test_an_unusable_store_is_reported_in_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.nice", lambda _: 0)
    monkeypatch.setenv(FOREGROUND, "foreground")
    missing = f"sqlite:///{tmp_path / 'profile.json' / 'runs.db'}"

    with pytest.raises(TrackingError):
        logged(DeferredTracker(row(missing), "nowhere", tmp_path), tmp_path)

    assert main(tmp_path) == 1
    assert "MLflow store cannot be used" in (tmp_path / FAILURE).read_text()
    assert (tmp_path / RECORD).exists()


def test_an_unwritable_directory_does_not_hide_the_error_that_ended_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    tracker = DeferredTracker(row("sqlite://"), "nowhere", tmp_path / "file" / "run")

    with pytest.raises(TrackingError, match="tracking record cannot be written"):
        tracker.close()
    with pytest.raises(ValueError, match="the reason"), tracker:
        raise ValueError("the reason")
