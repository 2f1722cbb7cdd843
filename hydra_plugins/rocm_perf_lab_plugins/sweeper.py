"""Hydra sweeper: `--multirun` over a search space, with any Hydra launcher. Without a space, all combinations of `a=1,2`.

The value that a job returns is minimised (for job=profile the runtime in ms). Each job has a directory below that of the sweep,
and its MLflow run is a child of the sweep's run. In other Hydra applications the sweep overrides are the space.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from hydra.plugins.sweeper import Sweeper

from hydra_plugins.rocm_perf_lab_plugins._sweeper_config import SweeperConfig
from hydra_plugins.rocm_perf_lab_plugins.search_path import is_lab

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hydra.types import HydraContext, TaskFunction
    from omegaconf import DictConfig

    from rocm_perf_lab.autotune.slots import Task
    from rocm_perf_lab.autotune.spaces.space import Space
    from rocm_perf_lab.config.lab import LabConfig

ConfigStore.instance().store(group="hydra/sweeper", name="rocm_perf_lab", node=SweeperConfig, provider="rocm_perf_lab")

_DIRECTIONS = ("minimize", "maximize")
_BASIC = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"
_SEARCHES_BY_ITSELF = "rocm_perf_lab.jobs.autotune.job.AutotuneJob"
_LIMITS = {
    "rocm_perf_lab.device.emulator.EmulatorDevice": "time_limit_s",
    "rocm_perf_lab.device.rocm.RocmDevice": "timeout_s",
}
"""Device -> its limit of wall-clock time in seconds."""
_JOBLIB = "hydra_plugins.hydra_joblib_launcher."
_SUBMITIT = "hydra_plugins.hydra_submitit_launcher."
_MOST_IN_BATCH = 8
"""Default of the jobs in a batch on a cluster, whose limit is far higher: later jobs profit from the results of earlier ones."""
_RAY = "hydra_plugins.hydra_ray_launcher.ray_launcher."


class SpaceSweeper(Sweeper):
    """Sweeper over a search space.

    Args:
        slots: Number of concurrent jobs; None: the setting of the launcher.
        gpus: GPU ids for HIP_VISIBLE_DEVICES, assigned to the slots in turn; None: the GPUs of this machine.
        n_trials, n_jobs, direction, seed, storage, study_name, params: Settings of a sweep in another application; see
            :class:`._plain_sweep.PlainSweep`.
    """

    def __init__(
        self,
        slots: int | None = None,
        gpus: Sequence[int | str] | None = None,
        *,
        n_trials: int | None = None,
        n_jobs: int | None = None,
        direction: str = "minimize",
        seed: int = 0,
        storage: str | None = None,
        study_name: str | None = None,
        params: Mapping[str, str] | None = None,
    ) -> None:
        self._slots = slots
        self._gpus = gpus
        self._plain: dict[str, Any] = {
            "trials": n_trials,
            "seed": seed,
            "storage": storage,
            "study_name": study_name,
        }
        self._jobs = n_jobs
        self._params = dict(params or {})
        self._direction = direction
        self.hydra_context: HydraContext | None = None
        self.config: DictConfig | None = None
        self._task: TaskFunction | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Store Hydra's context, task function and configuration."""
        self.hydra_context, self._task, self.config = hydra_context, task_function, config

    def sweep(self, arguments: list[str]) -> Any:
        """Run the sweep.

        Raises:
            LabError: The input is invalid.
            StorageError: The storage of the study cannot be used.
            NoFeasibleTrial: Every configuration failed.
            CompactHydraException: Any of these, in another application.
        """
        from hydra.core.override_parser.overrides_parser import OverridesParser
        from hydra.errors import CompactHydraException

        from rocm_perf_lab.core.errors import LabError

        assert self.config is not None and self.hydra_context is not None
        if not is_lab(self.hydra_context.config_loader.get_search_path()):
            try:
                return self._search_overrides(arguments)
            except LabError as error:  # such an application prints the message of this class only, without a traceback
                raise CompactHydraException("\n".join(error.lines())) from error
        if self._slots is not None and self._slots < 1:
            raise LabError(f"{self._slots} slots", where="hydra.sweeper.slots", hint="use 1 or more, or null")
        has_space = self.config.autotune.space is not None or self.config.space.parameters
        searches = self.config.job._target_ == _SEARCHES_BY_ITSELF
        if searches and self._spreads(arguments):
            return self._search(arguments)
        if not has_space or searches:
            return self._enumerate(arguments)
        overrides = OverridesParser.create(self.hydra_context.config_loader).parse_overrides(arguments)
        lists = [override.input_line or "" for override in overrides if override.is_sweep_override()]
        if lists:
            raise LabError(
                "a sweep uses a space or lists of values, not both",
                where=f"the override {lists[0]!r}",
                hint="make it a parameter of the space, or remove the space: autotune.space=null",
            )
        return self._search(arguments)

    def _spreads(self, arguments: list[str]) -> bool:
        """Return whether the trials of one search are to run in the workers of a launcher, each as a profile."""
        from hydra.core.override_parser.overrides_parser import OverridesParser

        assert self.config is not None and self.hydra_context is not None
        overrides = OverridesParser.create(self.hydra_context.config_loader).parse_overrides(arguments)
        lists = any(override.is_sweep_override() for override in overrides)
        is_basic = str(self.config.hydra.launcher._target_) == _BASIC
        return not lists and not is_basic and self.config.job.get("command") is None

    def _search_overrides(self, arguments: list[str]) -> Any:
        """Search the sweep overrides of an application that is not rocm-perf-lab."""
        from hydra.core.override_parser.overrides_parser import OverridesParser
        from hydra.core.plugins import Plugins
        from omegaconf import OmegaConf

        from hydra_plugins.rocm_perf_lab_plugins._plain_sweep import PlainSweep, distributions, examples
        from rocm_perf_lab.core.errors import LabError

        assert self.config is not None and self.hydra_context is not None and self._task is not None
        if self._direction not in _DIRECTIONS:
            raise LabError(
                f"unknown direction {self._direction!r}", where="hydra.sweeper.direction", hint=f"use {' or '.join(_DIRECTIONS)}"
            )
        parser = OverridesParser.create(self.hydra_context.config_loader)
        overrides = parser.parse_overrides(arguments)
        given = {override.get_key_element().lstrip("+") for override in overrides}
        lines = [f"{key}={value}" for key, value in self._params.items() if key.lstrip("+") not in given]
        overrides = [*parser.parse_overrides(lines), *overrides]
        swept = [override for override in overrides if override.is_sweep_override()]
        if not swept:
            return self._enumerate([*lines, *arguments])
        values = distributions(swept)
        fixed = [override.input_line or "" for override in overrides if not override.is_sweep_override()]
        target = str(self.config.hydra.launcher._target_)
        slots = _slots_of(target, self.config.hydra.launcher, 0)
        jobs = self._jobs if self._jobs is not None else slots if target.startswith(_JOBLIB) else min(slots, _MOST_IN_BATCH)
        directory = Path(str(self.config.hydra.sweep.dir)).absolute()
        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=self.hydra_context, task_function=self._task, config=self.config
        )
        maximise = self._direction == _DIRECTIONS[1]
        plain = PlainSweep(values, fixed, launcher, jobs=jobs, maximise=maximise, **self._plain)
        self.validate_batch_is_legal([[*fixed, *example] for example in examples(values)])
        study = plain.study()
        directory.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, directory / "multirun.yaml")
        with _terminable():
            return plain.run(study, directory)

    def _enumerate(self, arguments: list[str]) -> Any:
        from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

        assert self.config is not None and self.hydra_context is not None and self._task is not None
        basic = BasicSweeper(max_batch_size=None)
        basic.setup(hydra_context=self.hydra_context, task_function=self._task, config=self.config)
        return basic.sweep(arguments)

    def _search(self, arguments: list[str]) -> None:
        from hydra.core.hydra_config import HydraConfig
        from hydra.core.utils import setup_globals
        from omegaconf import OmegaConf, open_dict

        from rocm_perf_lab.autotune.candidate import KernelBuilder
        from rocm_perf_lab.config.composition import parse_composed
        from rocm_perf_lab.jobs.autotune.spaces import configured_space
        from rocm_perf_lab.jobs.autotune.sweep import Sweep
        from rocm_perf_lab.jobs.autotune.workload import Workload
        from rocm_perf_lab.jobs.lab import Lab

        assert self.config is not None and self.hydra_context is not None
        setup_globals()
        directory = Path(str(self.config.hydra.sweep.dir)).absolute()
        with open_dict(self.config):
            self.config.hydra.sweep.dir = str(directory)  # it may contain the time of day, which workers would resolve again
            self.config.hydra.runtime.output_dir = str(directory)
        HydraConfig.instance().set_config(self.config)
        config, plain = parse_composed(self.config)
        workload = Workload(config) if config.autotune.shapes is not None else None
        space = workload.space if workload is not None else configured_space(config)
        toolchain = config.toolchain
        KernelBuilder(config.kernel, config.target, toolchain.compilers, toolchain.optimisation).check(space)
        overrides = _TrialOverrides(config, tuple(arguments), plain)
        self.validate_batch_is_legal([overrides.of(_first_task(space))])
        directory.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, directory / "multirun.yaml")
        lab = Lab.open(config, resolved=plain, output_dir=directory)
        launcher = str(self.config.hydra.runtime.choices.get("hydra/launcher", "basic"))
        with _terminable():
            slots = partial(self._slots_for, overrides, directory=directory)
            Sweep(lab, space, slots, f"{launcher} launcher", workload=workload).compiled().run()

    def _slots_for(self, overrides: _TrialOverrides, parent: str | None, directory: Path) -> Any:
        from hydra.core.plugins import Plugins
        from hydra.core.singleton import Singleton
        from omegaconf import OmegaConf, read_write

        from hydra_plugins.rocm_perf_lab_plugins._launcher_slots import (
            InProcessSlots,
            RaySlots,
            SlotSettings,
            SubmititSlots,
            WorkerSlots,
        )
        from hydra_plugins.rocm_perf_lab_plugins._trial_job import TrialJob
        from rocm_perf_lab.device.machine import gpu_ids

        assert self.config is not None and self.hydra_context is not None and self._task is not None
        launcher = self.config.hydra.launcher
        target = str(launcher._target_)
        gpus = tuple(map(str, self._gpus)) if self._gpus is not None else gpu_ids()
        slots = self._slots or _slots_of(target, launcher, len(gpus))
        if target.startswith(_JOBLIB):
            with read_write(self.config.hydra):
                self.config.hydra.launcher.n_jobs = 1  # each slot has a worker process
        job = TrialJob(self.hydra_context, self.config, self._task, Singleton.get_state())
        settings = SlotSettings(job, lambda task: overrides.of(task, parent, gpus if local else (), slots), slots, directory)
        local = target == _BASIC or not target.startswith(_RAY)
        if target == _BASIC:
            return InProcessSlots(settings)
        if target.startswith(_RAY):
            options = OmegaConf.to_container(launcher.ray, resolve=True)
            assert isinstance(options, dict)
            return RaySlots(settings, self._slots, options["init"], options["remote"])
        if target.startswith(_SUBMITIT):
            made = Plugins.instance().instantiate_launcher(
                hydra_context=self.hydra_context, task_function=self._task, config=self.config
            )
            submitit = SubmititSlots(settings, made)
            local = submitit.on_this_machine
            return submitit
        return WorkerSlots(settings)


def _slots_of(target: str, launcher: Mapping[str, Any], gpus: int) -> int:
    """Return the number of concurrent jobs of a launcher; if unlimited, one per GPU, or per core on a machine without GPUs."""
    cores = os.cpu_count() or 1
    if target == _BASIC:
        return 1
    if target.startswith(_JOBLIB):
        jobs = int(launcher["n_jobs"])
        return jobs if jobs > 0 else gpus or max(1, cores + 1 + jobs)
    if "array_parallelism" in launcher:
        return int(launcher["array_parallelism"])
    return gpus or cores


class _TrialOverrides:
    """Overrides of a trial: arguments of the user, the configuration, the parent run, GPU and threads."""

    def __init__(self, config: LabConfig, arguments: tuple[str, ...], plain: Mapping[str, Any]) -> None:
        self._config = config
        self._arguments = arguments
        self._plain = plain

    def of(self, task: Task, parent: str | None = None, gpus: Sequence[str] = (), slots: int = 1) -> list[str]:
        """Return the overrides of one trial.

        Args:
            task: Number, slot and configuration of the trial.
            parent: MLflow run of the sweep.
            gpus: GPU ids of the machine on which the trial runs.
            slots: Number of jobs that share that machine.
        """
        from rocm_perf_lab.autotune.slots import RACE

        overrides = [*self._arguments]
        if self._config.job.target == _SEARCHES_BY_ITSELF:
            overrides = [word for word in overrides if not word.startswith(("job=", "job."))] + ["job=profile"]
        params = self._config.kernel.params
        overrides += [f"kernel.params.{name}={_quoted(value)}" for name, value in task.configuration.items() if name in params]
        overrides += ["display=none"]
        if task.phase == RACE:
            overrides.append(f"hydra.sweep.subdir={RACE}/{task.number}")
        if not any(override.startswith("passes.plots=") for override in self._arguments):
            overrides.append("passes.plots=false")
        if parent is not None and "parent" in self._plain["tracking"]:
            overrides += [f"tracking.parent={_quoted(parent)}", f"++tracking.tags.trial={_quoted(str(task.number))}"]
            overrides.append(f"++tracking.tags.phase={_quoted(task.phase)}")
        if gpus:
            overrides.append(f"++hydra.job.env_set.HIP_VISIBLE_DEVICES={_quoted(gpus[task.slot % len(gpus)])}")
        if slots > 1:
            threads = max(1, (os.cpu_count() or 1) // slots)
            overrides += [f"{key}={threads}" for key in _automatic_threads(self._plain["device"], "device")]
        if task.limit_s is not None:
            overrides += [f"++{key}={task.limit_s:g}" for key in _time_limits(self._plain["device"], "device", task.limit_s)]
        return overrides


def _automatic_threads(device: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the keys of thread counts that default to one per core, which the slots must share."""
    for key, value in device.items():
        if isinstance(value, dict):
            yield from _automatic_threads(value, f"{path}.{key}")
        elif key == "threads" and value == 0:
            yield f"{path}.{key}"


def _time_limits(device: Mapping[str, Any], path: str, seconds: float) -> Iterator[str]:
    """Yield the keys of limits that are higher than some seconds or absent: launches can only be ended by their device.

    On a cluster, a limit of the whole job would include the time in the queue.
    """
    name = _LIMITS.get(str(device.get("_target_")))
    if name is not None and (device.get(name) or seconds) >= seconds:
        yield f"{path}.{name}"
    for key, value in device.items():
        if isinstance(value, dict):
            yield from _time_limits(value, f"{path}.{key}", seconds)


def _quoted(value: bool | float | str) -> str:
    """Return a value in the grammar of Hydra's overrides."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _first_task(space: Space) -> Task:
    from rocm_perf_lab.autotune.slots import Task

    return Task(0, 0, space.complete(space.example()))


@contextmanager
def _terminable() -> Iterator[None]:
    """Handle SIGTERM, which schedulers send, like Ctrl-C: finished trials are kept."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
