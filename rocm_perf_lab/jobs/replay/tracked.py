"""Tracking runs of the replay commands: `track_capture`, `track_replay`, `track_comparison`.

These commands have no configuration. They are tracked if the variable MLFLOW_TRACKING_URI is set, or the working directory has
the file of the default store. A store that cannot be used does not fail a command.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.core.components import Component
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.jobs.run_identity import user_name
from rocm_perf_lab.replay.format import DISPATCH_NAME, MANIFEST_NAME, MEMORY_NAME
from rocm_perf_lab.toolchain.demangle import base_name
from rocm_perf_lab.tracking.deferred import DeferredTracker
from rocm_perf_lab.tracking.store import DEFAULT_URI

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.comparison import ReplayComparison
    from rocm_perf_lab.replay.report import ReplayDocument

TrackingChoice = Literal["auto", "mlflow", "none"]
_KEPT_S = 3600.0
"""Age in seconds after which an empty directory of records is removed."""
_TARGET = "rocm_perf_lab.tracking.store.open_mlflow_tracker"


def is_tracked(choice: TrackingChoice) -> bool:
    """Return whether a command logs a run; `auto` logs one if a store exists."""
    if choice != "auto":
        return choice == "mlflow"
    return bool(os.environ.get("MLFLOW_TRACKING_URI")) or Path(DEFAULT_URI.removeprefix("sqlite:///")).exists()


def track_capture(capture: Capture, choice: TrackingChoice) -> None:
    """Log one capture with its documents."""
    if not is_tracked(choice):
        return
    kernel = base_name(capture.dispatch.kernel.name)
    metrics = {"captured_bytes": float(capture.total_bytes), "regions": float(len(capture.regions))}
    if capture.dispatch.timing is not None:
        metrics["runtime_us"] = capture.dispatch.timing.duration_us
    with _tracker(f"capture {kernel}", _tags(capture, "replay_capture", "emulated" if capture.emulated else "measured")) as run:
        run.log_metrics(metrics)
        run.log_params({"dispatch": capture.dispatch.index.kernel, "mode": capture.memory.mode})
        for name in (DISPATCH_NAME, MEMORY_NAME, MANIFEST_NAME):
            if (capture.directory / name).is_file():
                run.log_artifact(capture.directory / name, "capture")


def track_replay(capture: Capture, document: ReplayDocument, choice: TrackingChoice) -> None:
    """Log one series of replays with its report."""
    if not is_tracked(choice):
        return
    timing, check = document.timing, document.verification
    tags = {"gpu_agent": document.environment.gpu_agent, "hsaco": document.hsaco_path}
    if check is not None:
        tags["verdict"] = "correct" if check.passed else "wrong"
    metrics = {
        "runtime_us": timing.median,
        "runtime_min_us": timing.min,
        "replay_wall_ms": document.wall_time_ms,
        "iterations": float(document.execution.iterations),
    }
    if document.captured is not None:
        metrics |= {"captured_us": document.captured.microseconds, "replayed_over_captured": document.captured.ratio}
    name = f"replay {base_name(document.kernel.name)}"
    with _tracker(name, {**_tags(capture, "replay", timing.kind), **tags}) as run:
        run.log_metrics(metrics)
        run.log_text(document.model_dump_json(indent=2) + "\n", "replay.json")


def track_comparison(capture: Capture, document: ReplayComparison, choice: TrackingChoice) -> None:
    """Log one comparison with its report."""
    if not is_tracked(choice):
        return
    check, speedup = document.verification, document.speedup
    tags = {"gpu_agent": document.gpu_agent, "hsaco": document.candidate.hsaco, "caches": document.caches}
    tags["indistinguishable"] = str(speedup.verdict == "indistinguishable").lower()
    if check is not None:
        tags["verdict"] = "correct" if check.passed else "wrong"
    bounds = {"speedup_low": speedup.low, "speedup_high": speedup.high}
    metrics = {
        "runtime_us": document.candidate.median_us,
        "baseline_us": document.baseline.median_us,
        "speedup": speedup.estimate,
        **{name: bound for name, bound in bounds.items() if bound is not None},
    }
    name = f"replay compare {base_name(document.kernel)}"
    with _tracker(name, {**_tags(capture, "replay_compare", document.time_kind), **tags}) as run:
        run.log_metrics(metrics)
        run.log_text(document.model_dump_json(indent=2) + "\n", "replay_compare.json")


def _tags(capture: Capture, job: str, time_kind: str) -> dict[str, str]:
    packet = capture.dispatch.packet
    sizes = ("x".join(map(str, size)) for size in (packet.grid_size, packet.workgroup_size))
    return {
        "job": job,
        "architecture": capture.code_object.architecture,
        "kernel": base_name(capture.dispatch.kernel.name),
        "shape": "/".join(sizes),
        "capture": str(capture.directory),
        "time_kind": time_kind,
        "user": user_name(),
    }


def _tracker(name: str, tags: Mapping[str, str]) -> DeferredTracker:
    component = Component.model_validate({"_target_": _TARGET, "uri": _store(), "on_failure": "warn"})
    records = cache_dir() / "tracking-records"
    records.mkdir(parents=True, exist_ok=True)
    for logged in records.iterdir():
        with suppress(OSError):  # Not empty: its record is not logged yet.
            if time.time() - logged.stat().st_mtime > _KEPT_S:
                logged.rmdir()
    return DeferredTracker(component, name, Path(tempfile.mkdtemp(dir=records)), tags)


def _store() -> str:
    """Return the URI of the store with an absolute path, because another process logs the record."""
    given = os.environ.get("MLFLOW_TRACKING_URI")
    return given or f"sqlite:///{Path(DEFAULT_URI.removeprefix('sqlite:///')).absolute()}"
