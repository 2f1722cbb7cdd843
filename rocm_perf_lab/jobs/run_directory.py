"""Names in a run's directory, beside those of the documents; and a directory that an earlier run has used."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ROCPD_DIRECTORY = ".rocpd_profile"
"""The databases of the passes, each pass in a directory of its own."""
ATT_DIRECTORY = "att"
"""The decoded thread trace."""
TIMELINE = "timeline.perfetto-trace"
"""Opens in ui.perfetto.dev."""
_LONGEST_LOGGING_S = 15.0
_RESULTS = (
    "profile.json", "roofline.json", "dag.json", "analysis.json", "wall_time.json", "checks.json", "instruction_counts.json",
    "roofline.png", "roofline.html", "report.html", TIMELINE,
)  # fmt: skip


def forget_results(directory: Path, *, passes: bool) -> None:
    """Remove what an earlier profile left in `directory`, so that nothing of it is taken for a result of this one.

    Args:
        directory: Of this run; only files that the lab itself writes are removed.
        passes: Databases and thread trace as well.
    """
    if not any((directory / name).exists() for name in (*_RESULTS, ROCPD_DIRECTORY)):
        return
    _wait_for_tracking(directory)
    for name in _RESULTS:
        (directory / name).unlink(missing_ok=True)
    for name in (ROCPD_DIRECTORY, ATT_DIRECTORY) if passes else ():
        shutil.rmtree(directory / name, ignore_errors=True)


def _wait_for_tracking(directory: Path) -> None:
    """The earlier run may still be logged from these files, which the next ones would be taken for."""
    from rocm_perf_lab.tracking.deferred import FAILURE, RECORD

    deadline = time.monotonic() + _LONGEST_LOGGING_S
    while (directory / RECORD).exists() and not (directory / FAILURE).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    for name in (RECORD, FAILURE):
        (directory / name).unlink(missing_ok=True)
