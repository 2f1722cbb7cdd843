"""`rocm-perf run`: run an application, or HIP sources, on emulated GPUs."""

from __future__ import annotations

import atexit
import gc
import sys
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import click

from rocm_perf_lab.cli.completion import complete_targets
from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG, JSON

if TYPE_CHECKING:
    from rocm_perf_lab.jobs.run.job import ApplicationRequest

_SUFFIXES = (".hip", ".cu", ".cpp", ".cc", ".cxx", ".c")
_END = "--"
_OF_PROFILE = ("profile", "device_trace", "kernel", "dispatches", "every", "output")


def is_source(word: str) -> bool:
    """Return whether a word of the command line names a file in HIP C++ or C."""
    return word.endswith(_SUFFIXES) and not word.startswith("-")


class RunCommand(click.Command):
    """Command that accepts options after source files; the program's arguments follow `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Treat options of an application as part of its command, and keep the `--` before a program's arguments."""
        given, *_ = self.make_parser(ctx).parse_args(list(args))
        words = given.get("command")
        if isinstance(words, tuple | list) and words and is_source(words[0]):  # else a marker of Click
            ctx.allow_interspersed_args = True
            before = list(takewhile(lambda word: word != _END, args))
            # Click removes the first "--"; the second one separates sources and arguments.
            args = [*before, _END, *([_END, *args[len(before) + 1 :]] if len(before) < len(args) else [])]
        return super().parse_args(ctx, args)


@click.command(
    cls=RunCommand,
    short_help="Run an application or HIP sources on emulated GPUs.",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--target", metavar="NAME", default="mi300x", show_default=True, shell_complete=complete_targets, help="GPU to emulate."
)
@click.option("--gpus", type=click.IntRange(1, 16), default=1, show_default=True, help="Number of GPUs.")
@click.option("--build-args", metavar="ARGS", help="Compiler and linker arguments for sources: '-O3 -DN=5 -Iinclude'.")
@click.option(
    "--runtime",
    type=click.Choice(["auto", "rocm", "lab"]),
    default="auto",
    show_default=True,
    help="HIP runtime: AMD's, rocm-perf-lab's, or AMD's if it is installed.",
)
@click.option("--threads", type=click.IntRange(min=1), help="Threads per dispatch. Default: one per CPU.")
@click.option("--any-order", is_flag=True, help="Use several threads even if results depend on the order of workgroups.")
@click.option(
    "--max-instructions", type=click.IntRange(min=1), default=None, help="Limit of executed wave instructions per dispatch."
)
@click.option("--max-seconds", type=click.IntRange(min=1), default=None, help="Limit of wall-clock time per dispatch.")
@click.option(
    "--heartbeat",
    type=click.IntRange(min=0),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="Report dispatches that run longer; 0: never.",
)
@click.option(
    "--root", type=click.Path(exists=True, file_okay=False), metavar="DIR", help="ROCm directory tree (see make rocm-root)."
)
@click.option("--xnack", is_flag=True, help="Let kernels access any host memory (HSA_XNACK=1).")
@click.option("--trace", type=click.IntRange(0, 3), default=0, help="Log the driver's calls on standard error.")
@click.option(
    "--check",
    metavar="LIST",
    default="none",
    help="Defects to find (exit code 1): all, or some of races,bounds,uninitialised,barriers,misaligned,leaks,host.",
)
@click.option("--profile", is_flag=True, help="Write and print a profile, like rocm-perf profile.")
@click.option("--device-trace", is_flag=True, help="Profile with thread traces of the selected dispatches.")
@click.option("--kernel", metavar="REGEX", help="With --profile: only kernels whose name matches.")
@click.option("--dispatches", metavar="A:B", help="With --profile: only the dispatches A to B-1 of each process, from 0.")
@click.option("--every", type=click.IntRange(min=1), metavar="N", help="With --profile: only every N-th of these dispatches.")
@click.option("--output", type=click.Path(file_okay=False), metavar="DIR", help="Directory of the profile.")
@click.option("--verbose", is_flag=True, help="Describe the emulated machine and its work on standard error.")
@JSON
@DEBUG
def run(command: tuple[str, ...], debug: bool, **options: Any) -> None:
    """Run COMMAND on emulated GPUs; needs neither a GPU nor ROCm.

    \b
    rocm-perf run -- ./app ARGS
        an application that was compiled with hipcc
    rocm-perf run main.hip [more.hip] -- ARGS
        sources in HIP C++ or C, compiled first; nothing is compiled twice

    Standard input, output, error and the exit code are those of the
    application. With --json its standard output goes to standard error, and
    a summary is printed instead, with --profile profile.json.
    """

    def action() -> None:
        from pathlib import Path

        from rocm_perf_lab.jobs.run.job import ApplicationRequest, run_command

        profile = {name: options.pop(name) for name in _OF_PROFILE}
        given = {name: value for name, value in options.items() if value is not None}
        sources = tuple(takewhile(is_source, command)) if is_source(command[0]) else ()
        rest = command[len(sources) :]
        if sources and rest and rest[0] != _END:
            raise click.UsageError(f"arguments of the program follow {_END}: rocm-perf run {' '.join(sources)} {_END} {rest[0]}")
        words = rest[1:] if sources else rest
        request = ApplicationRequest(command=words, sources=tuple(map(Path, sources)), **given)
        atexit.register(gc.freeze)  # skips the garbage collection at exit
        sys.exit(_profiled(request, **profile) if _wants_profile(**profile) else run_command(request))

    answer(action, debug=debug)


def _wants_profile(*, profile: bool, device_trace: bool, **others: object) -> bool:
    """Return whether a profile was requested, as --device-trace does.

    Raises:
        LabError: Options for profiles are used without requesting a profile.
    """
    profile = profile or device_trace
    given = [f"--{name}" for name, value in others.items() if value is not None]
    if given and not profile:
        from rocm_perf_lab.core.errors import LabError

        raise LabError(f"{given[0]} applies to profiles only", where=given[0], hint="add --profile")
    return profile


def _profiled(
    request: ApplicationRequest,
    *,
    device_trace: bool,
    kernel: str | None,
    dispatches: str | None,
    every: int | None,
    output: str | None,
    **_: object,
) -> int:
    from dataclasses import replace

    from rich.console import Console

    from rocm_perf_lab.cli.entry import open_application
    from rocm_perf_lab.cli.profile_arguments import ProfileArguments
    from rocm_perf_lab.jobs.run.profile import profile_command
    from rocm_perf_lab.runtime.selection import DispatchSelection

    selection = DispatchSelection.parse(kernel, dispatches, every or 1)
    settings = (f"target={request.target}", "device=emulator", f"job.gpus={request.gpus}")
    arguments = ProfileArguments.parse(
        (*settings, "application"), as_json=request.as_json, deep_analysis=device_trace, kernel=kernel, output=output
    )
    lab = open_application(arguments, (*map(str, request.sources), *request.command))
    # Standard output is reserved for the application.
    console = Console(stderr=True, highlight=False, soft_wrap=False, quiet=request.as_json)
    return profile_command(request, replace(lab, console=console), selection)
