"""List of an application's kernels with their times: `list_dispatches(...) -> DispatchList`.

The capture tool times every dispatch with a completion signal; the order of dispatches and their results are unchanged.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.replay.application_run import run_with_tool
from rocm_perf_lab.replay.capture_request import ApplicationCaptureError, CaptureRequest, check_request
from rocm_perf_lab.replay.capture_work import CaptureWork
from rocm_perf_lab.replay.tool_build import build_tool
from rocm_perf_lab.replay.tool_reports import no_result

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import IO

    from rocm_perf_lab.replay.application_run import ApplicationRunEnd
    from rocm_perf_lab.replay.emulated_machine import EmulatedMachine


_RUNTIME_PREFIX = "__amd_rocclr_"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _KernelTimes(_Model):
    shapes: list[str]
    dispatches: list[tuple[int, int, int]]


class _ProcessTimes(_Model):
    """times-<pid>.json, see native/FORMAT.md."""

    frequency: int
    kernels: dict[str, _KernelTimes]


class ListedDispatch(_Model):
    """One dispatch: index among those of its kernel, shape "<grid>/<workgroup>" in work-items, duration in microseconds."""

    index: int
    shape: str
    time_us: float


class ListedKernel(_Model):
    """Dispatches of a kernel; `shapes` are numbers of dispatches by shape."""

    name: str
    calls: int
    total_us: float
    shapes: dict[str, int]
    first: ListedDispatch
    median: ListedDispatch
    slowest: ListedDispatch


class DispatchList(_Model):
    """`rocm-perf replay list --json`: kernels by total time, the longest first.

    `application_exit_code` is negative after a signal, null after a time limit. `warnings` report a failure of the application.
    """

    schema_version: str = "1.0"
    time_kind: str
    kernels: tuple[ListedKernel, ...]
    application_exit_code: int | None
    warnings: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Return whether the application ended normally, with exit code 0."""
        return self.application_exit_code == 0

    @property
    def of_application(self) -> tuple[ListedKernel, ...]:
        """Kernels except those of HIP for copying and filling memory."""
        return tuple(kernel for kernel in self.kernels if not kernel.name.startswith(_RUNTIME_PREFIX))

    def named(self, name: str) -> ListedKernel:
        """Return the kernel with the longest time whose name is or contains `name`, or matches /an expression/.

        Raises:
            ApplicationCaptureError: No kernel matches, or the expression is invalid.
        """
        pattern = _pattern(name)
        fitting = [kernel for kernel in self.kernels if pattern.search(kernel.name)]
        if not fitting:
            raise ApplicationCaptureError(
                f"kernel {name!r} was never dispatched",
                where=f"it dispatched {', '.join(kernel.name for kernel in self.kernels)}",
                hint="Pass the name of one of these kernels, or /a regular expression/.",
            )
        return next((kernel for kernel in fitting if kernel.name == name), fitting[0])


def require_expressions(names: Iterable[str]) -> None:
    """Check the /expressions/ among names of kernels.

    Raises:
        ApplicationCaptureError: An expression is invalid.
    """
    for name in names:
        _pattern(name)


def _pattern(name: str) -> re.Pattern[str]:
    try:
        return re.compile(name[1:-1] if len(name) > 2 and name[0] == name[-1] == "/" else re.escape(name))
    except re.error as error:
        raise ApplicationCaptureError(f"{name} is not a regular expression: {error}", where="--kernel") from error


@dataclass(frozen=True)
class _Sample:
    index: int
    shape: str
    us: float

    def listed(self) -> ListedDispatch:
        return ListedDispatch(index=self.index, shape=self.shape, time_us=self.us)


def list_dispatches(
    request: CaptureRequest,
    *,
    environment: Mapping[str, str] | None = None,
    stdout: IO[str] | int | None = None,
    machine: EmulatedMachine | None = None,
) -> DispatchList:
    """Run an application, time all dispatches, and return its kernels.

    Args:
        request: Application; kernel and output are not used.
        environment: Environment of the application; None uses that of this process.
        stdout: Standard output of the application; None uses that of this process.
        machine: Emulated machine on which the application runs; None uses this machine.

    Raises:
        ApplicationCaptureError: The application dispatched no kernel, or the tool was not loaded.
        ToolBuildError: The capture tool cannot be built.
    """
    with TemporaryDirectory(prefix="rocm-perf-lab-list-") as directory:
        listing = replace(request, kernel="", others=(), lists=True, output=Path(directory) / "list", when_captured="wait")
        check_request(listing, machine)
        with CaptureWork(listing.output, several=False) as work:
            end = run_with_tool(listing, work, build_tool().resolve(), environment, stdout=stdout, machine=machine)
            processes = [_ProcessTimes.model_validate_json(path.read_bytes()) for path in sorted(work.path.glob("times-*.json"))]
            kernels = _kernels(processes)
            if not kernels:
                raise no_result(listing, work.path, end)
    return DispatchList(
        time_kind="emulated" if machine is not None else "measured",
        kernels=kernels,
        application_exit_code=end.exit_code,
        warnings=tuple(_warnings(listing, end)),
    )


def _warnings(request: CaptureRequest, end: ApplicationRunEnd) -> Iterator[str]:
    if end.exit_code == 0:
        return
    ended = f"the application {end.text(request)}"
    # The tool writes the times once per second, and at the end unless the process is killed.
    yield f"{ended}; dispatches of its last second may be missing" if end.was_killed else ended


def _kernels(processes: Iterable[_ProcessTimes]) -> tuple[ListedKernel, ...]:
    samples: dict[str, list[_Sample]] = defaultdict(list)
    for process in processes:
        for name, times in process.kernels.items():
            for index, shape, ticks in times.dispatches:
                samples[name].append(_Sample(index, times.shapes[shape], ticks * 1e6 / process.frequency))
    listed = (_kernel(name, of_kernel) for name, of_kernel in samples.items())
    return tuple(sorted(listed, key=lambda kernel: (-kernel.total_us, kernel.name)))


def _kernel(name: str, samples: list[_Sample]) -> ListedKernel:
    by_time = sorted(samples, key=lambda sample: (sample.us, -sample.index))
    shapes: dict[str, int] = defaultdict(int)
    for sample in samples:
        shapes[sample.shape] += 1
    return ListedKernel(
        name=name,
        calls=len(samples),
        total_us=sum(sample.us for sample in samples),
        shapes=dict(shapes),
        first=min(samples, key=lambda sample: sample.index).listed(),
        median=by_time[(len(by_time) - 1) // 2].listed(),
        slowest=by_time[-1].listed(),
    )
