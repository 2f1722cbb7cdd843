"""File names in the directory of a run, and the removal of earlier results."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

from rocm_perf_lab.report.run_view import SNAPSHOT

if TYPE_CHECKING:
    from pathlib import Path

ROCPD_DIRECTORY = ".rocpd_profile"
"""Databases of the passes, one directory per pass."""
ATT_DIRECTORY = "att"
"""Decoded thread trace."""
TIMELINE = "timeline.perfetto-trace"
"""Trace for ui.perfetto.dev."""
_LONGEST_LOGGING_S = 15.0
_RESULTS = (
    "report.json", "profile.json", "roofline.json", "dag.json", "analysis.json", "wall_time.json", "checks.json",
    "instruction_counts.json",
    "roofline.png", "roofline.html", "report.html", TIMELINE,
)  # fmt: skip


def forget_results(directory: Path, *, passes: bool) -> None:
    """Remove the results of an earlier run from `directory`.

    Args:
        directory: Directory of the run; only files that rocm-perf-lab writes are removed.
        passes: Also remove databases and thread trace.
    """
    if not any((directory / name).exists() for name in (*_RESULTS, ROCPD_DIRECTORY)):
        return
    _wait_for_tracking(directory)
    for name in _RESULTS:
        (directory / name).unlink(missing_ok=True)
    for name in (ROCPD_DIRECTORY, ATT_DIRECTORY, SNAPSHOT) if passes else ():
        shutil.rmtree(directory / name, ignore_errors=True)


def _wait_for_tracking(directory: Path) -> None:
    """Wait until the background process has logged the files of the earlier run."""
    from rocm_perf_lab.tracking.deferred import FAILURE, RECORD

    deadline = time.monotonic() + _LONGEST_LOGGING_S
    while (directory / RECORD).exists() and not (directory / FAILURE).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    for name in (RECORD, FAILURE):
        (directory / name).unlink(missing_ok=True)
