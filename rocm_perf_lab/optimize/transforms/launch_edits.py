"""Sources with a changed launch: the comment that requests it, and bounds of the workgroup size."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING

from rocm_perf_lab.languages.source_launch import LaunchDescriptor, launch_descriptor, without_launch
from rocm_perf_lab.optimize.syntax_nodes import function_declarator
from rocm_perf_lab.optimize.transforms.rewriting import Edit, apply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.optimize.source_tree import SourceUnit

_BOUNDS = re.compile(r"(?:__launch_bounds__|amdgpu_flat_work_group_size)\s*\(")


def with_launch(unit: SourceUnit, descriptor: LaunchDescriptor, edits: Sequence[Edit]) -> str:
    """Return a source after edits, with a changed launch.

    A launch that the source already requests is replaced. A bound of the workgroup size is set to that of the launch; its second
    argument, which applies to the old size, is removed.

    Args:
        unit: Source.
        descriptor: Launch, with the workgroup as numbers.
        edits: Edits that do not touch the kernel's attributes.
    """
    items = prod(int(size) for size in descriptor.block or (0,))
    return f"{descriptor.line()}\n{without_launch(apply(unit.content, [*edits, *_bounds(unit, items)]))}"


def rewritten_items(unit: SourceUnit) -> int | None:
    """Return the workgroup size that a source requests, or None."""
    descriptor = launch_descriptor(unit.content.decode(errors="replace"))
    sizes = descriptor.block if descriptor is not None else None
    return prod(int(size) for size in sizes) if sizes is not None and all(str(size).isdigit() for size in sizes) else None


def _bounds(unit: SourceUnit, items: int) -> list[Edit]:
    """Return the edits of attributes that limit the workgroup size."""
    kernel = unit.kernel
    end = function_declarator(kernel).start_byte
    head = unit.content[kernel.start_byte : end]
    found = []
    for match in re.finditer(_BOUNDS.pattern.encode(), head):
        depth, place = 1, match.end()
        while depth and place < len(head):
            depth += (head[place : place + 1] == b"(") - (head[place : place + 1] == b")")
            place += 1
        name = match[0].decode().rstrip("( \t")
        both = f"{items}, {items}" if name == "amdgpu_flat_work_group_size" else str(items)
        found.append(Edit(kernel.start_byte + match.end(), kernel.start_byte + place - 1, both))
    return found
