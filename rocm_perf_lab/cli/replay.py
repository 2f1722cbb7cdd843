"""`rocm-perf replay`: capture one dispatch, inspect the capture, replay it at the same virtual addresses."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rocm_perf_lab.cli.completion import complete_overrides, complete_targets
from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG, JSON

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.jobs.replay.commands import ReplayTarget
    from rocm_perf_lab.replay.application_capture import CaptureRequest

_Command = TypeVar("_Command", bound="Callable[..., Any]")
_POSITIVE = click.FloatRange(min=0, min_open=True)
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


@replay.command(short_help="Capture one dispatch with its memory.")
@click.argument("args", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_overrides)
@click.option("--kernel", metavar="NAME", help="Kernel to capture: mangled or demangled name, or /regular expression/.")
@click.option(
    "--dispatch", type=click.IntRange(min=0), default=0, show_default=True, help="Index among the dispatches of the kernel."
)
@click.option(
    "--output", type=click.Path(file_okay=False), default="isolate_capture", show_default=True, help="Directory to create."
)
@click.option(
    "--mode",
    type=click.Choice(["reachable", "full", "arguments"]),
    default="reachable",
    show_default=True,
    help="Memory to capture: reachable from the arguments, all, or what the arguments point to.",
)
@click.option(
    "--limit", "limit_mib", type=click.IntRange(min=0), default=0, metavar="MIB", help="Largest capture in MiB; 0 for no limit."
)
@click.option("--timeout", type=_POSITIVE, default=60.0, show_default=True, help="Seconds to wait for other work on the GPU.")
@click.option("--application-timeout", type=_POSITIVE, metavar="SECONDS", help="Time limit of the application.")
@click.option(
    "--device",
    type=click.Choice(["auto", "rocm", "emulator"]),
    default="auto",
    show_default=True,
    help="GPU for the application: of this machine, or emulated.",
)
@click.option("--target", shell_complete=complete_targets, help="GPU to emulate. Default: mi300x.")
@click.option(
    "--root", type=click.Path(exists=True, file_okay=False), metavar="DIR", help="Directory tree with ROCm (make rocm-root)."
)
@click.option("--preload", is_flag=True, help="Load the tool with LD_PRELOAD, if the application sets HSA_TOOLS_LIB itself.")
@click.option("--rocprofiler-sdk", is_flag=True, help="Load the tool through rocprofiler-sdk, if the other ways fail.")
@click.option("--no-command", is_flag=True, help="Do not store the command line in the capture.")
@DEBUG
def capture(args: tuple[str, ...], debug: bool, **options: Any) -> None:
    """Capture one dispatch: memory before it, changed pages, code object, arguments.

    \b
    rocm-perf replay capture --kernel softmax_kernel --dispatch 3 -- ./app --n 9
        an application; without a GPU it runs on an emulated one
    rocm-perf replay capture kernel=softmax kernel.params.cols=2048
        a described kernel, on the emulator
    """
    if all("=" in argument for argument in args):
        answer(lambda: _capture_described(args, options), debug=debug)
    if options["kernel"] is None:
        raise click.UsageError("an application dispatches many kernels: select one with --kernel NAME")

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.replay.commands import CaptureDevice, run_capture

        where = CaptureDevice(options["device"], options["target"], Path(options["root"]) if options["root"] else None)
        run_capture(_capture_request(args, options), where, Console(highlight=False))

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
    """Check that the captured addresses can be reserved exactly. Exit code 1 if they cannot."""

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.replay.commands import run_reserve_check

        sys.exit(run_reserve_check(_target(options), Console(highlight=False), as_json=as_json))

    answer(run, debug=debug)


@replay.command("full-vm", short_help="Replay a capture at its addresses.")
@_replay_options
@click.option("--iterations", type=click.IntRange(min=1), default=1, show_default=True, help="Number of replays.")
@click.option("--warmup", type=click.IntRange(min=0), default=0, show_default=True, help="Warm-up replays, reported separately.")
@click.option("--no-recopy", is_flag=True, help="Restore memory before the first iteration only.")
@click.option("--hsaco", type=click.Path(), metavar="FILE", help="Replay this code object instead of the captured one.")
@click.option("--force", is_flag=True, help="Replay the code object of --hsaco even if it breaks rules.")
@click.option("--check", is_flag=True, help="Compare the memory after each replay with the captured result.")
@click.option("--rtol", type=click.FloatRange(min=0), default=0.0, help="Relative tolerance of --check for floats.")
@click.option("--atol", type=click.FloatRange(min=0), default=0.0, help="Absolute tolerance of --check for floats.")
@click.option(
    "--nan",
    type=click.Choice(["equal", "exact", "forbid"]),
    help="Comparison of NaN in --check. Default: equal with a tolerance, else exact.",
)
@click.option(
    "--type", "types", multiple=True, metavar="ARG=DTYPE", help="Element type of an argument (name or @offset), as in out=f32."
)
@JSON
@DEBUG
def full_vm(as_json: bool, debug: bool, **options: Any) -> None:
    """Reconstruct the captured memory at its addresses in a new process, and replay the dispatch."""
    types = _types(options.pop("types"))

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
        )
        sys.exit(run_full_vm(request, Console(highlight=False), as_json=as_json))

    answer(run, debug=debug)


def _capture_described(overrides: tuple[str, ...], options: dict[str, Any]) -> None:
    from rocm_perf_lab.cli.entry import run_hydra

    values = {
        "job.output": options["output"],
        "job.mode": options["mode"],
        "job.entry": options["kernel"],
        "job.dispatch": options["dispatch"],
    }
    added = [f"{key}={value}" for key, value in values.items() if value is not None]
    run_hydra(["job=replay_capture", "device=emulator", *overrides, *added])


def _capture_request(command: tuple[str, ...], options: dict[str, Any]) -> CaptureRequest:
    from rocm_perf_lab.replay.application_capture import CaptureRequest

    return CaptureRequest(
        command=command,
        kernel=options["kernel"],
        output=Path(options["output"]),
        dispatch=options["dispatch"],
        mode=options["mode"],
        limit_bytes=options["limit_mib"] << 20,
        timeout_s=options["timeout"],
        application_timeout_s=options["application_timeout"],
        preload=options["preload"],
        rocprofiler_sdk=options["rocprofiler_sdk"],
        record_command=not options["no_command"],
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
