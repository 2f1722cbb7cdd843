"""`rocm-perf run`: run an unchanged ROCm application on emulated GPUs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ConfigDict, Field

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.models import StrictModel
from rocm_perf_lab.device.choice import KFD
from rocm_perf_lab.device.process_group import check_program
from rocm_perf_lab.runtime.application import ApplicationRun, DriverOptions, check_root, run_application
from rocm_perf_lab.runtime.emulated_gpus import emulated_gpus
from rocm_perf_lab.target.catalog import DEFAULT_TARGET, load_target

if TYPE_CHECKING:
    from rocm_perf_lab.runtime.application import ApplicationResult
    from rocm_perf_lab.target.model import Target


class ApplicationRequest(StrictModel):
    """Application to run, and the machine to emulate."""

    model_config = ConfigDict(frozen=True)

    command: tuple[str, ...] = Field(min_length=1)
    target: str = DEFAULT_TARGET
    gpus: int = 1
    threads: int | None = None
    """Threads per dispatch; None for one per CPU that this process may use."""
    any_order: bool = False
    max_instructions: int = 0
    max_seconds: int = 0
    heartbeat: int = 0
    root: Path | None = None
    xnack: bool = False
    trace: int = 0
    verbose: bool = False


def run_command(request: ApplicationRequest) -> int:
    """Run the application, and return its exit code; 128 + n if signal n ended it.

    Raises:
        LabError: The application cannot be started, or this machine cannot emulate the GPU.
    """
    target = load_target(request.target)
    gpus = emulated_gpus(target, request.gpus)
    root = check_root(request.root) if request.root is not None else None
    if root is None:
        check_program(request.command)
    threads = request.threads or len(os.sched_getaffinity(0))
    options = DriverOptions(
        threads, request.any_order, request.max_instructions, request.max_seconds, request.heartbeat, request.trace
    )
    if request.verbose or sys.stderr.isatty():
        _say(_announcement(request, target, threads))
    result = run_application(ApplicationRun(request.command, gpus, options, root, request.xnack))
    if result.end.kind == "error":
        raise LabError(
            f"the application cannot be started: {os.strerror(result.end.number)}",
            where=request.command[0],
            hint="check the program",
        )
    _report(result, request)
    return result.end.exit_code


def _announcement(request: ApplicationRequest, target: Target, threads: int) -> str:
    number = f"{request.gpus} x " if request.gpus > 1 else ""
    text = f"emulating {number}{target.product_name} ({target.architecture}) with {threads} threads"
    return f"{text}; the GPU of this machine is not used" if KFD.exists() else text


def _report(result: ApplicationResult, request: ApplicationRequest) -> None:
    if result.end.terminated:
        count = result.end.terminated
        subject = "1 process" if count == 1 else f"{count} processes"
        _say(f"terminated {subject} that outlived the application")
    if not result.loaded_driver:
        _say(
            f"the emulated GPU was not used: {request.command[0]} did not load the driver "
            "(it is statically linked or set-user-ID, or it clears LD_PRELOAD)"
        )
    elif not result.used_gpu:
        _say("the emulated GPU was not used: the application did not open /dev/kfd. Run `rocm-perf doctor` to check ROCm")


def _say(text: str) -> None:
    print(f"rocm-perf: {text}", file=sys.stderr, flush=True)
