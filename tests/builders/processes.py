"""Processes that a test watches from outside, on machines of any speed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 300.0
"""Time that anything may take on a busy machine, in seconds; only failing tests last that long."""


def comes_true(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
    """Wait until a condition holds; return whether it did so in time."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def has_ended(pid: int) -> bool:
    """Return whether a process is gone or a zombie: PID 1 of some containers reaps no processes."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in (b"Z", b"X")


def ends(pid: int) -> bool:
    """Return whether a process ends soon: a signal that was sent acts only when the process is scheduled."""
    return comes_true(lambda: has_ended(pid), patience_s=60)
