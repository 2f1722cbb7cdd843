"""`rocm-perf analyze`: analyse existing rocprofv3 output."""

from __future__ import annotations

from typing import Any

import click

from rocm_perf_lab.cli.completion import complete_targets
from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG, FOCUS_CRITICAL, KERNEL_REGEX, QUIET, ROOFLINE_CSV


@click.command(short_help="Analyse rocprofv3 output; needs no GPU.")
@click.argument("databases", nargs=-1, required=True, type=click.Path())
@click.option("--att", type=click.Path(), metavar="DIR", help="Decoded thread trace written by rocprofv3 --att.")
@click.option("--counters", type=click.Path(), metavar="DIR", help="Databases, JSON or CSV files of counter runs.")
@click.option(
    "--target", metavar="NAME", shell_complete=complete_targets, help="GPU, if the trace does not name it: mi300x, mi325x, ..."
)
@KERNEL_REGEX
@FOCUS_CRITICAL
@click.option("--roofline", is_flag=True, help="Write roofline.png and roofline.html.")
@ROOFLINE_CSV
@click.option("--json", "as_json", is_flag=True, help="Print only profile.json.")
@QUIET
@click.option(
    "--output", type=click.Path(file_okay=False), metavar="DIR", help="Directory of the documents (default: a new one)."
)
@DEBUG
def analyze(databases: tuple[str, ...], debug: bool, **options: Any) -> None:
    """Analyse rocprofv3 output: rocpd databases, JSON or CSV files, or directories of them."""

    def run() -> None:
        from pathlib import Path

        from rocm_perf_lab.jobs.analyze.job import AnalyzeRequest, run_analyze

        run_analyze(AnalyzeRequest.of([Path(path) for path in databases], **options))

    answer(run, debug=debug)
