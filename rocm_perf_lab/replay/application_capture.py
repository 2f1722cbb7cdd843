"""Runs an application under the capture tool: `capture(CaptureRequest(...)) -> CaptureOutcome`.

The tool (`native/`) writes into a work directory beside the output; what it made is judged here, and only a directory with a
manifest becomes the output. The application's own result does not matter to a capture that is complete.
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

    from rocm_perf_lab.replay.format import CaptureMode

_SHOWN_KERNELS = 20
_PREFIX = "ROCM_PERF_LAB_CAPTURE_"


class ApplicationCaptureError(LabError):
    """The application ran, or not, and there is no capture."""


@dataclass(frozen=True)
class CaptureRequest:
    """Which dispatch of which application.

    Args:
        command: Program and arguments.
        kernel: Name of the kernel, mangled or not, with or without parameters and template arguments; or /expression/.
        output: Directory to be made.
        dispatch: Which of the matching dispatches, from 0.
        mode: `reachable` saves what the kernel can reach from its arguments, `full` all memory of the process,
            `arguments` only what the arguments point to.
        limit_bytes: Largest capture; 0 for none.
        timeout_s: How long to wait for other work on the GPU, and for the dispatch.
        application_timeout_s: After which the application is ended; None waits for ever.
        preload: Load the tool with LD_PRELOAD, for applications that overwrite HSA_TOOLS_LIB.
        rocprofiler_sdk: Load the tool through rocprofiler-sdk, where the runtime itself loads no tools.
        low_addresses: Ask the driver for low addresses, which a replay finds free (HSA_RESERVE_SVM).
        record_command: Keep the command line in the capture.
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
    """A complete capture.

    `kernels` are dispatches by name, as far as the tool counted: up to the captured one. `exit_code` is the application's,
    negative for a signal.
    """

    directory: Path
    exit_code: int
    wall_s: float
    kernels: Mapping[str, int]
    warnings: tuple[str, ...]


class _ProcessReport(BaseModel):
    """kernels-<pid>.json, see native/FORMAT.md."""

    kernels: dict[str, int]
    matches: int
    captured: bool
    error: str | None
    warnings: list[str]


@dataclass(frozen=True)
class _Report:
    """Of all processes together."""

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
) -> CaptureOutcome:
    """Run the application to its end with the tool in it.

    Args:
        request: What to run and what to capture.
        tool: The capture tool; built on first use by default.
        environment: Of the application; this process's own by default.
        stdout: Where the application's output goes; this process's own by default.

    Raises:
        ApplicationCaptureError: No capture came of it; the message says why, and what was dispatched.
        ToolBuildError: The tool cannot be built.
    """
    _check(request)
    tool = (tool or build_tool()).resolve()
    request.output.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{request.output.name}.capturing-", dir=request.output.parent))
    try:
        start = time.monotonic()
        with _listable(build_sdk_loader() if request.rocprofiler_sdk else tool) as name:
            variables = tool_environment(request, name, work, dict(os.environ if environment is None else environment))
            if request.rocprofiler_sdk:
                variables[f"{_PREFIX}TOOL"] = str(tool)
            exit_code = _run(request, variables, stdout)
        return _judge(request, work, exit_code, time.monotonic() - start)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def tool_environment(request: CaptureRequest, library: Path, work: Path, environment: dict[str, str]) -> dict[str, str]:
    """The variables that bring a library, the tool or its door, into the application, on top of `environment`."""
    added = {
        f"{_PREFIX}DIR": str(work.resolve()),
        f"{_PREFIX}KERNEL": request.kernel,
        f"{_PREFIX}INDEX": str(request.dispatch),
        f"{_PREFIX}MODE": request.mode,
        f"{_PREFIX}LIMIT": str(request.limit_bytes),
        f"{_PREFIX}TIMEOUT": str(request.timeout_s),
        f"{_PREFIX}COMMAND": "1" if request.record_command else "0",
        # Where rocprofiler-sdk is active, ROCm skips HSA_TOOLS_LIB without a word unless this is set.
        "HSA_TOOLS_ROCPROFILER_V1_TOOLS": "1",
        "HSA_TOOLS_REPORT_LOAD_FAILURE": "1",
        "DEBUG_CLR_DIRECT_DOORBELL": "0",  # direct stores to the doorbell are not seen by intercept queues
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
    """The file by a name that can stand in a list: the runtime's ends at a space, the dynamic linker's at a colon too."""
    if not set(" :;\t") & set(str(path)):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-capture-") as directory:
        link = Path(directory) / path.name
        link.symlink_to(path)
        yield link


def _check(request: CaptureRequest) -> None:
    if not request.command:
        raise ApplicationCaptureError(
            "no application to capture from", hint="rocm-perf replay capture --kernel NAME -- ./app [arguments]"
        )
    if shutil.which(request.command[0]) is None:
        raise ApplicationCaptureError(
            f"{request.command[0]!r} is no program that can be run", where="the application", hint="Give its path: ./app"
        )
    if not request.kernel:
        raise ApplicationCaptureError("no kernel to capture", where="--kernel", hint="Give the kernel's name.")
    if request.dispatch < 0:
        raise ApplicationCaptureError(
            f"dispatch {request.dispatch} does not exist", where="--dispatch", hint="Dispatches count from 0."
        )
    if request.output.exists() or request.output.is_symlink():
        raise ApplicationCaptureError(
            "the directory for the capture exists already",
            where=str(request.output),
            hint=f"Remove it (rm -r {request.output}), or name another with --output.",
        )


def _run(request: CaptureRequest, environment: Mapping[str, str], stdout: IO[str] | int | None) -> int:
    application = subprocess.Popen(request.command, env=environment, stdout=stdout, start_new_session=True)
    try:
        return application.wait(request.application_timeout_s)
    except subprocess.TimeoutExpired as error:
        raise ApplicationCaptureError(
            f"the application did not end in {request.application_timeout_s:g} s and was ended",
            where=" ".join(request.command),
            hint="Give it more time, or look for a kernel that hangs.",
        ) from error
    finally:  # after an interrupt too; its children are of the same session
        if application.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(application.pid, signal.SIGKILL)
            application.wait()


def _judge(request: CaptureRequest, work: Path, exit_code: int, wall_s: float) -> CaptureOutcome:
    report = _read_reports(work)
    directories = sorted(work.glob("capture-*"))
    complete = [directory for directory in directories if (directory / "manifest.json").is_file()]
    if complete:
        complete[0].rename(request.output)
        more = [f"{len(complete) - 1} more processes captured the same dispatch; one was kept"] if complete[1:] else []
        return CaptureOutcome(request.output, exit_code, wall_s, report.kernels, (*report.warnings, *more))
    if directories:
        directories[0].rename(request.output)
        raise ApplicationCaptureError(
            f"the capture is incomplete: {report.errors[0] if report.errors else _ending(exit_code)}",
            where=f"{request.output} has no manifest.json",
            hint=f"It is of no use any more: rm -r {request.output}",
        )
    raise _explain(request, work, report, exit_code)


def _explain(request: CaptureRequest, work: Path, report: _Report, exit_code: int) -> ApplicationCaptureError:
    loaded = [marker.read_text().strip() for marker in sorted(work.glob("loaded-*"))]
    if not loaded:
        return ApplicationCaptureError(
            f"the capture tool was never loaded into the application, which {_ending(exit_code)}",
            where=" ".join(request.command),
            hint="Does it use the GPU through ROCm, and is there one? If it sets HSA_TOOLS_LIB itself, use --preload; "
            "where that does not help either, --rocprofiler-sdk.",
        )
    if "ok" not in loaded:
        return ApplicationCaptureError(f"the capture tool refused to start: {loaded[0]}", where=f"--kernel {request.kernel}")
    if report.errors:
        return ApplicationCaptureError(f"no capture was made: {report.errors[0]}", where=f"kernel {request.kernel!r}")
    ended = f"; the application {_ending(exit_code)}" if exit_code else ""
    if report.matches:
        return ApplicationCaptureError(
            f"kernel {request.kernel!r} was dispatched {report.matches} times, dispatch {request.dispatch} was asked for{ended}",
            where="dispatches count from 0",
            hint=f"Ask for one up to --dispatch {report.matches - 1}.",
        )
    return ApplicationCaptureError(
        f"kernel {request.kernel!r} was never dispatched{ended}",
        where="; ".join([_seen(report.kernels, request.kernel), *report.warnings]),
        hint="Give the name of one of these, or /an expression/.",
    )


def _seen(kernels: Mapping[str, int], wanted: str) -> str:
    if not kernels:
        return "the application dispatched no kernel that the tool saw"
    near = difflib.get_close_matches(wanted, kernels, n=3, cutoff=0.4)
    ordered = [*near, *sorted(set(kernels) - set(near))]
    more = f" and {len(ordered) - _SHOWN_KERNELS} more" if len(ordered) > _SHOWN_KERNELS else ""
    return "it dispatched " + ", ".join(f"{name} ({kernels[name]} times)" for name in ordered[:_SHOWN_KERNELS]) + more


def _ending(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    return f"was ended by {signal.Signals(-exit_code).name}"


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
