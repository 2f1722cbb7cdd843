"""What every job stands on: the configuration, the run's directory, the console, the device and the tracker.

A :class:`Lab` is opened once per run. It owns nothing but these; the verbs live in the other modules of this directory.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console

from rocm_perf_lab.core.components import build
from rocm_perf_lab.core.files import write_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.config.run import RunConfig
    from rocm_perf_lab.device.protocol import Device
    from rocm_perf_lab.tracking.run import RunTracker


class Job(Protocol):
    """A verb of the lab."""

    def run(self, lab: Lab) -> float | None:
        """Do it; print to `lab.console`, write below `lab.output_dir`, log to `lab.tracker`.

        Returns:
            What a sweep over this job minimises, where it has such a figure: for a profile the runtime in ms.
        """
        ...


@dataclass(frozen=True)
class Lab:
    """One run of the lab."""

    settings: RunConfig
    """What a run needs at least; the rest of the configuration is in `config`."""
    resolved: Mapping[str, Any]
    output_dir: Path
    console: Console
    resumed: bool = False
    """An interrupted run is taken up again, in its directory."""
    tracking_run: str | None = None
    """Its id in the store."""

    @classmethod
    def open(
        cls,
        settings: RunConfig,
        *,
        resolved: Mapping[str, Any],
        output_dir: Path,
        resumed: bool = False,
        tracking_run: str | None = None,
    ) -> Lab:
        """Store the resolved configuration with the run.

        Args:
            settings: The configuration, or the part of it that every run needs.
            resolved: All of the configuration, checked, as plain data.
            output_dir: The run's directory.
            resumed: An interrupted run is taken up again.
            tracking_run: Its id in the store.

        Raises:
            OSError: The directory cannot be written.
        """
        write_text(output_dir / "config.json", json.dumps(resolved, indent=2, default=str) + "\n")
        console = Console(highlight=False, soft_wrap=False, quiet=settings.display != "table")
        return cls(settings, resolved, output_dir, console, resumed, tracking_run)

    @cached_property
    def config(self) -> LabConfig:
        """The whole configuration.

        Raises:
            ConfigError: The run began with the part of it that every run needs, and the rest is wrong.
        """
        from rocm_perf_lab.config.errors import Origins
        from rocm_perf_lab.config.lab import LabConfig
        from rocm_perf_lab.config.run import validated

        return self.settings if isinstance(self.settings, LabConfig) else validated(LabConfig, self.resolved, Origins({}))

    @cached_property
    def device(self) -> Device:
        """The device that the configuration names."""
        device: Device = build(self.config.device, where="device", target=self.config.target)
        return device

    @cached_property
    def measuring_device(self) -> Device:
        """What candidates are measured on: the device, or replays on it of the dispatch that the first launch makes."""
        if "replay" not in (self.config.measure, self.config.optimizer.measure):
            return self.device
        from rocm_perf_lab.replay.device import replaying_device

        config = self.config
        return replaying_device(self.device, self.output_dir / "capture", kernel=config.kernel, target=config.target)

    @cached_property
    def tracker(self) -> RunTracker:
        """The run that everything is logged to."""
        return self._tracker(f"{self.job_name} {self.config.kernel.name}")

    def deferred_tracker(self, run_name: str) -> RunTracker:
        """The run that everything is logged to once the command has answered. Only MLflow takes long enough for that."""
        from rocm_perf_lab.tracking.deferred import DeferredTracker
        from rocm_perf_lab.tracking.store import open_mlflow_tracker

        if self.settings.tracking.target != f"{open_mlflow_tracker.__module__}.{open_mlflow_tracker.__name__}":
            return self._tracker(run_name)
        return DeferredTracker(self.settings.tracking, run_name, self.output_dir)

    def _tracker(self, run_name: str) -> RunTracker:
        tracker: RunTracker = build(self.settings.tracking, where="tracking", run_name=run_name, run_id=self.tracking_run)
        return tracker

    @property
    def job_name(self) -> str:
        """Name of the command, and of the job's module if it is not the main one: `profile`, `optimize_application`."""
        modules = self.settings.job.target.split(".")[:-1]
        own = modules[modules.index("jobs") + 1 :] if "jobs" in modules else modules[-1:]
        return "_".join(name for name in own if name != "job")

    def run(self) -> float | None:
        """Run the configured job; see :meth:`Job.run`."""
        job: Job = build(self.settings.job, where="job")
        return job.run(self)

    def announce_device(self) -> None:
        """Say where kernels will run, and why there."""
        identity = self.measuring_device.identity
        self.console.print(f"[bold]device[/]  {identity.name}: {identity.reason}")

    def answer(self, document: Path, runtime: str) -> None:
        """What a machine asked for, on standard output and nothing beside it: one JSON document, or the runtime alone."""
        if self.settings.display == "json":
            sys.stdout.write(document.read_text(encoding="utf-8"))
        elif self.settings.display == "runtime":
            sys.stdout.write(f"{runtime}\n")
