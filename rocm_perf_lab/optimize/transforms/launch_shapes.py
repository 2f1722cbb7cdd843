"""Different workgroup sizes and orders of axes, for kernels with independent work-items.

Such a kernel uses only one global index per axis, checks all indices against limits, and has no barriers, LDS or wavefront
operations. Any launch that covers the same indices then computes the same results. Workgroups that are long along the contiguous
axis access whole cache lines.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocm_perf_lab.languages.source_launch import LaunchDescriptor, launch_descriptor
from rocm_perf_lab.optimize.syntax_nodes import line_of, text_of
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.launch_edits import with_launch
from rocm_perf_lab.optimize.transforms.linear_indices import with_two_axes
from rocm_perf_lab.optimize.transforms.rewriting import Edit
from rocm_perf_lab.optimize.transforms.thread_indices import (
    LaunchSizes,
    builtin_uses,
    covering,
    guarded,
    hidden_index,
    statements,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.optimize.transforms.thread_indices import GlobalIndex

_COLLECTIVE = re.compile(
    r"__shared__|__sync|__shfl|__ballot|__any\b|__all\b|warpSize|lane_id|__builtin_amdgcn|asm\b|_group\b|_sync\b"
)
_AXES = "xyz"


class LaunchShapes:
    """Launches independent work-items in different workgroups.

    Args:
        kernel: Description.
        items: Workgroup sizes for kernels with one axis.
        shapes: Workgroup sizes along x and y for kernels with several axes; z becomes 1.
    """

    name = "launch shapes"

    def __init__(
        self,
        *,
        kernel: KernelDescription,
        items: Sequence[int] = (256, 1024, 512),
        shapes: Sequence[Sequence[int]] = ((64, 4), (32, 8), (256, 1)),
    ) -> None:
        self._kernel = kernel
        self._items = tuple(items)
        self._shapes = [(shape[0], shape[1]) for shape in shapes]

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return one rewrite per shape; those with exchanged axes, then those with separate row and column axes, come last."""
        divided = with_two_axes(unit, self._kernel)
        shaped = () if divided is None else LaunchShapes(kernel=divided[1], shapes=self._shapes).propose(divided[0])
        indices = self._indices(unit)
        return shaped if isinstance(indices, str) else (*self._shaped(unit, indices), *shaped)

    def _shaped(self, unit: SourceUnit, indices: dict[str, GlobalIndex]) -> tuple[Rewrite, ...]:
        if len(indices) == 1:
            candidates = [((count, 1, 1), False) for count in self._items]
        else:
            candidates = [((x, y, 1), swapped) for swapped in (False, True) for x, y in self._shapes]
        current = LaunchSizes(self._kernel).block
        return tuple(
            self._rewrite(unit, indices, block, swapped=swapped) for block, swapped in candidates if swapped or block != current
        )

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return the reason why the launch is not changed."""
        found = self._indices(unit)
        return (Rejection(line_of(unit.kernel), found),) if isinstance(found, str) else ()

    def _indices(self, unit: SourceUnit) -> dict[str, GlobalIndex] | str:
        if launch_descriptor(unit.content.decode(errors="replace")) is not None:
            return "its launch is already rewritten"
        return independent_indices(unit, self._kernel)

    def _rewrite(
        self, unit: SourceUnit, indices: dict[str, GlobalIndex], block: tuple[int, int, int], *, swapped: bool
    ) -> Rewrite:
        old = LaunchSizes(self._kernel).block or (1, 1, 1)
        grid = LaunchSizes(self._kernel).grid
        to = {"x": "y", "y": "x", "z": "z"} if swapped else {axis: axis for axis in _AXES}
        edits, new = [], list(grid)
        for axis, index in indices.items():
            place = _AXES.index(to[axis])
            new[place] = covering(self._kernel, grid[_AXES.index(axis)], old[_AXES.index(axis)], block[place])
            wide = index.cast
            text = f"{wide}blockIdx.{to[axis]} * {block[place]} + threadIdx.{to[axis]}"
            edits.append(Edit(index.node.start_byte, index.node.end_byte, text))
        descriptor = LaunchDescriptor(grid=tuple(new), block=block)
        shown = " x ".join(str(size) for size in block if size > 1)
        order = ", axes x and y exchanged" if swapped else ""
        return Rewrite(f"workgroups of {shown}{order}", with_launch(unit, descriptor, edits))


def independent_indices(unit: SourceUnit, kernel: KernelDescription) -> dict[str, GlobalIndex] | str:
    """Return the indices by axis if the work-items of a kernel are independent, or the reason why this is not proved.

    Args:
        unit: Source.
        kernel: Description with the launch of this source.
    """
    sizes = LaunchSizes(kernel)
    block, body = sizes.block, unit.kernel.child_by_field_name("body")
    if block is None or body is None or kernel.cooperative or not kernel.grid:
        return "its launch is not described by a grid and a workgroup size"
    if (hidden := hidden_index(unit)) is not None:
        return f"uses {hidden}"
    indices = sizes.global_indices(unit)
    for function in unit.functions():
        own = tuple(index.node for index in indices.values()) if function == unit.kernel else ()
        others = builtin_uses(function, without=own)
        free = {f"blockIdx.{axis}" for place, axis in enumerate(_AXES) if block[place] == 1 and axis not in indices}
        if others - free:
            return f"uses {sorted(others - free)[0]}"
        collective = _COLLECTIVE.search(text_of(function))
        if collective is not None:
            return f"uses {collective[0]}"
    if any(size > 1 and axis not in indices for size, axis in zip(block, _AXES, strict=True)):
        return "an axis has no global index"
    tested = guarded(statements(body), {index.name for index in indices.values()}, partial=True) if indices else None
    if tested is None:
        return "its indices have no bounds"
    if not sizes.covers(unit, {axis: tested.bounds[index.name] for axis, index in indices.items()}):
        return "its launch is not known to cover its bounds"
    if len(indices) > 1 and not {"x", "y"} <= set(indices):
        return "its first two axes have no global index"
    return indices
