"""Shapes with buffers beyond 2^24 and 2^31 elements and 4 GiB, with little work per workgroup: `large_shapes(...)`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.expressions import ExpressionError, evaluate_integer
from rocm_perf_lab.device.launch import launch_geometry
from rocm_perf_lab.languages.arguments import BufferArgument, FileInit
from rocm_perf_lab.languages.data_types import DTYPES
from rocm_perf_lab.verify.shapes import declared_sizes, size_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.verify.shapes import Sizes

    Params = Mapping[str, int | float | str]

_MIDDLE = (1 << 26) + (1 << 24)
"""Elements: beyond the integers of a float and of a multiplication of 24 bits."""
_MANY_BYTES = 5 << 30
_MANY_ELEMENTS = 5 << 29
_BEYOND_UNSIGNED = 5 << 30
_MOST_INT = (1 << 31) - 1
_BELOW_INT = 1 << 20
"""Room for rounding up to whole rows and tiles."""
_MOST_WORK_ITEMS = (1 << 32) - 1
_MOST_GRID_YZ = (1 << 16) - 1
_OTHER_SIZES = (67, 300, 1031)
"""Values of the sizes that stay small; the first one with few enough workgroups is used."""
_COMPILER_CHOSEN_BLOCK = 256
_MOST_BUFFER_BYTES = 1 << 36


@dataclass(frozen=True)
class LargeShape:
    """Params, and the buffer whose size is the reason for them: `goal` of its size, and the enlarged params `grown`."""

    params: Params
    buffer: str
    elements: int
    goal: str
    grown: tuple[str, ...]

    def name(self, description: KernelDescription) -> str:
        """Return the changed params and the size of the buffer."""
        changed = ", ".join(f"{k}={v}" for k, v in self.params.items() if description.params.get(k) != v)
        return f"{changed}: {self.elements:,} elements of {self.buffer}"


def large_shapes(description: KernelDescription, growing: frozenset[str] | None = None) -> tuple[LargeShape, ...]:
    """Return shapes in the order in which to try them: large buffers by one size, then by all sizes of the buffer.

    Args:
        description: Kernel.
        growing: Sizes that the unmodified kernel supports above the described values; None for all.
    """
    if any(isinstance(a, BufferArgument) and isinstance(a.init, FileInit) for a in description.arguments):
        return ()
    sizes = declared_sizes(description)
    names = [n for n in size_names(description) if n in sizes.rules and (growing is None or n in growing)]
    found: list[LargeShape] = []
    for goal in ("wide", "elements", "int", "bytes", "middle"):
        for buffer, grown in _choices(description, names):
            shape = _shape(description, sizes, buffer, grown, goal)
            if shape is not None and all(shape.params != other.params for other in found):
                found.append(shape)
    return tuple(found)


def _choices(description: KernelDescription, names: list[str]) -> Iterator[tuple[BufferArgument, tuple[str, ...]]]:
    """Yield buffers with the sizes to enlarge: each alone, and all."""
    for argument in description.arguments:
        if isinstance(argument, BufferArgument):
            used = set(re.findall(r"[A-Za-z_]\w*", " ".join(map(str, argument.shape))))
            own = [name for name in names if name in used]
            yield from ((argument, (name,)) for name in own)
            if len(own) > 1:
                yield argument, tuple(own)


def _goal(goal: str, buffer: BufferArgument) -> int:
    """Return a number of elements."""
    match goal:
        case "wide":
            return _BEYOND_UNSIGNED
        case "elements":
            return _MANY_ELEMENTS
        case "int":
            return _MOST_INT - _BELOW_INT
        case "bytes":
            return min(_MANY_BYTES // DTYPES[buffer.dtype].itemsize, _MOST_INT - _BELOW_INT)
        case _:
            return _MIDDLE


def _shape(
    description: KernelDescription, sizes: Sizes, buffer: BufferArgument, grown: tuple[str, ...], goal: str
) -> LargeShape | None:
    """Return the first launchable shape in which a buffer has about the wanted number of elements."""
    for other in _OTHER_SIZES:
        small = {n: rule.nearest(min(other, _given(description, n))) for n, rule in sizes.rules.items() if n not in grown}
        values = _grown(description, sizes, buffer, grown, small, _goal(goal, buffer))
        if values is None:
            continue
        params = sizes.params(description.params, {**small, **values})
        if _is_launchable(description, params):
            return LargeShape(params, buffer.name, _elements(buffer, params), goal, grown)
    return None


def _grown(
    description: KernelDescription,
    sizes: Sizes,
    buffer: BufferArgument,
    grown: tuple[str, ...],
    small: Mapping[str, int],
    goal: int,
) -> dict[str, int] | None:
    """Return equal values of the enlarged sizes with the wanted number of elements, or None if the kernel does not allow them."""
    low, high = 1, 1 << 36
    while low < high:  # elements do not decrease with the sizes
        middle = (low + high) // 2
        try:
            count = _elements(buffer, sizes.params(description.params, {**small, **dict.fromkeys(grown, middle)}))
        except ExpressionError:
            return None
        low, high = (low, middle) if count >= goal else (middle + 1, high)
    values = {name: sizes.rules[name].nearest(low + 2 * index + 1) for index, name in enumerate(grown)}
    reached = _elements(buffer, sizes.params(description.params, {**small, **values}))
    return values if reached >= goal * 3 // 4 else None


def _elements(buffer: BufferArgument, params: Mapping[str, Any]) -> int:
    return prod(evaluate_integer(expression, params, where="kernel.arguments") for expression in buffer.shape)


def _given(description: KernelDescription, name: str) -> int:
    return int(description.params[name])


def _is_launchable(description: KernelDescription, params: Params) -> bool:
    """Return whether a GPU can launch this shape, and the emulator can reserve its buffers."""
    block = description.block or (_COMPILER_CHOSEN_BLOCK,)
    shaped = description.model_copy(update={"params": dict(params), "block": block})
    try:
        geometry = launch_geometry(shaped)
        nbytes = [_elements(a, params) * DTYPES[a.dtype].itemsize for a in shaped.arguments if isinstance(a, BufferArgument)]
    except LabError:
        return False
    work_items = [groups * (size or 1) for groups, size in zip(geometry.grid, (*geometry.block, 1, 1), strict=False)]
    limited = prod(work_items) <= _MOST_WORK_ITEMS and min(geometry.grid) > 0 and max(geometry.grid[1:]) <= _MOST_GRID_YZ
    return limited and max(nbytes) <= _MOST_BUFFER_BYTES and min(nbytes) > 0
