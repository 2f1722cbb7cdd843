"""`rocm-perf skill`: instructions for coding agents."""

from __future__ import annotations

import click

from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG
from rocm_perf_lab.core.errors import LabError

NAME = "rocm-perf-lab"


@click.command(short_help="Print or install instructions for coding agents.")
@click.option("--install", "directory", type=click.Path(file_okay=False), metavar="DIR", help="Directory of an agent's skills.")
@DEBUG
def skill(directory: str | None, debug: bool) -> None:
    """Print instructions for coding agents, or copy them to DIR/rocm-perf-lab.

    \b
    rocm-perf skill --install ~/.claude/skills
    """

    def run() -> None:
        from pathlib import Path
        from shutil import copytree

        from rocm_perf_lab.core.resources import resource_dir

        source = resource_dir("skill")
        if directory is None:
            click.echo((source / "SKILL.md").read_text(encoding="utf-8"), nl=False)
            return
        to = Path(directory) / NAME
        try:
            copytree(source, to, dirs_exist_ok=True)
        except OSError as error:
            hint = "choose a writable directory"
            raise LabError(f"cannot install the skill: {error.strerror or error}", where=str(to), hint=hint) from error
        click.echo(to)

    answer(run, debug=debug)
