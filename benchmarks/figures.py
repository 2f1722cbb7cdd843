"""Figures as the benchmarks print them: one line each, with the goal that the project set."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.files import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """One printed line; `goal` in the words of the project."""

    name: str
    value: str
    goal: str


def publish(title: str, figures: Sequence[Figure], file: Path | None) -> None:
    """Print a table, and write the figures to `file` where one is given."""
    from rich.console import Console
    from rich.table import Table

    table = Table("figure", "value", "goal", title=title)
    for figure in figures:
        table.add_row(figure.name, figure.value, figure.goal)
    Console().print(table)
    if file is not None:
        write_text(file, json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")
