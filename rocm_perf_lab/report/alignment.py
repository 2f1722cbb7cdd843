"""Alignment of the instructions of two versions of a kernel."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_REGISTERS = re.compile(r"\b([vsa])(?:\d+|\[\d+:\d+\])")
_LONGEST = 6000
"""Maximum number of instructions of the longer version, because alignment takes quadratic time."""


def aligned_code(base: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> list[list[int | None]] | None:
    """Return pairs of rows of two versions in order; None on one side marks an instruction that only the other version has.

    Register numbers are ignored, because any change of the source renames registers.

    Returns:
        None if a version has no code, or the code is too long.
    """
    if base is None or new is None or max(len(base["rows"]), len(new["rows"])) > _LONGEST:
        return None
    matcher = SequenceMatcher(None, _keys(base["rows"]), _keys(new["rows"]), autojunk=False)
    pairs: list[list[int | None]] = []
    for operation, first, first_end, second, second_end in matcher.get_opcodes():
        if operation == "equal":
            pairs += [[left, right] for left, right in zip(range(first, first_end), range(second, second_end), strict=True)]
        else:
            pairs += [[left, None] for left in range(first, first_end)] + [[None, right] for right in range(second, second_end)]
    return pairs


def _keys(rows: Sequence[Sequence[Any]]) -> list[str]:
    return [_REGISTERS.sub(r"\1", row[1]) for row in rows]
