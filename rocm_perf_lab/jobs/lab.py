"""Context of a run: configuration, directory, console, device and tracker. The jobs are in the packages of this directory."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console

from rocm_perf_lab.core.components import build
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.core.source_control import commit_of
from rocm_perf_lab.device.protocol import SampledDevice
from rocm_perf_lab.jobs.inputs import require_inputs
from rocm_perf_lab.jobs.run_identity import OriginDocument, run_name, shape_of, user_name, write_origin
from rocm_perf_lab.jobs.run_lock import RunLock, hold_run_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.config.run import RunConfig
    from rocm_perf_lab.device.protocol import Device
    from rocm_perf_lab.target.timing_errors import TimingErrors
    from rocm_perf_lab.tracking.run import RunTracker

_LOCKED = frozenset({"optimize", "verify", "autotune"})
"""Packages of jobs that keep state in the directory of a run."""


class Job(Protocol):
    """One command: profile, autotune, optimize, ..."""

    def run(self, lab: Lab) -> float | None:
        """Run; print to `lab.console`, write to `lab.output_dir`, log to `lab.tracker`.

        Returns:
            Objective that a sweep over this job minimises, or None; for a profile, the runtime in ms.

        Raises:
            LabError: The job failed.
        """
        ...


@dataclass(frozen=True)
class Lab:
    """Context of one run."""

    settings: RunConfig
    """The part of the configuration that every run needs; `config` is the whole."""
    resolved: Mapping[str, Any]
    output_dir: Path
    console: Console
    resumed: bool = False
    """Whether an interrupted run continues in its directory."""
    tracking_run: str | None = None
    """Id of that run in the tracking store."""
    sample_seed: int | None = None
    """Secret seed of the sample of workgroups; None uses that of the device."""
    lock: RunLock | None = None
    """Lock of the directory, for jobs that keep state in it."""

    @classmethod
    def open(
        cls,
        settings: RunConfig,
        *,
        resolved: Mapping[str, Any],
        output_dir: Path,
        resumed: bool = False,
        tracking_run: str | None = None,
        console: Console | None = None,
        command: str | None = None,
    ) -> Lab:
        """Check the input files, and store the resolved configuration in the run's directory.

        Args:
            settings: The configuration, or the part of it that every run needs.
            resolved: The whole configuration as plain data.
            output_dir: Directory of the run.
            resumed: Whether an interrupted run continues.
            tracking_run: Id of that run in the tracking store.
            console: Receives the output; None is the terminal.
            command: Command line that repeats the run, if Hydra does not store its overrides.

        Raises:
            LabError: An input file does not exist or cannot be read, or another process works in the directory.
            OSError: The directory cannot be written.
        """
        require_inputs(settings)
        lock = hold_run_directory(output_dir) if _LOCKED & set(settings.job.target.split(".")) else None
        write_text(output_dir / "config.json", json.dumps(resolved, indent=2, default=str) + "\n")
        if not resumed:
            write_origin(output_dir, OriginDocument(command=command, git_commit=_source_commit(settings)))
        shown = console or Console(highlight=False, soft_wrap=False, quiet=settings.display != "table")
        return cls(settings, resolved, output_dir, shown, resumed, tracking_run, lock=lock)

    @cached_property
    def config(self) -> LabConfig:
        """The whole configuration.

        Raises:
            ConfigError: The run was opened with a part of the configuration, and the rest is invalid.
        """
        from rocm_perf_lab.config.errors import Origins
        from rocm_perf_lab.config.lab import LabConfig
        from rocm_perf_lab.config.run import validated

        return self.settings if isinstance(self.settings, LabConfig) else validated(LabConfig, self.resolved, Origins({}))

    @cached_property
    def device(self) -> Device:
        """The configured device."""
        device: Device = build(self.config.device, where="device", target=self.config.target)
        if self.sample_seed is not None and isinstance(device, SampledDevice):
            return device.with_sample_seed(self.sample_seed)
        return device

    @cached_property
    def measuring_device(self) -> Device:
        """The device that measures candidates: the configured one, or replays of the first dispatch on it."""
        if "replay" not in (self.config.measure, self.config.optimizer.measure):
            return self.device
        from rocm_perf_lab.replay.device import replaying_device

        config = self.config
        return replaying_device(self.device, self.output_dir / "capture", kernel=config.kernel, target=config.target)

    @property
    def timing_errors(self) -> TimingErrors | None:
        """Error bands of the times of the measuring device; None if it measures, not emulates."""
        return self.config.target.timing_errors if self.measuring_device.identity.emulated else None

    @cached_property
    def tracker(self) -> RunTracker:
        """The tracking run; opened at first use."""
        return self._tracker(run_name(self.job_name, self.config))

    def deferred_tracker(self, run_name: str) -> RunTracker:
        """Return a tracker that logs to MLflow in a background process after the command ends; other trackers log at once."""
        from rocm_perf_lab.tracking.deferred import DeferredTracker
        from rocm_perf_lab.tracking.store import open_mlflow_tracker

        if self.settings.tracking.target != f"{open_mlflow_tracker.__module__}.{open_mlflow_tracker.__name__}":
            return self._tracker(run_name)
        return DeferredTracker(self.settings.tracking, run_name, self.output_dir, self.common_tags)

    def _tracker(self, run_name: str) -> RunTracker:
        tracker: RunTracker = build(
            self.settings.tracking, where="tracking", run_name=run_name, run_id=self.tracking_run, common_tags=self.common_tags
        )
        return tracker

    @property
    def common_tags(self) -> dict[str, str]:
        """Tags of the tracking run and of all its children: job, GPU, kernel, shape, user, commit of the source."""
        described = getattr(self.settings, "kernel", None)
        tags = {"job": self.job_name, "target": self.settings.target.name, "architecture": self.settings.target.architecture}
        if described is not None:
            tags |= {"kernel": described.name, "shape": shape_of(self.config)}
        commit = _source_commit(self.settings)
        return tags | {"user": user_name()} | ({"git_commit": commit} if commit is not None else {})

    @property
    def job_name(self) -> str:
        """Name of the command, with the module's name unless it is `job`: `profile`, `optimize_application`."""
        modules = self.settings.job.target.split(".")[:-1]
        own = modules[modules.index("jobs") + 1 :] if "jobs" in modules else modules[-1:]
        return "_".join(name for name in own if name != "job")

    def run(self) -> float | None:
        """Run the configured job; see :meth:`Job.run`."""
        job: Job = build(self.settings.job, where="job")
        try:
            return job.run(self)
        finally:
            if self.lock is not None:
                self.lock.release()

    def announce_device(self) -> None:
        """Print the device that runs kernels, and the reason for the choice."""
        identity = self.measuring_device.identity
        self.console.print(f"[bold]device[/]  {identity.name}: {identity.reason}")

    def answer(self, document: Path, runtime: str) -> None:
        """Print the JSON document or the runtime to standard output, if the display is `json` or `runtime`."""
        if self.settings.display == "json":
            sys.stdout.write(document.read_text(encoding="utf-8"))
        elif self.settings.display == "runtime":
            sys.stdout.write(f"{runtime}\n")


def _source_commit(settings: RunConfig) -> str | None:
    described = getattr(settings, "kernel", None)
    return commit_of(described.directory if described is not None else Path.cwd())
