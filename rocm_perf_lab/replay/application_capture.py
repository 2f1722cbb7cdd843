"""Runs an application under the capture tool: `capture(CaptureRequest(...)) -> CaptureOutcome`.

The tool (`native/`) writes to a work directory next to the output. Only a directory with a manifest becomes the output. A
complete capture is accepted regardless of the exit code of the application.
"""

from __future__ import annotations

import difflib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pydantic import BaseModel

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.replay.tool_build import build_sdk_loader, build_tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocm_perf_lab.replay.emulated_machine import EmulatedMachine
    from rocm_perf_lab.replay.format import CaptureMode

_SHOWN_KERNELS = 20
_PREFIX = "ROCM_PERF_LAB_CAPTURE_"


class ApplicationCaptureError(LabError):
    """Application run that produced no capture."""


@dataclass(frozen=True)
class CaptureRequest:
    """Dispatch of an application to capture.

    Args:
        command: Program and arguments.
        kernel: Name of the kernel, mangled or demangled, with or without parameters and template arguments; or /expression/.
        output: Directory to create.
        dispatch: Index among the matching dispatches, from 0.
        mode: `reachable` captures memory reachable from the arguments, `full` all memory of the process, `arguments` only
            the memory that the arguments point to.
        limit_bytes: Largest size of the capture; 0 for no limit.
        timeout_s: Time limit in seconds for other work on the GPU, and for the dispatch.
        application_timeout_s: Time limit of the application in seconds; None for no limit.
        preload: Load the tool with LD_PRELOAD, for applications that overwrite HSA_TOOLS_LIB.
        rocprofiler_sdk: Load the tool through rocprofiler-sdk, for runtimes that do not load tools themselves.
        low_addresses: Request low addresses, which are free in a replay process (HSA_RESERVE_SVM).
        record_command: Store the command line in the capture.
    """

    command: tuple[str, ...]
    kernel: str
    output: Path
    dispatch: int = 0
    mode: CaptureMode = "reachable"
    limit_bytes: int = 0
    timeout_s: float = 60.0
    application_timeout_s: float | None = None
    preload: bool = False
    rocprofiler_sdk: bool = False
    low_addresses: bool = True
    record_command: bool = True


@dataclass(frozen=True)
class CaptureOutcome:
    """Complete capture of an application.

    `kernels` are numbers of dispatches by kernel name, up to the captured dispatch. `exit_code` of the application is negative
    after a signal.
    """

    directory: Path
    exit_code: int
    wall_s: float
    kernels: Mapping[str, int]
    warnings: tuple[str, ...]


class _ProcessReport(BaseModel):
    """Report of the tool in one process: kernels-<pid>.json, see native/FORMAT.md."""

    kernels: dict[str, int]
    matches: int
    captured: bool
    error: str | None
    warnings: list[str]


@dataclass(frozen=True)
class _Report:
    """Reports of all processes, combined."""

    kernels: Mapping[str, int]
    matches: int
    errors: tuple[str, ...]
    warnings: tuple[str, ...]


def capture(
    request: CaptureRequest,
    *,
    tool: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdout: IO[str] | int | None = None,
    machine: EmulatedMachine | None = None,
) -> CaptureOutcome:
    """Run an application with the capture tool loaded, and return the capture.

    Args:
        request: Application and dispatch.
        tool: Capture tool; by default it is built on first use.
        environment: Environment of the application; by default that of this process.
        stdout: Standard output of the application; by default that of this process.
        machine: Emulated machine on which it runs, with environment and standard output of this process; None for this machine.

    Raises:
        ApplicationCaptureError: There is no capture; the message reports the reason and the dispatched kernels.
        ToolBuildError: The tool cannot be built.
    """
    _check(request, in_root=machine is not None and machine.root is not None)
    tool = (tool or build_tool()).resolve()
    request.output.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{request.output.name}.capturing-", dir=request.output.parent))
    try:
        start = time.monotonic()
        with _listable(build_sdk_loader() if request.rocprofiler_sdk else tool) as name:
            variables = tool_environment(request, name, work, dict(os.environ if environment is None else environment))
            if request.rocprofiler_sdk:
                variables[f"{_PREFIX}TOOL"] = str(tool)
            if machine is None:
                exit_code = _run(request, variables, stdout)
            else:
                exit_code = _run_emulated(request, machine, variables, [tool.parent, name.parent, work.resolve()])
        return _accepted(request, work, exit_code, time.monotonic() - start)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def tool_environment(request: CaptureRequest, library: Path, work: Path, environment: dict[str, str]) -> dict[str, str]:
    """Return `environment` with the variables that load a library (the tool or its loader) into the application."""
    added = {
        f"{_PREFIX}DIR": str(work.resolve()),
        f"{_PREFIX}KERNEL": request.kernel,
        f"{_PREFIX}INDEX": str(request.dispatch),
        f"{_PREFIX}MODE": request.mode,
        f"{_PREFIX}LIMIT": str(request.limit_bytes),
        f"{_PREFIX}TIMEOUT": str(request.timeout_s),
        f"{_PREFIX}COMMAND": "1" if request.record_command else "0",
        # If rocprofiler-sdk is active, ROCm silently ignores HSA_TOOLS_LIB unless this is set.
        "HSA_TOOLS_ROCPROFILER_V1_TOOLS": "1",
        "HSA_TOOLS_REPORT_LOAD_FAILURE": "1",
        "DEBUG_CLR_DIRECT_DOORBELL": "0",  # intercept queues do not see direct stores to the doorbell
    }
    if request.low_addresses:
        added["HSA_RESERVE_SVM"] = "1"
    preloaded = request.preload or request.rocprofiler_sdk
    variable, separator = ("LD_PRELOAD", ":") if preloaded else ("HSA_TOOLS_LIB", " ")
    others = environment.get(variable)
    added[variable] = separator.join([str(library), others] if others else [str(library)])
    return environment | added


@contextmanager
def _listable(path: Path) -> Iterator[Path]:
    """Yield a path without separators of HSA_TOOLS_LIB (spaces) and LD_PRELOAD (spaces, colons), by a link if necessary."""
    if not set(" :;\t") & set(str(path)):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-capture-") as directory:
        link = Path(directory) / path.name
        link.symlink_to(path)
        yield link


def _check(request: CaptureRequest, *, in_root: bool) -> None:
    if not request.command:
        raise ApplicationCaptureError(
            "no application to capture from", hint="rocm-perf replay capture --kernel NAME -- ./app [arguments]"
        )
    if not in_root and shutil.which(request.command[0]) is None:
        raise ApplicationCaptureError(
            f"{request.command[0]!r} is not an executable program",
            where="the application",
            hint="Pass the path of the program: ./app",
        )
    if not request.kernel:
        raise ApplicationCaptureError("no kernel to capture", where="--kernel", hint="Pass the name of the kernel.")
    if request.dispatch < 0:
        raise ApplicationCaptureError(
            f"dispatch {request.dispatch} does not exist", where="--dispatch", hint="Dispatches count from 0."
        )
    if request.output.exists() or request.output.is_symlink():
        raise ApplicationCaptureError(
            "the output directory already exists",
            where=str(request.output),
            hint=f"Remove it (rm -r {request.output}), or choose another one with --output.",
        )


def _run(request: CaptureRequest, environment: Mapping[str, str], stdout: IO[str] | int | None) -> int:
    application = subprocess.Popen(request.command, env=environment, stdout=stdout, start_new_session=True)
    try:
        return application.wait(request.application_timeout_s)
    except subprocess.TimeoutExpired as error:
        raise _took_too_long(request) from error
    finally:  # also after an interrupt; child processes are in the same session
        if application.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(application.pid, signal.SIGKILL)
            application.wait()


def _run_emulated(request: CaptureRequest, machine: EmulatedMachine, environment: Mapping[str, str], shared: list[Path]) -> int:
    added = {name: value for name, value in environment.items() if os.environ.get(name) != value}
    exit_code = machine.run(request.command, added, shared, request.application_timeout_s)
    if exit_code is None:
        raise _took_too_long(request)
    return exit_code


def _took_too_long(request: CaptureRequest) -> ApplicationCaptureError:
    return ApplicationCaptureError(
        f"the application did not end within {request.application_timeout_s:g} s and was killed",
        where=" ".join(request.command),
        hint="Raise --application-timeout, or look for a kernel that hangs.",
    )


def _accepted(request: CaptureRequest, work: Path, exit_code: int, wall_s: float) -> CaptureOutcome:
    report = _read_reports(work)
    directories = sorted(work.glob("capture-*"))
    complete = [directory for directory in directories if (directory / "manifest.json").is_file()]
    if complete:
        complete[0].rename(request.output)
        more = [f"{len(complete) - 1} more processes captured a matching dispatch; one capture was kept"] if complete[1:] else []
        return CaptureOutcome(request.output, exit_code, wall_s, report.kernels, (*report.warnings, *more))
    if directories:
        directories[0].rename(request.output)
        raise ApplicationCaptureError(
            f"the capture is incomplete: {report.errors[0] if report.errors else _ending(exit_code)}",
            where=f"{request.output} has no manifest.json",
            hint=f"Remove the directory (rm -r {request.output}) and capture again.",
        )
    raise _explain(request, work, report, exit_code)


def _explain(request: CaptureRequest, work: Path, report: _Report, exit_code: int) -> ApplicationCaptureError:
    loaded = [marker.read_text().strip() for marker in sorted(work.glob("loaded-*"))]
    if not loaded:
        return ApplicationCaptureError(
            f"the application, which {_ending(exit_code)}, did not load the capture tool",
            where=" ".join(request.command),
            hint="Check that the application uses a GPU through ROCm (rocm-perf doctor). If it sets HSA_TOOLS_LIB itself, add "
            "--preload; if that does not help, add --rocprofiler-sdk.",
        )
    if "ok" not in loaded:
        return ApplicationCaptureError(f"the capture tool did not start: {loaded[0]}", where=f"--kernel {request.kernel}")
    if report.errors:
        return ApplicationCaptureError(f"no capture was made: {report.errors[0]}", where=f"kernel {request.kernel!r}")
    ended = f"; the application {_ending(exit_code)}" if exit_code else ""
    if report.matches:
        return ApplicationCaptureError(
            f"kernel {request.kernel!r} was dispatched {report.matches} times; dispatch {request.dispatch} does not exist{ended}",
            where="--dispatch, which counts from 0",
            hint=f"The last one is --dispatch {report.matches - 1}.",
        )
    return ApplicationCaptureError(
        f"kernel {request.kernel!r} was never dispatched{ended}",
        where="; ".join([_seen(report.kernels, request.kernel), *report.warnings]),
        hint="Pass the name of one of these kernels, or /a regular expression/.",
    )


def _seen(kernels: Mapping[str, int], wanted: str) -> str:
    if not kernels:
        return "the tool saw no dispatch"
    near = difflib.get_close_matches(wanted, kernels, n=3, cutoff=0.4)
    ordered = [*near, *sorted(set(kernels) - set(near))]
    more = f" and {len(ordered) - _SHOWN_KERNELS} more" if len(ordered) > _SHOWN_KERNELS else ""
    return "it dispatched " + ", ".join(f"{name} ({kernels[name]} times)" for name in ordered[:_SHOWN_KERNELS]) + more


def _ending(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    return f"ended on {signal.Signals(-exit_code).name}"


def _read_reports(work: Path) -> _Report:
    reports = [_ProcessReport.model_validate_json(path.read_bytes()) for path in sorted(work.glob("kernels-*.json"))]
    kernels: Counter[str] = Counter()
    for report in reports:
        kernels.update(report.kernels)
    return _Report(
        kernels=dict(kernels),
        matches=sum(report.matches for report in reports),
        errors=tuple(report.error for report in reports if report.error),
        warnings=tuple(dict.fromkeys(warning for report in reports for warning in report.warnings)),
    )
