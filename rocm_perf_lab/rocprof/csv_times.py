"""Timestamps in CSV files: integers, decimals, and exponents with as many digits as a spreadsheet kept."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.csv_columns import CsvColumn, CsvError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

COARSEST_NS = 100
"""Timestamps that are multiples of more than this do not state the duration of a kernel."""
_MISSING = frozenset({"", "nan", "none", "null", "-"})
_EXPONENT = re.compile(r"[+-]?\d+(?:\.(?P<decimals>\d*))?[eE](?P<exponent>[+-]?\d+)")
_LARGEST = (1 << 63) - 1
_PRECISION = "timestamps have a precision of "
_LARGEST_POWER = 18


def timestamps(columns: Iterable[CsvColumn]) -> tuple[list[NDArray[np.int64]], int]:
    """Return columns of times in nanoseconds, and the precision of all of them in nanoseconds; missing times are 0.

    Decimals are rounded. The precision is that of the value with the most digits, because trailing zeros may be missing.

    Raises:
        CsvError: A value is not a time.
    """
    found, precisions = [], []
    for column in columns:
        plain = column.plain_integers()
        if plain is None:
            codes, texts = column.codes()
            plain = np.array([_time(column, text) for text in texts] or [0], np.int64)[codes]
            precisions += [_precision(text) for text in texts if not _is_missing(text)]
        elif plain.any():
            precisions.append(1)
        found.append(plain)
    return found, min(precisions, default=1)


def too_coarse(precision_ns: int) -> str:
    """Return a note on times with this precision."""
    shown = f"{precision_ns / 1e9:g} s" if precision_ns >= 1_000_000 else f"{precision_ns:,} ns"
    return f"{_PRECISION}{shown}: times are unknown, counters are used"


def is_about_precision(note: str) -> bool:
    """Return True for a note on times that are too coarse."""
    return note.startswith(_PRECISION)


def _is_missing(text: str) -> bool:
    return text.strip().lower() in _MISSING


def _time(column: CsvColumn, text: str) -> int:
    if _is_missing(text):
        return 0
    try:
        exact = Decimal(text.strip())
        value = int(exact.to_integral_value()) if exact.is_finite() and exact.adjusted() <= _LARGEST_POWER else _LARGEST + 1
    except InvalidOperation as error:
        raise CsvError(f"column {column.name} contains {text[:40]!r}, which is not a time", where=str(column.file)) from error
    if abs(value) > _LARGEST:
        raise CsvError(f"column {column.name} contains {text[:40]!r}, which is not a time", where=str(column.file))
    return value


def _precision(text: str) -> int:
    """Return the step between neighbouring values with as many digits."""
    match = _EXPONENT.fullmatch(text.strip())
    if match is None:
        return 1
    steps = int(match["exponent"]) - len(match["decimals"] or "")
    return int(10 ** min(max(steps, 0), _LARGEST_POWER))
