"""`--multirun` over a space: ask and tell with Optuna through any Hydra launcher. Without a space: all combinations of a=1,2.

The jobs are jobs of the lab; what one returns is minimised (for job=profile the runtime in ms). Each runs in a directory of its
own below that of the sweep, and its MLflow run is a child of the sweep's.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.plugins.sweeper import Sweeper

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hydra.types import HydraContext, TaskFunction
    from omegaconf import DictConfig

    from rocm_perf_lab.autotune.slots import Task
    from rocm_perf_lab.autotune.space import Space
    from rocm_perf_lab.config.lab import LabConfig

_BASIC = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"
_SEARCHES_BY_ITSELF = "rocm_perf_lab.jobs.autotune.job.AutotuneJob"
_JOBLIB = "hydra_plugins.hydra_joblib_launcher."
_SUBMITIT = "hydra_plugins.hydra_submitit_launcher."
_RAY = "hydra_plugins.hydra_ray_launcher.ray_launcher."


class SpaceSweeper(Sweeper):
    """See the module.

    Args:
        slots: Jobs at the same time; None: what the launcher is set up for.
        gpus: Ids of GPUs for HIP_VISIBLE_DEVICES, one for each slot in turn; None: those of this machine.
    """

    def __init__(self, slots: int | None = None, gpus: Sequence[int | str] | None = None) -> None:
        self._slots = slots
        self._gpus = gpus
        self.hydra_context: HydraContext | None = None
        self.config: DictConfig | None = None
        self._task: TaskFunction | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Hydra hands over what a sweep needs; the launcher is made later, where it is needed."""
        self.hydra_context, self._task, self.config = hydra_context, task_function, config

    def sweep(self, arguments: list[str]) -> Any:
        """Run all of it.

        Raises:
            LabError: Bad input; StorageError; NothingRan.
        """
        from hydra.core.override_parser.overrides_parser import OverridesParser

        from rocm_perf_lab.core.errors import LabError

        assert self.config is not None and self.hydra_context is not None
        has_space = self.config.autotune.space is not None or self.config.space.parameters
        if not has_space or self.config.job._target_ == _SEARCHES_BY_ITSELF:
            return self._enumerate(arguments)
        overrides = OverridesParser.create(self.hydra_context.config_loader).parse_overrides(arguments)
        lists = [override.input_line or "" for override in overrides if override.is_sweep_override()]
        if lists:
            raise LabError(
                "a sweep goes over a space or over lists of values, not over both",
                where=f"the override {lists[0]!r}",
                hint="make it a parameter of the space, or leave the space out: autotune.space=null",
            )
        return self._search(arguments)

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
        from rocm_perf_lab.jobs.lab import Lab

        assert self.config is not None and self.hydra_context is not None
        setup_globals()
        directory = Path(str(self.config.hydra.sweep.dir)).absolute()
        with open_dict(self.config):
            self.config.hydra.sweep.dir = str(directory)  # it may have the time of day in it, which workers read anew
            self.config.hydra.runtime.output_dir = str(directory)
        HydraConfig.instance().set_config(self.config)
        config, plain = parse_composed(self.config)
        space = configured_space(config)
        toolchain = config.toolchain
        KernelBuilder(config.kernel, config.target, toolchain.compilers, toolchain.optimisation).check(space)
        words = _Words(config, tuple(arguments), plain)
        self.validate_batch_is_legal([words.of(_first_task(space))])
        directory.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, directory / "multirun.yaml")
        lab = Lab.open(config, resolved=plain, output_dir=directory)
        launcher = str(self.config.hydra.runtime.choices.get("hydra/launcher", "basic"))
        with _terminable():
            Sweep(lab, space, lambda parent: self._places(words, parent, directory), f"{launcher} launcher").compiled().run()

    def _places(self, words: _Words, parent: str | None, directory: Path) -> Any:
        from hydra.core.plugins import Plugins
        from hydra.core.singleton import Singleton
        from omegaconf import OmegaConf, read_write

        from hydra_plugins.rocm_perf_lab_plugins._places import Here, RayCluster, Setting, Submitit, Workers
        from hydra_plugins.rocm_perf_lab_plugins._worker import HydraJob
        from rocm_perf_lab.device.gpus import gpu_ids

        assert self.config is not None and self.hydra_context is not None and self._task is not None
        launcher = self.config.hydra.launcher
        target = str(launcher._target_)
        gpus = tuple(map(str, self._gpus)) if self._gpus is not None else gpu_ids()
        slots = self._slots or _slots_of(target, launcher, len(gpus))
        if target.startswith(_JOBLIB):
            with read_write(self.config.hydra):
                self.config.hydra.launcher.n_jobs = 1  # of each worker process: there is one for each slot
        job = HydraJob(self.hydra_context, self.config, self._task, Singleton.get_state())
        setting = Setting(job, lambda task: words.of(task, parent, gpus if local else (), slots), slots, directory)
        local = target == _BASIC or not target.startswith(_RAY)
        if target == _BASIC:
            return Here(setting)
        if target.startswith(_RAY):
            options = OmegaConf.to_container(launcher.ray, resolve=True)
            assert isinstance(options, dict)
            return RayCluster(setting, self._slots, options["init"], options["remote"])
        if target.startswith(_SUBMITIT):
            made = Plugins.instance().instantiate_launcher(
                hydra_context=self.hydra_context, task_function=self._task, config=self.config
            )
            place = Submitit(setting, made)
            local = place.on_this_machine
            return place
        return Workers(setting)


def _slots_of(target: str, launcher: Mapping[str, Any], gpus: int) -> int:
    """How many jobs a launcher is set up for; where it takes all there is: one for each GPU, without GPUs one for each core."""
    cores = os.cpu_count() or 1
    if target == _BASIC:
        return 1
    if target.startswith(_JOBLIB):
        jobs = int(launcher["n_jobs"])
        return jobs if jobs > 0 else gpus or max(1, cores + 1 + jobs)
    if "array_parallelism" in launcher:
        return int(launcher["array_parallelism"])
    return gpus or cores


class _Words:
    """The overrides of each trial: what the user said, the configuration, and where the job belongs."""

    def __init__(self, config: LabConfig, arguments: tuple[str, ...], plain: Mapping[str, Any]) -> None:
        self._config = config
        self._arguments = arguments
        self._plain = plain

    def of(self, task: Task, parent: str | None = None, gpus: Sequence[str] = (), slots: int = 1) -> list[str]:
        """Of one trial.

        Args:
            task: Its number, slot and configuration.
            parent: The MLflow run of the sweep.
            gpus: Of the machine on which it runs.
            slots: Jobs that share that machine.
        """
        words = [*self._arguments]
        params = self._config.kernel.params
        words += [f"kernel.params.{name}={_quoted(value)}" for name, value in task.configuration.items() if name in params]
        words += ["display=none"]
        if not any(word.startswith("passes.plots=") for word in self._arguments):
            words.append("passes.plots=false")
        if parent is not None and "parent" in self._plain["tracking"]:
            words += [f"tracking.parent={_quoted(parent)}", f"++tracking.tags.trial={_quoted(str(task.number))}"]
            words.append(f"++tracking.tags.phase={_quoted(task.phase)}")
        if gpus:
            words.append(f"++hydra.job.env_set.HIP_VISIBLE_DEVICES={_quoted(gpus[task.slot % len(gpus)])}")
        if slots > 1:
            threads = max(1, (os.cpu_count() or 1) // slots)
            words += [f"{key}={threads}" for key in _automatic_threads(self._plain["device"], "device")]
        return words


def _automatic_threads(device: Mapping[str, Any], path: str) -> Iterator[str]:
    """Where the device would take one thread per core, though it shares them with the other slots."""
    for key, value in device.items():
        if isinstance(value, dict):
            yield from _automatic_threads(value, f"{path}.{key}")
        elif key == "threads" and value == 0:
            yield f"{path}.{key}"


def _quoted(value: bool | float | str) -> str:
    """A value as Hydra's grammar reads it back."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _first_task(space: Space) -> Task:
    from rocm_perf_lab.autotune.slots import Task

    return Task(0, 0, space.complete(space.configuration(0)))


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM, which schedulers send, ends a sweep like Ctrl-C: what was measured is kept."""
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
