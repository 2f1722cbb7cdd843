"""Writes of a rewrite's workgroups in a large shape: pairs that write the same elements, and outputs without writes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rocm_perf_lab.verify.recorded_shape import RecordedShape
    from rocm_perf_lab.verify.sparse_pages import SparseBuffer
    from rocm_perf_lab.verify.sparse_run import SparseSession
    from rocm_perf_lab.verify.workgroup_map import WorkgroupMap

FIRST_OF_PAIRS = 200
"""Largest workgroup from which the distances of pairs are counted."""
WRAPPED_BITS = (8, *range(15, 32))
"""Exponents of distances: workgroups 2^n apart write the same elements if an id or an index wraps around."""
FEWEST_WORKGROUPS = 16
"""Number of workgroups that a conclusion requires."""
LOCATED = 12
"""Maximum number of workgroups that are run because the map locates an element in them."""


def wrapped_pairs(
    recorded: RecordedShape, session: SparseSession, grid: WorkgroupMap, *, is_same_launch: bool
) -> list[tuple[int, int]]:
    """Return workgroups of a rewrite that write the same elements if an id or an index wraps around.

    With a different launch, workgroups cannot be matched with those of the unmodified kernel: only one has partners at all
    distances.
    """
    if is_same_launch:
        pairs = [(one, one + (1 << bit)) for one in recorded.workgroups for bit in WRAPPED_BITS]
        pairs = [(one, other) for one, other in pairs if other in recorded.writes]
        located = list(recorded.workgroups)
    else:
        located = sorted(session.writes)
        total, start = prod(grid.grid), min(located[len(located) // 4], FIRST_OF_PAIRS)
        pairs = [(start, start + (1 << bit)) for bit in WRAPPED_BITS if start + (1 << bit) < total]
    misplaced = []
    for name in recorded.launch.buffers:
        for workgroup in located:
            elements = session.elements_of(workgroup, name)
            owner = grid.workgroup_of(name, elements[0]) if elements is not None else None
            if owner is not None and abs(owner - workgroup) > 1:
                misplaced.append((owner, workgroup))
    return [*pairs, *misplaced[:LOCATED]]


def repeated_write(
    recorded: RecordedShape, session: SparseSession, grid: WorkgroupMap, pairs: list[tuple[int, int]]
) -> str | None:
    """Return the defect of a rewrite in which distant workgroups write the same elements, so that others remain unwritten.

    The ends of buffers are ignored, because surplus workgroups may repeat the work of the last one.
    """
    for one, other in pairs:
        for workgroup in (one, other):
            session.run(workgroup)
        for name, buffer in recorded.launch.buffers.items():
            shared = session.shared_element(one, other, name)
            if shared is not None and 0 < shared < prod(buffer.shape) - 1 and not _is_at_the_end(session, other, name, buffer):
                index = ", ".join(str(int(i)) for i in np.unravel_index(shared, buffer.shape))
                return f"workgroups {one:,} and {other:,} both write {name}[{index}]"
    return None


def corresponding_workgroups(recorded: RecordedShape, session: SparseSession, grid: WorkgroupMap, total: int) -> list[int]:
    """Return the workgroups of a rewrite with a different launch that write the same elements as the unmodified kernel."""
    for workgroup in grid.origin():
        session.run(workgroup)
    found: list[int] = []
    for name in recorded.launch.buffers:
        for workgroup in recorded.workgroups:
            elements = recorded.map.session.elements_of(workgroup, name)
            for element in elements if elements is not None else ():
                located = (grid.workgroup_of(name, element), *grid.writers(name, element))
                found += [number for number in located if number is not None and number < total]
    return sorted({*found, 0, total - 1})


def unwritten_output(recorded: RecordedShape, session: SparseSession) -> str | None:
    """Return the defect of a rewrite that changes nothing in an output, in any workgroup from the first to the last that ran."""
    owed, found = ({buffer for buffer, _ in places} for places in (recorded.owed, session.written_pages()))
    missing = sorted(owed - found)
    return f"none of {len(session.writes):,} workgroups writes {missing[0]}" if missing else None


def is_idle(recorded: RecordedShape, session: SparseSession, name: str) -> bool:
    """Return whether only the first workgroup that ran changes an output that many workgroups of the unmodified kernel change."""
    by_rewrite, by_baseline = (
        {workgroup for workgroup, places in writes.items() if any(buffer == name for buffer, _ in places)}
        for writes in (session.writes, recorded.writes)
    )
    return by_rewrite == {0} and len(by_baseline) >= FEWEST_WORKGROUPS


def _is_at_the_end(session: SparseSession, workgroup: int, name: str, buffer: SparseBuffer) -> bool:
    """Return whether a workgroup writes the first or the last element of a buffer."""
    elements = session.elements_of(workgroup, name)
    return elements is not None and (elements[0] == 0 or elements[1] == prod(buffer.shape) - 1)
