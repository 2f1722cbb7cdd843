"""A tracker that survives a failure of its store: the measurements go on without tracking."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.tracking.run import NullTracker, SelfClosingTracker, TrackingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from rocm_perf_lab.tracking.run import RunTracker


@dataclass
class StoreWatch:
    """State shared by a run and its children: whether the store has failed, and the callback for its first failure."""

    warn: Callable[[TrackingError], None]
    failed: bool = False

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Use the store; report its first failure, and raise none."""
        try:
            yield
        except TrackingError as error:
            if not self.failed:
                self.failed = True
                self.warn(error)


class FailsafeTracker(SelfClosingTracker):
    """Logs to a run until its store fails; then reports that once, and stores nothing more.

    Args:
        run: Tracker of the run.
        store: State of its store.
    """

    def __init__(self, run: RunTracker, store: StoreWatch) -> None:
        self._run = run
        self._store = store

    @property
    def uri(self) -> str | None:
        """URI of the store; None once it has failed."""
        return None if self._store.failed else self._run.uri

    @property
    def run_id(self) -> str | None:
        """Id of the run in the store."""
        return self._run.run_id

    def child(self, name: str, tags: Mapping[str, str] | None = None, below: str | None = None) -> RunTracker:
        """Start a child run, which shares the state of the store."""
        if not self._store.failed:
            with self._store.attempt():
                return FailsafeTracker(self._run.child(name, tags, below), self._store)
        return NullTracker(name)

    def known_child(self, run_id: str) -> RunTracker:
        """Return a child run that has ended."""
        if not self._store.failed:
            with self._store.attempt():
                return FailsafeTracker(self._run.known_child(run_id), self._store)
        return NullTracker(run_id)

    def end_children(self, status: str) -> None:
        """End the running children."""
        self._try(lambda: self._run.end_children(status))

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Log parameters."""
        self._try(lambda: self._run.log_params(params))

    def log_metrics(self, metrics: Mapping[str, float], step: int = 0) -> None:
        """Log metrics."""
        self._try(lambda: self._run.log_metrics(metrics, step))

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Set tags."""
        self._try(lambda: self._run.set_tags(tags))

    def log_artifact(self, path: Path, directory: str | None = None) -> None:
        """Copy a file to the artifacts of the run."""
        self._try(lambda: self._run.log_artifact(path, directory))

    def log_text(self, text: str, name: str) -> None:
        """Store a text as an artifact."""
        self._try(lambda: self._run.log_text(text, name))

    def close(self, status: str = "FINISHED") -> None:
        """End the run."""
        self._try(lambda: self._run.close(status))

    def _try(self, log: Callable[[], None]) -> None:
        if not self._store.failed:
            with self._store.attempt():
                log()
