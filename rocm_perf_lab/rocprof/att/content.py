"""JSON of decoded thread traces: `load(path)`, and `load_tables(path, keys)` for files that consist mostly of numeric tables."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.rocprof.att.model import Integers

_LIST = re.compile(rb'"([^"\\]*)"\s*:\s*\[')
_DIGIT = re.compile(rb"\d")
_LARGEST_NARROW = 2**30
"""The sum of two such values still fits into 32 bits."""


class AttError(LabError):
    """A directory that is not a decoded thread trace, or a damaged one."""


def load(path: Path) -> Any:
    """Return the JSON of a file.

    Raises:
        AttError: The file is missing or damaged.
    """
    return load_tables(path, None)[0]


def load_tables(path: Path, keys: re.Pattern[bytes] | None) -> tuple[Any, dict[str, Integers]]:
    """Return the JSON without the tables at `keys`, and these tables; lists that are not tables stay in the JSON.

    Raises:
        AttError: The file is missing or damaged.
    """
    try:
        content = path.read_bytes()
        rest, tables = take_tables(content, keys) if keys is not None else (content, {})
        return json.loads(rest), tables
    except OSError as error:
        raise AttError(f"cannot read {path.name}: {error.strerror}", where=str(path.parent)) from error
    except (ValueError, RecursionError) as error:
        raise AttError(
            f"{path.name} is damaged or truncated: {error}", where=str(path.parent), hint="decode the trace again"
        ) from error


def take_tables(
    content: bytes, keys: re.Pattern[bytes], unused: re.Pattern[bytes] | None = None
) -> tuple[bytes, dict[str, Integers]]:
    """Split JSON into a document with empty lists at `keys`, and the tables: integers of shape (n,) or (n, m).

    As objects of a JSON parser the tables would need twenty times the memory of their text, and most of the time.

    Args:
        content: JSON.
        keys: Names of the tables.
        unused: Those among them that are removed from the document, but not returned.
    """
    pieces: list[bytes] = []
    tables: dict[str, Integers] = {}
    last = position = 0
    while match := _LIST.search(content, position):
        position = match.end()
        if not keys.fullmatch(match[1]):
            continue
        start = position - 1
        text = _list_at(content, start)
        shape = _shape(text)
        if shape is None:
            continue
        if unused is None or not unused.fullmatch(match[1]):
            values = _numbers(text, shape)
            if values is None:
                continue
            tables[match[1].decode()] = values
        pieces += (content[last:position], b"]")
        last = position = start + len(text)
    return b"".join((*pieces, content[last:])), tables


def narrow(values: Integers) -> Integers:
    """Return the same numbers in 32 bits if the sum of any two fits."""
    if not values.size or (values.max() < _LARGEST_NARROW and values.min() > -_LARGEST_NARROW):
        return values.astype(np.int32)
    return values


def array(values: Any) -> Integers:
    """Return an array of integers.

    Raises:
        ValueError, TypeError, OverflowError: The values are not integers.
    """
    return np.array(values, dtype=np.int64)


def _list_at(content: bytes, start: int) -> bytes:
    """Return the text of the list of numbers, or of lists of them, that begins at `start`; empty if it does not end."""
    is_nested = content[start + 1 : start + 64].lstrip()[:1] == b"["
    # A table contains no quotes, for which Python searches much faster than for two brackets.
    quote = content.find(b'"', start) if is_nested else -1
    found = content.rfind(b"]]", start, quote if quote >= 0 else len(content)) + 1 if is_nested else content.find(b"]", start)
    return content[start : found + 1] if found > 0 else b""


def _shape(text: bytes) -> tuple[int, ...] | None:
    """Return the shape of a list of numbers, or of equally long lists of them; None if it is none."""
    frame = text.translate(None, b"0123456789- \t\r\n")
    row = frame[1 : frame.find(b"]") + 1]
    if not row.startswith(b"["):
        is_list = bool(_DIGIT.search(text)) and frame == b"[" + b"," * (len(frame) - 2) + b"]"
        return (len(frame) - 1,) if is_list else None
    rows = (len(frame) - 1) // (len(row) + 1)
    is_table = bool(_DIGIT.search(text)) and frame == b"[" + (row + b",") * (rows - 1) + row + b"]"
    return (rows, len(row) - 1) if is_table and not row[1:-1].strip(b",") else None


def _numbers(text: bytes, shape: tuple[int, ...]) -> Integers | None:
    """Parse a list of integers, or of equally long lists of them; None if a number is missing or malformed."""
    values = np.fromstring(text.translate(None, b"[]").decode(), dtype=np.int64, sep=",")
    return values.reshape(shape) if len(values) == math.prod(shape) else None
