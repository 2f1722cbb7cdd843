"""`rocm-perf doctor`: check this machine."""

from __future__ import annotations

import sys

import click

from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG, JSON
from rocm_perf_lab.core.errors import EXIT_BAD_INPUT


@click.command(short_help="Check GPU, ROCm, compilers and emulator.")
@click.option("--remove-leftovers", is_flag=True, help="Remove directories with GPU memory that killed captures did not remove.")
@JSON
@DEBUG
def doctor(remove_leftovers: bool, as_json: bool, debug: bool) -> None:
    """Check GPU, ROCm, compilers and emulator, and show hints for missing parts.

    Exits with 2 if neither a GPU nor the emulator can be used.
    """

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.doctor.job import remove_leftovers_of_captures, run_doctor

        if remove_leftovers:
            remove_leftovers_of_captures(Console(highlight=False, stderr=as_json))
        if not run_doctor(Console(highlight=False), as_json=as_json):
            sys.exit(EXIT_BAD_INPUT)

    answer(run, debug=debug)
