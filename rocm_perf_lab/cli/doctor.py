"""`rocm-perf doctor`: check this machine."""

from __future__ import annotations

import sys

import click

from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG, JSON
from rocm_perf_lab.core.errors import EXIT_BAD_INPUT


@click.command(short_help="Check GPU, ROCm, compilers and emulator.")
@JSON
@DEBUG
def doctor(as_json: bool, debug: bool) -> None:
    """Check GPU, ROCm, compilers and emulator, and show hints for missing parts.

    Exits with 2 if neither a GPU nor the emulator can be used.
    """

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.doctor.job import run_doctor

        if not run_doctor(Console(highlight=False), as_json=as_json):
            sys.exit(EXIT_BAD_INPUT)

    answer(run, debug=debug)
