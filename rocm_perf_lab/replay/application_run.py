"""Run of an application with the capture tool loaded, on this machine or on an emulated one: `run_with_tool(...)`."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from rocm_perf_lab.replay.background_machine import BackgroundRun
from rocm_perf_lab.replay.capture_work import CaptureWork, sealed_captures
from rocm_perf_lab.replay.forwarded_output import ForwardedOutput
from rocm_perf_lab.replay.tool_build import build_sdk_loader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rocm_perf_lab.replay.capture_request import CaptureRequest
    from rocm_perf_lab.replay.emulated_machine import EmulatedMachine

_PREFIX = "ROCM_PERF_LAB_CAPTURE_"
_POLL_S = 0.1
LOG_NAME = "application.log"
_END_GRACE_S = 5.0
"""Seconds for the application to end after SIGTERM."""


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
        nullcontext() if not may_outlive else ForwardedOutput(work.path / LOG_NAME) as output,
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
