"""`rocm-perf` commands, run in this process with 80 columns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from rocm_perf_lab.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Answer:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Return the document of `--json`."""
        return dict(json.loads(self.out))


def rocm_perf(*words: str | Path) -> Answer:
    """Run a command."""
    result = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"}).invoke(main, [*map(str, words)])
    return Answer(result.exit_code, result.stdout, result.stderr)
