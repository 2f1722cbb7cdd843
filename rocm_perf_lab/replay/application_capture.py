"""Capture of an application's dispatches with the capture tool: `capture(CaptureRequest(...)) -> CaptureOutcome`.

The tool (`native/`) writes to a work directory next to the output. Only a directory with a manifest becomes the output. A
complete capture is accepted even if the application fails, and kept if this process is interrupted.
"""

from __future__ import annotations

import ctypes
import difflib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

from pydantic import BaseModel

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.replay.background_machine import BackgroundRun
from rocm_perf_lab.replay.capture_work import CaptureWork, move_to_free_place, sealed_captures
from rocm_perf_lab.replay.forwarded_output import ForwardedOutput
from rocm_perf_lab.replay.tool_build import build_sdk_loader, build_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rocm_perf_lab.replay.emulated_machine import EmulatedMachine
    from rocm_perf_lab.replay.format import CaptureMode

_SHOWN_KERNELS = 20
_PREFIX = "ROCM_PERF_LAB_CAPTURE_"
_POLL_S = 0.1
_SHORTEST_EXPRESSION = 3  # characters, with the slashes
_REG_EXTENDED = 1
_REGEX_BYTES = 256
"""Size in bytes, sufficient for `regex_t`."""
_REPORT_BYTES = 1 << 16
"""Disk space in bytes that the reports of the tool need."""
_LOG = "application.log"
_END_GRACE_S = 5.0
"""Seconds for the application to end after SIGTERM."""


class ApplicationCaptureError(LabError):
    """Application run that produced no capture."""


@dataclass(frozen=True)
class WantedDispatch:
    """Dispatch of a kernel, by index from 0, among those of one shape if `shape` is set.

    `shape` is "<grid>/<workgroup>" in work-items, "4096x1x1/256x1x1"; empty for any.
    """

    kernel: str
    dispatch: int = 0
    shape: str = ""


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
        low_addresses: Request low addresses, which are free in a replay process (HSA_RESERVE_SVM, unless the environment sets
            it); they limit the memory of all GPUs to 1 TiB.
        record_command: Store the command line in the capture; otherwise its arguments are omitted.
        shape: Shape of the dispatch, see :class:`WantedDispatch`.
        lists: Time every dispatch instead, see :mod:`rocm_perf_lab.replay.dispatch_list`.
        others: Additional dispatches to capture in the same run; `output` is then a directory of captures.
        when_captured: Action after the last capture: `wait` for the application, `stop` it, or `detach` from it; its further
            output is then written to a file next to the output.
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
    low_addresses: bool = False
    record_command: bool = False
    shape: str = ""
    others: tuple[WantedDispatch, ...] = ()
    lists: bool = False
    when_captured: Literal["wait", "stop", "detach"] = "wait"

    @property
    def wanted(self) -> tuple[WantedDispatch, ...]:
        """All dispatches to capture."""
        return (WantedDispatch(self.kernel, self.dispatch, self.shape), *self.others)


@dataclass(frozen=True)
class CaptureOutcome:
    """Complete captures of an application.

    `directory` is the output, `directories` are the captures. `kernels` are the numbers of dispatches by kernel name, up to the
    last captured dispatch. `exit_code` of the application is negative after a signal, None if it still runs. `missing` explains
    which of several dispatches were not captured.
    """

    directory: Path
    exit_code: int | None
    wall_s: float
    kernels: Mapping[str, int]
    warnings: tuple[str, ...]
    directories: tuple[Path, ...] = ()
    missing: tuple[str, ...] = ()


class _RequestReport(BaseModel):
    """Report of the tool on one requested dispatch."""

    kernel: str
    matches: int
    captured: bool
    error: str | None


class _ProcessReport(BaseModel):
    """Report of the tool in one process: kernels-<pid>.json, see native/FORMAT.md."""

    kernels: dict[str, int]
    requests: list[_RequestReport]
    warnings: list[str]


@dataclass(frozen=True)
class _Report:
    """Reports of all processes, combined."""

    kernels: Mapping[str, int]
    requests: tuple[_RequestReport, ...]
    warnings: tuple[str, ...]

    @property
    def errors(self) -> tuple[str, ...]:
        return tuple(request.error for request in self.requests if request.error)


@dataclass
class _Watch:
    """Watches the captures of a running application; calling it returns whether to end the run."""

    request: CaptureRequest
    work: CaptureWork
    on_sealed: Callable[[Path], None]
    output: ForwardedOutput | None = None
    seen: set[Path] = field(default_factory=set)

    def __call__(self) -> bool:
        if self.output is not None:
            self.output.forward()
        for directory in sealed_captures(self.work.path):
            if directory not in self.seen:
                self.seen.add(directory)
                self.on_sealed(directory)
                self.work.pack(directory)
        if self.request.when_captured == "wait":
            return False
        numbers = {directory.name.rpartition("-")[2] for directory in self.seen}
        unfinished = len(list(self.work.path.glob("capture-*"))) > len(self.seen)
        return len(numbers) == len(self.request.wanted) and not unfinished


def capture(
    request: CaptureRequest,
    *,
    tool: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdout: IO[str] | int | None = None,
    machine: EmulatedMachine | None = None,
    on_sealed: Callable[[Path], None] = lambda _: None,
    on_kept: Callable[[Path], None] = lambda _: None,
) -> CaptureOutcome:
    """Run an application with the capture tool loaded, and return the captures.

    Complete captures are moved to the output even if this process is interrupted.

    Args:
        request: Application and dispatches.
        tool: Capture tool; None builds it on first use.
        environment: Environment of the application; None uses that of this process.
        stdout: Standard output of the application; None uses that of this process.
        machine: Emulated machine on which it runs, with environment and standard output of this process; None uses this machine.
        on_sealed: Called for each complete capture with its directory, which is moved to the output later.
        on_kept: Called for each capture in its final directory, even if this process is interrupted.

    Raises:
        ApplicationCaptureError: No dispatch was captured; the message contains the reason and the dispatched kernels.
        ToolBuildError: The tool cannot be built.
    """
    check_request(request, machine)
    tool = (tool or build_tool()).resolve()
    with CaptureWork(request.output, several=bool(request.others), on_kept=on_kept) as work:
        start = time.monotonic()
        end = run_with_tool(request, work, tool, environment, stdout=stdout, machine=machine, on_sealed=on_sealed)
        return _accepted(request, work, end, time.monotonic() - start)


def run_with_tool(
    request: CaptureRequest,
    work: CaptureWork,
    tool: Path,
    environment: Mapping[str, str] | None = None,
    *,
    stdout: IO[str] | int | None = None,
    machine: EmulatedMachine | None = None,
    on_sealed: Callable[[Path], None] = lambda _: None,
) -> ApplicationRunEnd:
    """Run an application with the tool loaded, which writes to the work directory; the arguments are those of :func:`capture`."""
    may_outlive = request.when_captured == "detach" and stdout is None
    with (
        _listable(build_sdk_loader() if request.rocprofiler_sdk else tool) as name,
        nullcontext() if not may_outlive else ForwardedOutput(work.path / _LOG) as output,
    ):
        variables = tool_environment(request, name, work.path, dict(os.environ if environment is None else environment))
        if request.rocprofiler_sdk:
            variables[f"{_PREFIX}TOOL"] = str(tool)
        watch = _Watch(request, work, on_sealed, output)
        if machine is None:
            end = _run(request, variables, stdout, work, watch)
        else:
            added = {name: value for name, value in variables.items() if os.environ.get(name) != value}
            run = _MachineRun(machine, request, added, (tool.parent, name.parent, work.path))
            end = run.detachable(work, watch) if request.when_captured == "detach" else run.attached(watch)
        watch()
    return end


def tool_environment(request: CaptureRequest, library: Path, work: Path, environment: dict[str, str]) -> dict[str, str]:
    """Return `environment` with the variables that load a library (the tool or its loader) into the application."""
    added = {
        f"{_PREFIX}DIR": str(work.resolve()),
        f"{_PREFIX}KERNEL": "\n".join(wanted.kernel for wanted in request.wanted),
        f"{_PREFIX}INDEX": "\n".join(str(wanted.dispatch) for wanted in request.wanted),
        f"{_PREFIX}SHAPE": "\n".join(wanted.shape for wanted in request.wanted),
        f"{_PREFIX}LIST": "1" if request.lists else "0",
        f"{_PREFIX}MODE": request.mode,
        f"{_PREFIX}LIMIT": str(request.limit_bytes),
        f"{_PREFIX}TIMEOUT": str(request.timeout_s),
        f"{_PREFIX}COMMAND": "1" if request.record_command else "0",
        # Without this, ROCm silently ignores HSA_TOOLS_LIB if rocprofiler-sdk is active.
        "HSA_TOOLS_ROCPROFILER_V1_TOOLS": "1",
        "HSA_TOOLS_REPORT_LOAD_FAILURE": "1",
        "DEBUG_CLR_DIRECT_DOORBELL": "0",  # Intercept queues do not observe direct stores to the doorbell.
    }
    if request.low_addresses and "HSA_RESERVE_SVM" not in environment:
        added["HSA_RESERVE_SVM"] = "1"
    preloaded = request.preload or request.rocprofiler_sdk
    variable, separator = ("LD_PRELOAD", ":") if preloaded else ("HSA_TOOLS_LIB", " ")
    others = environment.get(variable)
    added[variable] = separator.join([str(library), others] if others else [str(library)])
    return environment | added


@contextmanager
def _listable(path: Path) -> Iterator[Path]:
    """Yield a path without separators of HSA_TOOLS_LIB (spaces) and LD_PRELOAD (spaces, colons), through a link if necessary."""
    if not set(" :;\t") & set(str(path)):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-capture-") as directory:
        link = Path(directory) / path.name
        link.symlink_to(path)
        yield link


def check_request(request: CaptureRequest, machine: EmulatedMachine | None) -> None:
    """Check that the application can be started as requested.

    Raises:
        ApplicationCaptureError: The program, a kernel or an index is invalid, or the output exists.
    """
    if not request.command:
        raise ApplicationCaptureError(
            "no application to capture from", hint="rocm-perf replay capture --kernel NAME -- ./app [arguments]"
        )
    in_root = machine is not None and machine.root is not None
    if not in_root and shutil.which(request.command[0]) is None:
        raise ApplicationCaptureError(
            f"{request.command[0]!r} is not an executable program",
            where="the application",
            hint="Pass the path of the program: ./app",
        )
    if not request.lists and not all(wanted.kernel for wanted in request.wanted):
        raise ApplicationCaptureError("no kernel to capture", where="--kernel", hint="Pass the name of the kernel.")
    for wanted in request.wanted:
        reason = _expression_error(wanted.kernel)
        if reason is not None:
            raise ApplicationCaptureError(f"{wanted.kernel} is not a regular expression: {reason}", where="--kernel")
    lowest = min(wanted.dispatch for wanted in request.wanted)
    if lowest < 0:
        raise ApplicationCaptureError(f"dispatch {lowest} does not exist", where="--dispatch", hint="Dispatches count from 0.")
    require_new_output(request.output)


def require_new_output(output: Path) -> None:
    """Check that the output of a capture does not exist.

    Raises:
        ApplicationCaptureError: The output exists.
    """
    if output.exists() or output.is_symlink():
        raise ApplicationCaptureError(
            "the output directory already exists",
            where=str(output),
            hint=f"Remove it (rm -r {output}), or choose another one with --output.",
        )


def _expression_error(kernel: str) -> str | None:
    """Return the error in /kernel/ as a POSIX extended regular expression; None for names and valid expressions."""
    if len(kernel) < _SHORTEST_EXPRESSION or not (kernel.startswith("/") and kernel.endswith("/")):
        return None
    library = ctypes.CDLL(None)
    compiled, reason = ctypes.create_string_buffer(_REGEX_BYTES), ctypes.create_string_buffer(128)
    status = library.regcomp(compiled, kernel[1:-1].encode(), _REG_EXTENDED)
    if status == 0:
        library.regfree(compiled)
        return None
    library.regerror(status, compiled, reason, ctypes.c_size_t(len(reason)))
    return reason.value.decode()


@dataclass(frozen=True)
class ApplicationRunEnd:
    """End of the application. `exit_code` is None if it still runs or exceeded its time limit."""

    exit_code: int | None
    timed_out: bool = False
    stopped: bool = False

    @property
    def was_killed(self) -> bool:
        """Return whether a signal ended the application, including at its time limit."""
        return self.timed_out or (self.exit_code is not None and self.exit_code < 0)

    def text(self, request: CaptureRequest) -> str:
        if self.timed_out:
            return f"did not end within {request.application_timeout_s:g} s and was killed"
        if self.exit_code is None:
            return "continues"
        if self.exit_code >= 0:
            return f"ended with exit code {self.exit_code}"
        return f"ended on {signal.Signals(-self.exit_code).name}"


def _run(
    request: CaptureRequest, environment: Mapping[str, str], stdout: IO[str] | int | None, work: CaptureWork, watch: _Watch
) -> ApplicationRunEnd:
    output = stdout if watch.output is None else watch.output.file
    errors = None if watch.output is None else watch.output.file
    application = subprocess.Popen(request.command, env=environment, stdout=output, stderr=errors, start_new_session=True)
    detached = False
    try:
        work.kills(application.pid)
        limit = request.application_timeout_s
        deadline = None if limit is None else time.monotonic() + limit
        while True:
            with suppress(subprocess.TimeoutExpired):
                return ApplicationRunEnd(application.wait(_POLL_S))
            if watch():
                detached = request.when_captured == "detach"
                return ApplicationRunEnd(None) if detached else ApplicationRunEnd(_stopped(application), stopped=True)
            if deadline is not None and time.monotonic() > deadline:
                return ApplicationRunEnd(None, timed_out=True)
    finally:  # Even after an interrupt; child processes are in the same session.
        if application.returncode is None and not detached:
            with suppress(ProcessLookupError):
                os.killpg(application.pid, signal.SIGKILL)
            application.wait()


def _stopped(application: subprocess.Popen[bytes]) -> int:
    """Ask the application to end, kill it if it does not, and return its exit code."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(application.pid, number)
        with suppress(subprocess.TimeoutExpired):
            return application.wait(_END_GRACE_S)
    return application.wait()


@dataclass(frozen=True)
class _MachineRun:
    """Run of an application on an emulated machine; `added` are variables in addition to those of this process."""

    machine: EmulatedMachine
    request: CaptureRequest
    added: Mapping[str, str]
    shared: tuple[Path, ...]

    def attached(self, watch: _Watch) -> ApplicationRunEnd:
        """Run the application until it ends, or until it is stopped."""
        request = self.request
        exit_code = self.machine.run(request.command, self.added, self.shared, request.application_timeout_s, watch)
        return ApplicationRunEnd(exit_code, timed_out=exit_code is None, stopped=request.when_captured == "stop")

    def detachable(self, work: CaptureWork, watch: _Watch) -> ApplicationRunEnd:
        """Run the application until it ends, or until the last capture, after which it continues."""
        request = self.request
        output = watch.output.file if watch.output is not None else None
        run = BackgroundRun.start(self.machine, request.command, self.added, self.shared, request.application_timeout_s, output)
        detached = False
        try:
            work.kills(run.process.pid, is_group=False)
            while not run.has_ended(_POLL_S):
                if watch():
                    detached = True
                    return ApplicationRunEnd(None)
        finally:
            if not detached:
                run.end()
        exit_code = run.exit_code()
        return ApplicationRunEnd(exit_code, timed_out=exit_code is None)


def _accepted(request: CaptureRequest, work: CaptureWork, end: ApplicationRunEnd, wall_s: float) -> CaptureOutcome:
    report = _read_reports(work.path)
    sealed = len(sealed_captures(work.path))
    if sealed:
        missing = tuple(_missing(request, report))
        more = [f"the application continues; its output is in {log}"] if (log := _kept_log(request, work.path, end)) else []
        moved = work.settle()
        output = moved[0].parent if request.others or sealed > 1 else moved[0]
        if sealed > 1 and not request.others:
            more.append(f"{sealed} processes captured a matching dispatch: {output} is a directory of captures")
        if end.timed_out or (end.exit_code and not end.stopped):
            more.append(f"the application {end.text(request)}; the capture is complete")
        if output.resolve() != request.output.resolve():
            more.append(f"another capture has taken the name {request.output}: the output is {output}")
        warnings = (*report.warnings, *more)
        return CaptureOutcome(output, end.exit_code, wall_s, report.kernels, warnings, tuple(moved), missing)
    raise no_result(request, work.path, end)


def _kept_log(request: CaptureRequest, work: Path, end: ApplicationRunEnd) -> Path | None:
    """Move the file to which a detached application writes next to the output; return its path."""
    log = work / _LOG
    if not log.exists() or end.exit_code is not None or end.timed_out:
        return None
    return move_to_free_place(log, request.output.with_name(f"{request.output.name}.log"))


def _missing(request: CaptureRequest, report: _Report) -> Iterator[str]:
    """Yield an explanation for each dispatch that no process captured."""
    for number, wanted in enumerate(request.wanted):
        found = report.requests[number :: len(request.wanted)]  # one per process
        if any(one.captured for one in found):
            continue
        errors = [one.error for one in found if one.error]
        count = sum(one.matches for one in found)
        shape = f" of shape {wanted.shape}" if wanted.shape else ""
        few = f"it was dispatched {_times(count)}{shape}" if count else f"it was never dispatched{shape}"
        yield f"dispatch {wanted.dispatch} of {wanted.kernel!r} was not captured: {errors[0] if errors else few}"


def no_result(request: CaptureRequest, work: Path, end: ApplicationRunEnd) -> ApplicationCaptureError:
    """Return the reason why nothing was captured."""
    report = _read_reports(work)
    loaded = [marker.read_text().strip() for marker in sorted(work.glob("loaded-*"))]
    if not loaded:
        return ApplicationCaptureError(
            f"the application, which {end.text(request)}, did not load the capture tool",
            where=" ".join(request.command),
            hint="Check that the application uses a GPU through ROCm (rocm-perf doctor). If it sets HSA_TOOLS_LIB itself, add "
            "--preload; if that does not help, add --rocprofiler-sdk.",
        )
    if "ok" not in loaded:
        return ApplicationCaptureError(f"the capture tool did not start: {loaded[0]}", where=" ".join(request.command))
    if request.lists:
        found = "ended before a dispatch was timed" if end.was_killed else "dispatched no kernel"
        return ApplicationCaptureError(f"the application, which {end.text(request)}, {found}", where=" ".join(request.command))
    if not report.kernels and shutil.disk_usage(work).free < _REPORT_BYTES:
        return ApplicationCaptureError(
            "the capture tool could not write its report: the disk is full",
            where=str(request.output.absolute().parent),
            hint="Free some space, or choose another directory with --output.",
        )
    if report.errors:
        return ApplicationCaptureError(f"no capture was made: {report.errors[0]}", where=f"kernel {request.kernel!r}")
    if any(work.glob("capture-*")):
        return ApplicationCaptureError(
            f"no capture was made: the application {end.text(request)} during the capture", where=f"kernel {request.kernel!r}"
        )
    ended = f"; the application {end.text(request)}" if end.exit_code != 0 else ""
    if request.others:
        return ApplicationCaptureError(f"no capture was made{ended}", where="\n".join(_missing(request, report)))
    if end.timed_out:
        return ApplicationCaptureError(
            f"the application {end.text(request)}",
            where=" ".join(request.command),
            hint="Raise --application-timeout, or look for a kernel that hangs.",
        )
    matches = sum(one.matches for one in report.requests)
    if matches:
        return ApplicationCaptureError(
            f"kernel {request.kernel!r} was dispatched {_times(matches)}; dispatch {request.dispatch} does not exist{ended}",
            where="--dispatch, which counts from 0",
            hint=f"The last one is --dispatch {matches - 1}.",
        )
    return ApplicationCaptureError(
        f"kernel {request.kernel!r} was never dispatched{ended}",
        where="; ".join([_seen(report.kernels, request.kernel), *report.warnings]),
        hint="Pass the name of one of these kernels, or /a regular expression/.",
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _seen(kernels: Mapping[str, int], wanted: str) -> str:
    if not kernels:
        return "the tool recorded no dispatch"
    near = difflib.get_close_matches(wanted, kernels, n=3, cutoff=0.4)
    ordered = [*near, *sorted(set(kernels) - set(near))]
    more = f" and {len(ordered) - _SHOWN_KERNELS} more" if len(ordered) > _SHOWN_KERNELS else ""
    return "it dispatched " + ", ".join(f"{name} ({_times(kernels[name])})" for name in ordered[:_SHOWN_KERNELS]) + more


def _read_reports(work: Path) -> _Report:
    reports = [_ProcessReport.model_validate_json(path.read_bytes()) for path in sorted(work.glob("kernels-*.json"))]
    kernels: Counter[str] = Counter()
    for report in reports:
        kernels.update(report.kernels)
    return _Report(
        kernels=dict(kernels),
        requests=tuple(request for report in reports for request in report.requests),
        warnings=tuple(dict.fromkeys(warning for report in reports for warning in report.warnings)),
    )
