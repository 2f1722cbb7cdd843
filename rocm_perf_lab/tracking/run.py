"""What a job may do with the record of its run, wherever that is kept; and a run that is kept nowhere."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, Self

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType


class TrackingError(LabError):
    """The store cannot be reached or written."""


class RunTracker(Protocol):
    """One run in a store."""

    @property
    def uri(self) -> str | None:
        """The store, or None where nothing is kept."""
        ...

    @property
    def run_id(self) -> str | None:
        """The run's id in the store."""
        ...

    def child(self, name: str, tags: Mapping[str, str] | None = None) -> RunTracker:
        """A run below this one."""
        ...

    def end_children(self, status: str) -> None:
        """End the runs below this one that nobody will end any more: those of jobs that were killed."""
        ...

    def log_params(self, params: Mapping[str, Any]) -> None:
        """What was asked for."""
        ...

    def log_metrics(self, metrics: Mapping[str, float]) -> None:
        """What came out."""
        ...

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """What it belongs to."""
        ...

    def log_artifact(self, path: Path, directory: str | None = None) -> None:
        """Keep a copy of a file."""
        ...

    def log_text(self, text: str, name: str) -> None:
        """Keep a text as a file."""
        ...

    def close(self, status: str = "FINISHED") -> None:
        """End the run: FINISHED, FAILED or KILLED."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class ClosesItself:
    """A run that ends with its `with` block, in the status that the block's end calls for."""

    def close(self, status: str = "FINISHED") -> None:
        """End the run."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close("FINISHED")
        else:
            with suppress(TrackingError):  # what ended the block is what the user must see
                self.close("KILLED" if issubclass(kind, KeyboardInterrupt | SystemExit) else "FAILED")


class NullTracker(ClosesItself):
    """Keeps nothing."""

    uri: str | None = None
    run_id: str | None = None

    def __init__(self, run_name: str = "") -> None:
        self.run_name = run_name

    def child(self, name: str, tags: Mapping[str, str] | None = None) -> NullTracker:
        """Another that keeps nothing."""
        return NullTracker(name)

    def end_children(self, status: str) -> None:
        """There are none."""

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Nothing."""

    def log_metrics(self, metrics: Mapping[str, float]) -> None:
        """Nothing."""

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Nothing."""

    def log_artifact(self, path: Path, directory: str | None = None) -> None:
        """Nothing."""

    def log_text(self, text: str, name: str) -> None:
        """Nothing."""

    def close(self, status: str = "FINISHED") -> None:
        """Nothing."""
