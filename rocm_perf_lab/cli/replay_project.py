"""`rocm-perf replay project` and `rocm-perf replay build`: an editable project of a capture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG, JSON

_FILE = click.Path(path_type=Path)


@click.command(short_help="Create an editable project of a capture.")
@click.argument("capture", metavar="CAPTURE", type=_FILE)
@click.argument("directory", metavar="DIR", type=_FILE)
@click.option("--source", type=_FILE, metavar="FILE", help="Source of the kernel, if it is not found.")
@click.option("--flags", default="", metavar="TEXT", help="Compiler flags for --source: '-Iinclude -DN=4'.")
@click.option("--compile-commands", type=_FILE, metavar="FILE", help="compile_commands.json, or its directory.")
@click.option("--build-log", type=_FILE, metavar="FILE", help="Build log that contains the hipcc commands.")
@click.option("--search", multiple=True, type=_FILE, metavar="DIR", help="Directory to search for the source. Repeatable.")
@click.option("--assembly", is_flag=True, help="Use the disassembly even if the source is available.")
@click.option(
    "--data-limit",
    "data_limit_mib",
    type=click.IntRange(min=0),
    default=256,
    show_default=True,
    metavar="MIB",
    help="Largest size of buffers to copy to the project.",
)
@JSON
@DEBUG
def project(capture: Path, directory: Path, as_json: bool, debug: bool, **options: Any) -> None:
    """Create an editable project of the kernel in CAPTURE: its source with headers, or its disassembly; and a Makefile.

    \b
    rocm-perf replay project isolate_capture work && make -C work check time
    """
    if options["flags"] and options["source"] is None:
        raise click.UsageError("--flags needs --source")
    if options["assembly"] and options["source"] is not None:
        raise click.UsageError("--assembly and --source exclude each other")

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.replay.project import run_project
        from rocm_perf_lab.replay.project.creation import ProjectRequest
        from rocm_perf_lab.replay.project.sources import SourceHints

        hints = SourceHints(
            options["source"], options["flags"], options["compile_commands"], options["build_log"], options["search"]
        )
        request = ProjectRequest(hints, options["assembly"], options["data_limit_mib"] << 20)
        run_project(capture, directory, request, Console(highlight=False), as_json=as_json)

    answer(run, debug=debug)


@click.command(short_help="Compile the kernel of a project.")
@click.argument("description", metavar="FILE", type=_FILE)
@click.option("--output", type=_FILE, default=Path("kernel.hsaco"), show_default=True, metavar="FILE", help="Code object.")
@click.option("--architecture", metavar="NAME", help="Processor. Default: that of the project.")
@DEBUG
def build(description: Path, output: Path, architecture: str | None, debug: bool) -> None:
    """Compile the kernel.yaml FILE to a code object."""

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.replay.project import run_build

        run_build(description, output, Console(highlight=False), architecture=architecture)

    answer(run, debug=debug)
