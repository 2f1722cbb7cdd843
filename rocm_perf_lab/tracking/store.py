"""Runs in MLflow: one parent run per job, one child run per proposal or trial.

A tracker is a context manager that marks its run as finished, failed or killed. MLflow is imported inside functions of this
module only, since the import takes seconds.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rocm_perf_lab.tracking.description import description
from rocm_perf_lab.tracking.failsafe import FailsafeTracker, StoreWatch
from rocm_perf_lab.tracking.run import NullTracker, SelfClosingTracker, TrackingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mlflow import MlflowClient

    from rocm_perf_lab.tracking.run import RunTracker

DEFAULT_URI = "sqlite:///mlflow.db"
_SQLITE = "sqlite:///"
_ARTIFACTS = "mlartifacts"
_LONGEST_VALUE = 500
_CUT = " …"
RUNS_VIEW = "rocm-perf-lab"
"""Key of the shared view of the runs table, with time and speed-up: `#/experiments/ID/runs?viewStateShareKey=rocm-perf-lab`."""
_VIEW_TAG = f"mlflow.sharedViewState.{RUNS_VIEW}"
_EXPERIMENT_TAGS = {
    # Opens the experiment in MLflow's view of model training, not of GenAI evaluations.
    "mlflow.experimentKind": "custom_model_development",
    # MLflow stores shared views of the runs table as tags. All fields are necessary: without one the table stays empty.
    _VIEW_TAG: json.dumps(
        {
            "selectedColumns": [
                *(f"attributes.`{name}`" for name in ("Created", "Duration")),
                *(f"metrics.`{name}`" for name in ("runtime_us", "speedup")),
                *(f"tags.`{name}`" for name in ("time_kind", "kernel", "target")),
            ],
            "orderByKey": "attributes.start_time",
            "orderByAsc": False,
            "searchFilter": "",
            "startTime": "ALL",
            "lifecycleFilter": "Active",
            "datasetsFilter": [],
            "modelVersionFilter": "All Runs",
            "runsExpanded": {},
            "runsPinned": [],
            "runsHidden": [],
        }
    ),
}
_MOST_CHILDREN = 10_000
_ROOT = "root_run"
_DESCRIPTION = "mlflow.note.content"
_LONGEST_ANSWER_S = 4.0
"""For a connection, and again for the first byte of an answer: an unreachable server is an error within 10 s."""
_NOISY_LOGGERS = ("alembic", "mlflow", "mlflow.store.db.utils", "sqlalchemy")


class MlflowTracker(SelfClosingTracker):
    """MLflow run; closing it closes its open children."""

    def __init__(
        self, client: MlflowClient, uri: str, experiment_id: str, run_id: str, common_tags: Mapping[str, str] | None = None
    ) -> None:
        self._client = client
        self._experiment_id = experiment_id
        self._common_tags = dict(common_tags or {})
        self._known: dict[str, str | float] = dict(self._common_tags)
        self._open_children: list[MlflowTracker] = []
        self._is_open = True
        self.uri: str | None = uri
        self.run_id: str | None = run_id

    @property
    def _id(self) -> str:
        return str(self.run_id)

    def child(self, name: str, tags: Mapping[str, str] | None = None, below: str | None = None) -> MlflowTracker:
        """Start a run with this one as its parent, or below one of its children, which then has this one as its root."""
        place = {"mlflow.parentRunId": self._id} if below is None else {"mlflow.parentRunId": below, _ROOT: self._id}
        all_tags = {**self._common_tags, **place, **_shortened(tags or {})}
        with _store_errors(str(self.uri)):
            run = self._client.create_run(self._experiment_id, run_name=name, tags=all_tags)
        child = MlflowTracker(self._client, str(self.uri), self._experiment_id, run.info.run_id, self._common_tags)
        self._open_children.append(child)
        return child

    def known_child(self, run_id: str) -> MlflowTracker:
        """Return a child run that has ended, to correct its tags and metrics."""
        return MlflowTracker(self._client, str(self.uri), self._experiment_id, run_id)

    def end_children(self, status: str) -> None:
        """End all running children, including those opened by other processes."""
        with _store_errors(str(self.uri)):
            for tag in ("mlflow.parentRunId", _ROOT):
                below = f"tags.`{tag}` = '{self._id}' and attributes.status = 'RUNNING'"
                for run in self._client.search_runs([self._experiment_id], below, max_results=_MOST_CHILDREN):
                    self._client.set_terminated(run.info.run_id, status)

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Log parameters in one request; long values are truncated and marked."""
        from mlflow.entities import Param

        values = _shortened({name: str(value) for name, value in params.items()})
        with _store_errors(str(self.uri)):
            self._client.log_batch(self._id, params=[Param(name, value) for name, value in values.items()])

    def log_metrics(self, metrics: Mapping[str, float], step: int = 0) -> None:
        """Log metrics in one request; the values of a metric at several steps form a curve."""
        from mlflow.entities import Metric

        self._known |= {name: float(value) for name, value in metrics.items()}
        now = int(time.time() * 1000)
        rows = [Metric(name, float(value), now, step) for name, value in metrics.items()]
        with _store_errors(str(self.uri)):
            self._client.log_batch(self._id, metrics=rows)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Set tags in one request."""
        from mlflow.entities import RunTag

        self._known |= tags
        rows = [RunTag(name, value) for name, value in _shortened(tags).items()]
        with _store_errors(str(self.uri)):
            self._client.log_batch(self._id, tags=rows)

    def log_artifact(self, path: Path, directory: str | None = None) -> None:
        """Copy a file to the artifacts of the run."""
        with _store_errors(str(self.uri)):
            self._client.log_artifact(self._id, str(path), directory)

    def log_text(self, text: str, name: str) -> None:
        """Write a text file to the artifacts of the run."""
        with _store_errors(str(self.uri)):
            self._client.log_text(self._id, text, name)

    def close(self, status: str = "FINISHED") -> None:
        """End the run and its open children; later calls have no effect."""
        if not self._is_open:
            return
        self._is_open = False
        for child in self._open_children:
            child.close(status)
        note = description(self._known)
        if note:
            self.set_tags({_DESCRIPTION: note})
        with _store_errors(str(self.uri)):
            self._client.set_terminated(self._id, status)


def open_mlflow_tracker(
    *,
    run_name: str,
    uri: str | None = None,
    experiment: str = "rocm-perf-lab",
    run_id: str | None = None,
    parent: str | None = None,
    tags: Mapping[str, Any] | None = None,
    common_tags: Mapping[str, str] | None = None,
    on_failure: Literal["error", "warn"] = "error",
) -> RunTracker:
    """Start a run, or continue an interrupted one, whose running children are marked as killed.

    Args:
        run_name: Name shown in the UI.
        uri: Store; None uses MLFLOW_TRACKING_URI, else a SQLite file in the working directory. The artifacts of a SQLite
            store are in a directory next to its file.
        experiment: Created if it does not exist.
        run_id: Id of the interrupted run.
        parent: Id of the parent run; a sweep passes its own to every job.
        tags: Tags of the new run.
        common_tags: Tags of the new run and of its children.
        on_failure: `error` raises if the store cannot be used; `warn` logs one warning and continues without tracking.

    Raises:
        TrackingError: The store cannot be reached or written, and `on_failure` is `error`.
        ValueError: Unknown value of `on_failure`.
    """
    if on_failure not in ("error", "warn"):
        raise ValueError(f"on_failure is {on_failure!r}: choose error or warn")
    store = uri or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_URI
    own = {"mlflow.source.name": "rocm-perf-lab"} | ({"mlflow.parentRunId": parent} if parent else {})
    common = _shortened(common_tags or {})
    all_tags = common | _shortened({name: str(value) for name, value in (tags or {}).items()}) | own
    try:
        run = _open_run(store, run_name, experiment, run_id, all_tags, common)
    except TrackingError as error:
        if on_failure == "error":
            raise
        _warn(error)
        return NullTracker(run_name)
    return FailsafeTracker(run, StoreWatch(_warn)) if on_failure == "warn" else run


def _open_run(
    store: str, run_name: str, experiment: str, run_id: str | None, tags: Mapping[str, str], common: Mapping[str, str]
) -> MlflowTracker:
    _require_answer(store)
    _set_environment()
    from mlflow import MlflowClient

    _quieten()  # after the import, which changes log levels
    with _store_errors(store):
        _make_whole(store)
        client = MlflowClient(tracking_uri=_absolute(store))
        experiment_id = _experiment_id(client, store, experiment)
        if run_id is not None:
            client.update_run(run_id, status="RUNNING")
            reopened = MlflowTracker(client, store, experiment_id, run_id, common)
            reopened.end_children("KILLED")
            return reopened
        run = client.create_run(experiment_id, run_name=run_name, tags=dict(tags))
    return MlflowTracker(client, store, experiment_id, run.info.run_id, common)


def read_artifact(run_id: str, name: str, *, uri: str | None = None) -> str:
    """Return the text of an artifact.

    Args:
        run_id: Id of the run.
        name: Path of the artifact.
        uri: Store; None uses MLFLOW_TRACKING_URI, else the SQLite file in the working directory.

    Raises:
        TrackingError: The store cannot be reached, or has no such run or artifact.
    """
    with store_client(uri) as client, tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as directory:
        return Path(client.download_artifacts(run_id, name, directory)).read_text("utf-8")


@contextmanager
def store_client(uri: str | None = None) -> Iterator[MlflowClient]:
    """Open a client of the store, and raise its errors as :class:`TrackingError`.

    Args:
        uri: Store; None uses MLFLOW_TRACKING_URI, else the SQLite file in the working directory.

    Raises:
        TrackingError: The store cannot be reached, or a request fails.
    """
    store = uri or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_URI
    _require_answer(store)
    _set_environment()
    from mlflow import MlflowClient

    _quieten()
    with _store_errors(store):
        _make_whole(store)
        yield MlflowClient(tracking_uri=_absolute(store))


def ui_command(uri: str) -> str:
    """Return the command that shows the store in a browser, or the address of a server; passwords are masked."""
    shown = _without_password(uri)
    return shown if uri.startswith(("http://", "https://")) else f"mlflow ui --backend-store-uri {shlex.quote(shown)}"


def _experiment_id(client: MlflowClient, store: str, name: str) -> str:
    from mlflow.exceptions import MlflowException

    known = client.get_experiment_by_name(name)
    if known is not None:
        if _VIEW_TAG not in known.tags:
            client.set_experiment_tag(known.experiment_id, _VIEW_TAG, _EXPERIMENT_TAGS[_VIEW_TAG])
        return str(known.experiment_id)
    try:
        return str(client.create_experiment(name, artifact_location=_artifact_location(store), tags=_EXPERIMENT_TAGS))
    except MlflowException:
        known = client.get_experiment_by_name(name)  # another process may have created it
        if known is None:
            raise
        return str(known.experiment_id)


def _artifact_location(store: str) -> str | None:
    """Return a directory next to the file of a SQLite store; None lets any other store choose."""
    file = _sqlite_file(store)
    return (file.absolute().parent / _ARTIFACTS).as_uri() if file is not None else None


def _absolute(store: str) -> str:
    """Return the URI with an absolute path: MLflow caches connections by URI, whatever the working directory."""
    file = _sqlite_file(store)
    _, question_mark, query = store.partition("?")
    return f"{_SQLITE}{file.absolute()}{question_mark}{query}" if file is not None else store


def _sqlite_file(store: str) -> Path | None:
    name = store.removeprefix(_SQLITE).partition("?")[0]
    return None if name in (store, "", ":memory:") else Path(name)


def _make_whole(store: str) -> None:
    """Create a new SQLite store under a temporary name, since creating its tables takes seconds and may be interrupted.

    If several processes create the same store, the first one wins.
    """
    from mlflow import MlflowClient

    file = _sqlite_file(store)
    if file is None or file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}-") as directory:
        made = Path(directory) / file.name
        with _without_syncs():
            MlflowClient(tracking_uri=f"{_SQLITE}{made.absolute()}").search_experiments(max_results=1)
        with made.open("rb") as written:
            os.fsync(written.fileno())
        with suppress(FileExistsError):
            os.link(made, file)


@contextmanager
def _without_syncs() -> Iterator[None]:
    """Open connections to SQLite that do not wait for the disk, as each of the statements that create the tables does."""
    import sqlite3

    from sqlalchemy import Engine, event

    def configure(connection: Any, _record: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous=OFF")

    event.listen(Engine, "connect", configure)
    try:
        yield
    finally:
        event.remove(Engine, "connect", configure)


@contextmanager
def _store_errors(store: str) -> Iterator[None]:
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, OSError, ImportError) as error:
        raise _unusable(store, str(error).strip() or type(error).__name__) from error


def _require_answer(store: str) -> None:
    """Ask a server for any answer before MLflow does, which retries for minutes.

    Raises:
        TrackingError: The server refuses the connection, or does not answer in time.
    """
    if not store.startswith(("http://", "https://")):
        return
    import requests

    try:
        requests.head(store, timeout=_LONGEST_ANSWER_S)
    except requests.exceptions.SSLError:
        return  # an answer; MLflow has its own options for certificates
    except requests.exceptions.Timeout as error:
        raise _unusable(store, f"no answer within {_LONGEST_ANSWER_S:g} s") from error
    except requests.exceptions.RequestException as error:
        raise _unusable(store, f"the server cannot be reached: {error}") from error


def _unusable(store: str, text: str) -> TrackingError:
    return TrackingError(
        f"the MLflow store cannot be used: {_without_password(text.splitlines()[0])}",
        where=_without_password(store),
        hint="check tracking.uri or MLFLOW_TRACKING_URI, or run with tracking=none or tracking.on_failure=warn",
    )


def _warn(error: TrackingError) -> None:
    logging.getLogger(__name__).warning("%s (%s): this run is not tracked any further", error.what, error.where)


def _without_password(text: str) -> str:
    return re.sub(r"(://[^:/@\s]*):[^@\s]+@", r"\1:***@", text)


def _quieten() -> None:
    """Suppress log messages of MLflow and its libraries below ERROR."""
    for name in _NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)


def _set_environment() -> None:
    """Set defaults that MLflow reads at import: no telemetry, short timeouts."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")


def _shortened(values: Mapping[str, str]) -> dict[str, str]:
    longest = _LONGEST_VALUE - len(_CUT)
    return {n: v if len(v) <= _LONGEST_VALUE else v[:longest] + _CUT for n, v in values.items()}
