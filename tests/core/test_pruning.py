"""A cache directory keeps the files that were used last, within its limits."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from rocm_perf_lab.core.pruning import CacheLimits, note_use, prune

if TYPE_CHECKING:
    from pathlib import Path

LIMITS = CacheLimits(bytes=100, unused_s=1000, in_use_s=10, period_s=5)


def write_used(path: Path, size: int, seconds_ago: float) -> None:
    """Write a file that was used some time ago."""
    path.write_bytes(bytes(size))
    used = time.time() - seconds_ago
    os.utime(path, (used, used))


def names(directory: Path) -> set[str]:
    """Return the names of the files in the cache."""
    return {path.name for path in directory.iterdir() if not path.name.startswith(".")}


def test_files_that_were_not_used_for_long_are_removed(tmp_path: Path) -> None:
    write_used(tmp_path / "old", 1, 2000)
    write_used(tmp_path / "new", 1, 500)

    assert prune(tmp_path, LIMITS) == 1
    assert names(tmp_path) == {"new"}


def test_the_files_used_longest_ago_make_room(tmp_path: Path) -> None:
    for name, seconds_ago in (("a", 400), ("b", 300), ("c", 200)):
        write_used(tmp_path / name, 40, seconds_ago)

    prune(tmp_path, LIMITS)

    assert names(tmp_path) == {"b", "c"}


def test_files_in_use_stay_beyond_the_size(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_used(tmp_path / name, 90, 5)

    assert prune(tmp_path, LIMITS) == 0


def test_a_use_keeps_a_file(tmp_path: Path) -> None:
    write_used(tmp_path / "old", 1, 2000)
    note_use(tmp_path / "old")
    note_use(tmp_path / "removed meanwhile")

    prune(tmp_path, LIMITS)

    assert names(tmp_path) == {"old"}


def test_the_directory_is_looked_at_now_and_then(tmp_path: Path) -> None:
    prune(tmp_path, LIMITS)
    write_used(tmp_path / "old", 1, 2000)

    assert prune(tmp_path, LIMITS) == 0
    assert prune(tmp_path, CacheLimits(bytes=100, unused_s=1000, in_use_s=10, period_s=0)) == 1


def test_a_cache_that_does_not_exist_has_nothing_to_remove(tmp_path: Path) -> None:
    assert prune(tmp_path / "native", LIMITS) == 0
