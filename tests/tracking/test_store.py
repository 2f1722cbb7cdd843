"""Runs in MLflow, read back through its client from a real SQLite store."""

from __future__ import annotations

import math
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mlflow import MlflowClient
from sqlalchemy import Engine, event

from rocm_perf_lab.tracking.run import NullTracker, TrackingError
from rocm_perf_lab.tracking.store import DEFAULT_URI, open_mlflow_tracker, ui_command
from tests.builders.sqlite import skip_syncs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlflow.entities import Run

    from rocm_perf_lab.tracking.run import RunTracker


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of a store: creating one takes seconds, so all tests share it, each with a separate experiment."""
    path = tmp_path_factory.mktemp("my store") / "runs.db"
    open_mlflow_tracker(run_name="first", uri=f"sqlite:///{path}", experiment="first").close()
    return path


@pytest.fixture
def tracker(store: Path, request: pytest.FixtureRequest) -> RunTracker:
    """A new run."""
    return open_mlflow_tracker(run_name="softmax", uri=f"sqlite:///{store}", experiment=request.node.name)


def client_of(tracker: RunTracker) -> MlflowClient:
    return MlflowClient(tracking_uri=tracker.uri)


def stored(tracker: RunTracker) -> Run:
    assert tracker.run_id is not None
    return client_of(tracker).get_run(tracker.run_id)


def artifact(tracker: RunTracker, name: str) -> bytes:
    return Path(client_of(tracker).download_artifacts(str(tracker.run_id), name)).read_bytes()


# Content of a run


def test_a_run_has_its_name_its_experiment_and_its_source(tracker: RunTracker, request: pytest.FixtureRequest) -> None:
    run = stored(tracker)

    assert run.info.run_name == "softmax"
    assert client_of(tracker).get_experiment(run.info.experiment_id).name == request.node.name
    assert run.data.tags["mlflow.source.name"] == "rocm-perf-lab"
    assert run.info.status == "RUNNING"


def test_params_metrics_and_tags_are_stored(tracker: RunTracker) -> None:
    tracker.log_params({"kernel": "softmax", "kernel.cols": 4096, "block": (256, 1, 1), "fast": True, "none": None})
    tracker.log_metrics({"emulated_runtime_ms": 0.125, "vgpr": 32, "max_abs_error": math.inf, "unknown": math.nan})
    tracker.set_tags({"device": "emulator", "größe": "∑"})

    data = stored(tracker).data
    assert data.params == {"kernel": "softmax", "kernel.cols": "4096", "block": "(256, 1, 1)", "fast": "True", "none": "None"}
    assert (data.metrics["emulated_runtime_ms"], data.metrics["vgpr"]) == (0.125, 32.0)
    assert data.metrics["max_abs_error"] > 1e300  # SQL has no infinity: MLflow stores the largest float
    assert math.isnan(data.metrics["unknown"])
    assert (data.tags["device"], data.tags["größe"]) == ("emulator", "∑")


def test_batches_larger_than_a_request_are_stored(tracker: RunTracker) -> None:
    tracker.log_params({f"p{i}": i for i in range(250)})
    tracker.set_tags({f"t{i}": str(i) for i in range(250)})
    tracker.log_metrics({f"m{i}": i for i in range(1200)})

    data = stored(tracker).data
    assert (data.params["p249"], data.tags["t249"], data.metrics["m1199"]) == ("249", "249", 1199.0)


def test_empty_batches_are_accepted(tracker: RunTracker) -> None:
    tracker.log_params({})
    tracker.log_metrics({})
    tracker.set_tags({})

    data = stored(tracker).data
    assert (data.params, data.metrics) == ({}, {})


def test_values_longer_than_500_characters_are_truncated(tracker: RunTracker) -> None:
    tracker.log_params({"just": "x" * 500, "long": "y" * 501})
    tracker.set_tags({"reason": "z" * 9000})

    data = stored(tracker).data
    assert data.params == {"just": "x" * 500, "long": "y" * 498 + " …"}
    assert data.tags["reason"] == "z" * 498 + " …"


def test_files_and_texts_are_artifacts(tracker: RunTracker, tmp_path: Path) -> None:
    file = tmp_path / "my kernel.hsaco"
    file.write_bytes(b"\x7fELF\x00\xff")

    tracker.log_artifact(file)
    tracker.log_artifact(file, "best")
    tracker.log_text("größe\r\nzwei\n", "proposal.diff")

    assert artifact(tracker, "my kernel.hsaco") == artifact(tracker, "best/my kernel.hsaco") == b"\x7fELF\x00\xff"
    assert artifact(tracker, "proposal.diff").decode() == "größe\r\nzwei\n"
    assert sorted(f.path for f in client_of(tracker).list_artifacts(str(tracker.run_id))) == [
        "best",
        "my kernel.hsaco",
        "proposal.diff",
    ]


def test_artifacts_are_next_to_the_store(tracker: RunTracker, store: Path) -> None:
    tracker.log_text("text", "a.txt")

    (found,) = store.parent.glob(f"mlartifacts/{tracker.run_id}/artifacts/a.txt")
    assert found.read_text() == "text"


def test_a_child_is_a_run_below_its_parent(tracker: RunTracker) -> None:
    with tracker.child("01 unroll", tags={"verdict": "accepted"}) as child, child.child("deeper") as grandchild:
        child.log_params({"transform": "unroll"})

    run, deeper = stored(child), stored(grandchild)
    assert (run.info.run_name, run.info.experiment_id) == ("01 unroll", stored(tracker).info.experiment_id)
    assert run.data.tags["mlflow.parentRunId"] == tracker.run_id
    assert run.data.tags["verdict"] == "accepted"
    assert deeper.data.tags["mlflow.parentRunId"] == child.run_id
    assert (run.data.params, stored(tracker).data.params) == ({"transform": "unroll"}, {})


def test_tags_of_a_child_that_has_ended_can_be_corrected(tracker: RunTracker) -> None:
    with tracker.child("proposal", {"verdict": "accepted"}) as child:
        pass
    assert child.run_id is not None

    tracker.known_child(child.run_id).set_tags({"verdict": "rejected"})

    run = stored(child)
    assert (run.data.tags["verdict"], run.info.status) == ("rejected", "FINISHED")


def test_an_experiment_holds_several_runs(tracker: RunTracker, request: pytest.FixtureRequest) -> None:
    again = open_mlflow_tracker(run_name="again", uri=tracker.uri, experiment=request.node.name)

    runs = client_of(tracker).search_runs([stored(tracker).info.experiment_id])

    assert {run.info.run_id for run in runs} == {tracker.run_id, again.run_id}


# How a run ends


def test_a_run_is_finished_when_its_block_ends(tracker: RunTracker) -> None:
    with tracker:
        assert stored(tracker).info.status == "RUNNING"

    run = stored(tracker)
    assert run.info.status == "FINISHED"
    assert run.info.end_time >= run.info.start_time


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError, "FAILED"), (TrackingError, "FAILED"), (KeyboardInterrupt, "KILLED"), (SystemExit, "KILLED")],
)
def test_an_error_propagates_and_sets_the_status_of_the_run_and_its_open_children(
    error: type[BaseException], status: str, tracker: RunTracker
) -> None:
    with tracker.child("done") as done:
        pass
    open_child = tracker.child("open")

    with pytest.raises(error, match="what happened"), tracker:
        raise error("what happened")

    assert [stored(t).info.status for t in (tracker, open_child, done)] == [status, status, "FINISHED"]


def test_a_failed_child_does_not_fail_its_parent(tracker: RunTracker) -> None:
    with tracker:
        child = tracker.child("broken")
        with pytest.raises(ValueError, match="no"), child:
            raise ValueError("no")

    assert (stored(child).info.status, stored(tracker).info.status) == ("FAILED", "FINISHED")


def test_a_run_ends_once(tracker: RunTracker) -> None:
    tracker.close("FAILED")
    tracker.close("FINISHED")

    assert stored(tracker).info.status == "FAILED"


# Which store


def test_the_default_store_is_named_by_the_environment(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{store}")

    with open_mlflow_tracker(run_name="x", experiment="environment") as tracker:
        assert tracker.uri == f"sqlite:///{store}"


def test_otherwise_the_store_is_a_file_in_the_working_directory(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(store, tmp_path / "mlflow.db")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)

    with open_mlflow_tracker(run_name="x", experiment="default") as tracker:
        tracker.log_text("text", "a.txt")
        assert tracker.uri == DEFAULT_URI

    assert sorted(path.name for path in tmp_path.iterdir()) == ["mlartifacts", "mlflow.db"]


@pytest.mark.parametrize("name", ["./sqlite", "sqlite", "sub/../sqlite?timeout=9"])
def test_a_relative_file_is_in_the_working_directory(
    name: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    shutil.copy(store, tmp_path / "sqlite")
    monkeypatch.chdir(tmp_path)

    tracker = open_mlflow_tracker(run_name="x", uri=f"sqlite:///{name}", experiment="relative")

    monkeypatch.chdir("/")
    assert MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/sqlite").get_run(str(tracker.run_id)).info.run_name == "x"


def test_another_working_directory_has_another_store(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    trackers = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        shutil.copy(store, tmp_path / name / "mlflow.db")
        monkeypatch.chdir(tmp_path / name)
        trackers.append(open_mlflow_tracker(run_name=name, experiment="directories"))

    for tracker, directory in zip(trackers, ("one", "two"), strict=True):
        client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / directory}/mlflow.db")
        (experiment,) = client.search_experiments(filter_string="name = 'directories'")
        assert [run.info.run_id for run in client.search_runs([experiment.experiment_id])] == [tracker.run_id]


@pytest.mark.parametrize(
    ("uri", "where"),
    [
        ("bogus://x", "bogus://x"),
        ("http://127.0.0.1:9", "http://127.0.0.1:9"),
        ("postgresql+missing://lab:secret@127.0.0.1:1/runs", "postgresql+missing://lab:***@127.0.0.1:1/runs"),
    ],
)
def test_a_store_that_cannot_be_used_is_reported_without_its_password(uri: str, where: str) -> None:
    with pytest.raises(TrackingError, match="the MLflow store cannot be used: ") as caught:
        open_mlflow_tracker(run_name="x", uri=uri)

    assert caught.value.where == where
    assert caught.value.hint == "check tracking.uri or MLFLOW_TRACKING_URI, or run with tracking=none or tracking.on_failure=warn"
    assert "secret" not in str(caught.value)


@pytest.fixture
def silent_server() -> Iterator[str]:
    """Address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_server_that_never_answers_is_an_error_soon(silent_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocm_perf_lab.tracking.store._LONGEST_ANSWER_S", 0.5)
    start = time.monotonic()

    with pytest.raises(TrackingError, match=r"no answer within 0\.5 s"):
        open_mlflow_tracker(run_name="x", uri=silent_server)

    assert time.monotonic() - start < 60  # the defaults of MLflow repeat requests for minutes


def test_on_failure_warn_continues_without_tracking(caplog: pytest.LogCaptureFixture) -> None:
    with open_mlflow_tracker(run_name="x", uri="http://127.0.0.1:9", on_failure="warn") as tracker:
        tracker.log_params({"a": 1})

    assert (tracker.uri, tracker.run_id) == (None, None)
    assert [record.getMessage() for record in caplog.records if record.name.startswith("rocm_perf_lab")] == [
        message for message in caplog.messages if "this run is not tracked any further" in message
    ]
    assert len([message for message in caplog.messages if "cannot be used" in message]) == 1


def test_on_failure_warn_survives_a_store_that_fails_later(tracker: RunTracker, store: Path, tmp_path: Path) -> None:
    copy = shutil.copy(store, tmp_path / "copy.db")
    careful = open_mlflow_tracker(run_name="x", uri=f"sqlite:///{copy}", on_failure="warn")

    careful.log_artifact(tmp_path / "missing.txt")
    careful.log_params({"a": 1})

    assert careful.uri is None


def test_an_unknown_value_of_on_failure_is_rejected() -> None:
    with pytest.raises(ValueError, match="choose error or warn"):
        open_mlflow_tracker(run_name="x", on_failure="ignore")  # type: ignore[arg-type]


def test_an_interrupted_creation_leaves_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = f"sqlite:///{tmp_path / 'new' / 'mlflow.db'}"

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("os.link", killed)  # after the tables, before the name
        with pytest.raises(KeyboardInterrupt):
            open_mlflow_tracker(run_name="first", uri=uri)
    assert list((tmp_path / "new").iterdir()) == []

    with open_mlflow_tracker(run_name="second", uri=uri) as run:
        run.log_params({"a": 1})
    assert (tmp_path / "new" / "mlflow.db").is_file()


def test_only_the_creation_of_a_store_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    settings: dict[str, set[int]] = {}

    def note(connection: Any, _record: object, _fairy: object) -> None:
        (_, _, file), *_ = connection.execute("PRAGMA database_list").fetchall()
        settings.setdefault(Path(file).parent.name, set()).add(connection.execute("PRAGMA synchronous").fetchone()[0])

    event.remove(Engine, "connect", skip_syncs)
    event.listen(Engine, "checkout", note)
    try:
        with open_mlflow_tracker(run_name="first", uri=f"sqlite:///{tmp_path}/store/mlflow.db") as run:
            run.log_params({"a": 1})
    finally:
        event.remove(Engine, "checkout", note)
        event.listen(Engine, "connect", skip_syncs)

    assert settings.pop("store") == {2}
    assert list(settings.values()) == [{0}]  # the temporary directory


def test_a_file_that_is_not_a_database_is_reported(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_text("this is a text, not a database. " * 100)

    with pytest.raises(TrackingError, match="file is not a database"):
        open_mlflow_tracker(run_name="x", uri=f"sqlite:///{tmp_path}/runs.db")


@pytest.mark.parametrize("call", ["log_params", "log_metrics", "set_tags"])
def test_a_rejected_name_is_reported(call: str, tracker: RunTracker) -> None:
    value: Any = 1 if call == "log_metrics" else "1"

    with pytest.raises(TrackingError, match=r"a\[0\]"):
        getattr(tracker, call)({"a[0]": value})


def test_a_missing_artifact_is_reported(tracker: RunTracker, tmp_path: Path) -> None:
    with pytest.raises(TrackingError, match=r"missing\.db"):
        tracker.log_artifact(tmp_path / "missing.db")


def test_mlflow_sends_no_telemetry_by_default(store: Path) -> None:
    program = (
        "import sys; from rocm_perf_lab.tracking.store import open_mlflow_tracker\n"
        "open_mlflow_tracker(run_name='x', uri=sys.argv[1], experiment='quiet').close()\n"
        "from mlflow.telemetry import get_telemetry_client; print(get_telemetry_client())"
    )
    # MLflow disables telemetry itself in tests and on build servers
    seen = {"MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK", "PYTEST_CURRENT_TEST", "CI", "GITHUB_ACTIONS"}
    environment = {name: value for name, value in os.environ.items() if name not in seen}

    run = subprocess.run(
        [sys.executable, "-c", program, f"sqlite:///{store}"], env=environment, capture_output=True, text=True, check=True
    )

    assert run.stdout == "None\n"


# No tracking


def test_the_null_tracker_stores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with NullTracker(run_name="x") as tracker, tracker.child("y", tags={"a": "b"}) as child:
        child.log_params({"a": 1})
        child.log_metrics({"a": 1.0})
        child.set_tags({"a": "b"})
        child.log_artifact(tmp_path / "missing")
        child.log_text("text", "name")

    assert (tracker.uri, tracker.run_id, child.uri, child.run_id) == (None, None, None, None)
    assert list(tmp_path.iterdir()) == []


def test_the_null_tracker_propagates_errors() -> None:
    with pytest.raises(ValueError, match="no"), NullTracker():
        raise ValueError("no")


# User interface


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        (DEFAULT_URI, "mlflow ui --backend-store-uri sqlite:///mlflow.db"),
        ("sqlite:///my runs.db", "mlflow ui --backend-store-uri 'sqlite:///my runs.db'"),
        ("postgresql://lab:secret@host/runs", "mlflow ui --backend-store-uri 'postgresql://lab:***@host/runs'"),
        ("https://host:5000", "https://host:5000"),
        ("https://lab:secret@host", "https://lab:***@host"),
    ],
)
def test_the_command_that_shows_a_store(uri: str, shown: str) -> None:
    assert ui_command(uri) == shown
