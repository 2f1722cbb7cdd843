"""`rocm-perf run`: run an application on emulated GPUs."""

from __future__ import annotations

import sys
from typing import Any

import click

from rocm_perf_lab.cli.completion import complete_targets
from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG


@click.command(short_help="Run an application on emulated GPUs.", context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--target", metavar="NAME", default="mi300x", show_default=True, shell_complete=complete_targets, help="GPU to emulate."
)
@click.option("--gpus", type=click.IntRange(1, 16), default=1, show_default=True, help="Number of GPUs.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads per dispatch. Default: one per CPU.")
@click.option("--any-order", is_flag=True, help="Use all threads even if results depend on the order of workgroups.")
@click.option(
    "--max-instructions", type=click.IntRange(min=1), default=None, help="Wave instructions after which a dispatch fails."
)
@click.option("--max-seconds", type=click.IntRange(min=1), default=None, help="Wall-clock time after which a dispatch fails.")
@click.option(
    "--heartbeat",
    type=click.IntRange(min=0),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="Report dispatches that run longer; 0: never.",
)
@click.option(
    "--root", type=click.Path(exists=True, file_okay=False), metavar="DIR", help="Directory tree with ROCm (make rocm-root)."
)
@click.option("--xnack", is_flag=True, help="Let kernels access any host memory (HSA_XNACK=1).")
@click.option("--trace", type=click.IntRange(0, 3), default=0, help="Log the driver's calls on standard error.")
@click.option("--verbose", is_flag=True, help="Describe the emulated machine on standard error.")
@DEBUG
def run(command: tuple[str, ...], debug: bool, **options: Any) -> None:
    """Run COMMAND, a ROCm application, on emulated GPUs: rocm-perf run -- ./app ARGS

    ROCm's runtime is needed, a GPU or its kernel driver is not. Standard input,
    output, error and the exit code are those of the application.
    """

    def action() -> None:
        from rocm_perf_lab.jobs.run.job import ApplicationRequest, run_command

        given = {name: value for name, value in options.items() if value is not None}
        sys.exit(run_command(ApplicationRequest(command=command, **given)))

    answer(action, debug=debug)
