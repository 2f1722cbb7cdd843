"""Map from elements to the workgroups that write them, learned from a few workgroups: :class:`WorkgroupMap`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocm_perf_lab.core.geometry import Dim3
    from rocm_perf_lab.verify.sparse_run import SparseSession

_MOST_WRITERS = 16


@dataclass(frozen=True)
class WorkgroupMap:
    """Linear map from workgroup ids to first elements, for each buffer.

    Args:
        grid: Workgroups per axis.
        session: Runs of the kernel; those of :meth:`origin` determine the map, the others confirm or refute it.
    """

    grid: Dim3
    session: SparseSession

    def origin(self) -> tuple[int, ...]:
        """Return the linear ids of workgroup (0, 0, 0) and of its neighbour on each axis."""
        return (0, *(step for step, _ in self._axes()))

    def workgroup_of(self, buffer: str, element: int) -> int | None:
        """Return the workgroup that writes an element according to the linear map; None if the map is unknown."""
        start, strides = self.session.elements_of(0, buffer), self._strides(buffer)
        if strides is None or start is None or element < start[0]:
            return None
        return self._inverse(element - start[0], strides)[0]

    def writers(self, buffer: str, element: int) -> tuple[int, ...]:
        """Return the workgroups that may write an element, if each writes the pattern of the first one, shifted by the map.

        Several may match, because tiles may be interleaved in memory. Empty if the map is unknown or more than 16 match.
        """
        start, strides = self.session.elements_of(0, buffer), self._strides(buffer)
        if not strides or start is None or element < start[0]:
            return ()
        found = self._fitting(element - start[0], strides, start[1] - start[0])
        return tuple(workgroup for workgroup, rest in found or () if self.session.changed(0, buffer, start[0] + rest))

    def is_linear(self, buffer: str, workgroup: int) -> bool:
        """Return whether all workgroups that ran, with ids up to that of `workgroup` on each axis, match the map."""
        start, strides = self.session.elements_of(0, buffer), self._strides(buffer)
        return start is not None and strides is not None and self._is_linear(buffer, start[0], strides, workgroup)

    def is_certain(self, buffer: str, element: int) -> bool:
        """Return whether a correct kernel must write the element in the workgroup given by the map.

        This is so if all workgroups that ran, with ids up to that one on each axis, match the map, and the first workgroup writes
        an element at the same distance from its first element.
        """
        start, strides = self.session.elements_of(0, buffer), self._strides(buffer)
        if not strides or start is None or element < start[0]:
            return False
        distance, (stride, _, size) = element - start[0], strides[0]
        if start[1] - start[0] >= stride and distance // stride < size:
            return False  # another workgroup may write the element, in addition to its first ones
        workgroup, rest = self._inverse(distance, strides)
        return self.session.changed(0, buffer, start[0] + rest) and self._is_linear(buffer, start[0], strides, workgroup)

    def _axes(self) -> list[tuple[int, int]]:
        """Return the linear id of the neighbour and the number of workgroups, for each axis with more than one workgroup."""
        x, y, z = self.grid
        return [(step, size) for step, size in ((1, x), (x, y), (x * y, z)) if size > 1]

    def _strides(self, buffer: str) -> list[tuple[int, int, int]] | None:
        """Return distance in elements, linear id and number of workgroups of each axis, largest distance first."""
        start, found = self.session.elements_of(0, buffer), []
        for step, size in self._axes():
            elements = self.session.elements_of(step, buffer)
            if start is None or elements is None or elements[0] <= start[0]:
                return None
            found.append((elements[0] - start[0], step, size))
        return sorted(found, reverse=True)

    def _inverse(self, distance: int, strides: list[tuple[int, int, int]]) -> tuple[int, int]:
        """Return the workgroup and the distance in elements from its first element."""
        workgroup = 0
        for stride, step, size in strides:
            count = min(distance // stride, size - 1)
            workgroup += count * step
            distance -= count * stride
        return workgroup, distance

    def _fitting(self, distance: int, strides: list[tuple[int, int, int]], extent: int) -> list[tuple[int, int]] | None:
        """Return the workgroups whose first element is at most `extent` before a distance, with the rest; None if too many."""
        if not strides:
            return [(0, distance)] if 0 <= distance <= extent else []
        (stride, step, size), others = strides[0], strides[1:]
        reach = extent + sum(other * (count - 1) for other, _, count in others)
        most, least = min(distance // stride, size - 1), max(0, -((reach - distance) // stride))
        if most - least >= _MOST_WRITERS:
            return None
        found: list[tuple[int, int]] = []
        for count in range(most, least - 1, -1):
            inner = self._fitting(distance - count * stride, others, extent)
            if inner is None or len(found) + len(inner) > _MOST_WRITERS:
                return None
            found += [(count * step + workgroup, rest) for workgroup, rest in inner]
        return found

    def _is_linear(self, buffer: str, start: int, strides: list[tuple[int, int, int]], up_to: int) -> bool:
        for workgroup in self.session.writes:
            elements = self.session.elements_of(workgroup, buffer)
            before = all(workgroup // step % size <= up_to // step % size for _, step, size in strides)
            expected = start + sum(workgroup // step % size * stride for stride, step, size in strides)
            if before and elements is not None and elements[0] != expected:
                return False
        return True
