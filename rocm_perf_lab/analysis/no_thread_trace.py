"""A thread trace that there is not: most profiles have none, and need nothing of its analysis."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NoThreadTrace:
    """There is none, and why."""

    reason: str
