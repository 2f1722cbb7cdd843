"""Command line of rocm-perf-lab itself, for child processes: `own_command("run", "--", "./app")`."""

from __future__ import annotations

import sys

PROGRAM = "rocm-perf"


def own_command(*arguments: str) -> list[str]:
    """Return the command line that runs `rocm-perf` with this Python."""
    return [sys.executable, "-m", "rocm_perf_lab.cli", *arguments]
