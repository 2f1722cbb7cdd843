"""`rocm-perf metrics`: explain the metrics derived from hardware counters."""

from __future__ import annotations

import click

from rocm_perf_lab.cli.completion import complete_targets
from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG, JSON

_TARGET = click.option(
    "--target", metavar="NAME", shell_complete=complete_targets, help="Only the metrics of this GPU, for example mi300x."
)


@click.group(short_help="Explain metrics: formula, counters, unit, source.")
def metrics() -> None:
    """Explain the metrics derived from hardware counters: formula, counters, unit and source."""


@metrics.command("list")
@_TARGET
@JSON
@DEBUG
def metrics_list(target: str | None, as_json: bool, debug: bool) -> None:
    """List all metrics."""

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.metrics.job import list_metrics

        list_metrics(Console(highlight=False), target=target, as_json=as_json)

    answer(run, debug=debug)


@metrics.command("show", short_help="Show the metric or counter NAME.")
@click.argument("name")
@_TARGET
@JSON
@DEBUG
def metrics_show(name: str, target: str | None, as_json: bool, debug: bool) -> None:
    """Show the metric or counter NAME, for example vector_l1_hit_rate or SQ_BUSY_CU_CYCLES."""

    def run() -> None:
        from rich.console import Console

        from rocm_perf_lab.jobs.metrics.job import show_metric

        show_metric(Console(highlight=False), name, target=target, as_json=as_json)

    answer(run, debug=debug)
