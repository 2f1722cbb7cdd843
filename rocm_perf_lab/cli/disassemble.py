"""`rocm-perf disassemble`: list the instructions of a code object."""

from __future__ import annotations

import click

from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG, JSON


@click.command(short_help="List the instructions of a code object.")
@click.argument("file", type=click.Path())
@click.option("--kernel", metavar="NAME", help="Symbol or C++ name (default: all kernels).")
@click.option("--list", "list_only", is_flag=True, help="List the kernels only: code size, registers, LDS and name.")
@click.option(
    "--architecture", metavar="NAME", help="Architecture to select in a library for several. Default: gfx942 if present."
)
@click.option("--source", "with_source", is_flag=True, help="Show the source line of each instruction.")
@click.option(
    "--counts",
    type=click.Path(),
    metavar="DIR",
    help="Values per instruction: from emulate --output, a thread trace (ui_output_*), or PC samples in the viewer's format.",
)
@JSON
@DEBUG
def disassemble(
    file: str,
    kernel: str | None,
    list_only: bool,
    architecture: str | None,
    with_source: bool,
    counts: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    """List the instructions of FILE: a code object, an offload bundle, or a HIP object file, executable or library."""

    def run() -> None:
        from pathlib import Path

        from rich.console import Console

        from rocm_perf_lab.jobs.disassemble.job import DisassembleRequest, run_disassemble

        counted = Path(counts) if counts else None
        request = DisassembleRequest(Path(file), kernel, with_source, counted, architecture, list_only)
        run_disassemble(request, Console(highlight=False), as_json=as_json)

    answer(run, debug=debug)
