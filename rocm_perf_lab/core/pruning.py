"""Limits of a cache directory: `prune(directory, limits)` removes unused files, then the least recently used ones."""

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
        bytes: Maximum total size of the files.
        unused_s: Seconds since its last use after which a file is removed.
        in_use_s: Seconds after its last use during which a file is never removed, because a process may be about to read it.
        period_s: Minimum time in seconds between two scans of the directory.
    """

    bytes: int = 8 << 30
    unused_s: float = 30 * _DAY_S
    in_use_s: float = _DAY_S
    period_s: float = _DAY_S


def note_use(path: Path) -> None:
    """Record the use of a cached file: set its modification time to the current time."""
    with suppress(OSError):  # The cache is not writable, or another process removed the file.
        os.utime(path)


def prune(directory: Path, limits: CacheLimits) -> int:
    """Remove files unused for `unused_s`, then the least recently used ones until the total size is within the limit.

    The directory is not changed if it was scanned less than `period_s` ago, or is not writable.

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
    """Return last use (seconds since the epoch), size in bytes and path of each file."""
    found = []
    for path in directory.iterdir():
        with suppress(FileNotFoundError):
            if path.is_file() and path.name != _STAMP:
                found.append((path.stat().st_mtime, path.stat().st_size, path))
    return found
