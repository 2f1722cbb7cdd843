"""Hardware unit and ideal service time of every row of a trace's code.

The service times are those of conflict-free, coalesced accesses: the minimum for the LDS and the address pipe of vector memory,
which all SIMDs of a compute unit share. Sources: MI300X thread traces (docs/timing-model.md), CDNA3 white paper.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.analysis.ledger import HardwareUnit
from rocm_perf_lab.rocprof.att.model import Category
from rocm_perf_lab.toolchain.static_features import instruction_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.arch.model import Architecture
    from rocm_perf_lab.rocprof.att.model import InstructionRow, Integers

UNITS = (HardwareUnit.MATRIX, HardwareUnit.VALU, HardwareUnit.SALU, HardwareUnit.LDS, HardwareUnit.VMEM_ISSUE)
"""Units in a trace; the unit of a row is an index into this tuple, or NO_UNIT."""
NO_UNIT = -1
_UNIT_OF_CLASS = {"mfma": 0, "valu": 1, "salu": 2, "lds": 3, "vmem": 4}
_UNIT_OF_CATEGORY = {Category.VALU: 1, Category.SALU: 2, Category.LDS: 3, Category.VMEM: 4, Category.FLAT: 4}
_ISSUE_CLOCKS = 4
_LANES = 64
_LDS_BYTES_PER_CLOCK = 128
_LDS_WRITE_FACTOR = 1.5
_VECTOR_BYTES_PER_CLOCK = 64
_WIDTHS = re.compile(
    r"dwordx(?P<dwords>\d+)|_(?:[ubi]|f(?=64))(?P<bits>\d+)(?![\d_]*x)|_x2\b|(?P<one>[us]?byte)|(?P<two>[us]?short)|dword"
)
_FORMATS = re.compile(r"format_(?:d16_)?(xyzw|xyz|xy|x)")
_TWO = re.compile(r"^ds_(read|write|load|store)_?2")
_LDS_WRITES = re.compile(r"^ds_(write|store)")
_NOT_ACCESSES = re.compile(r"_inv|_wb|_gl[01]|prefetch")


@dataclass(frozen=True, eq=False)
class UnitTable:
    """Facts by row number, see `Follower.numbered`; all arrays have shape (n_row_numbers,)."""

    unit: Integers
    """Index in UNITS, or NO_UNIT."""
    matrix_clocks: Integers
    """Clocks for which the row occupies the matrix core; 0 to use the issue time in the trace."""
    service_clocks: NDArray[np.float64]
    """Ideal clocks in the LDS or in the address pipe of the compute unit; 0 for other rows."""
    access_bytes: Integers
    """Bytes of a full wavefront's access to vector memory or LDS; 0 for other rows."""


def unit_table(rows: Sequence[InstructionRow], numbers: int, architecture: Architecture | None) -> UnitTable:
    """Return the facts of all rows of a trace.

    Args:
        rows: Rows of the code, sorted by line.
        numbers: Number of row numbers: the rows, and one per category for instructions outside the code.
        architecture: Its matrix rates apply; None if unknown.
    """
    unit = np.full(numbers, NO_UNIT, np.int64)
    clocks, width = np.zeros(numbers, np.int64), np.zeros(numbers, np.int64)
    service = np.zeros(numbers)
    for number, row in enumerate(rows):
        kind = instruction_class(row.mnemonic)
        unit[number] = _UNIT_OF_CLASS.get(kind, NO_UNIT)
        if kind == "mfma" and architecture is not None:
            clocks[number] = architecture.matrix_clocks(row.text) or 0
        elif kind in ("lds", "vmem"):
            width[number] = _LANES * lane_bytes(row.mnemonic)
            service[number] = _service(row.mnemonic, kind, int(width[number]))
    for category, of_category in _UNIT_OF_CATEGORY.items():
        unit[len(rows) + category] = of_category
        service[len(rows) + category] = _ISSUE_CLOCKS if of_category > UNITS.index(HardwareUnit.SALU) else 0
    return UnitTable(unit, clocks, service, width)


def lane_bytes(mnemonic: str) -> int:
    """Return the bytes per lane of a memory instruction; 4 if its name has no width, 0 for cache control."""
    name = mnemonic.lower()
    if _NOT_ACCESSES.search(name):
        return 0
    if found := _FORMATS.search(name):
        return 4 * len(found[1])
    found = _WIDTHS.search(name)
    if found is None or found[0] == "dword":
        size = 4
    elif found[0] == "_x2":
        size = 8
    elif found["dwords"] or found["bits"]:
        size = 4 * int(found["dwords"]) if found["dwords"] else int(found["bits"]) // 8
    else:
        size = 1 if found["one"] else 2
    return size * (2 if _TWO.match(name) else 1)


def _service(mnemonic: str, kind: str, access_bytes: int) -> float:
    if kind == "vmem":
        return max(_ISSUE_CLOCKS, access_bytes / _VECTOR_BYTES_PER_CLOCK) if access_bytes else 0.0
    factor = _LDS_WRITE_FACTOR if _LDS_WRITES.match(mnemonic) else 1.0
    return max(_ISSUE_CLOCKS, factor * access_bytes / _LDS_BYTES_PER_CLOCK)
