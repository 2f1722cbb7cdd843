"""`rocm-perf profile`: profile an application or a described kernel."""

from __future__ import annotations

from typing import Any

import click

from rocm_perf_lab.cli.completion import complete_overrides
from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG, FOCUS_CRITICAL, KERNEL_REGEX, PASS_THROUGH, QUIET, ROOFLINE_CSV


@click.command(context_settings=PASS_THROUGH, short_help="Profile an application or a described kernel.")
@click.argument("args", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_overrides)
@click.option("--json", "as_json", is_flag=True, help="Print only profile.json.")
@QUIET
@click.option("--runs", type=click.IntRange(min=1), metavar="N", help="Timed runs; use 10 or more for a comparison.")
@KERNEL_REGEX
@FOCUS_CRITICAL
@click.option("--deep-analysis", is_flag=True, help="Record a thread trace as well.")
@click.option(
    "--roofline/--no-roofline", default=None, help="Write roofline.png and roofline.html; or collect no counters at all."
)
@ROOFLINE_CSV
@click.option("--no-rocprof", is_flag=True, help="Measure only the wall-clock time of the command.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Time limit of one run.")
@click.option("--root", type=click.Path(), metavar="DIR", help="ROCm directory tree for the emulated GPU (see make rocm-root).")
@click.option("--output", type=click.Path(file_okay=False), metavar="DIR", help="Directory of the run.")
@DEBUG
def profile(args: tuple[str, ...], debug: bool, **options: Any) -> None:
    """Profile an application, or a kernel that a kernel.yaml describes.

    \b
    rocm-perf profile ./app --size 4096
        under rocprofv3; options after ./app are passed to the application
        unless rocm-perf has an option of that name
    rocm-perf profile --json -- ./app --json
        everything after -- is passed to the application
    rocm-perf profile device=emulator target=mi250x ./app
        on an emulated GPU, which is the default without a GPU
    rocm-perf profile kernel=softmax kernel.params.cols=2048
    """

    def run() -> None:
        from rocm_perf_lab.cli.entry import run_application, run_hydra
        from rocm_perf_lab.cli.profile_arguments import ProfileArguments

        parsed = ProfileArguments.parse(args, **options)
        if parsed.is_described:
            run_hydra(parsed.overrides())
        else:
            run_application(parsed)

    answer(run, debug=debug)
