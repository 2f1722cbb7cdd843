"""JSON of decoded thread traces: `load(path)`, and `load_tables(path, keys)` for files that consist mostly of numeric tables."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.rocprof.att.model import Integers

_LIST = re.compile(rb'"([^"\\]*)"\s*:\s*\[')
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


def take_tables(content: bytes, keys: re.Pattern[bytes]) -> tuple[bytes, dict[str, Integers]]:
    """Split JSON into a document with empty lists at `keys`, and the tables: integers of shape (n,) or (n, m).

    As objects of a JSON parser the tables would need twenty times the memory of their text, and most of the time.
    """
    pieces: list[bytes] = []
    tables: dict[str, Integers] = {}
    last = 0
    for match in _LIST.finditer(content):
        start = match.end() - 1
        if start < last or not keys.fullmatch(match[1]):
            continue
        closing = b"]]" if content[start + 1 : start + 64].lstrip()[:1] == b"[" else b"]"
        found = content.find(closing, start)
        end = found + len(closing)
        values = _numbers(content[start:end]) if found >= 0 else None
        if values is not None:
            tables[match[1].decode()] = values
            pieces += (content[last : start + 1], b"]")
            last = end
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


def _numbers(text: bytes) -> Integers | None:
    """Parse a list of integers, or of equally long lists of them."""
    if text.translate(None, b"0123456789,-[] \t\r\n"):
        return None
    rows = text.count(b"[") - 1
    count = text.count(b",") + 1
    if count % max(rows, 1) or not text.translate(None, b"[], \t\r\n"):
        return None
    values = np.fromstring(text.translate(None, b"[]").decode(), dtype=np.int64, sep=",")
    if len(values) != count:
        return None
    return values.reshape(rows, -1) if rows else values
