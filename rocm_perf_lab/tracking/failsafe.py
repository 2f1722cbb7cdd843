"""A run whose store may fail on the way: what is being measured is worth more than its record, and goes on without it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.tracking.run import ClosesItself, NullTracker, TrackingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from rocm_perf_lab.tracking.run import RunTracker


@dataclass
class StoreWatch:
    """What a run and its children share: whether the store still answers, and who is told when it does not any more."""

    warn: Callable[[TrackingError], None]
    failed: bool = False

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Use the store; its first failure is told, and none is raised."""
        try:
            yield
        except TrackingError as error:
            if not self.failed:
                self.failed = True
                self.warn(error)


class FailsafeTracker(ClosesItself):
    """Logs to a run until its store fails; then says so once, and keeps nothing.

    Args:
        run: The run.
        store: Its store, and who is told of the failure.
    """

    def __init__(self, run: RunTracker, store: StoreWatch) -> None:
        self._run = run
        self._store = store

    @property
    def uri(self) -> str | None:
        """The store; None once it has failed."""
        return None if self._store.failed else self._run.uri

    @property
    def run_id(self) -> str | None:
        """The run's id in the store."""
        return self._run.run_id

    def child(self, name: str, tags: Mapping[str, str] | None = None) -> RunTracker:
        """A run below this one, which fails with it."""
        if not self._store.failed:
            with self._store.attempt():
                return FailsafeTracker(self._run.child(name, tags), self._store)
        return NullTracker(name)

    def end_children(self, status: str) -> None:
        """End the runs below this one that are still open."""
        self._try(lambda: self._run.end_children(status))

    def log_params(self, params: Mapping[str, Any]) -> None:
        """What was asked for."""
        self._try(lambda: self._run.log_params(params))

    def log_metrics(self, metrics: Mapping[str, float]) -> None:
        """What came out."""
        self._try(lambda: self._run.log_metrics(metrics))

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """What it belongs to."""
        self._try(lambda: self._run.set_tags(tags))

    def log_artifact(self, path: Path, directory: str | None = None) -> None:
        """Keep a copy of a file."""
        self._try(lambda: self._run.log_artifact(path, directory))

    def log_text(self, text: str, name: str) -> None:
        """Keep a text as a file."""
        self._try(lambda: self._run.log_text(text, name))

    def close(self, status: str = "FINISHED") -> None:
        """End the run."""
        self._try(lambda: self._run.close(status))

    def _try(self, log: Callable[[], None]) -> None:
        if not self._store.failed:
            with self._store.attempt():
                log()
