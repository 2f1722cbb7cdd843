"""Commands `rocm-perf replay list|capture` for applications."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from rich.markup import escape

from rocm_perf_lab.core.errors import EXIT_NEGATIVE, EXIT_SUCCESS, LabError
from rocm_perf_lab.core.standard_output import child_output_to_stderr
from rocm_perf_lab.jobs.profile.application_profiler import chosen_device

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from rocm_perf_lab.jobs.replay.tracked import TrackingChoice
    from rocm_perf_lab.replay.capture_request import CaptureRequest
    from rocm_perf_lab.replay.dispatch_list import DispatchList
    from rocm_perf_lab.replay.emulated_machine import EmulatedMachine

_SHOWN_SHAPES = 3


@dataclass(frozen=True)
class CaptureDevice:
    """Device on which a captured application runs: `rocm`, `emulator` or `auto`.

    `target` and `gpus` are the kind and number of emulated GPUs.
    """

    device: str = "auto"
    target: str | None = None
    root: Path | None = None
    gpus: int | None = None

    def machine(self, command: tuple[str, ...]) -> EmulatedMachine | None:
        """Return the emulated machine for an application; None if it uses the GPU of this machine.

        Raises:
            LabError: The target does not exist or cannot be emulated, a directory tree contains no ROCm or is set for a real GPU,
                or the application cannot start.
        """
        from rocm_perf_lab.jobs.run.launch import prepare_launch
        from rocm_perf_lab.replay.emulated_machine import EmulatedMachine
        from rocm_perf_lab.target.catalog import DEFAULT_TARGET, load_target

        if chosen_device(self.device, self.root) == "rocm":
            for option, value in (("--root", self.root), ("--gpus", self.gpus)):
                if value is not None:
                    raise LabError(f"{option} needs the emulated GPU", where=option, hint="add --device emulator")
            return None
        target = load_target(self.target or DEFAULT_TARGET)
        launch = prepare_launch(command, target, "auto", self.root)
        return EmulatedMachine(target, launch.root, launch.variables, self.gpus or 1)


def run_capture(
    request: CaptureRequest, where: CaptureDevice, console: Console, *, as_json: bool = False, tracking: TrackingChoice = "none"
) -> int:
    """Run an application and capture dispatches; return the exit code, 1 if some of several were not captured.

    Args:
        request: Application and dispatches.
        where: Device of the application.
        console: Prints progress and results, but not the JSON document.
        as_json: Print a :class:`~rocm_perf_lab.replay.documents.CaptureReport` to standard output.
        tracking: Whether each capture is a tracking run.

    Raises:
        ApplicationCaptureError: No dispatch was captured; the message contains the reason.
        ToolBuildError: The capture tool cannot be built.
        LabError: The application cannot run on the emulated GPU.
    """
    from rocm_perf_lab.jobs.replay.tracked import track_capture
    from rocm_perf_lab.replay.application_capture import capture
    from rocm_perf_lab.replay.documents import CapturedDispatch, CaptureReport
    from rocm_perf_lab.replay.reader import open_capture

    machine = where.machine(request.command)
    if machine is not None:
        number = f"{machine.gpus} x " if machine.gpus > 1 else ""
        console.print(f"[bold]device[/]  emulated {number}{escape(machine.target.product_name)}")
    progress = _CaptureProgress(console, len(request.wanted))
    kept: list[Path] = []
    try:
        with child_output_to_stderr() if as_json else nullcontext():
            outcome = capture(request, machine=machine, on_sealed=progress, on_kept=kept.append)
    except (KeyboardInterrupt, LabError):
        for directory in kept:
            console.print(f"[bold]capture[/] {escape(str(directory))}", soft_wrap=True)
        raise
    captures = [open_capture(directory, verify=False) for directory in outcome.directories]
    for one in captures:
        track_capture(one, tracking)
    for warning in outcome.warnings:
        console.print(f"[yellow]note[/]: {escape(warning)}", soft_wrap=True)
    for reason in outcome.missing:
        console.print(f"[bold red]missing[/]: {escape(reason)}", soft_wrap=True)
    for directory in outcome.directories:
        console.print(f"[bold]capture[/] {escape(str(directory))}", soft_wrap=True)
    if as_json:
        report = CaptureReport(
            captures=tuple(CapturedDispatch.of(one) for one in captures),
            missing=outcome.missing,
            warnings=outcome.warnings,
            application_exit_code=outcome.exit_code,
            wall_time_s=outcome.wall_s,
        )
        sys.stdout.write(report.model_dump_json(indent=2) + "\n")
    return EXIT_NEGATIVE if outcome.missing else EXIT_SUCCESS


def run_list(request: CaptureRequest, where: CaptureDevice, console: Console, *, as_json: bool) -> int:
    """Run an application and print its kernels by time; return the exit code, 1 if the application failed or was killed.

    Raises:
        ApplicationCaptureError: The application dispatched no kernel, or the tool was not loaded.
        ToolBuildError: The capture tool cannot be built.
    """
    from rocm_perf_lab.replay.dispatch_list import list_dispatches

    with child_output_to_stderr() if as_json else nullcontext():
        found = list_dispatches(request, machine=where.machine(request.command))
    if as_json:
        console.file.write(found.model_dump_json(indent=2) + "\n")
    else:
        show_list(found, console)
    return EXIT_SUCCESS if found.is_complete else EXIT_NEGATIVE


def show_list(found: DispatchList, console: Console) -> None:
    """Print kernels by time, three lines each: time, choices of `--dispatch`, shapes."""
    total = sum(kernel.total_us for kernel in found.kernels)
    kind = " (emulated)" if found.time_kind == "emulated" else ""
    console.print(f"share     total{kind}  calls  kernel")
    for kernel in found.kernels:
        share = f"{kernel.total_us / total:5.0%}" if total else "     "
        time = f"{kernel.total_us / 1e3:.3f} ms".rjust(len(f"    total{kind}"))
        console.print(f"{share} {time} {kernel.calls:>6,}  [bold]{escape(kernel.name)}[/]", soft_wrap=True)
        places = (("slowest", kernel.slowest), ("median", kernel.median), ("first", kernel.first))
        times = [f"{name} {one.time_us:.2f} us (--dispatch {one.index})" for name, one in places]
        shapes = [f"{shape} ({count:,})" for shape, count in list(kernel.shapes.items())[:_SHOWN_SHAPES]]
        shapes += [f"and {len(kernel.shapes) - _SHOWN_SHAPES} more"] if len(kernel.shapes) > _SHOWN_SHAPES else []
        console.print(f"       {', '.join(times[-1:] if kernel.calls == 1 else times)}", soft_wrap=True)
        console.print(f"       shapes {', '.join(shapes)}", soft_wrap=True)
    _show_warnings(found, console)


def _show_warnings(found: DispatchList, console: Console) -> None:
    for warning in found.warnings:
        console.print(f"[yellow]note[/]: {escape(warning)}", soft_wrap=True)


def chosen_dispatches(
    request: CaptureRequest,
    where: CaptureDevice,
    console: Console,
    *,
    top: int | None,
    which: Literal["first", "median", "slowest"],
    as_json: bool = False,
) -> CaptureRequest:
    """Run the application once to time its dispatches, and return the request with the chosen ones.

    Args:
        request: Captures to make; its kernels are used if `top` is None.
        where: Device of the application.
        console: Prints a line for each selected dispatch.
        top: Number of kernels with the longest total times.
        which: Dispatch of each kernel.
        as_json: Redirect the application's output to standard error.

    Raises:
        LabError: The output exists, the run failed, or no dispatched kernel has a requested name.
    """
    from rocm_perf_lab.replay.capture_request import WantedDispatch, require_new_output
    from rocm_perf_lab.replay.dispatch_list import list_dispatches, require_expressions

    require_new_output(request.output)
    require_expressions(wanted.kernel for wanted in request.wanted)
    console.print("timing all dispatches; the captures follow in a second run")
    with child_output_to_stderr() if as_json else nullcontext():
        found = list_dispatches(request, machine=where.machine(request.command))
    _show_warnings(found, console)
    kernels = found.of_application[:top] if top is not None else tuple(found.named(wanted.kernel) for wanted in request.wanted)
    chosen = []
    for kernel in kernels:
        dispatch = {"first": kernel.first, "median": kernel.median, "slowest": kernel.slowest}[which]
        console.print(f"chosen   {escape(kernel.name)}, dispatch {dispatch.index} ({dispatch.time_us:.2f} us)", soft_wrap=True)
        chosen.append(WantedDispatch(kernel.name, dispatch.index))
    if not chosen:
        raise LabError(
            "the application dispatched only HIP's kernels for copying and filling memory",
            where="--top",
            hint=f"To capture one of them, add --kernel {found.kernels[0].name}.",
        )
    first, *others = chosen
    return replace(request, kernel=first.kernel, dispatch=first.dispatch, shape="", others=tuple(others))


@dataclass
class _CaptureProgress:
    """Prints a line for each completed capture if several were requested."""

    console: Console
    total: int
    done: int = 0

    def __call__(self, directory: Path) -> None:
        self.done += 1
        if self.total > 1:
            kernel = json.loads((directory / "dispatch.json").read_bytes())["kernel"]["name"]
            self.console.print(f"captured {self.done} of {self.total}: {escape(kernel)}", soft_wrap=True)
