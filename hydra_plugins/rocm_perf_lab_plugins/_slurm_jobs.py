"""States of Slurm jobs, asked of Slurm's controller.

submitit asks `sacct`, which needs an accounting database that many clusters do not have, and only every ten minutes. Without
its answer, submitit waits for a cancelled job forever.
"""

from __future__ import annotations

import re
import subprocess

_ENDED_FROM_OUTSIDE = ("PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY", "CANCELLED", "BOOT_FAIL", "REVOKED")
_ENDED = (*_ENDED_FROM_OUTSIDE, "COMPLETED", "FAILED", "TIMEOUT", "DEADLINE")
_QUERY_S = 60
FORGOTTEN = "UNKNOWN"
"""State of a job that Slurm does not know, or no longer."""


def slurm_state(job: str) -> str | None:
    """Return the state of a job, for example `RUNNING`; None if Slurm does not answer."""
    answer = _output("scontrol", "--oneliner", "show", "job", job)
    if answer is None:
        return None
    found = re.search(r"\bJobState=([A-Z_]+)", answer)
    if found is None:  # the controller forgets a job some minutes after its end; a database does not
        answer = _output("sacct", "--noheader", "--parsable2", "--allocations", "--format=State", "--jobs", job) or ""
        found = re.match(r"\s*([A-Z_]+)", answer)
    return found[1] if found is not None else FORGOTTEN


def has_ended(state: str | None) -> bool:
    """Return whether a job in this state runs no more."""
    return state == FORGOTTEN or state in _ENDED


def ended_from_outside(state: str | None) -> bool:
    """Return whether a job has ended for a reason other than its own doing."""
    return state in _ENDED_FROM_OUTSIDE


def _output(*command: str) -> str | None:
    """Return the output of a command of Slurm; None if Slurm does not answer, and an empty text if it refuses."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_QUERY_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode == 0:
        return done.stdout
    return "" if "Invalid job id" in done.stderr else None
