"""Bounds of a cache directory: `prune(directory, limits)` removes files that were not used for long, and the oldest of many."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.files import write_text

if TYPE_CHECKING:
    from pathlib import Path

_DAY_S = 86_400.0
_STAMP = ".pruned"


@dataclass(frozen=True)
class CacheLimits:
    """Limits of a cache directory.

    Args:
        bytes: Size of its files.
        unused_s: Time without use after which a file is removed.
        in_use_s: Time after its use in which a file stays, whatever the size: a process may be about to read it.
        period_s: Time between two looks at the directory.
    """

    bytes: int = 8 << 30
    unused_s: float = 30 * _DAY_S
    in_use_s: float = _DAY_S
    period_s: float = _DAY_S


def note_use(path: Path) -> None:
    """Note that a file of the cache is used now: its time of modification becomes the present."""
    with suppress(OSError):  # a cache that cannot be written, or a file that another process removed
        os.utime(path)


def prune(directory: Path, limits: CacheLimits) -> int:
    """Remove files that were not used for long, then those used longest ago until the others are within the size.

    The directory stays as it is if it was looked at a short time ago, or cannot be written.

    Returns:
        The number of removed files.
    """
    now = time.time()
    stamp = directory / _STAMP
    if not directory.is_dir() or (stamp.exists() and now - stamp.stat().st_mtime < limits.period_s):
        return 0
    try:
        write_text(stamp, "")
    except OSError:
        return 0
    files = sorted(_files(directory), reverse=True)
    kept, removed = 0, 0
    for used, size, path in files:
        is_needed = now - used < limits.in_use_s
        if is_needed or (now - used < limits.unused_s and kept + size <= limits.bytes):
            kept += size
        else:
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def _files(directory: Path) -> list[tuple[float, int, Path]]:
    """Return time of last use, size and path of each file that still exists."""
    found = []
    for path in directory.iterdir():
        with suppress(FileNotFoundError):
            if path.is_file() and path.name != _STAMP:
                found.append((path.stat().st_mtime, path.stat().st_size, path))
    return found
