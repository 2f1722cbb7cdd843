"""`rocm-perf`: one thin module per command, which composes the same configuration as `python -m rocm_perf_lab`.

Only click is imported at start-up; each command imports its dependencies when it runs.
"""

from __future__ import annotations

import gc

import click

from rocm_perf_lab import __version__
from rocm_perf_lab.cli.analyze import analyze
from rocm_perf_lab.cli.autotune import autotune
from rocm_perf_lab.cli.compare import compare
from rocm_perf_lab.cli.disassemble import disassemble
from rocm_perf_lab.cli.doctor import doctor
from rocm_perf_lab.cli.emulate import emulate
from rocm_perf_lab.cli.hipcc import hipcc
from rocm_perf_lab.cli.mcp import mcp
from rocm_perf_lab.cli.metrics import metrics
from rocm_perf_lab.cli.optimize import COMMANDS as OPTIMIZE_COMMANDS
from rocm_perf_lab.cli.profile import profile
from rocm_perf_lab.cli.replay import replay
from rocm_perf_lab.cli.report import report
from rocm_perf_lab.cli.run import run
from rocm_perf_lab.cli.schemas import schemas
from rocm_perf_lab.cli.skill import skill
from rocm_perf_lab.cli.verify import verify

_OBJECTS_PER_COLLECTION = 50_000
"""Allocations between garbage collections. With Python's default of 700, collections take 5 % of a command of 0.5 s."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rocm-perf")
def main() -> None:
    """Profile, optimize and inspect AMD GPU kernels.

    Arguments such as kernel=softmax override the configuration.

    \b
    Exit codes:
      0 success
      1 negative result: regression, finding of a check, mismatch,
        infeasible reservation
      2 bad input, or something missing on this machine
      3 internal error
    """
    gc.set_threshold(_OBJECTS_PER_COLLECTION)


for _command in (
    analyze, autotune, compare, disassemble, doctor, emulate, hipcc, mcp, metrics, profile, replay, report, run, schemas, skill,
    verify, *OPTIMIZE_COMMANDS,
):  # fmt: skip
    main.add_command(_command)
