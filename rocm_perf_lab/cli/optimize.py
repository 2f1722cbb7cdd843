"""`rocm-perf` commands for rewrites: optimize, llm-prompt, lineage."""

from __future__ import annotations

from typing import Any

import click

from rocm_perf_lab.cli.completion import complete_overrides
from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG, PASS_THROUGH


@click.command(context_settings=PASS_THROUGH, short_help="Rewrite a kernel; keep versions that are correct and faster.")
@click.argument("args", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_overrides)
@click.option("--proposer", type=click.Choice(["transforms", "llm", "recorded"]), help="Source of rewrites.")
@click.option(
    "--search",
    type=click.Choice(["greedy", "beam", "evolution"]),
    help="Extend the best rewrite only, several, or a diverse archive.",
)
@click.option("--min-improvement", type=float, metavar="FRACTION", help="Minimum relative gain, for example 0.02.")
@click.option("--max-iterations", type=int, metavar="N", help="Maximum number of rounds.")
@click.option("--source", type=click.Path(), metavar="FILE", help="Source file of the application's kernel.")
@click.option("--build", "build_command", metavar="COMMAND", help='Build command, for example "hipcc -O3 {source} -o {binary}".')
@click.option("--verify", metavar="COMMAND", help="Command that exits with 0 if {binary} is correct. Default: compare outputs.")
@click.option(
    "--compare-file",
    "compare_files",
    multiple=True,
    metavar="FILE",
    help="Output file to compare; repeatable.",
)
@click.option("--kernel", metavar="REGEX", help="Kernel of the application. Default: the one with the largest possible gain.")
@click.option("--root", type=click.Path(), metavar="DIR", help="ROCm directory tree for the emulated GPU (see make rocm-root).")
@click.option("--resume", type=click.Path(file_okay=False), metavar="RUN", help="Resume an interrupted run in its directory.")
@click.option("--yes", is_flag=True, help="Call the language model without confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print only optimize.json.")
@click.option("--quiet", is_flag=True, help="Print only the best runtime.")
@click.option("--output", type=click.Path(file_okay=False), metavar="DIR", help="Directory of the run.")
@DEBUG
def optimize(args: tuple[str, ...], debug: bool, **options: Any) -> None:
    """Rewrite one kernel, keep versions that are correct and faster, and roll back the others.

    \b
    rocm-perf optimize kernel=softmax
    rocm-perf optimize kernel=softmax --proposer llm optimizer.llm.model=NAME
    rocm-perf optimize kernel=softmax optimizer=ollama optimizer.llm.model=NAME
    rocm-perf optimize ./app --source kernel.hip \\
        --build "hipcc -O3 {source} -o {binary}"
        on an emulated GPU if there is none; rocm-perf hipcc needs no ROCm
    rocm-perf optimize --resume RUN
    """

    def run() -> None:
        from rocm_perf_lab.cli.entry import resume_run, run_hydra
        from rocm_perf_lab.cli.optimize_arguments import OptimizeArguments

        parsed = OptimizeArguments.parse(args, **options)
        if parsed.resume is not None:
            resume_run(parsed.resume, display=parsed.display)
        else:
            run_hydra(parsed.overrides())

    answer(run, debug=debug)


@click.command(
    name="llm-prompt",
    context_settings=PASS_THROUGH,
    short_help="Print the prompt that asks a language model to rewrite a kernel.",
)
@click.argument("args", nargs=-1, shell_complete=complete_overrides)
@click.option("--json", "as_json", is_flag=True, help="Print only a JSON document.")
@DEBUG
def llm_prompt(args: tuple[str, ...], as_json: bool, debug: bool) -> None:
    """Profile a kernel and print the prompt for a language model, without calling one.

    \b
    rocm-perf llm-prompt kernel=softmax
    """

    def run() -> None:
        from rocm_perf_lab.cli.entry import run_hydra

        run_hydra(["job=llm_prompt", "tracking=none", *(["display=json"] if as_json else []), *args])

    answer(run, debug=debug)


@click.command(short_help="Show the proposals of an optimization.")
@click.argument("run_directory", metavar="RUN", type=click.Path())
@click.option("--diff", "show_diff", is_flag=True, help="Also print the best patch.")
@click.option("--json", "as_json", is_flag=True, help="Print only a JSON document.")
@DEBUG
def lineage(run_directory: str, show_diff: bool, as_json: bool, debug: bool) -> None:
    """Show the tree of proposals of RUN, the directory of an optimization, with verdicts and gains."""

    def run() -> None:
        from pathlib import Path

        from rich.console import Console

        from rocm_perf_lab.jobs.optimize.lineage import show_lineage

        show_lineage(Console(highlight=False), Path(run_directory), with_diff=show_diff, as_json=as_json)

    answer(run, debug=debug)


COMMANDS = (optimize, llm_prompt, lineage)
