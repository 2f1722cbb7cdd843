"""What a kernel can reach from its arguments: a conservative scan of memory for values that look like pointers.

Every aligned 8-byte word that lies in a range counts as a pointer into it. So nothing that is addressed by plain pointers is
missed; offsets from a base that is nowhere stored, and tagged or compressed pointers, are.
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
    """Disjoint ranges, ascending: `bases` and `ends` are (n)."""

    bases: NDArray[np.uint64]
    ends: NDArray[np.uint64]

    @classmethod
    def of(cls, ranges: Sequence[tuple[int, int]]) -> AddressRanges:
        """From (address, bytes)."""
        ordered = sorted(ranges)
        bases = np.array([base for base, _ in ordered], dtype=np.uint64)
        return cls(bases, np.array([base + size for base, size in ordered], dtype=np.uint64))

    def holding(self, values: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Index of the range that holds each value, -1 for none; values are (k), so is the result."""
        found = np.searchsorted(self.bases, values, side="right") - 1
        inside = (found >= 0) & (values < self.ends[np.maximum(found, 0)]) if len(self.bases) else np.zeros(len(values), bool)
        return np.where(inside, found, -1)


def words_of(content: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Aligned words of bytes whose address is a multiple of 8; a rest at the end is left out."""
    return np.ascontiguousarray(content[: len(content) // _WORD_BYTES * _WORD_BYTES]).view(np.uint64)


def reachable(kernarg: bytes, contents: Mapping[int, NDArray[np.uint8]]) -> dict[int, tuple[str, ...]]:
    """Which ranges can be reached, and from where.

    Args:
        kernarg: The segment.
        contents: Bytes of every range by its base.

    Returns:
        Base -> who points into it: `"kernarg"`, or bases as hexadecimal text, at most 16.
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
