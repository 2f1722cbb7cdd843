"""Capture of an application's dispatches with the capture tool: `capture(CaptureRequest(...)) -> CaptureOutcome`.

The tool (`native/`) writes to a work directory next to the output. Only a directory with a manifest becomes the output. A
complete capture is accepted even if the application fails, and kept if this process is interrupted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from rocm_perf_lab.replay.application_run import LOG_NAME, run_with_tool
from rocm_perf_lab.replay.capture_request import check_request
from rocm_perf_lab.replay.capture_work import CaptureWork, move_to_free_place, sealed_captures
from rocm_perf_lab.replay.tool_build import build_tool
from rocm_perf_lab.replay.tool_reports import missing_dispatches, no_result, read_reports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rocm_perf_lab.replay.application_run import ApplicationRunEnd
    from rocm_perf_lab.replay.capture_request import CaptureRequest
    from rocm_perf_lab.replay.emulated_machine import EmulatedMachine


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


def _accepted(request: CaptureRequest, work: CaptureWork, end: ApplicationRunEnd, wall_s: float) -> CaptureOutcome:
    report = read_reports(work.path)
    sealed = len(sealed_captures(work.path))
    if sealed:
        missing = tuple(missing_dispatches(request, report))
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
    log = work / LOG_NAME
    if not log.exists() or end.exit_code is not None or end.timed_out:
        return None
    return move_to_free_place(log, request.output.with_name(f"{request.output.name}.log"))
