"""`rocm-perf replay`: capture one dispatch, look at it, replay it at the same virtual addresses."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rocm_perf_lab.cli.exit_codes import answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.jobs.replay.commands import ReplayTarget

_Command = TypeVar("_Command", bound="Callable[..., Any]")
_EXIT_USAGE = 5


class _ReplayGroup(click.Group):
    """Here 2 means relocation, so that wrong usage has a code of its own."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            error.exit_code = _EXIT_USAGE  # type: ignore[misc]  # click declares it for the class and reads it from the error
            raise


@click.group(cls=_ReplayGroup, short_help="Freeze one dispatch with its memory; run it again.")
def replay() -> None:
    """Freeze one dispatch with its memory, and run it again at the same virtual addresses.

    \b
    Exit codes of full-vm and reserve-check:
      0 done
      1 not possible here, or a damaged capture
      2 addresses were relocated
      3 the kernel faulted or hung
      4 --check failed
      5 wrong usage
    """


_DEBUG = click.option("--debug", is_flag=True, help="Show the traceback of an error.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")


def _where(command: _Command) -> _Command:
    """The options that say which capture, and where."""
    options = (
        click.option("--capture-dir", type=click.Path(), metavar="DIR", help="The capture; isolate_capture by default."),
        click.option("--device", type=click.Choice(["auto", "rocm", "emulator"]), default="auto", show_default=True),
        click.option("--target", default="mi300x", show_default=True, help="GPU that the emulator takes."),
        click.option("--agent", type=click.IntRange(min=0), metavar="N", help="Which GPU; the captured one by default."),
        click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=600.0, show_default=True, help="Seconds."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@replay.command(short_help="Capture one dispatch with its memory.")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--kernel", metavar="NAME", help="Kernel to capture: its name, mangled or not, or /regular expression/.")
@click.option("--dispatch", type=click.IntRange(min=0), default=0, show_default=True, help="Which of its dispatches, from 0.")
@click.option(
    "--output", type=click.Path(file_okay=False), default="isolate_capture", show_default=True, help="The directory to make."
)
@click.option("--mode", type=click.Choice(["reachable", "full", "arguments"]), default="reachable", show_default=True)
@click.option("--limit", "limit_mib", type=click.IntRange(min=0), default=0, metavar="MIB", help="Largest capture; 0: none.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True, help="To drain the GPU.")
@click.option("--application-timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Of the application.")
@click.option("--preload", is_flag=True, help="Load the tool with LD_PRELOAD, where the application sets HSA_TOOLS_LIB itself.")
@click.option("--rocprofiler-sdk", is_flag=True, help="Load the tool through rocprofiler-sdk, where neither way works.")
@click.option("--no-command", is_flag=True, help="Leave the command line out of the capture.")
@_DEBUG
def capture(words: tuple[str, ...], debug: bool, **options: Any) -> None:
    """Capture one dispatch: memory before it, the pages that it changed, code object, arguments.

    \b
    rocm-perf replay capture --kernel softmax_kernel --dispatch 3 -- ./app --n 9
        an application on its GPU
    rocm-perf replay capture kernel=softmax kernel.params.cols=2048
        a described kernel, on the emulator
    """

    def run() -> None:
        if all("=" in word for word in words):
            from rocm_perf_lab.cli.entry import run_hydra

            given = {"job.output": options["output"], "job.mode": options["mode"], "job.entry": options["kernel"]}
            overrides = [f"{key}={value}" for key, value in given.items() if value is not None]
            run_hydra(["job=replay_capture", "device=emulator", *words, *overrides, f"job.dispatch={options['dispatch']}"])
            return
        if options["kernel"] is None:
            raise click.UsageError("an application dispatches many kernels: name one with --kernel NAME")
        from pathlib import Path

        from rich.console import Console

        from rocm_perf_lab.jobs.replay.commands import run_capture
        from rocm_perf_lab.replay.application_capture import CaptureRequest

        request = CaptureRequest(
            command=words,
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
        run_capture(request, Console(highlight=False))

    answer(run, debug=debug)


@replay.command(short_help="Say what a capture holds.")
@click.argument("directory", metavar="DIR", type=click.Path())
@_JSON
@_DEBUG
def info(directory: str, as_json: bool, debug: bool) -> None:
    """Say what the capture in DIR holds: kernel, geometry, memory."""

    def run() -> None:
        from pathlib import Path

        from rich.console import Console

        from rocm_perf_lab.jobs.replay.commands import run_info

        run_info(Path(directory), Console(highlight=False), as_json=as_json)

    answer(run, debug=debug)


@replay.command(short_help="Check a capture: manifest, checksums, sizes.")
@click.argument("directory", metavar="DIR", type=click.Path())
@_JSON
@_DEBUG
def verify(directory: str, as_json: bool, debug: bool) -> None:
    """Check the capture in DIR: manifest, checksums, sizes. Needs no GPU; exit code 2 where something is wrong."""

    def run() -> None:
        from pathlib import Path

        from rich.console import Console

        from rocm_perf_lab.jobs.replay.commands import run_verify

        sys.exit(run_verify(Path(directory), Console(highlight=False), as_json=as_json))

    answer(run, debug=debug)


@replay.command("reserve-check", short_help="Say whether the addresses can be had here.")
@_where
@_JSON
@_DEBUG
def reserve_check(as_json: bool, debug: bool, **options: Any) -> None:
    """Say whether the captured addresses can be reserved here exactly: exit code 0, 1 (failure) or 2 (relocation)."""

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.replay.commands import run_reserve_check

        sys.exit(run_reserve_check(_target(options), Console(highlight=False), as_json=as_json))

    answer(run, debug=debug)


@replay.command("full-vm", short_help="Replay a capture at its addresses.")
@_where
@click.option("--iterations", type=click.IntRange(min=1), default=1, show_default=True, help="Replays.")
@click.option("--warmup", type=click.IntRange(min=0), default=0, show_default=True, help="Replays before them, reported apart.")
@click.option("--no-recopy", is_flag=True, help="Restore memory before the first iteration only.")
@click.option("--hsaco", type=click.Path(), metavar="FILE", help="Replay this code object in place of the captured one.")
@click.option("--force", is_flag=True, help="Take it although it breaks rules.")
@click.option("--check", is_flag=True, help="Compare the memory after each replay with what the dispatch had left.")
@click.option("--rtol", type=click.FloatRange(min=0), default=0.0, help="Relative tolerance of --check for floats.")
@click.option("--atol", type=click.FloatRange(min=0), default=0.0, help="Absolute tolerance of --check for floats.")
@click.option(
    "--nan", type=click.Choice(["equal", "exact", "forbid"]), help="NaN in --check: equal with a tolerance, else exact."
)
@click.option(
    "--type", "types", multiple=True, metavar="ARG=DTYPE", help="Elements behind an argument (name or @offset): out=f32."
)
@_JSON
@_DEBUG
def full_vm(as_json: bool, debug: bool, **options: Any) -> None:
    """Reconstruct the captured memory at its addresses in a fresh process, and replay the dispatch."""
    types = _types(options.pop("types"))

    def run() -> None:
        from pathlib import Path

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


def _types(words: tuple[str, ...]) -> dict[str, str]:
    from rocm_perf_lab.languages.data_types import DTYPES

    types = {}
    for word in words:
        name, _, dtype = word.partition("=")
        if dtype not in DTYPES:
            raise click.UsageError(f"--type {word}: write ARG=DTYPE with one of {', '.join(DTYPES)}")
        types[name] = dtype
    return types


def _target(options: dict[str, Any]) -> ReplayTarget:
    import os
    from pathlib import Path

    from rocm_perf_lab.jobs.replay.commands import ReplayTarget

    return ReplayTarget(
        capture_dir=Path(options["capture_dir"]) if options["capture_dir"] else None,
        device=options["device"],
        target=options["target"],
        agent=options["agent"],
        library=os.environ.get("ROCM_PERF_LAB_HSA_LIBRARY") or None,
        timeout_s=options["timeout"],
    )
