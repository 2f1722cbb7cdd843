"""`rocm-perf replay capture` and `rocm-perf replay list`: dispatches of applications and described kernels."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from click.core import ParameterSource

from rocm_perf_lab.cli.completion import complete_overrides
from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG, JSON
from rocm_perf_lab.cli.replay_options import POSITIVE, TRACKING, application_options

if TYPE_CHECKING:
    from rocm_perf_lab.jobs.replay.application import CaptureDevice
    from rocm_perf_lab.replay.capture_request import CaptureRequest

_CHOICES = ("slowest", "median")
_OPTIONS_OF_DESCRIPTIONS = ("args", "kernels", "dispatch", "output", "mode", "debug")
_SHAPE = re.compile(r"\d+x\d+x\d+/\d+x\d+x\d+")


@click.command(short_help="Capture one dispatch with its memory.")
@click.argument("args", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_overrides)
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    metavar="NAME",
    help="Kernel to capture: mangled or demangled name, or /regular expression/. Repeatable.",
)
@click.option(
    "--dispatch",
    default="0",
    show_default=True,
    metavar="N|slowest|median|shape=GRID/BLOCK",
    help="Index among the dispatches of the kernel; slowest or median in a first run that times all; or the first one of a shape "
    "in work-items: shape=4096x1x1/256x1x1.",
)
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Capture the N kernels with the longest total times.")
@click.option(
    "--output", type=click.Path(file_okay=False), default="isolate_capture", show_default=True, help="Directory to create."
)
@click.option(
    "--mode",
    type=click.Choice(["reachable", "full", "arguments"]),
    default="reachable",
    show_default=True,
    help="Memory to capture: all reachable from the arguments, all of the process, or only the buffers in the arguments.",
)
@click.option(
    "--limit", "limit_mib", type=click.IntRange(min=0), default=0, metavar="MIB", help="Largest capture in MiB; 0 for no limit."
)
@click.option(
    "--timeout", type=POSITIVE, default=60.0, show_default=True, help="Seconds to wait until other work on the GPU completes."
)
@application_options
@click.option("--rocprofiler-sdk", is_flag=True, help="Load the tool through rocprofiler-sdk, if other methods fail.")
@click.option("--low-addresses", is_flag=True, help="Request low addresses (HSA_RESERVE_SVM), if a replay cannot reserve others.")
@click.option("--record-command", is_flag=True, help="Store the arguments of the command line in the capture.")
@click.option("--stop-after-capture", is_flag=True, help="Stop the application after the capture.")
@click.option("--detach", is_flag=True, help="Return after the capture; the application continues.")
@TRACKING
@JSON
@DEBUG
def capture(args: tuple[str, ...], as_json: bool, debug: bool, **options: Any) -> None:
    """Capture one dispatch: memory before it, changed pages, code object, arguments.

    \b
    rocm-perf replay capture --kernel softmax_kernel --dispatch 3 -- ./app --n 9
        an application; without a GPU it runs on an emulated one
    rocm-perf replay capture kernel=softmax kernel.params.cols=2048
        a described kernel, on the emulator
    """
    if all("=" in argument for argument in args):
        _require_options_of_descriptions(options["kernels"])
        answer(lambda: _capture_described(args, options), debug=debug)
    if options["top"] and options["kernels"]:
        raise click.UsageError("--top and --kernel exclude each other")
    if not options["kernels"] and not options["top"]:
        raise click.UsageError("an application dispatches many kernels: select one with --kernel NAME")
    if options["detach"] and options["stop_after_capture"]:
        raise click.UsageError("--detach and --stop-after-capture exclude each other")

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.replay.application import chosen_dispatches, run_capture

        where, console, which = _capture_device(options), Console(highlight=False, stderr=as_json), options["dispatch"]
        request = _capture_request(args, options)
        if options["top"] or which in _CHOICES:
            choice: Literal["first", "median", "slowest"] = which if which in _CHOICES else "first"
            request = chosen_dispatches(request, where, console, top=options["top"], which=choice, as_json=as_json)
        sys.exit(run_capture(request, where, console, as_json=as_json, tracking=options["tracking"]))

    answer(run, debug=debug)


@click.command("list", short_help="List the kernels of an application by time.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@application_options
@JSON
@DEBUG
def list_kernels(command: tuple[str, ...], as_json: bool, debug: bool, **options: Any) -> None:
    """Run an application and list its kernels by time: calls, shapes, and the first, median and slowest dispatch.

    Exit code 1 if the application failed or reached the time limit: the list may be incomplete.

    \b
    rocm-perf replay list -- ./app --n 9
    """

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.replay.application import run_list
        from rocm_perf_lab.replay.capture_request import CaptureRequest

        request = CaptureRequest(
            command,
            "",
            Path("list"),
            application_timeout_s=options["application_timeout"],
            preload=options["preload"],
        )
        sys.exit(run_list(request, _capture_device(options), Console(highlight=False), as_json=as_json))

    answer(run, debug=debug)


def _require_options_of_descriptions(kernels: tuple[str, ...]) -> None:
    """Reject options that have no effect on the capture of a described kernel."""
    context = click.get_current_context()
    for parameter in context.command.params:
        is_given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if is_given and parameter.name not in _OPTIONS_OF_DESCRIPTIONS:
            raise click.UsageError(f"{parameter.opts[0]} is for captures of applications")
    if len(kernels) > 1:
        raise click.UsageError("a description has one kernel: pass one --kernel")


def _capture_described(overrides: tuple[str, ...], options: dict[str, Any]) -> None:
    from rocm_perf_lab.cli.entry import run_hydra

    values = {
        "job.output": options["output"],
        "job.mode": options["mode"],
        "job.entry": options["kernels"][0] if options["kernels"] else None,
        "job.dispatch": _dispatch(options["dispatch"])[0],
    }
    added = [f"{key}={value}" for key, value in values.items() if value is not None]
    run_hydra(["job=replay_capture", "device=emulator", *overrides, *added])


def _capture_request(command: tuple[str, ...], options: dict[str, Any]) -> CaptureRequest:
    from rocm_perf_lab.replay.capture_request import CaptureRequest, WantedDispatch

    index, shape = _dispatch(options["dispatch"])
    first, *others = options["kernels"] or [""]
    return CaptureRequest(
        command=command,
        kernel=first,
        output=Path(options["output"]),
        dispatch=index,
        shape=shape,
        others=tuple(WantedDispatch(kernel, index, shape) for kernel in others),
        mode=options["mode"],
        limit_bytes=options["limit_mib"] << 20,
        timeout_s=options["timeout"],
        application_timeout_s=options["application_timeout"],
        preload=options["preload"],
        rocprofiler_sdk=options["rocprofiler_sdk"],
        low_addresses=options["low_addresses"],
        record_command=options["record_command"],
        when_captured="detach" if options["detach"] else "stop" if options["stop_after_capture"] else "wait",
    )


def _capture_device(options: dict[str, Any]) -> CaptureDevice:
    from rocm_perf_lab.jobs.replay.application import CaptureDevice

    return CaptureDevice(options["device"], options["target"], options["root"], options["gpus"])


def _dispatch(text: str) -> tuple[int, str]:
    """Return index and shape of --dispatch. The index is 0 if a first run determines it."""
    if text in _CHOICES:
        return 0, ""
    if text.isdecimal():
        return int(text), ""
    name, _, shape = text.partition("=")
    if name == "shape" and _SHAPE.fullmatch(shape):
        return 0, shape
    raise click.UsageError(
        f"--dispatch {text}: expected an index from 0, slowest, median, or shape=GRID/BLOCK as in shape=4096x1x1/256x1x1"
    )
