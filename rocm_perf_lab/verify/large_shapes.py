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
from rocm_perf_lab.verify.sizes import compiled_names, declared_sizes, size_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.verify.sizes import Sizes

    Params = Mapping[str, int | float | str]

_MIDDLE = (1 << 26) + (1 << 24)
"""Number of elements beyond the exact integers of f32 and beyond 24-bit multiplication."""
_MANY_BYTES = 5 << 30
_MANY_ELEMENTS = 5 << 29
_BEYOND_UNSIGNED = 5 << 30
_MOST_INT = (1 << 31) - 1
_BELOW_INT = 1 << 20
"""Margin for rounding up to whole rows and tiles."""
_MOST_WORK_ITEMS = (1 << 32) - 1
_MOST_GRID_YZ = (1 << 16) - 1
_OTHER_SIZES = (67, 300, 1031)
"""Values of the sizes that are not enlarged, unless described as smaller; the first launchable one is used."""
_LARGER_SIZES = (1031, 1283, 1543, 2053, 2571, 3083)
"""Values of these sizes, even if described as smaller, if an axis of the grid would be too long otherwise."""
_BELOW_EDGE = 30
_COMPILER_CHOSEN_BLOCK = 256
_MOST_BUFFER_BYTES = 1 << 36


@dataclass(frozen=True)
class LargeShape:
    """Params of a large shape, and the buffer for which they are selected: `goal` for its size, and enlarged params `grown`."""

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
    """Return shapes in the order of trials: buffers enlarged by one size, then by all sizes of the buffer.

    Args:
        description: Kernel.
        growing: Sizes that the unmodified kernel supports above the described values; None for all.
    """
    if any(isinstance(a, BufferArgument) and isinstance(a.init, FileInit) for a in description.arguments):
        return ()
    sizes = declared_sizes(description)
    names = [n for n in size_names(description) if n in sizes.rules and (growing is None or n in growing)]
    found: list[LargeShape] = []
    for goal in ("wide", "elements", "int", "edge", "bytes", "middle"):
        for buffer, grown in _choices(description, names):
            shape = _edge(description, sizes, buffer) if goal == "edge" else _shape(description, sizes, buffer, grown, goal)
            if shape is not None and all(shape.params != other.params for other in found):
                found.append(shape)
    return tuple(found)


def _edge(description: KernelDescription, sizes: Sizes, buffer: BufferArgument) -> LargeShape | None:
    """Return a shape in which the only size of a buffer is just below 2^31, so that sums of positions and steps overflow."""
    name = str(buffer.shape[0])
    rule = sizes.rules.get(name) if len(buffer.shape) == 1 else None
    if rule is None or (rule.most is not None and rule.most < _MOST_INT):
        return None
    small = {n: r.nearest(min(_OTHER_SIZES[0], _given(description, n))) for n, r in sizes.rules.items() if n != name}
    value = (_MOST_INT - _BELOW_EDGE) // rule.unit * rule.unit
    params = sizes.params(description.params, {**{n: max(v, _given(description, n)) for n, v in small.items()}, name: value})
    if not _is_launchable(description, params):
        return None
    return LargeShape(params, buffer.name, _elements(buffer, params), "edge", (name,))


def _choices(description: KernelDescription, names: list[str]) -> Iterator[tuple[BufferArgument, tuple[str, ...]]]:
    """Yield buffers with the sizes to enlarge: each size alone, then all together."""
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
    """Return the first launchable shape in which a buffer has approximately the target number of elements."""
    given = {n: _given(description, n) for n in sizes.rules if n not in grown}
    attempts = [{n: min(other, value) for n, value in given.items()} for other in _OTHER_SIZES]
    attempts += [dict.fromkeys(given, other) for other in _LARGER_SIZES]
    for attempt in attempts:
        small = {n: sizes.rules[n].nearest(value) for n, value in attempt.items()}
        values = _grown(description, sizes, buffer, grown, small, _goal(goal, buffer))
        if values is None:
            continue
        params = _with_grid(description, sizes.params(description.params, {**small, **values}))
        if _is_launchable(description, params):
            return LargeShape(params, buffer.name, _elements(buffer, params), goal, grown)
    return None


def _with_grid(description: KernelDescription, params: Params) -> Params:
    """Return params with a larger grid, if the grid size is a separate param, so that each workgroup has little work."""
    free = [str(e) for e in description.grid if isinstance(e, str) and e in description.params]
    fixed = {*size_names(description), *compiled_names(description)}
    shapes = " ".join(str(e) for a in description.arguments if isinstance(a, BufferArgument) for e in a.shape)
    free = [name for name in free if name not in fixed and name not in re.findall(r"[A-Za-z_]\w*", shapes)]
    if len(free) != 1:
        return params
    block = prod(evaluate_integer(e, params, where="kernel.block") for e in description.block or (_COMPILER_CHOSEN_BLOCK,))
    largest = max(_elements(a, params) for a in description.arguments if isinstance(a, BufferArgument))
    return {**params, free[0]: min(-(-largest // block), _MOST_WORK_ITEMS // block)}


def _grown(
    description: KernelDescription,
    sizes: Sizes,
    buffer: BufferArgument,
    grown: tuple[str, ...],
    small: Mapping[str, int],
    goal: int,
) -> dict[str, int] | None:
    """Return equal values of the enlarged sizes for the target number of elements, or None if not supported."""
    low, high = 1, 1 << 36
    while low < high:  # The number of elements does not decrease with the sizes.
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
    """Return whether a GPU can launch this shape and the emulator can reserve its buffers."""
    block = description.block or (_COMPILER_CHOSEN_BLOCK,)
    shaped = description.model_copy(update={"params": dict(params), "block": block})
    try:
        geometry = launch_geometry(shaped)
        nbytes = [_elements(a, params) * DTYPES[a.dtype].itemsize for a in shaped.arguments if isinstance(a, BufferArgument)]
    except LabError:
        return False
    work_items = [groups * (size or 1) for groups, size in zip(geometry.grid, (*geometry.block, 1, 1), strict=False)]
    limited = max(work_items) <= _MOST_WORK_ITEMS and min(geometry.grid) > 0 and max(geometry.grid[1:]) <= _MOST_GRID_YZ
    return limited and max(nbytes) <= _MOST_BUFFER_BYTES and min(nbytes) > 0
