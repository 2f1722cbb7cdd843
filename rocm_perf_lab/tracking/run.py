"""The protocol of a tracking run, and a tracker that stores nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, Self

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType


class TrackingError(LabError):
    """Tracking store that cannot be reached or written."""


class RunTracker(Protocol):
    """Run in a tracking store."""

    @property
    def uri(self) -> str | None:
        """URI of the store; None if nothing is stored."""
        ...

    @property
    def run_id(self) -> str | None:
        """Id of the run in the store."""
        ...

    def child(self, name: str, tags: Mapping[str, str] | None = None, below: str | None = None) -> RunTracker:
        """Start a child run; `below` is the id of another child that becomes its parent."""
        ...

    def known_child(self, run_id: str) -> RunTracker:
        """Return a child run that has ended, to correct its tags and metrics."""
        ...

    def end_children(self, status: str) -> None:
        """End the running children whose jobs were killed."""
        ...

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Log parameters."""
        ...

    def log_metrics(self, metrics: Mapping[str, float], step: int = 0) -> None:
        """Log metrics; the values of a metric at several steps form a curve."""
        ...

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Set tags."""
        ...

    def log_artifact(self, path: Path, directory: str | None = None) -> None:
        """Copy a file to the artifacts of the run."""
        ...

    def log_text(self, text: str, name: str) -> None:
        """Store a text as an artifact."""
        ...

    def close(self, status: str = "FINISHED") -> None:
        """End the run: FINISHED, FAILED or KILLED."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class SelfClosingTracker:
    """Context manager that ends the run with the status of its `with` block."""

    def close(self, status: str = "FINISHED") -> None:
        """End the run."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close("FINISHED")
        else:
            with suppress(TrackingError):  # the error that ended the block matters more
                self.close("KILLED" if issubclass(kind, KeyboardInterrupt | SystemExit) else "FAILED")


class NullTracker(SelfClosingTracker):
    """Tracker that stores nothing."""

    uri: str | None = None
    run_id: str | None = None

    def __init__(self, run_name: str = "") -> None:
        self.run_name = run_name

    def child(self, name: str, tags: Mapping[str, str] | None = None, below: str | None = None) -> NullTracker:
        """Return another tracker that stores nothing."""
        return NullTracker(name)

    def known_child(self, run_id: str) -> NullTracker:
        """Return another tracker that stores nothing."""
        return NullTracker(run_id)

    def end_children(self, status: str) -> None:
        """Do nothing."""

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Do nothing."""

    def log_metrics(self, metrics: Mapping[str, float], step: int = 0) -> None:
        """Do nothing."""

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Do nothing."""

    def log_artifact(self, path: Path, directory: str | None = None) -> None:
        """Do nothing."""

    def log_text(self, text: str, name: str) -> None:
        """Do nothing."""

    def close(self, status: str = "FINISHED") -> None:
        """Do nothing."""
