"""`rocm-perf mcp`: serve the Model Context Protocol over standard input and output."""

from __future__ import annotations

import click

from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG
from rocm_perf_lab.core.errors import LabError


@click.command(short_help="Serve tools for agents (Model Context Protocol).")
@DEBUG
def mcp(debug: bool) -> None:
    """Serve the Model Context Protocol over standard input and output, for agents that start this command.

    Tools: profile, optimize, autotune, analyze, compare, replay, doctor, list_runs, read_run. Resources: documents of runs.
    """

    def run() -> None:
        try:
            from rocm_perf_lab.mcp.server import lab_server
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "mcp":
                raise
            raise LabError("the package mcp is not installed", hint="pip install 'rocm-perf-lab[mcp]'") from error
        lab_server().run("stdio")

    answer(run, debug=debug)
