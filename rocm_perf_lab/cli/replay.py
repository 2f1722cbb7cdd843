"""`rocm-perf replay`: capture one dispatch, inspect the capture, replay it at the same virtual addresses."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from rocm_perf_lab.cli.completion import complete_overrides, complete_targets
from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG, JSON
from rocm_perf_lab.cli.replay_project import build, project

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.jobs.replay.application import CaptureDevice
    from rocm_perf_lab.jobs.replay.commands import ReplayTarget
    from rocm_perf_lab.replay.application_capture import CaptureRequest

_Command = TypeVar("_Command", bound="Callable[..., Any]")
_POSITIVE = click.FloatRange(min=0, min_open=True)
_CHOICES = ("slowest", "median")
_SHAPE = re.compile(r"\d+x\d+x\d+/\d+x\d+x\d+")
_TRACKING = click.option(
    "--tracking",
    type=click.Choice(["auto", "mlflow", "none"]),
    default="auto",
    show_default=True,
    help="Log an MLflow run; auto: if MLFLOW_TRACKING_URI or ./mlflow.db exists.",
)
_PATH = click.Path(path_type=Path)
_DIRECTORY = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))


@click.group(short_help="Capture one dispatch with its memory, and replay it.")
def replay() -> None:
    """Capture one dispatch with its memory, and replay it at the same virtual addresses.

    \b
    Exit codes:
      0 success
      1 negative answer: --check failed, the kernel faulted or hung,
        the addresses cannot be reserved, or the capture is invalid (verify)
      2 bad input, or something missing on this machine
      3 internal error
    """


replay.add_command(project)
replay.add_command(build)


def _application_options(command: _Command) -> _Command:
    """Add the options that select the GPU of an application, and its time limit."""
    options = (
        click.option("--application-timeout", type=_POSITIVE, metavar="SECONDS", help="Time limit of the application."),
        click.option(
            "--device",
            type=click.Choice(["auto", "rocm", "emulator"]),
            default="auto",
            show_default=True,
            help="GPU for the application: of this machine, or emulated.",
        ),
        click.option("--target", shell_complete=complete_targets, help="GPU to emulate. Default: mi300x."),
        click.option("--gpus", type=click.IntRange(1, 16), metavar="N", help="Number of emulated GPUs. Default: 1."),
        click.option(
            "--root",
            type=click.Path(exists=True, file_okay=False),
            metavar="DIR",
            help="Directory tree with ROCm (make rocm-root).",
        ),
        click.option(
            "--preload", is_flag=True, help="Load the tool with LD_PRELOAD, if the application sets HSA_TOOLS_LIB itself."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _replay_options(command: _Command) -> _Command:
    """Add the options that select the capture and the device."""
    options = (
        click.option("--capture-dir", type=click.Path(), metavar="DIR", help="The capture. Default: isolate_capture."),
        click.option(
            "--device",
            type=click.Choice(["auto", "rocm", "emulator"]),
            default="auto",
            show_default=True,
            help="Device to replay on.",
        ),
        click.option("--target", help="GPU that the emulator models. Default: one of the captured architecture."),
        click.option("--agent", type=click.IntRange(min=0), metavar="N", help="Index of the GPU. Default: the captured one."),
        click.option("--timeout", type=_POSITIVE, default=600.0, show_default=True, help="Time limit in seconds."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _tolerance_options(command: _Command) -> _Command:
    """Add the options that decide when memory is equal."""
    options = (
        click.option("--rtol", type=click.FloatRange(min=0), default=0.0, help="Relative tolerance of the check for floats."),
        click.option("--atol", type=click.FloatRange(min=0), default=0.0, help="Absolute tolerance of the check for floats."),
        click.option(
            "--nan",
            type=click.Choice(["equal", "exact", "forbid"]),
            help="Comparison of NaN. Default: equal with a tolerance, else exact.",
        ),
        click.option(
            "--type",
            "types",
            multiple=True,
            metavar="ARG=DTYPE",
            help="Element type of an argument (name or @offset), as in out=f32.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@replay.command(short_help="Capture one dispatch with its memory.")
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
    help="Memory to capture: reachable from the arguments, all, or that to which the arguments point.",
)
@click.option(
    "--limit", "limit_mib", type=click.IntRange(min=0), default=0, metavar="MIB", help="Largest capture in MiB; 0 for no limit."
)
@click.option("--timeout", type=_POSITIVE, default=60.0, show_default=True, help="Seconds to wait for other work on the GPU.")
@_application_options
@click.option("--rocprofiler-sdk", is_flag=True, help="Load the tool through rocprofiler-sdk, if the other ways fail.")
@click.option("--low-addresses", is_flag=True, help="Request low addresses (HSA_RESERVE_SVM), if a replay cannot reserve others.")
@click.option("--record-command", is_flag=True, help="Store the arguments of the command line in the capture.")
@click.option("--stop-after-capture", is_flag=True, help="End the application after the capture.")
@click.option("--detach", is_flag=True, help="Return after the capture; the application continues.")
@_TRACKING
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
        if as_json:
            raise click.UsageError("--json is for captures of applications")
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


@replay.command("list", short_help="List the kernels of an application by time.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@_application_options
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
        from rocm_perf_lab.replay.application_capture import CaptureRequest

        request = CaptureRequest(
            command,
            "",
            Path("list"),
            application_timeout_s=options["application_timeout"],
            preload=options["preload"],
        )
        sys.exit(run_list(request, _capture_device(options), Console(highlight=False), as_json=as_json))

    answer(run, debug=debug)


@replay.command(short_help="Print the contents of a capture.")
@_DIRECTORY
@JSON
@DEBUG
def info(directory: Path, as_json: bool, debug: bool) -> None:
    """Print the contents of the capture in DIR: kernel, geometry, memory."""

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.replay.commands import run_info

        run_info(directory, Console(highlight=False), as_json=as_json)

    answer(run, debug=debug)


@replay.command(short_help="Check the files of a capture.")
@_DIRECTORY
@JSON
@DEBUG
def verify(directory: Path, as_json: bool, debug: bool) -> None:
    """Check the capture in DIR: manifest, checksums, sizes, consistency. Needs no GPU. Exit code 1 if it is invalid."""

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.replay.commands import run_verify

        sys.exit(run_verify(directory, Console(highlight=False), as_json=as_json))

    answer(run, debug=debug)


@replay.command("reserve-check", short_help="Check that the captured addresses can be reserved.")
@_replay_options
@JSON
@DEBUG
def reserve_check(as_json: bool, debug: bool, **options: Any) -> None:
    """Check that the captured addresses can be reserved exactly.

    \b
    Exit codes:
      0 exact reservation
      1 the reservation failed
      2 relocation: the runtime reserved other addresses; or bad input
    """

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.replay.commands import run_reserve_check

        sys.exit(run_reserve_check(_target(options), Console(highlight=False), as_json=as_json))

    answer(run, debug=debug)


@replay.command(short_help="Time two code objects on a capture, interleaved.")
@_replay_options
@click.option("--hsaco", type=_PATH, required=True, metavar="FILE", help="Candidate.")
@click.option("--baseline", type=_PATH, metavar="FILE", help="Code object to compare with. Default: the captured one.")
@click.option(
    "--caches",
    type=click.Choice(["warm", "restored", "cold"]),
    default="warm",
    show_default=True,
    help="Caches: warm by the previous dispatch of a batch; with restored memory; overwritten.",
)
@click.option("--pairs", type=click.IntRange(min=1), default=32, show_default=True, help="Pairs of batches, in random order.")
@click.option("--batch", type=click.IntRange(min=1), default=10, show_default=True, help="Dispatches in a batch.")
@click.option("--no-check", is_flag=True, help="Do not compare the memory after the candidate with the captured result.")
@click.option("--force", is_flag=True, help="Replay code objects even if they break rules.")
@_tolerance_options
@_TRACKING
@JSON
@DEBUG
def compare(as_json: bool, debug: bool, **options: Any) -> None:
    """Check another code object on the captured memory, and time it against the captured one in interleaved batches."""
    types = _types(options.pop("types"))

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.replay.compare import run_compare
        from rocm_perf_lab.replay.comparison import CodeComparisonRequest
        from rocm_perf_lab.replay.messages import CheckRequest

        nan: Literal["equal", "exact", "forbid"] = options["nan"] or ("equal" if options["rtol"] or options["atol"] else "exact")
        check = CheckRequest(rtol=options["rtol"], atol=options["atol"], nan=nan, types=types)
        request = CodeComparisonRequest(
            candidate=options["hsaco"],
            baseline=options["baseline"],
            caches=options["caches"],
            pairs=options["pairs"],
            batch=options["batch"],
            force=options["force"],
            check=None if options["no_check"] else check,
        )
        sys.exit(run_compare(_target(options), request, Console(highlight=False), as_json=as_json, tracking=options["tracking"]))

    answer(run, debug=debug)


@replay.command("full-vm", short_help="Replay a capture at its addresses.")
@_replay_options
@click.option("--iterations", type=click.IntRange(min=1), help="Number of replays. Default: 100; 1 if the GPU is emulated.")
@click.option(
    "--warmup", type=click.IntRange(min=0), help="Replays before, reported separately. Default: 10; 0 if the GPU is emulated."
)
@click.option("--no-recopy", is_flag=True, help="Restore memory before the first iteration only.")
@click.option("--hsaco", type=click.Path(), metavar="FILE", help="Replay this code object instead of the captured one.")
@click.option("--force", is_flag=True, help="Replay the code object of --hsaco even if it breaks rules.")
@click.option("--check", is_flag=True, help="Compare the memory after each replay with the captured result.")
@click.option(
    "--caches",
    type=click.Choice(["restored", "warm", "cold"]),
    default="restored",
    show_default=True,
    help="Caches before a replay: with restored memory, of the previous replay (with --no-recopy), or overwritten.",
)
@_tolerance_options
@_TRACKING
@JSON
@DEBUG
def full_vm(as_json: bool, debug: bool, **options: Any) -> None:
    """Reconstruct the captured memory at its addresses in a new process, and replay the dispatch."""
    types = _types(options.pop("types"))
    if options["caches"] == "warm" and not options["no_recopy"]:
        raise click.UsageError("--caches warm needs --no-recopy: restoring memory changes the caches")

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.replay.commands import FullVmRequest, run_full_vm

        request = FullVmRequest(
            where=_target(options),
            iterations=options["iterations"],
            warmup=options["warmup"],
            recopy=not options["no_recopy"],
            hsaco=Path(options["hsaco"]) if options["hsaco"] else None,
            force=options["force"],
            check=options["check"],
            rtol=options["rtol"],
            atol=options["atol"],
            nan=options["nan"],
            types=types,
            caches=options["caches"],
        )
        sys.exit(run_full_vm(request, Console(highlight=False), as_json=as_json, tracking=options["tracking"]))

    answer(run, debug=debug)


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
    from rocm_perf_lab.replay.application_capture import CaptureRequest, WantedDispatch

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

    root = Path(options["root"]) if options["root"] else None
    return CaptureDevice(options["device"], options["target"], root, options["gpus"])


def _dispatch(text: str) -> tuple[int, str]:
    """Return index and shape of --dispatch; 0 if the index is found in a first run."""
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


def _types(arguments: tuple[str, ...]) -> dict[str, str]:
    from rocm_perf_lab.languages.data_types import DTYPES

    types = {}
    for argument in arguments:
        name, _, dtype = argument.partition("=")
        if dtype not in DTYPES:
            raise click.UsageError(f"--type {argument}: expected ARG=DTYPE, with one of {', '.join(DTYPES)}")
        types[name] = dtype
    return types


def _target(options: dict[str, Any]) -> ReplayTarget:
    from rocm_perf_lab.jobs.replay.commands import ReplayTarget

    return ReplayTarget(
        capture_dir=Path(options["capture_dir"]) if options["capture_dir"] else None,
        device=options["device"],
        target=options["target"],
        agent=options["agent"],
        library=os.environ.get("ROCM_PERF_LAB_HSA_LIBRARY") or None,
        timeout_s=options["timeout"],
    )
