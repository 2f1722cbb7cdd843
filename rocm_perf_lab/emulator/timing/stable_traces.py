"""Traces whose addresses do not depend on where this process happened to map its memory.

Every address becomes (number of its buffer, offset in it), so that equal launches take equal emulated times in any
process. Bit 0 marks segments whose 128-byte line more than one sampled workgroup touches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_TAG_SHIFT, _BUFFER_SHIFT, _LINE_SHIFT = np.uint64(56), np.uint64(36), np.uint64(7)


def stabilise(
    traces: Sequence[Sequence[NDArray[np.uint64]]], buffers: Sequence[tuple[int, int]]
) -> list[list[NDArray[np.uint64]]]:
    """Rewrite the addresses of traces.

    Args:
        traces: [workgroup][wave] -> (n_words) as `runtime/wave.h` describes them.
        buffers: (address, bytes) in an order that is the same in every process.
    """
    order = np.argsort([address for address, _ in buffers]) if buffers else np.zeros(0, np.int64)
    starts = np.array([buffers[i][0] for i in order], dtype=np.uint64)
    moved = [[_renumbered(words, starts, order) for words in group] for group in traces]
    shared = _shared_lines(moved)
    return [[_marked(words, shared) for words in group] for group in moved]


def _is_address(words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    return (words >> _TAG_SHIFT) == 0


def _renumbered(words: NDArray[np.uint64], starts: NDArray[np.uint64], order: NDArray[np.int64]) -> NDArray[np.uint64]:
    result = words.copy()
    if not len(starts):
        return result
    where = _is_address(words)
    addresses = words[where]
    place = np.maximum(np.searchsorted(starts, addresses, side="right") - 1, 0)
    offsets = (addresses - starts[place]) & np.uint64((1 << 36) - 1)
    # A buffer need not begin on a segment: its own segments are counted from the one that it begins in.
    result[where] = ((order[place].astype(np.uint64) + np.uint64(1)) << _BUFFER_SHIFT) + (offsets & ~np.uint64(63))
    return result


def _shared_lines(groups: list[list[NDArray[np.uint64]]]) -> NDArray[np.uint64]:
    per_group = [
        np.unique(np.concatenate([words[_is_address(words)] for words in group] or [np.zeros(0, np.uint64)]) >> _LINE_SHIFT)
        for group in groups
    ]
    lines, counts = np.unique(np.concatenate(per_group or [np.zeros(0, np.uint64)]), return_counts=True)
    return np.asarray(lines[counts > 1], dtype=np.uint64)


def _marked(words: NDArray[np.uint64], shared: NDArray[np.uint64]) -> NDArray[np.uint64]:
    result = words.copy()
    where = _is_address(words)
    result[where] |= np.isin(words[where] >> _LINE_SHIFT, shared).astype(np.uint64)
    return result
