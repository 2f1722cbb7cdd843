"""Reports that the capture tool writes for each process, and explanations why dispatches were not captured."""

from __future__ import annotations

import difflib
import shutil
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel

from rocm_perf_lab.replay.capture_request import ApplicationCaptureError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from rocm_perf_lab.replay.application_run import ApplicationRunEnd
    from rocm_perf_lab.replay.capture_request import CaptureRequest

_SHOWN_KERNELS = 20
_REPORT_BYTES = 1 << 16
"""Disk space in bytes that the reports of the tool need."""


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
class ToolReport:
    """Reports of all processes, combined."""

    kernels: Mapping[str, int]
    requests: tuple[_RequestReport, ...]
    warnings: tuple[str, ...]

    @property
    def errors(self) -> tuple[str, ...]:
        """Errors of all requested dispatches."""
        return tuple(request.error for request in self.requests if request.error)


def read_reports(work: Path) -> ToolReport:
    """Return the combined reports of all processes in a work directory."""
    reports = [_ProcessReport.model_validate_json(path.read_bytes()) for path in sorted(work.glob("kernels-*.json"))]
    kernels: Counter[str] = Counter()
    for report in reports:
        kernels.update(report.kernels)
    return ToolReport(
        kernels=dict(kernels),
        requests=tuple(request for report in reports for request in report.requests),
        warnings=tuple(dict.fromkeys(warning for report in reports for warning in report.warnings)),
    )


def missing_dispatches(request: CaptureRequest, report: ToolReport) -> Iterator[str]:
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
    report = read_reports(work)
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
        return ApplicationCaptureError(f"no capture was made{ended}", where="\n".join(missing_dispatches(request, report)))
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
