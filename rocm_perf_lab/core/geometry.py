"""The geometry of a dispatch: workgroups, work-items per workgroup and dynamic LDS."""

from __future__ import annotations

from dataclasses import dataclass

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Geometry:
    """Launch configuration of one dispatch.

    `grid` counts workgroups, partial ones included; `block` is the size of a workgroup in work-items. `remainder` is the
    number of work-items in the last workgroup of an axis if that workgroup is partial, else 0.
    """

    grid: Dim3
    block: Dim3
    dynamic_lds_bytes: int = 0
    remainder: Dim3 = (0, 0, 0)

    @classmethod
    def of_work_items(cls, work_items: Dim3, block: Dim3, dynamic_lds_bytes: int = 0) -> Geometry:
        """Return the geometry for a grid size in work-items, the unit of dispatch packets."""
        x, y, z = (-(-items // size) for items, size in zip(work_items, block, strict=True))
        in_x, in_y, in_z = (items % size for items, size in zip(work_items, block, strict=True))
        return cls((x, y, z), block, dynamic_lds_bytes, (in_x, in_y, in_z))

    @property
    def work_items(self) -> Dim3:
        """Grid size in work-items, the unit of dispatch packets."""
        x, y, z = (
            groups * size if not rest else (groups - 1) * size + rest
            for groups, size, rest in zip(self.grid, self.block, self.remainder, strict=True)
        )
        return x, y, z

    def work_item_of(self, workgroup: Dim3, number: int) -> Dim3:
        """Return the coordinates of the work-item with linear index `number` in a workgroup, which may be partial."""
        x, y, _ = (
            rest if rest and group + 1 == groups else size
            for group, groups, size, rest in zip(workgroup, self.grid, self.block, self.remainder, strict=True)
        )
        return number % x, number // x % y, number // (x * y)

    @property
    def dimensions(self) -> int:
        """Number of dimensions: the index of the last axis with more than one work-item, at least 1."""
        flat = [items == 1 for items in self.work_items]
        return 3 if not flat[2] else 2 if not flat[1] else 1
