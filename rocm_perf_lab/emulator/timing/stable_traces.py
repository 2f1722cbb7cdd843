"""Traces with addresses that do not depend on the memory layout of this process.

Every address becomes (number of its buffer, offset), so that equal launches have equal emulated times in any process.
Vector accesses outside buffers (scratch, variables of the code object) are private to their workgroup and numbered in order of
first access, because scratch belongs to threads of the runtime. Scalar ones (kernel arguments, constants) are common to all
workgroups. Bit 0 marks lines of 128 bytes that several sampled workgroups
access; the other low bits of a line keep what `runtime/wave.h` stores there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_TAG_SHIFT, _BUFFER_SHIFT, _LINE_SHIFT = np.uint64(56), np.uint64(36), np.uint64(7)
_IN_LINE = np.uint64(127)
_SCALAR_TAG = np.uint64(4)
"""RPL_T_SMEM."""
_OFFSETS = np.uint64((1 << 36) - 1)


@dataclass(frozen=True)
class _Layout:
    """Buffers by ascending address: numbers, first addresses and ends, each (n_buffers)."""

    numbers: NDArray[np.uint64]
    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]


def stabilise(
    traces: Sequence[Sequence[NDArray[np.uint64]]], buffers: Sequence[tuple[int, int]]
) -> list[list[NDArray[np.uint64]]]:
    """Rewrite the addresses of traces.

    Args:
        traces: [workgroup][wave] -> (n_words) as described in `runtime/wave.h`.
        buffers: (address, bytes) in an order that is the same in every process.
    """
    order = sorted(range(len(buffers)), key=lambda number: buffers[number][0])
    starts = np.array([buffers[number][0] for number in order], dtype=np.uint64)
    ends = np.array([sum(buffers[number]) for number in order], dtype=np.uint64)
    layout = _Layout(np.array(order, dtype=np.uint64), starts, ends)
    scalars = _scalar_lines(traces)
    common = len(buffers) + len(traces)
    moved = [_renumbered(group, layout, len(buffers) + number, scalars, common) for number, group in enumerate(traces)]
    shared = _shared_lines(moved)
    return [[_marked(words, shared) for words in group] for group in moved]


def _is_address(words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    tagless: NDArray[np.bool_] = (words >> _TAG_SHIFT) == 0
    return tagless


def _is_scalar(words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return a mask of the words in records of scalar loads."""
    tags = words >> _TAG_SHIFT
    record = np.maximum.accumulate(np.where(tags != 0, np.arange(len(words)), 0))
    scalar: NDArray[np.bool_] = tags[record] == _SCALAR_TAG
    return scalar


def _scalar_lines(traces: Sequence[Sequence[NDArray[np.uint64]]]) -> NDArray[np.uint64]:
    """Return the lines of scalar loads in ascending order, with their number in order of first access, (2, n_lines)."""
    waves = [words for group in traces for words in group]
    loads = [words[_is_address(words) & _is_scalar(words)] & ~_IN_LINE for words in waves if len(words)]
    lines, first = np.unique(np.concatenate([np.zeros(0, np.uint64), *loads]), return_index=True)
    return np.stack([lines, np.argsort(np.argsort(first)).astype(np.uint64)])


def _renumbered(
    group: Sequence[NDArray[np.uint64]], layout: _Layout, private: int, scalars: NDArray[np.uint64], common: int
) -> list[NDArray[np.uint64]]:
    """Renumber the waves of one workgroup.

    Args:
        group: Words of its waves.
        layout: Buffers.
        private: Number of vector accesses outside buffers.
        scalars: Lines of scalar loads and their order.
        common: Number of scalar loads outside buffers.
    """
    lengths = [len(words) for words in group]
    result = np.concatenate([*group, np.zeros(0, np.uint64)])
    where = _is_address(result)
    addresses = result[where]
    details = addresses & _IN_LINE
    addresses &= ~_IN_LINE
    # Lines of a buffer are counted from the line that contains its first byte.
    place = np.searchsorted(layout.starts, addresses | _IN_LINE, side="right") - 1
    inside = place >= 0
    inside[inside] = addresses[inside] < layout.ends[place[inside]]
    owner = place[inside]
    stable = np.empty_like(addresses)
    stable[inside] = _located(layout.numbers[owner], addresses[inside] - (layout.starts[owner] & ~_IN_LINE))
    is_scalar = _is_scalar(result)[where] if len(result) else where
    outside = ~inside & ~is_scalar
    stable[outside] = _located(np.uint64(private), _order_of_first_touch(addresses[outside]) << _LINE_SHIFT)
    outside = ~inside & is_scalar
    number = scalars[1][np.searchsorted(scalars[0], addresses[outside])]
    stable[outside] = _located(np.uint64(common), number << _LINE_SHIFT)
    result[where] = stable | details
    return np.split(result, np.cumsum(lengths)[:-1])


def _located(number: NDArray[np.uint64] | np.uint64, offset: NDArray[np.uint64]) -> NDArray[np.uint64]:
    located: NDArray[np.uint64] = ((number + np.uint64(1)) << _BUFFER_SHIFT) + (offset & _OFFSETS)
    return located


def _order_of_first_touch(addresses: NDArray[np.uint64]) -> NDArray[np.uint64]:
    _, first, inverse = np.unique(addresses, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first)).astype(np.uint64)[inverse]


def _shared_lines(groups: list[list[NDArray[np.uint64]]]) -> NDArray[np.uint64]:
    nothing = np.zeros(0, np.uint64)
    touched = [np.concatenate([nothing, *(words[_is_address(words)] for words in group)]) for group in groups]
    per_group = [np.unique(addresses >> _LINE_SHIFT) for addresses in touched]
    lines, counts = np.unique(np.concatenate([nothing, *per_group]), return_counts=True)
    return np.asarray(lines[counts > 1], dtype=np.uint64)


def _marked(words: NDArray[np.uint64], shared: NDArray[np.uint64]) -> NDArray[np.uint64]:
    result = words.copy()
    where = _is_address(words)
    result[where] |= np.isin(words[where] >> _LINE_SHIFT, shared).astype(np.uint64)
    return result
