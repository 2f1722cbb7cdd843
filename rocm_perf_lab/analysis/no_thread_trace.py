"""A thread trace that there is not: most profiles have none, and need nothing of its analysis."""

from __future__ import annotations

from dataclasses import dataclass

NOT_TAKEN = "no thread trace was taken"
"""How the reason begins where none was asked for."""


@dataclass(frozen=True)
class NoThreadTrace:
    """There is none, and why."""

    reason: str
