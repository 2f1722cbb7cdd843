"""`rocm-perf analyze`: analyse recordings of AMD's profilers."""

from __future__ import annotations

from typing import Any

import click

from rocm_perf_lab.cli.completion import complete_targets
from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG, FOCUS_CRITICAL, KERNEL_REGEX, QUIET, ROOFLINE_CSV


@click.command(short_help="Analyse profiler recordings; needs no GPU.")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option("--att", type=click.Path(), metavar="DIR", help="Decoded thread trace, if it is not among the paths.")
@click.option("--counters", type=click.Path(), metavar="DIR", help="Counter collection runs, if they are not among the paths.")
@click.option(
    "--target", metavar="NAME", shell_complete=complete_targets, help="GPU, if the recording does not identify it: mi300x, ..."
)
@KERNEL_REGEX
@FOCUS_CRITICAL
@click.option("--series", is_flag=True, help="Compare runs in order of time: history of each kernel, changes and their reasons.")
@click.option("--roofline", is_flag=True, help="Write roofline.png and roofline.html.")
@ROOFLINE_CSV
@click.option("--verbose", is_flag=True, help="Print all kernels, losses, evidence and notes, and tables of the thread trace.")
@click.option("--json", "as_json", is_flag=True, help="Print only one JSON document with all results.")
@QUIET
@click.option(
    "--output", type=click.Path(file_okay=False), metavar="DIR", help="Directory for the documents (default: a new one)."
)
@DEBUG
def analyze(paths: tuple[str, ...], debug: bool, **options: Any) -> None:
    """Report how an application and its slowest kernel spend their time.

    PATHS are files and directories in any combination: rocpd databases, JSON and CSV of rocprofv3 and rocprof, workload
    directories of rocprof-compute, decoded thread traces, PC samples, roofline.csv, code objects. They are recognised by content.
    """

    def run() -> None:
        import atexit
        import gc
        from pathlib import Path

        from rocm_perf_lab.jobs.analyze.job import run_analyze
        from rocm_perf_lab.jobs.analyze.request import AnalyzeRequest

        atexit.register(gc.freeze)  # skips the garbage collection at exit
        run_analyze(AnalyzeRequest.of([Path(path) for path in paths], **options))

    answer(run, debug=debug)
