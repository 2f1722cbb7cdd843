"""Sums over all dispatches of an application, written by the emulated driver (`driver/totals.c`)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FILE = "totals"
_CONTENT = struct.Struct("<3Q")


@dataclass(frozen=True)
class DispatchTotals:
    """Work of all processes of an application."""

    dispatches: int = 0
    instructions: int = 0
    """Instructions of all wavefronts."""
    kernel_ns: int = 0
    """Sum of the emulated durations of the dispatches."""


def read_totals(session: Path) -> DispatchTotals:
    """Return the sums of a session; zeros if no kernel was dispatched."""
    try:
        return DispatchTotals(*_CONTENT.unpack_from((session / _FILE).read_bytes()))
    except (OSError, struct.error):
        return DispatchTotals()
