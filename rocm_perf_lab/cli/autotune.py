"""`rocm-perf autotune`: words and options -> the configuration of the autotune job, or a run that goes on."""

from __future__ import annotations

from typing import Any

import click

from rocm_perf_lab.cli.completion import complete_overrides, complete_spaces
from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG

_PASS_THROUGH = {"ignore_unknown_options": False, "allow_extra_args": False}


@click.command(context_settings=_PASS_THROUGH, short_help="Find the fastest configuration of a kernel or command.")
@click.argument("args", nargs=-1, shell_complete=complete_overrides)
@click.option(
    "--space",
    type=click.Path(),
    metavar="FILE",
    shell_complete=complete_spaces,
    help="YAML space, or JSON list of configurations.",
)
@click.option("--cmd-template", metavar="TEXT", help="Command to tune: './kernel --bm {BLOCK_M}'.")
@click.option("--budget", type=click.IntRange(min=1), help="Configurations to evaluate, those of a resumed run included.")
@click.option("--seed", type=click.IntRange(min=0), help="Equal seeds give equal searches.")
@click.option("--timing", type=click.Choice(["auto", "rocprof", "printed", "wall"]), help="What is timed of a command.")
@click.option("--time-regex", metavar="REGEX", help="The command prints its time: one group holds the number.")
@click.option("--time-unit", type=click.Choice(["s", "ms", "us", "ns"]), help="Of the printed number; ms by default.")
@click.option("--kernel", metavar="REGEX", help="Kernel to time under rocprofv3; else the one with the longest dispatch.")
@click.option("--runs", type=click.IntRange(min=1), help="Times of one round.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Longest time of one run of a command.")
@click.option("--resume", type=click.Path(file_okay=False), metavar="RUN", help="Go on with a run; nothing is measured twice.")
@click.option("--output", type=click.Path(file_okay=False), metavar="DIR", help="Directory of the run.")
@click.option("--json", "as_json", is_flag=True, help="Print autotune.json and nothing else.")
@DEBUG
def autotune(args: tuple[str, ...], debug: bool, **options: Any) -> None:
    """Find the fastest configuration of a kernel, or of any command.

    \b
    rocm-perf autotune kernel=gemm_triton --space conf/space/gemm.yaml
    rocm-perf autotune --space space.json --cmd-template "./app --bm {BLOCK_M}"
    rocm-perf autotune --resume RUN --budget 200
    """

    def run() -> None:
        from rocm_perf_lab.cli.autotune_arguments import AutotuneArguments

        parsed = AutotuneArguments.parse(args, **options)
        if parsed.resume is None:
            from rocm_perf_lab.cli.entry import run_hydra

            run_hydra(parsed.overrides())
        else:
            from rocm_perf_lab.jobs.autotune.resume import resume

            resume(parsed.resume, parsed.changes())

    answer(run, debug=debug)
