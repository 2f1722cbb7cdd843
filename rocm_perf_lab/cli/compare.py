"""`rocm-perf compare`: compare two profiles."""

from __future__ import annotations

import sys
from typing import Any

import click

from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG, JSON
from rocm_perf_lab.core.errors import EXIT_NEGATIVE


@click.command(short_help="Compare two profiles; exit with 1 on a regression.")
@click.argument("base", type=click.Path())
@click.argument("new", type=click.Path())
@click.option(
    "--fail-over",
    default="5%",
    show_default=True,
    metavar="SHARE",
    help="Relative slowdown of a kernel above which the exit code is 1.",
)
@click.option(
    "--normalise",
    type=click.Choice(["workgroup", "byte"]),
    help="Compare different launch shapes per workgroup, or per byte of DRAM traffic (needs counters); never a regression.",
)
@click.option("--force", is_flag=True, help="Compare even different GPUs, or emulated with measured times.")
@JSON
@DEBUG
def compare(base: str, new: str, fail_over: str, normalise: Any, force: bool, as_json: bool, debug: bool) -> None:
    """Compare two profiles (profile.json or a run's directory) kernel by kernel; exit with 1 on a significant regression.

    Kernels are aligned by name and launch shape: different grid or workgroup sizes are "not comparable" without --normalise.
    The noise is estimated from the times of each kernel: at least six per kernel are needed, so profile with --runs 10.
    """

    def run() -> None:
        from pathlib import Path

        from rich.console import Console

        from rocm_perf_lab.jobs.compare.job import CompareRequest, run_compare

        request = CompareRequest(Path(base), Path(new), fail_over, force, normalise)
        if run_compare(request, Console(highlight=False), as_json=as_json):
            sys.exit(EXIT_NEGATIVE)

    answer(run, debug=debug)
