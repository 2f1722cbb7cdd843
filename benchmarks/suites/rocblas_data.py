"""Part of the file with the parameters of rocBLAS's tests.

rocblas-test makes a test of each of its 1.6 million records before it filters them, which needs minutes and gigabytes in every
process. A file with fewer records has fewer tests. Records have the layout of the structure `Arguments` of the program's version:
the file begins with a record between two marks, whose length is that of the others, and which the program compares with its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.suites.gtest import spread
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_BEGIN, _END = b"rocBLAS\0", b"ROCblas\0"
_MOST_RECORD_BYTES = 1 << 16
_NAME_BYTES = 64
"""The record begins with three names of this length: function, group of tests, and category."""


def write_part(source: Path, target: Path, category: str, most_of_group: int) -> None:
    """Write the records of a category, spread over each group of tests of each function.

    Args:
        source: File of the package.
        target: File to write; one that is newer than `source` is kept.
        category: Name of the category, for example `quick`.
        most_of_group: Number of records of a group.

    Raises:
        LabError: `source` does not have the expected layout.
    """
    if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
        return
    data = np.memmap(source, dtype=np.uint8, mode="r")
    head = data[:_MOST_RECORD_BYTES].tobytes()
    size = head.find(_END) - len(_BEGIN)
    first = size + len(_BEGIN) + len(_END)
    if not head.startswith(_BEGIN) or size < 3 * _NAME_BYTES or (len(data) - first) % size:
        raise LabError("this file does not have the layout of rocBLAS's test data", where=str(source))
    records = data[first:].reshape(-1, size)
    groups = _names(records, 0, 2)
    chosen = np.flatnonzero(_names(records, 2, 1) == category.encode())
    order = chosen[np.argsort(groups[chosen], kind="stable")]
    starts = np.flatnonzero(groups[order][1:] != groups[order][:-1]) + 1
    kept = [member for members in np.split(order, starts) for member in spread(members.tolist())[:most_of_group]]
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.new")
    part.write_bytes(head[:first] + records[sorted(kept)].tobytes())
    part.rename(target)


def _names(records: NDArray[np.uint8], first: int, count: int) -> NDArray[np.bytes_]:
    """Return `count` adjacent names of each record, from number `first`, as one string."""
    part = np.ascontiguousarray(records[:, first * _NAME_BYTES : (first + count) * _NAME_BYTES])
    return part.view(f"S{count * _NAME_BYTES}").ravel()
