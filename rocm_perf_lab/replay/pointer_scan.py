"""Conservative pointer scan for the memory that a kernel can reach from its arguments.

Every aligned 8-byte word whose value is inside a range counts as a pointer into it. The scan finds all memory addressed through
plain pointers; it misses tagged or compressed pointers, and offsets from a base that is not stored in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_WORD_BYTES = 8
_LISTED_REFERRERS = 16


@dataclass(frozen=True)
class AddressRanges:
    """Disjoint address ranges in ascending order; `bases` and `ends` have shape (n,)."""

    bases: NDArray[np.uint64]
    ends: NDArray[np.uint64]

    @classmethod
    def of(cls, ranges: Sequence[tuple[int, int]]) -> AddressRanges:
        """Return the ranges from pairs (address, bytes)."""
        ordered = sorted(ranges)
        bases = np.array([base for base, _ in ordered], dtype=np.uint64)
        return cls(bases, np.array([base + size for base, size in ordered], dtype=np.uint64))

    def holding(self, values: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the index of the range that contains each value, or -1; values and result have shape (k,)."""
        found = np.searchsorted(self.bases, values, side="right") - 1
        inside = (found >= 0) & (values < self.ends[np.maximum(found, 0)]) if len(self.bases) else np.zeros(len(values), bool)
        return np.where(inside, found, -1)


def words_of(content: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """View bytes at an 8-byte aligned address as 64-bit words; an incomplete word at the end is ignored."""
    return np.ascontiguousarray(content[: len(content) // _WORD_BYTES * _WORD_BYTES]).view(np.uint64)


def reachable(kernarg: bytes, contents: Mapping[int, NDArray[np.uint8]]) -> dict[int, tuple[str, ...]]:
    """Return the ranges that are reachable from the kernarg segment.

    Args:
        kernarg: The kernarg segment.
        contents: Bytes of every range by its base address.

    Returns:
        The sources of pointers into each reachable range, by its base: `"kernarg"` or bases in hexadecimal, at most 16.
    """
    order = sorted(contents)
    ranges = AddressRanges.of([(base, len(contents[base])) for base in order])
    referrers: dict[int, list[str]] = {}
    waiting: list[tuple[str, NDArray[np.uint8]]] = [("kernarg", np.frombuffer(kernarg, np.uint8))]
    while waiting:
        name, content = waiting.pop(0)
        held = ranges.holding(words_of(content))
        for index in np.unique(held[held >= 0]):
            base = order[int(index)]
            if base not in referrers:
                waiting.append((f"{base:#x}", contents[base]))
            listed = referrers.setdefault(base, [])
            if len(listed) < _LISTED_REFERRERS:
                listed.append(name)
    return {base: tuple(names) for base, names in sorted(referrers.items())}
