"""`rocm-perf verify`: check whether rewrites of a kernel are correct, without timing them."""

from __future__ import annotations

from typing import Any

import click

from rocm_perf_lab.cli.completion import complete_overrides
from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG, PASS_THROUGH


@click.command(context_settings=PASS_THROUGH, short_help="Check whether rewrites of a kernel are correct.")
@click.argument("args", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_overrides)
@click.option("--candidate", "candidates", multiple=True, type=click.Path(), metavar="FILE", help="Rewritten source; repeatable.")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Seed of an earlier verdict, to repeat its trials.")
@click.option("--source", type=click.Path(), metavar="FILE", help="Source file of the application's kernel.")
@click.option("--build", "build_command", metavar="COMMAND", help='Build command, for example "hipcc -O3 {source} -o {binary}".')
@click.option(
    "--args", "argument_sets", multiple=True, metavar="ARGS", help="Additional application arguments to test with; repeatable."
)
@click.option("--verify", metavar="COMMAND", help="Command that exits with 0 if {binary} is correct. Default: compare outputs.")
@click.option("--compare-file", "compare_files", multiple=True, metavar="FILE", help="Output file to compare; repeatable.")
@click.option("--kernel", metavar="REGEX", help="Kernel of the application. Default: the one that the candidate changes.")
@click.option("--json", "as_json", is_flag=True, help="Print only one JSON document per candidate and line.")
@click.option("--output", type=click.Path(file_okay=False), metavar="DIR", help="Directory of the run.")
@DEBUG
def verify(args: tuple[str, ...], debug: bool, **options: Any) -> None:
    """Check candidates: guards, then trials with secret shapes and inputs. Exit with 1 unless all are correct.

    \b
    rocm-perf verify kernel=softmax --candidate new.hip
    rocm-perf verify kernel=softmax --candidate a.hip --candidate b.hip --json
    rocm-perf verify ./app --source kernel.hip --candidate new.hip
    """

    def run() -> None:
        from rocm_perf_lab.cli.entry import run_hydra
        from rocm_perf_lab.cli.verify_arguments import VerifyArguments
        from rocm_perf_lab.jobs.verify.candidates import read_candidates

        parsed = VerifyArguments.parse(args, **options)
        read_candidates(parsed.candidates)  # Reports a wrong path before the run's directory is created.
        run_hydra(parsed.overrides())

    answer(run, debug=debug)
