"""Emulated GPUs on which an application runs while dispatches are captured, with AMD's HIP runtime or another one."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.runtime.application import ApplicationRun, DriverOptions, run_application
from rocm_perf_lab.runtime.emulated_gpus import emulated_gpus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.target.model import Target


@dataclass(frozen=True)
class EmulatedMachine:
    """Machine with emulated GPUs of one model.

    Args:
        target: GPU to emulate.
        root: ROCm directory tree that becomes the application's root directory; None for the ROCm of this machine.
        runtime_variables: Environment variables that select the application's HIP runtime.
        gpus: Number of GPUs.
    """

    target: Target
    root: Path | None = None
    runtime_variables: Mapping[str, str] = field(default_factory=dict)
    gpus: int = 1

    def run(
        self,
        command: tuple[str, ...],
        variables: Mapping[str, str],
        shared: Sequence[Path],
        timeout_s: float | None,
        shall_end: Callable[[], bool] | None = None,
    ) -> int | None:
        """Run an application to its end.

        Args:
            command: Program and arguments.
            variables: Environment variables in addition to those of this process.
            shared: Directories that are mounted at the same path in the application's root directory, if it has one.
            timeout_s: Time limit in seconds; None for no limit.
            shall_end: Called about ten times per second; the application is stopped when it returns true.

        Returns:
            Exit code, negative after a signal; None if the application was stopped at the time limit.

        Raises:
            LabError: The application or the emulated driver cannot be started.
        """
        run = ApplicationRun(
            command,
            emulated_gpus(self.target, self.gpus),
            DriverOptions(len(os.sched_getaffinity(0))),
            self.root,
            timeout_s=math.inf if timeout_s is None else timeout_s,
            variables={**self.runtime_variables, **variables},
            shared=tuple(shared),
            shall_end=shall_end,
        )
        result = run_application(run)
        if result.end.kind == "error":
            raise LabError(f"the application cannot be started: {os.strerror(result.end.number)}", where=command[0])
        if result.timed_out:
            return None
        return -result.end.number if result.end.kind == "signal" else result.end.number
