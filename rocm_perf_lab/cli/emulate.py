"""`rocm-perf emulate`: run one kernel of a code object on the emulator."""

from __future__ import annotations

from typing import Any

import click

from rocm_perf_lab.cli.completion import complete_targets
from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG, JSON


@click.command(short_help="Run a kernel of a code object on the emulator.")
@click.argument("file", type=click.Path())
@click.option("--kernel", metavar="NAME", help="Symbol or C++ name; optional if the file has one kernel.")
@click.option("--grid", metavar="XxYxZ", help="Workgroups.")
@click.option("--work-items", metavar="XxYxZ", help="Work-items, instead of --grid; the last workgroup may be partial.")
@click.option("--block", required=True, metavar="XxYxZ", help="Work-items per workgroup.")
@click.option("--cooperative", is_flag=True, help="Run all workgroups at once, so that they may wait for each other.")
@click.option(
    "--arg", "arguments", multiple=True, metavar="TEXT", help="Kernel argument; repeat in the order of the kernel's parameters."
)
@click.option("--lds", "dynamic_lds_bytes", default=0, type=click.IntRange(min=0), metavar="BYTES", help="Dynamic LDS.")
@click.option(
    "--target",
    metavar="NAME",
    shell_complete=complete_targets,
    help="GPU to emulate. Default: one with the file's architecture.",
)
@click.option("--check", default="none", metavar="KINDS", help="Checks: all, or a list such as lds_races,barriers.")
@click.option("--max-instructions", type=click.IntRange(min=1), help="Limit of executed wave instructions per kernel.")
@click.option(
    "--output", type=click.Path(file_okay=False), metavar="DIR", help="Directory for outputs, database and instruction counts."
)
@JSON
@DEBUG
def emulate(file: str, output: str | None, as_json: bool, debug: bool, **options: Any) -> None:
    """Run a kernel of FILE, a code object, on the emulator. A finding of --check exits with 1.

    \b
    An argument is a buffer, a scalar, or raw bytes:
      dtype[shape]:initialiser[:key=value]...[:in|out|inout]
      --arg f32[512x4096]:normal:seed=1
      --arg f32[4096]:zeros:out
      --arg i32=1048576
      --arg hex=0000803f
    Initialisers: normal, uniform, integers, constant, zeros, ones, arange,
    poison, file=PATH.npy
    """

    def run() -> None:
        from pathlib import Path

        from rich.console import Console

        from rocm_perf_lab.jobs.emulate.job import run_emulate
        from rocm_perf_lab.jobs.emulate.request import EmulateRequest

        request = EmulateRequest(file=Path(file), **options)
        run_emulate(request, Console(highlight=False), output=Path(output) if output else None, as_json=as_json)

    answer(run, debug=debug)
