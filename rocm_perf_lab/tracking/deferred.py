"""A run that is logged after the command has answered: starting MLflow takes longer than profiling a short application.

The tracker collects the record and writes it to `tracking.json` in the run's directory when the run ends. A separate process
of low priority logs it and removes the file; if that fails, it writes the reason to `tracking_error.txt`.

    python -m rocm_perf_lab.tracking.deferred DIRECTORY
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rocm_perf_lab.core.components import Component, build
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import locked, write_text
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.tracking.run import SelfClosingTracker, TrackingError
from rocm_perf_lab.tracking.store import DEFAULT_URI

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.tracking.run import RunTracker

RECORD, FAILURE = "tracking.json", "tracking_error.txt"
FOREGROUND = "ROCM_PERF_LAB_TRACKING"
"""Environment variable; `foreground` logs before the command ends."""
_LOW_PRIORITY = 5
"""Of the process that logs: others wait for it, so that it must not starve on a busy machine."""


class DeferredTracker(SelfClosingTracker):
    """Collects the record of a run.

    Args:
        component: Configuration of the real tracker.
        run_name: Name shown in the UI.
        directory: Directory of the run.
        common_tags: Tags of the run.
    """

    run_id: str | None = None

    def __init__(
        self, component: Component, run_name: str, directory: Path, common_tags: Mapping[str, str] | None = None
    ) -> None:
        self.uri: str | None = component.arguments.get("uri") or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_URI
        self._directory = directory
        self._record: dict[str, Any] = {
            "tracking": component.model_dump(by_alias=True),
            "run_name": run_name,
            "tags": dict(common_tags or {}),
            "params": {},
            "metrics": {},
            "artifacts": [],
            "texts": [],
        }

    def child(self, name: str, tags: Mapping[str, str] | None = None, below: str | None = None) -> RunTracker:
        """Raise NotImplementedError: a deferred run has no children."""
        raise NotImplementedError(f"{name}: a deferred run has no children")

    def known_child(self, run_id: str) -> RunTracker:
        """Raise an error: a deferred run has no children."""
        raise NotImplementedError("deferred runs have no children")

    def end_children(self, status: str) -> None:
        """Do nothing: a deferred run has no children."""

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Log parameters."""
        self._record["params"] |= {name: str(value) for name, value in params.items()}

    def log_metrics(self, metrics: Mapping[str, float], step: int = 0) -> None:
        """Log metrics; of several steps, the last one is kept."""
        self._record["metrics"] |= metrics

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Set tags."""
        self._record["tags"] |= tags

    def log_artifact(self, path: Path, directory: str | None = None) -> None:
        """Copy a file to the artifacts of the run."""
        self._record["artifacts"].append([str(path.absolute()), directory])

    def log_text(self, text: str, name: str) -> None:
        """Store a text as an artifact."""
        self._record["texts"].append([text, name])

    def close(self, status: str = "FINISHED") -> None:
        """Write the record, and start the process that logs it.

        Raises:
            TrackingError: The directory cannot be written, or, in the foreground, the store cannot be used.
        """
        try:
            write_text(self._directory / RECORD, json.dumps(self._record | {"status": status}, indent=2) + "\n")
        except OSError as error:
            raise TrackingError(
                f"the tracking record cannot be written: {error.strerror or error}",
                where=str(self._directory),
                hint="free some space, or add tracking=none",
            ) from error
        if os.environ.get(FOREGROUND) == "foreground":
            log_record(self._directory)
            return
        subprocess.Popen(
            [sys.executable, "-m", __name__, str(self._directory)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self


def log_record(directory: Path) -> None:
    """Log the record in a run's directory, and remove it.

    Raises:
        TrackingError: The store cannot be used.
    """
    record = json.loads((directory / RECORD).read_text(encoding="utf-8"))
    row = Component.model_validate(record["tracking"])
    with locked(cache_dir() / "tracking.lock"):  # one process at a time creates a new store
        tracker: RunTracker = build(row, where="tracking", run_name=record["run_name"])
        with tracker:
            tracker.set_tags(record["tags"])
            tracker.log_params(record["params"])
            tracker.log_metrics(record["metrics"])
            for path, below in record["artifacts"]:
                tracker.log_artifact(Path(path), below)
            for text, name in record["texts"]:
                tracker.log_text(text, name)
            tracker.close(record["status"])
    (directory / RECORD).unlink()


def main(directory: Path) -> int:
    """Log one run at a low priority; return 1 if that fails."""
    os.nice(_LOW_PRIORITY)
    try:
        log_record(directory)
    except (LabError, OSError) as error:
        write_text(directory / FAILURE, f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
