"""`rocm-perf report`: one self-contained HTML page about one or several runs."""

from __future__ import annotations

import click

from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG


@click.command(short_help="Write an HTML page about runs, or a comparison of them.")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path())
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="File (default: report.html of the run).")
@DEBUG
def report(runs: tuple[str, ...], output: str | None, debug: bool) -> None:
    """Write one HTML page about RUN; further runs are compared with the first one.

    RUN is the directory of a run or of a capture, or a file with the --json output of run, replay, compare or verify.

    The page is self-contained: it loads nothing from the network.

    \b
    rocm-perf report outputs/RUN
    rocm-perf report before after -o comparison.html
    rocm-perf run --check all --json -- ./app > checked.json
    rocm-perf report checked.json
    """

    def run() -> None:
        from rocm_perf_lab.api import report as write

        click.echo(write(*runs, output=output))

    answer(run, debug=debug)
