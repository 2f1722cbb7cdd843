"""Kernel names that fit a column: without parameters and namespaces, then with a gap in the middle."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocm_perf_lab.core.text_columns import columns_of, first_columns, last_columns
from rocm_perf_lab.toolchain.demangle import demangle, without_parameters

if TYPE_CHECKING:
    from collections.abc import Sequence

GAP = ".."
_NAMESPACE = re.compile(r"(?:\(anonymous namespace\)|\b[A-Za-z_]\w*)::(?!operator\b)")
_SUFFIX = re.compile(r"(?: \[clone [^\]]*\])+$|\.kd$")
_KEPT_OF_HEAD = 0.6
_CONTEXT = 3


def short_name(name: str, width: int) -> str:
    """Return a kernel's name in at most `width` columns of a terminal.

    Parameters and the return type are dropped first, then namespaces, then the middle of the template arguments, and at last
    the middle of the name: the end of generated names (tile sizes, data types) distinguishes kernels.

    Args:
        name: Demangled or mangled name.
        width: Number of columns, at least 8.
    """
    bare = bare_name(name)
    if columns_of(bare) <= width:
        return bare
    bare = _NAMESPACE.sub("", bare)
    function, bracket, arguments = bare.partition("<")
    if bracket and columns_of(function) + len(GAP) + 2 * _CONTEXT <= width:
        return function + _cut_middle(bracket + arguments, width - columns_of(function), head=0.7)
    return _cut_middle(bare, width)


def short_names(names: Sequence[str], width: int) -> tuple[str, ...]:
    """Return short names for a table: different kernels with the same short name show the place in which they differ."""
    shortened = [short_name(name, width) for name in names]
    groups: dict[str, list[int]] = {}
    for place, text in enumerate(shortened):
        groups.setdefault(text, []).append(place)
    for places in groups.values():
        bare = {place: _NAMESPACE.sub("", bare_name(names[place])) for place in places}
        if len(set(bare.values())) > 1:
            common = next(
                (n for n, letters in enumerate(zip(*bare.values(), strict=False)) if len(set(letters)) > 1),
                min(map(len, bare.values())),
            )
            for place, text in bare.items():
                shortened[place] = _around(text, common, width)
    return tuple(shortened)


def bare_name(name: str) -> str:
    """Return the function and its template arguments, demangled."""
    plain = _SUFFIX.sub("", demangle(_SUFFIX.sub("", name.strip())))
    found = without_parameters(plain) or plain
    return " ".join(found.split()) or name


def _cut_middle(text: str, width: int, head: float = _KEPT_OF_HEAD) -> str:
    if columns_of(text) <= width:
        return text
    kept = width - len(GAP)
    front = first_columns(text, max(1, round(kept * head)))
    return f"{front}{GAP}{last_columns(text, kept - columns_of(front))}"


def _around(text: str, place: int, width: int) -> str:
    """Return the begin of a name and the part from shortly before `place`."""
    front = max(1, (width - 2 * len(GAP)) // 3)
    begin = first_columns(text, front)
    rest = text[max(len(begin), place - _CONTEXT) :]
    room = width - front - len(GAP)
    return f"{begin}{GAP}{rest if columns_of(rest) <= room else first_columns(rest, room - len(GAP)) + GAP}"
