"""`rocm-perf run`: run an application, or HIP sources, on emulated GPUs."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ConfigDict, Field

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.models import StrictModel
from rocm_perf_lab.core.standard_output import child_output_to_stderr
from rocm_perf_lab.jobs.run.launch import ApplicationLaunch, RuntimeName, compile_sources, prepare_launch, with_runtime
from rocm_perf_lab.jobs.run.summary import end_lines, findings_lines, machine_line, totals_line
from rocm_perf_lab.jobs.run.summary import say as say_line
from rocm_perf_lab.runtime.application import ApplicationRun, DriverOptions, run_application
from rocm_perf_lab.runtime.emulated_gpus import emulated_gpus
from rocm_perf_lab.runtime.findings import parse_run_checks
from rocm_perf_lab.target.catalog import DEFAULT_TARGET, load_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.jobs.run.document import RunDocument
    from rocm_perf_lab.runtime.application import ApplicationResult
    from rocm_perf_lab.runtime.application_database import WrittenDatabases
    from rocm_perf_lab.runtime.recorder import DispatchRecorder
    from rocm_perf_lab.target.model import Target


class ApplicationRequest(StrictModel):
    """Application to run, and the machine to emulate."""

    model_config = ConfigDict(frozen=True)

    command: tuple[str, ...] = ()
    """Program and arguments; only the arguments if `sources` is not empty."""
    sources: tuple[Path, ...] = ()
    """HIP sources to compile."""
    build_args: str = ""
    """Compiler and linker arguments."""
    runtime: RuntimeName = "auto"
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
    trace: int = Field(default=0, ge=0)
    check: str = "none"
    """Checks as a list of names: :data:`~rocm_perf_lab.runtime.findings.CHECKS`."""
    verbose: bool = False
    as_json: bool = False
    """Print a document; the application's standard output then goes to standard error."""
    quiet: bool = False
    """Print no messages on standard error."""


def run_command(request: ApplicationRequest) -> int:
    """Run the application, and return its exit code; 128 + n if signal n ended it.

    Raises:
        LabError: The application cannot be started, or this machine cannot emulate the GPU.
    """
    return run_recorded(request).exit_code


@dataclass(frozen=True)
class EndedCommand:
    """An application that has ended."""

    exit_code: int
    """Exit code: 1 if a check found a defect, else that of the application."""
    written: WrittenDatabases | None
    """Databases written by the recorder."""
    document: Callable[[], RunDocument]
    """Creates the document of the run on demand."""


def run_recorded(request: ApplicationRequest, recorder: DispatchRecorder | None = None) -> EndedCommand:
    """Run the application, and record its dispatches.

    Args:
        request: The application.
        recorder: Records its dispatches; without it the document of the run is printed if requested.

    Raises:
        LabError: The application cannot be started, or this machine cannot emulate the GPU.
    """
    target = load_target(request.target)
    gpus = emulated_gpus(target, request.gpus)
    checks = parse_run_checks(request.check)
    say = _silent if request.quiet else say_line
    launch = _launch(request, target)
    threads = request.threads or len(os.sched_getaffinity(0))
    options = DriverOptions(
        threads,
        request.any_order,
        request.max_instructions,
        request.max_seconds,
        request.heartbeat,
        request.trace,
        checks,
    )
    for note in launch.notes:
        say(note)
    talks = request.verbose or (sys.stderr.isatty() and not request.quiet)
    if talks:
        say(machine_line(target, request.gpus, threads, launch.runtime))
    run = ApplicationRun(
        launch.command,
        gpus,
        options,
        launch.root,
        request.xnack,
        recorder=recorder,
        variables=launch.variables,
    )
    with child_output_to_stderr() if request.as_json else nullcontext():
        result = run_application(run)
    if result.end.kind == "error":
        raise LabError(
            f"the application cannot be started: {os.strerror(result.end.number)}",
            where=launch.command[0],
            hint="check the program",
        )
    for line in end_lines(result, launch.command[0]):
        say(line)
    for line in findings_lines(result.findings):
        say(line)
    if talks and result.used_gpu:
        say(totals_line(result.totals, result.wall_s))
    document = partial(_document, request, target, launch, result)
    if request.as_json and recorder is None:
        print(document().model_dump_json(indent=2), flush=True)
    return EndedCommand(1 if result.findings else result.end.exit_code, result.written, document)


def _silent(text: str) -> None:
    """Print nothing."""


def _launch(request: ApplicationRequest, target: Target) -> ApplicationLaunch:
    if not request.sources:
        if request.build_args:
            raise LabError("--build-args applies to sources only", where="--build-args", hint="rocm-perf run main.hip")
        return prepare_launch(request.command, target, request.runtime, request.root)
    built = compile_sources(request.sources, target, request.build_args, request.runtime, request.root)
    if built.warnings:
        print(built.warnings, file=sys.stderr, end="", flush=True)
    command = (str(built.path), *request.command)
    if request.root is not None:
        return replace(prepare_launch(command, target, request.runtime, request.root), compiled=built.compiled)
    return with_runtime(ApplicationLaunch(command, "rocm", compiled=built.compiled), request.runtime)


def _document(request: ApplicationRequest, target: Target, launch: ApplicationLaunch, result: ApplicationResult) -> RunDocument:
    from rocm_perf_lab.jobs.run.document import FoundDefect, RunDocument

    return RunDocument(
        command=launch.command,
        target=target.name,
        architecture=target.architecture,
        gpus=request.gpus,
        runtime=launch.runtime,
        root=None if launch.root is None else str(launch.root),
        exit_code=result.end.exit_code,
        findings=tuple(FoundDefect.of(finding) for finding in result.findings),
        used_gpu=result.used_gpu,
        dispatches=result.totals.dispatches,
        instructions=result.totals.instructions,
        kernel_time_ns=result.totals.kernel_ns,
        wall_time_s=round(result.wall_s, 3),
        compiled_parts=launch.compiled,
        translated_kernels=result.translations,
    )
