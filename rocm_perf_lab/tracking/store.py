"""Runs kept in MLflow: one parent run per job, one child run per proposal.

`open_mlflow_tracker` gives a tracker for a new run; as a context manager it marks the run finished, failed or killed, so
that none is left running. MLflow is imported only here, inside functions: it takes seconds.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.tracking.run import ClosesItself, TrackingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mlflow import MlflowClient

DEFAULT_URI = "sqlite:///mlflow.db"
_SQLITE = "sqlite:///"
_ARTIFACTS = "mlartifacts"
_LONGEST_VALUE = 500
_CUT = " …"
_MOST_CHILDREN = 10_000
_NOISY_LOGGERS = ("alembic", "mlflow", "mlflow.store.db.utils", "sqlalchemy")


class MlflowTracker(ClosesItself):
    """One MLflow run; children that are still open end with it."""

    def __init__(self, client: MlflowClient, uri: str, experiment_id: str, run_id: str) -> None:
        self._client = client
        self._experiment_id = experiment_id
        self._open_children: list[MlflowTracker] = []
        self._is_open = True
        self.uri: str | None = uri
        self.run_id: str | None = run_id

    @property
    def _id(self) -> str:
        return str(self.run_id)

    def child(self, name: str, tags: Mapping[str, str] | None = None) -> MlflowTracker:
        """A run with this one as its parent."""
        all_tags = {"mlflow.parentRunId": self._id, **_shortened(tags or {})}
        with _store_errors(str(self.uri)):
            run = self._client.create_run(self._experiment_id, run_name=name, tags=all_tags)
        child = MlflowTracker(self._client, str(self.uri), self._experiment_id, run.info.run_id)
        self._open_children.append(child)
        return child

    def end_children(self, status: str) -> None:
        """Also runs that other processes opened with this one as their parent."""
        below = f"tags.`mlflow.parentRunId` = '{self._id}' and attributes.status = 'RUNNING'"
        with _store_errors(str(self.uri)):
            for run in self._client.search_runs([self._experiment_id], below, max_results=_MOST_CHILDREN):
                self._client.set_terminated(run.info.run_id, status)

    def log_params(self, params: Mapping[str, Any]) -> None:
        """All in one request; long values are cut with a mark."""
        from mlflow.entities import Param

        values = _shortened({name: str(value) for name, value in params.items()})
        with _store_errors(str(self.uri)):
            self._client.log_batch(self._id, params=[Param(name, value) for name, value in values.items()])

    def log_metrics(self, metrics: Mapping[str, float]) -> None:
        """All in one request."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        rows = [Metric(name, float(value), now, 0) for name, value in metrics.items()]
        with _store_errors(str(self.uri)):
            self._client.log_batch(self._id, metrics=rows)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """All in one request."""
        from mlflow.entities import RunTag

        rows = [RunTag(name, value) for name, value in _shortened(tags).items()]
        with _store_errors(str(self.uri)):
            self._client.log_batch(self._id, tags=rows)

    def log_artifact(self, path: Path, directory: str | None = None) -> None:
        """Copy a file to the run's artifacts."""
        with _store_errors(str(self.uri)):
            self._client.log_artifact(self._id, str(path), directory)

    def log_text(self, text: str, name: str) -> None:
        """Write a file among the run's artifacts."""
        with _store_errors(str(self.uri)):
            self._client.log_text(self._id, text, name)

    def close(self, status: str = "FINISHED") -> None:
        """End the run and its open children; once."""
        if not self._is_open:
            return
        self._is_open = False
        for child in self._open_children:
            child.close(status)
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
) -> MlflowTracker:
    """Start a run, or go on with one that was interrupted: its children that were being written are marked as killed.

    Args:
        run_name: What the UI shows.
        uri: The store; None takes MLFLOW_TRACKING_URI, else a SQLite file in the working directory. Artifacts of a SQLite
            store are kept in a directory beside its file.
        experiment: Created where it does not exist.
        run_id: The interrupted run.
        parent: The run that this one is shown below: a sweep gives its own to every job.
        tags: Set on the run from its start.

    Raises:
        TrackingError: The store cannot be reached or written.
    """
    store = uri or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_URI
    _set_environment()
    from mlflow import MlflowClient

    _quieten()  # after the import, which sets log levels of its own
    with _store_errors(store):
        _make_whole(store)
        client = MlflowClient(tracking_uri=_absolute(store))
        experiment_id = _experiment_id(client, store, experiment)
        if run_id is not None:
            client.update_run(run_id, status="RUNNING")
            reopened = MlflowTracker(client, store, experiment_id, run_id)
            reopened.end_children("KILLED")
            return reopened
        own = {"mlflow.source.name": "rocm-perf-lab"} | ({"mlflow.parentRunId": parent} if parent else {})
        more = _shortened({name: str(value) for name, value in (tags or {}).items()})
        run = client.create_run(experiment_id, run_name=run_name, tags=more | own)
    return MlflowTracker(client, store, experiment_id, run.info.run_id)


def read_artifact(run_id: str, name: str, *, uri: str | None = None) -> str:
    """The text of a file that a run has kept.

    Args:
        run_id: Of the run.
        name: Of the file, among the run's artifacts.
        uri: The store; None takes MLFLOW_TRACKING_URI, else the SQLite file of the working directory.

    Raises:
        TrackingError: The store cannot be reached, or has no such run or file.
    """
    store = uri or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_URI
    _set_environment()
    from mlflow import MlflowClient

    _quieten()
    with _store_errors(store), tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as directory:
        return Path(MlflowClient(tracking_uri=_absolute(store)).download_artifacts(run_id, name, directory)).read_text("utf-8")


def ui_command(uri: str) -> str:
    """The command that shows the store in a browser; of a server, its address. Passwords are not shown."""
    shown = _without_password(uri)
    return shown if uri.startswith(("http://", "https://")) else f"mlflow ui --backend-store-uri {shlex.quote(shown)}"


def _experiment_id(client: MlflowClient, store: str, name: str) -> str:
    from mlflow.exceptions import MlflowException

    known = client.get_experiment_by_name(name)
    if known is not None:
        return str(known.experiment_id)
    try:
        return str(client.create_experiment(name, artifact_location=_artifact_location(store)))
    except MlflowException:
        known = client.get_experiment_by_name(name)  # another process may have been faster
        if known is None:
            raise
        return str(known.experiment_id)


def _artifact_location(store: str) -> str | None:
    """Beside the file of a SQLite store; others know where they keep artifacts."""
    file = _sqlite_file(store)
    return (file.absolute().parent / _ARTIFACTS).as_uri() if file is not None else None


def _absolute(store: str) -> str:
    """MLflow keeps connections by URI: a relative one would mean the directory in which it was first used."""
    file = _sqlite_file(store)
    _, question_mark, query = store.partition("?")
    return f"{_SQLITE}{file.absolute()}{question_mark}{query}" if file is not None else store


def _sqlite_file(store: str) -> Path | None:
    name = store.removeprefix(_SQLITE).partition("?")[0]
    return None if name in (store, "", ":memory:") else Path(name)


def _make_whole(store: str) -> None:
    """Make a new SQLite store under another name: its tables take seconds, and one that a kill left half made is of no use.

    Of several processes that make the same store the first one's counts.
    """
    from mlflow import MlflowClient

    file = _sqlite_file(store)
    if file is None or file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}-") as directory:
        made = Path(directory) / file.name
        MlflowClient(tracking_uri=f"{_SQLITE}{made.absolute()}").search_experiments(max_results=1)
        with suppress(FileExistsError):
            os.link(made, file)


@contextmanager
def _store_errors(store: str) -> Iterator[None]:
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, OSError, ImportError) as error:
        text = str(error).strip() or type(error).__name__
        raise TrackingError(
            f"the MLflow store cannot be used: {_without_password(text.splitlines()[0])}",
            where=_without_password(store),
            hint="check tracking.uri or MLFLOW_TRACKING_URI, or run with tracking=none",
        ) from error


def _without_password(text: str) -> str:
    return re.sub(r"(://[^:/@\s]*):[^@\s]+@", r"\1:***@", text)


def _quieten() -> None:
    """MLflow's own chatter stays out of the lab's output."""
    for name in _NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)


def _set_environment() -> None:
    """Read when MLflow is imported: no telemetry; a store that does not answer fails within seconds."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")


def _shortened(values: Mapping[str, str]) -> dict[str, str]:
    longest = _LONGEST_VALUE - len(_CUT)
    return {n: v if len(v) <= _LONGEST_VALUE else v[:longest] + _CUT for n, v in values.items()}
