"""Small overlaps of dispatches that one in-order queue executed one after the other.

The end of a dispatch is recorded when the queue has processed its completion, the start of the next one when its first
wavefronts are launched, and both are converted between clocks. Consecutive dispatches therefore overlap by up to half a
microsecond in recordings of real GPUs, although the queue is in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

DEFAULT_MAX_OVERLAP_NS = 1_000
"""Overlaps in ns below this are timestamp errors; longer ones are concurrent execution."""


def order_of_intervals(start: Integers, end: Integers) -> Integers:
    """Return the permutation that sorts intervals by start, then by end, then by position."""
    same = start[1:] == start[:-1]
    if np.all((start[1:] > start[:-1]) | (same & (end[1:] >= end[:-1]))):
        return np.arange(len(start))
    return np.lexsort((end, start))


def without_small_overlaps(
    start: Integers, end: Integers, lane: Integers, is_ordered: NDArray[np.bool_], max_overlap_ns: int
) -> tuple[Integers, int]:
    """Return the ends of unsorted intervals without small overlaps within a lane, and how many ends changed.

    Args:
        start: Starts.
        end: Ends, never before the starts.
        lane: Number of the queue and stream of each interval.
        is_ordered: Whether an interval belongs to an in-order queue.
        max_overlap_ns: See :func:`clamped_ends`.
    """
    order = order_of_intervals(start, end)
    changed = end.copy()
    changed[order] = clamped_ends(start[order], end[order], lane[order], is_ordered[order], max_overlap_ns)
    return changed, int(np.count_nonzero(changed != end))


def clamped_ends(start: Integers, end: Integers, lane: Integers, is_ordered: NDArray[np.bool_], max_overlap_ns: int) -> Integers:
    """Return the ends without overlaps below `max_overlap_ns` within a lane: each end is moved to the start it overlaps.

    Args:
        start: Starts, sorted.
        end: Ends, never before the starts.
        lane: Number of the queue and stream of each node.
        is_ordered: Whether a node belongs to an in-order queue. Other nodes keep their ends.
        max_overlap_ns: Smallest overlap that counts as concurrent execution; 0 disables the correction.
    """
    count = len(start)
    by_lane = np.argsort(lane, kind="stable")
    following = np.full(count, count)
    same = lane[by_lane[1:]] == lane[by_lane[:-1]]
    following[by_lane[:-1][same]] = by_lane[1:][same]
    overlapped = np.flatnonzero(is_ordered & (following < count) & (np.append(start, 0)[following] < end))
    if len(overlapped) == 0 or max_overlap_ns <= 0:
        return end
    # Of the later nodes of the lane, the first one that starts less than the limit before this end.
    since = np.searchsorted(start, end[overlapped] - max_overlap_ns, "right")
    keys = lane[by_lane] * count + by_lane
    at = np.searchsorted(keys, lane[overlapped] * count + np.maximum(since, overlapped + 1))
    found = by_lane[np.minimum(at, count - 1)]
    valid = (at < count) & (lane[found] == lane[overlapped]) & (start[found] < end[overlapped])
    clamped = end.copy()
    clamped[overlapped[valid]] = start[found[valid]]
    return clamped
