"""`--multirun` over a space: ask and tell with Optuna through any Hydra launcher. Without a space: all combinations of a=1,2.

The jobs are jobs of the lab; what one returns is minimised (for job=profile the runtime in ms). Each runs in a folder of its
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
    from rocm_perf_lab.config import LabConfig

_BASIC = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"
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

        from rocm_perf_lab.errors import LabError

        assert self.config is not None and self.hydra_context is not None
        if self.config.autotune.space is None and not self.config.space.parameters:
            return self._enumerate(arguments)
        overrides = OverridesParser.create(self.hydra_context.config_loader).parse_overrides(arguments)
        lists = [override.input_line or "" for override in overrides if override.is_sweep_override()]
        if lists:
            raise LabError(
                "a sweep goes over a space or over lists of values, not over both",
                where=f"the override {lists[0]!r}",
                remedy="make it a parameter of the space, or leave the space out: autotune.space=null",
            )
        return self._search(arguments)

    def _enumerate(self, arguments: list[str]) -> Any:
        from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

        assert self.config is not None and self.hydra_context is not None and self._task is not None
        basic = BasicSweeper(max_batch_size=None)
        basic.setup(hydra_context=self.hydra_context, task_function=self._task, config=self.config)
        return basic.sweep(arguments)
