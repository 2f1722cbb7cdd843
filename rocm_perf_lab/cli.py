"""`rocm-perf`: thin commands that compose the same configuration as `python -m rocm_perf_lab`.

Only click is imported at start-up; everything else waits until a command needs it.
"""

from __future__ import annotations

import sys

import click

from rocm_perf_lab import __version__

_PASS_THROUGH = {"ignore_unknown_options": True, "allow_extra_args": True}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rocm-perf")
def main() -> None:
    """Profile, optimize and inspect AMD GPU kernels. Words like kernel=softmax override the configuration."""


@main.command(context_settings=_PASS_THROUGH)
@click.argument("overrides", nargs=-1)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def profile(overrides: tuple[str, ...], debug: bool) -> None:
    """Profile one kernel, for example: rocm-perf profile kernel=softmax kernel.params.cols=2048"""
    _run("profile", overrides, debug)


@main.command(context_settings=_PASS_THROUGH)
@click.argument("overrides", nargs=-1)
@click.option("--min-improvement", type=float, help="Smallest relative gain that is kept.")
@click.option("--max-iterations", type=int, help="Rounds of proposals.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def optimize(overrides: tuple[str, ...], min_improvement: float | None, max_iterations: int | None, debug: bool) -> None:
    """Rewrite one kernel and keep what is correct and faster: rocm-perf optimize kernel=softmax"""
    options = {"optimizer.min_improvement": min_improvement, "optimizer.max_iterations": max_iterations}
    given = tuple(f"{key}={value}" for key, value in options.items() if value is not None)
    _run("optimize", (*overrides, *given), debug)


@main.command()
@click.argument("folder", type=click.Path(file_okay=False), default="schemas")
def schemas(folder: str) -> None:
    """Write the JSON Schemas of profile, roofline, dag and analysis to FOLDER."""
    from pathlib import Path

    from rocm_perf_lab.analysis.documents import export_schemas

    for path in export_schemas(Path(folder)):
        click.echo(path)


def _run(job: str, overrides: tuple[str, ...], debug: bool) -> None:
    from rocm_perf_lab.entry import run_lab

    sys.exit(run_lab([f"job={job}", *overrides, *(["--debug"] if debug else [])]))
