"""Shapes of a kernel's launches in a recording, as `rocm-perf analyze --json` and profile.json describe them.

A recording has grids and workgroups, not arguments. The arguments follow from a grid by expressions of the user, or, of a
dimension of the grid that depends on one of them only, as the largest value with that grid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.shapes import ShapeError, WorkloadShape
from rocm_perf_lab.core.expressions import ExpressionError, evaluate, evaluate_integer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from rocm_perf_lab.autotune.spaces.space import Configuration
    from rocm_perf_lab.languages.description import KernelDescription

_AXES = ("x", "y", "z")
_LARGEST = 1 << 40
_NO_GRID = "the grid does not determine the shape"


def is_recording(content: Any) -> bool:
    """Return whether a document describes the kernels of a recording."""
    return isinstance(content, dict) and isinstance(content.get("kernels"), list)


def shapes_of_recording(
    content: Mapping[str, Any],
    kernel: KernelDescription,
    expressions: Mapping[str, str],
    varied: Collection[str],
    *,
    where: str,
) -> tuple[WorkloadShape, ...]:
    """Return the shapes of a kernel in a recording, each weighted by the time of its launches.

    Args:
        content: Document of a recording.
        kernel: The kernel, with the parameters that it had in the recording.
        expressions: Parameter -> expression of `grid_x`, `block_x` (and y, z) and the kernel's other parameters.
        varied: Parameters that a search varies.
        where: Origin, for error messages.

    Raises:
        ShapeError: The recording has no launches of the kernel, or its grids do not determine the parameters.
    """
    sizes = _inverse(kernel, varied) if not expressions else {}
    weights: dict[tuple[tuple[str, Any], ...], float] = {}
    for launch in _launches(content, kernel.entry, where):
        found = _by_expressions(launch, kernel, expressions) if expressions else _by_search(launch, kernel, sizes, where)
        key = tuple(found.items())
        weights[key] = weights.get(key, 0.0) + (float(launch.get("total_ms") or 0.0) or float(launch.get("calls") or 1))
    return tuple(WorkloadShape(dict(values), weight) for values, weight in weights.items())


def _launches(content: Mapping[str, Any], entry: str, where: str) -> Iterator[Mapping[str, Any]]:
    kernels = [row for row in content["kernels"] if isinstance(row, dict)]
    wanted = [row for row in kernels if entry in (row.get("mangled_name"), _plain(str(row.get("name", ""))))]
    launches = [launch for row in wanted for launch in row.get("launches") or () if isinstance(launch, dict)]
    if not launches:
        names = ", ".join(_plain(str(row.get("name", ""))) for row in kernels[:5]) or "none"
        raise ShapeError(
            f"the recording has no launches of {entry}, so no shapes",
            where=where,
            hint=f"kernels of the recording: {names}; write it with `rocm-perf analyze RECORDING --json`",
        )
    for launch in launches:
        if not all(isinstance(launch.get(key), list) and len(launch[key]) == 3 for key in ("grid", "block")):
            raise ShapeError("a launch of the recording has no grid", where=where, hint="record it again")
        yield launch


def _plain(name: str) -> str:
    """Return the name of a function without its type, arguments and template arguments."""
    return name.partition("(")[0].partition("<")[0].removesuffix(".kd").strip().rpartition(" ")[2].rpartition("::")[2]


def _by_expressions(launch: Mapping[str, Any], kernel: KernelDescription, expressions: Mapping[str, str]) -> Configuration:
    names = dict(kernel.params)
    for key in ("grid", "block"):
        names |= {f"{key}_{axis}": size for axis, size in zip(_AXES, launch[key], strict=True)}
    return {name: evaluate(text, names, where=f"autotune.from_launch.{name}") for name, text in expressions.items()}


def _inverse(kernel: KernelDescription, varied: Collection[str]) -> dict[str, int]:
    """Return parameter -> axis of the grid, for each parameter that alone decides about an axis.

    Raises:
        ShapeError: An axis depends on several parameters, or none on any.
    """
    sizes = {name for name, value in kernel.params.items() if isinstance(value, int) and name not in varied}
    scalars = {str(a.value) for a in kernel.arguments if a.kind == "scalar"} & sizes
    found: dict[str, int] = {}
    hint = f"for example autotune.from_launch='{{{next(iter(sorted(scalars)), 'n')}: grid_x * block_x}}'"
    for axis, text in enumerate(kernel.grid):
        used = [name for name in sorted(scalars) if _changes(text, kernel.params, name)]
        if len(used) > 1:
            raise ShapeError(f"{_NO_GRID}: {text} depends on {' and '.join(used)}", where="kernel.grid", hint=hint)
        found |= dict.fromkeys(used, axis)
    if not found:
        raise ShapeError(f"{_NO_GRID}: it depends on no argument", where="kernel.grid", hint=hint)
    return found


def _changes(text: Any, params: Mapping[str, Any], name: str) -> bool:
    try:
        return _size(text, params, name, params[name]) != _size(text, params, name, params[name] * 64 + 4096)
    except ExpressionError:
        return False


def _size(text: Any, params: Mapping[str, Any], name: str, value: int) -> int:
    return evaluate_integer(text, {**params, name: value}, where="kernel.grid")


def _by_search(launch: Mapping[str, Any], kernel: KernelDescription, sizes: Mapping[str, int], where: str) -> Configuration:
    found: Configuration = {}
    for name, axis in sizes.items():
        text, wanted = kernel.grid[axis], launch["grid"][axis]
        low, high = 0, 1
        while high < _LARGEST and _size(text, kernel.params, name, high) <= wanted:
            low, high = high, high * 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _size(text, kernel.params, name, middle) <= wanted else (low, middle)
        if low == 0 or _size(text, kernel.params, name, low) != wanted:
            raise ShapeError(
                f"no {name} leads to a grid of {wanted} ({text})",
                where=where,
                hint="set kernel.params to those of the recording, or autotune.from_launch",
            )
        found[name] = low
    return found
