"""Working directory of a user: a stand-in `rocprofv3` and an application to profile."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from rocm_perf_lab.cli import main

if TYPE_CHECKING:
    from click.testing import Result

REPOSITORY = Path(__file__).parents[2]
PROFILER = """#!{python}
import sys
sys.path.insert(0, {repository!r})
from tests.builders.rocprof_stand_in import main
sys.exit(main(sys.argv[1:]))
"""
APPLICATION = """#!{python}
import os, sys
sys.path.insert(0, {repository!r})
from tests.builders.rocprof_stand_in import launch
{body}
"""


@dataclass(frozen=True)
class Workplace:
    """`bin/rocprofv3` is for PATH, `./app` is the application."""

    directory: Path

    def application(self, body: str) -> Path:
        """Write an application with this body; `launch("softmax", rows=8)` replaces a kernel launch."""
        return self._program(
            self.directory / "app", APPLICATION.format(python=sys.executable, repository=str(REPOSITORY), body=body)
        )

    def profiler(self) -> Path:
        """Put the stand-in into `bin`."""
        (self.directory / "bin").mkdir(exist_ok=True)
        text = PROFILER.format(python=sys.executable, repository=str(REPOSITORY))
        return self._program(self.directory / "bin" / "rocprofv3", text)

    def rocm_perf(self, *words: str) -> Result:
        """Run `rocm-perf` with these arguments."""
        return CliRunner().invoke(main, list(words), catch_exceptions=False)

    @staticmethod
    def _program(path: Path, text: str) -> Path:
        path.write_text(text)
        path.chmod(0o755)
        return path
