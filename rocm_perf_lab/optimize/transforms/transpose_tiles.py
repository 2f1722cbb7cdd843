"""Exchange of elements through a tile in LDS, for kernels that load along one axis and store along the other.

A workgroup loads a square tile by rows and stores it by columns, so that both are contiguous. Padded rows avoid bank conflicts.
A work-item issues several loads before it waits for the first. Results do not change.
"""

from __future__ import annotations

import re
from copy import copy
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.languages.data_types import DTYPES
from rocm_perf_lab.languages.source_launch import LaunchDescriptor
from rocm_perf_lab.optimize.syntax_nodes import line_of
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.element_maps import element_map
from rocm_perf_lab.optimize.transforms.launch_edits import with_launch
from rocm_perf_lab.optimize.transforms.linear_indices import with_two_axes
from rocm_perf_lab.optimize.transforms.rewriting import Edit
from rocm_perf_lab.optimize.transforms.thread_indices import LaunchSizes, covering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.optimize.transforms.element_maps import ElementMap, StridedLoad

_LDS_BYTES = 65536
_MOST_ITEMS = 1024
_WORD = 4
_BOUNDED = re.compile(r"__launch_bounds__|amdgpu_flat_work_group_size|amdgpu_max_num_work_groups|reqd_work_group_size")
_LIMIT = re.compile(r"__launch_bounds__\s*\(\s*(\d+)")
_VECTOR = re.compile(r"[A-Za-z]\w*?([234])")


class TransposeTiles:
    """Rewrites a kernel that loads and stores one element per work-item along different axes.

    Args:
        kernel: Description.
        tiles: Rows and columns of a tile, and the rows that the work-items load at once, which must divide it.
        paddings: Words of 4 bytes between rows in LDS.

    Raises:
        LabError: A tile is invalid.
    """

    name = "transpose tiles"

    def __init__(
        self,
        *,
        kernel: KernelDescription,
        tiles: Sequence[Sequence[int]] = ((32, 16), (64, 16), (32, 8), (64, 8)),
        paddings: Sequence[int] = (1,),
    ) -> None:
        for tile in tiles:
            if len(tile) != 2 or min(tile) < 1 or tile[0] % tile[1] or tile[0] * tile[1] > _MOST_ITEMS:
                raise LabError(
                    f"invalid tile {list(tile)}",
                    where="optimizer.transforms: tiles",
                    hint=f"a side and a divisor of it, with a product of at most {_MOST_ITEMS}, for example tiles: [[64, 8]]",
                )
        self._kernel = kernel
        self._tiles = [(tile[0], tile[1], padding) for padding in paddings for tile in tiles]

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return one rewrite per tile."""
        found = element_map(unit, self._kernel, LaunchSizes(self._kernel))
        if isinstance(found, str):
            divided = with_two_axes(unit, self._kernel)
            return () if divided is None else self._with(divided[1]).propose(divided[0])
        most = _most_items(unit)
        rewrites = []
        for side, rows, padding in self._shapes(found):
            size = sum(side * (side + self._padding(unit, load, padding)) * self._bytes(unit, load) for load in found.loads)
            if size <= _LDS_BYTES and side * rows <= most:
                shown = f"LDS tiles of {side} x {side}, {rows} rows at once, padded by {padding} words"
                rewrites.append(Rewrite(shown, self._rewritten(unit, found, side, rows, padding)))
        return tuple(rewrites)

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return the reason why the kernel is not rewritten."""
        found = element_map(unit, self._kernel, LaunchSizes(self._kernel))
        if isinstance(found, str):
            return (Rejection(line_of(unit.kernel), found),)
        return () if self.propose(unit) else (Rejection(line_of(unit.kernel), "no tile fits into LDS or its launch bounds"),)

    def _with(self, kernel: KernelDescription) -> TransposeTiles:
        """Return the same transform for a different launch."""
        other = copy(self)
        other._kernel = kernel
        return other

    def _shapes(self, found: ElementMap) -> list[tuple[int, int, int]]:
        """Return tiles; without bounds, those of the described workgroups, which store each element of the launch."""
        if found.bounds:
            return self._tiles
        side = (LaunchSizes(self._kernel).block or (1, 1, 1))[0]
        return list(dict.fromkeys((side, rows, padding) for _, rows, padding in self._tiles if side % rows == 0))

    def _bytes(self, unit: SourceUnit, load: StridedLoad) -> int:
        """Return the size of an element."""
        buffer = LaunchSizes(self._kernel).buffers(unit).get(load.root)
        lanes = _VECTOR.fullmatch(load.element)
        return (DTYPES[buffer.dtype].itemsize if buffer is not None else _WORD) * (int(lanes[1]) if lanes is not None else 1)

    def _padding(self, unit: SourceUnit, load: StridedLoad, words: int) -> int:
        """Return the number of padding elements between rows."""
        return -(-words * _WORD // self._bytes(unit, load))

    def _rewritten(self, unit: SourceUnit, found: ElementMap, side: int, rows: int, padding: int) -> str:
        body = unit.kernel.child_by_field_name("body")
        assert body is not None
        tiles = {load.text: f"rpl_tile_{place}" for place, load in enumerate(found.loads)}
        lines = [*found.uniform, *(f"if ({condition}) return;" for condition in found.returns)]
        for load in found.loads:
            width = side + self._padding(unit, load, padding)
            lines.append(f"__shared__ {load.element} {tiles[load.text]}[{side}][{width}];")
            lines.append(f"{load.element} {tiles[load.text]}_next[{side // rows}] = {{}};")
        loads: list[str] = []
        for load in found.loads:
            loads += [text for text in load.before if text not in loads]
            loads.append(f"{tiles[load.text]}_next[rpl_i / {rows}] = {load.text};")
        values = {text: f"{tile}[threadIdx.x][threadIdx.y + rpl_i]" for text, tile in tiles.items()}
        lines += _each(found, side, rows, found.along.name, loads)
        to_lds = [f"  {tile}[threadIdx.y + rpl_i][threadIdx.x] = {tile}_next[rpl_i / {rows}];" for tile in tiles.values()]
        lines += [*_loop(side, rows), *to_lds, "}", "__syncthreads();"]
        lines += _each(found, side, rows, found.across.name, found.element(values))
        text = "\n".join(["{", *(f"  {line}" for line in lines), "}"])
        descriptor = LaunchDescriptor(grid=self._grid(found, side), block=(side, rows))
        return with_launch(unit, descriptor, [Edit(body.start_byte, body.end_byte, text)])

    def _grid(self, found: ElementMap, side: int) -> tuple[str, ...]:
        grid = [str(e) for e in self._kernel.grid] + ["1"] * (2 - len(self._kernel.grid))
        if found.bounds:
            block = LaunchSizes(self._kernel).block or (1, 1, 1)
            grid[:2] = [covering(self._kernel, grid[place], block[place], side) for place in (0, 1)]
        return tuple(grid)


def _each(found: ElementMap, side: int, rows: int, contiguous: str, inner: list[str]) -> list[str]:
    """Return a loop over the elements of a work-item; neighbouring work-items have neighbouring values of one index."""
    lines = _loop(side, rows)
    for index in (found.along, found.across):
        own = "threadIdx.x" if index.name == contiguous else "threadIdx.y + rpl_i"
        kind = found.index_types[index.name]
        lines.append(f"  const {kind} {index.name} = ({kind})blockIdx.{index.axis} * {side} + {own};")
    condition = " && ".join(f"{name} < {bound}" for name, bound in found.bounds.items())
    lines.append(f"  if ({condition}) {{" if condition else "  {")
    return [*lines, *(f"    {line}" for line in inner), "  }", "}"]


def _loop(side: int, rows: int) -> list[str]:
    return ["#pragma unroll", f"for (int rpl_i = 0; rpl_i < {side}; rpl_i += {rows}) {{"]


def _most_items(unit: SourceUnit) -> int:
    """Return the largest workgroup that the attributes of a kernel allow."""
    body = unit.kernel.child_by_field_name("body")
    head = unit.content[unit.kernel.start_byte : body.start_byte if body is not None else unit.kernel.end_byte].decode()
    if _BOUNDED.search(head) is None:
        return _MOST_ITEMS
    limit = _LIMIT.search(head)
    return int(limit[1]) if limit is not None else 0
