"""`rocm-perf replay`: capture one dispatch, inspect the capture, replay it at the same virtual addresses."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG, JSON
from rocm_perf_lab.cli.replay_capture import capture, list_kernels
from rocm_perf_lab.cli.replay_options import (
    DIRECTORY,
    FORCE,
    PATH,
    TRACKING,
    caches,
    check_options,
    check_request,
    replay_options,
    replay_target,
)
from rocm_perf_lab.cli.replay_project import build, project

if TYPE_CHECKING:
    from pathlib import Path


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


for command in (capture, list_kernels, project, build):
    replay.add_command(command)


@replay.command(short_help="Print the contents of a capture.")
@DIRECTORY
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
@DIRECTORY
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
@replay_options
@JSON
@DEBUG
def reserve_check(as_json: bool, debug: bool, **options: Any) -> None:
    """Check that the captured addresses can be reserved exactly.

    \b
    Exit codes:
      0 exact reservation
      1 the reservation failed
      2 relocation (the runtime reserved other addresses), or bad input
    """

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.replay.commands import run_reserve_check

        sys.exit(run_reserve_check(replay_target(options), Console(highlight=False), as_json=as_json))

    answer(run, debug=debug)


@replay.command(short_help="Time two code objects on a capture, interleaved.")
@replay_options
@click.option("--hsaco", type=PATH, required=True, metavar="FILE", help="Candidate.")
@click.option("--baseline", type=PATH, metavar="FILE", help="Baseline code object. Default: the captured one.")
@caches("warm")
@click.option(
    "--pairs",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    help="Number of pairs of batches; their order is random.",
)
@click.option("--batch", type=click.IntRange(min=1), default=10, show_default=True, help="Dispatches per batch.")
@click.option("--no-check", is_flag=True, help="Do not check the candidate's memory against the captured result.")
@FORCE
@check_options
@TRACKING
@JSON
@DEBUG
def compare(as_json: bool, debug: bool, **options: Any) -> None:
    """Check another code object on the captured memory, and time it and the captured one in interleaved batches."""

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.replay.compare import run_compare
        from rocm_perf_lab.replay.comparison import CodeComparisonRequest

        request = CodeComparisonRequest(
            candidate=options["hsaco"],
            baseline=options["baseline"],
            caches=options["caches"],
            pairs=options["pairs"],
            batch=options["batch"],
            force=options["force"],
            check=None if options["no_check"] else check_request(options),
        )
        target, console = replay_target(options), Console(highlight=False)
        sys.exit(run_compare(target, request, console, as_json=as_json, tracking=options["tracking"]))

    answer(run, debug=debug)


@replay.command(short_help="Replay a capture at its addresses.")
@replay_options
@click.option("--iterations", type=click.IntRange(min=1), help="Number of replays. Default: 100; 1 if the GPU is emulated.")
@click.option(
    "--warmup", type=click.IntRange(min=0), help="Warm-up replays, reported separately. Default: 10; 0 if the GPU is emulated."
)
@click.option("--no-recopy", is_flag=True, help="Restore memory only before the first iteration.")
@click.option("--hsaco", type=PATH, metavar="FILE", help="Replay this code object instead of the captured one.")
@FORCE
@click.option("--check", is_flag=True, help="Check the memory after each replay against the captured result.")
@caches("restored")
@check_options
@TRACKING
@JSON
@DEBUG
def full_vm(as_json: bool, debug: bool, **options: Any) -> None:
    """Reconstruct the captured memory at its addresses in a new process, and replay the dispatch."""
    if options["caches"] == "warm" and not options["no_recopy"]:
        raise click.UsageError("--caches warm requires --no-recopy, because restoring memory changes the caches")
    unused = next((option for option in ("rtol", "atol", "nan", "types") if options[option]), None)
    if unused is not None and not options["check"]:
        raise click.UsageError(f"--{unused.removesuffix('s')} needs --check")

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.replay.commands import FullVmRequest, run_full_vm

        check = check_request(options)
        request = FullVmRequest(
            where=replay_target(options),
            iterations=options["iterations"],
            warmup=options["warmup"],
            recopy=not options["no_recopy"],
            hsaco=options["hsaco"],
            force=options["force"],
            check=options["check"],
            rtol=check.rtol,
            atol=check.atol,
            nan=check.nan,
            types=check.types,
            caches=options["caches"],
        )
        sys.exit(run_full_vm(request, Console(highlight=False), as_json=as_json, tracking=options["tracking"]))

    answer(run, debug=debug)
