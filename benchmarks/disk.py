"""Speed of the disk, to which the speed of captures is compared."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MIB, GIB = 1 << 20, 1 << 30
BLOCK_BYTES = 64 * MIB


def disk_bytes_per_s(path: Path, nbytes: int) -> float:
    """Return the speed of a sequential write of random bytes to a new file, which is removed."""
    block = os.urandom(min(BLOCK_BYTES, nbytes))
    start = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for begin in range(0, nbytes, len(block)):
            file.write(block[: nbytes - begin])
        os.fdatasync(file.fileno())
    seconds = time.perf_counter() - start
    path.unlink()
    return nbytes / seconds


def flush_files(directory: Path) -> None:
    """Wait until all files of a directory are on disk."""
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fdatasync(file.fileno())
