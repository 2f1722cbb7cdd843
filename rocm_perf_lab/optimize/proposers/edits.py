"""Edits in an answer: SEARCH/REPLACE blocks, applied to a source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SEARCH = re.compile(r"^<{5,9} ?SEARCH\s*$")
_DIVIDER = re.compile(r"^={5,9}\s*$")
_REPLACE = re.compile(r"^>{5,9} ?REPLACE\s*$")
_SHOWN = 60


class EditError(LabError):
    """Edits that are malformed or do not apply to the source."""


@dataclass(frozen=True)
class LineEdit:
    """Replacement of consecutive lines."""

    search: tuple[str, ...]
    replace: tuple[str, ...]


def read_edits(lines: Sequence[str]) -> tuple[LineEdit, ...]:
    """Return the edits in the lines of an answer, in their order; lines outside of them are ignored.

    Raises:
        EditError: A block is not complete.
    """
    edits: list[LineEdit] = []
    search: list[str] | None = None
    replace: list[str] | None = None
    for line in lines:
        if search is None:
            search = [] if _SEARCH.match(line) else None
        elif replace is None:
            if _DIVIDER.match(line):
                replace = []
            elif _SEARCH.match(line) or _REPLACE.match(line):
                raise EditError("a SEARCH block has no line of =======")
            else:
                search.append(line)
        elif _REPLACE.match(line):
            edits.append(LineEdit(tuple(search), tuple(replace)))
            search = replace = None
        elif _SEARCH.match(line):
            raise EditError("a SEARCH block has no line of >>>>>>> REPLACE")
        else:
            replace.append(line)
    if search is not None:
        raise EditError("the last SEARCH block is not complete")
    return tuple(edits)


def is_edit_marker(line: str) -> bool:
    """Return whether a line begins an edit."""
    return _SEARCH.match(line) is not None


def apply_edits(text: str, edits: Sequence[LineEdit]) -> str:
    """Return a source, with lines ending in a newline, after all edits.

    The lines of a SEARCH block must occur exactly once. White space at the ends of lines is ignored; if no place matches, so is
    the indentation.

    Raises:
        EditError: A block occurs nowhere or more than once; no edit is applied.
    """
    lines = text.split("\n")
    for number, edit in enumerate(edits, start=1):
        wanted = _without_empty_ends(edit.search)
        if not wanted:
            raise EditError(f"SEARCH block {number} is empty")
        places = _places(lines, wanted, str.rstrip) or _places(lines, wanted, str.strip)
        shown = wanted[0].strip()[:_SHOWN]
        if not places:
            raise EditError(f"SEARCH block {number} is not in the source: {shown!r}")
        if len(places) > 1:
            raise EditError(f"SEARCH block {number} is in the source {len(places)} times, add lines to it: {shown!r}")
        lines[places[0] : places[0] + len(wanted)] = _without_empty_ends(edit.replace)
    return "\n".join(lines)


def _places(lines: Sequence[str], wanted: Sequence[str], normalise: Callable[[str], str]) -> list[int]:
    """Return the indices at which the wanted lines occur after normalisation."""
    block = [normalise(line) for line in wanted]
    every = [normalise(line) for line in lines]
    return [at for at in range(len(every) - len(block) + 1) if every[at : at + len(block)] == block]


def _without_empty_ends(lines: Sequence[str]) -> list[str]:
    kept = list(lines)
    while kept and not kept[0].strip():
        kept.pop(0)
    while kept and not kept[-1].strip():
        kept.pop()
    return kept
