"""Conversion of kernels that split one index into row and column to a launch with one axis for each.

    int i = blockIdx.x * blockDim.x + threadIdx.x;          int col = blockIdx.x * 16 + threadIdx.x;
    if (i >= rows * cols) return;                    ->     int row = blockIdx.y * 16 + threadIdx.y;
    int row = i / cols, col = i % cols;                     if (row >= rows || col >= cols) return;

Transforms that require two indices then apply.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.optimize.syntax_nodes import ancestors, text_of, walk
from rocm_perf_lab.optimize.transforms.rewriting import Edit, apply, initialiser
from rocm_perf_lab.optimize.transforms.thread_indices import LaunchSizes, builtin_uses, early_return, statements

if TYPE_CHECKING:
    from tree_sitter import Node

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit

_SIDE = 16
_CAST = re.compile(r"\((?:const)?(?:int|unsigned|unsignedint|size_t|long|longlong)\)")


def with_two_axes(unit: SourceUnit, kernel: KernelDescription) -> tuple[SourceUnit, KernelDescription] | None:
    """Return a source and its description with one axis for rows and one for columns, or None for other kernels."""
    block, body = LaunchSizes(kernel).block, unit.kernel.child_by_field_name("body")
    if block is None or block[1:] != (1, 1) or len(kernel.grid) != 1 or kernel.cooperative or body is None:
        return None
    index = LaunchSizes(kernel).global_indices(unit).get("x")
    if index is None or builtin_uses(unit.kernel, without=(index.node,)) or initialiser(unit.kernel, index.name) is None:
        return None
    parts = _parts(unit.kernel, index.name)
    test = _test(statements(body), index.name)
    declaration = _declaration(index.node)
    if parts is None or test is None or len(declaration.children_by_field_name("declarator")) != 1:
        return None
    condition, total, is_return = test
    values = _values(unit, kernel)
    rows = _other_factor(total, parts.columns, values)
    sizes = [_described(name, values) for name in (parts.columns, rows) if name is not None]
    if rows is None or len(sizes) != 2 or None in sizes:
        return None
    row, column, columns = parts.row, parts.column, parts.columns
    lines = [
        f"{parts.column_type} {column} = blockIdx.x * {_SIDE} + threadIdx.x;",
        f"{parts.row_type} {row} = blockIdx.y * {_SIDE} + threadIdx.y;",
        f"{text_of(declaration.child_by_field_name('type'))} {index.name} = {row} * {columns} + {column};",
    ]
    bounds = f"({row} >= {rows} || {column} >= {columns})" if is_return else f"({row} < {rows} && {column} < {columns})"
    edits = [
        Edit(declaration.start_byte, declaration.end_byte, "\n  ".join(lines)),
        Edit(condition.start_byte, condition.end_byte, bounds),
        *(Edit(node.start_byte, node.end_byte, "") for node in parts.declarations),
    ]
    grid = tuple(f"ceil_div({size}, {_SIDE})" for size in sizes)
    changed = kernel.model_copy(update={"grid": grid, "block": (_SIDE, _SIDE)})
    return parse_source(apply(unit.content, edits).encode(), kernel.entry), changed


@dataclass(frozen=True)
class _Parts:
    """Variables with quotient and remainder of an index, the divisor as text, and their declarations."""

    row: str
    column: str
    row_type: str
    column_type: str
    columns: str
    declarations: tuple[Node, ...]


def _parts(kernel: Node, index: str) -> _Parts | None:
    """Return the variables with `index / columns` and `index % columns`; None unless there is exactly one of each."""
    rows: dict[str, tuple[Node, str]] = {}
    columns: dict[str, tuple[Node, str]] = {}
    for node in walk(kernel):
        if node.type != "init_declarator":
            continue
        name, value = text_of(node.child_by_field_name("declarator")), _bare(text_of(node.child_by_field_name("value")))
        match = re.fullmatch(rf"{re.escape(index)}([/%])(\w+)", value)
        if match is not None:
            (rows if match[1] == "/" else columns)[name] = (node, match[2])
        for row, (_, divisor) in rows.items():
            if value in (f"{index}-{row}*{divisor}", f"{index}-{divisor}*{row}"):
                columns[name] = (node, divisor)
    if len(rows) != 1 or len(columns) != 1:
        return None
    ((row, (row_node, divisor)),), ((column, (column_node, other)),) = rows.items(), columns.items()
    nodes = dict.fromkeys((_declaration(row_node), _declaration(column_node)))
    declared = sum(len(node.children_by_field_name("declarator")) for node in nodes)
    if divisor != other or declared != 2 or any(initialiser(kernel, name) is None for name in (row, column)):
        return None
    types = [text_of(_declaration(node).child_by_field_name("type")) for node in (row_node, column_node)]
    return _Parts(row, column, types[0], types[1], divisor, tuple(nodes))


def _declaration(node: Node) -> Node:
    """Return the declaration around an initialiser."""
    return next(parent for parent in ancestors(node) if parent.type == "declaration")


def _test(nodes: list[Node], index: str) -> tuple[Node, str, bool] | None:
    """Return condition and limit of `if (index >= limit) return;` or `if (index < limit) {...}`, and whether it returns."""
    for node in nodes:
        condition = node.child_by_field_name("condition") if node.type == "if_statement" else None
        if condition is None:
            continue
        is_return = early_return(node) is not None
        match = re.fullmatch(
            rf"\({re.escape(index)}{'>=' if is_return else '<'}([\w*()]+)\)", re.sub(r"\s", "", text_of(condition))
        )
        is_whole = is_return or (node == nodes[-1] and node.child_by_field_name("alternative") is None)
        return (condition, _bare(match[1]), is_return) if match is not None and is_whole else None
    return None


def _bare(text: str) -> str:
    return re.sub(r"[()]", "", _CAST.sub("", re.sub(r"\s", "", text)))


def _other_factor(total: str, columns: str, values: dict[str, str]) -> str | None:
    """Return the number of rows, if a limit is their product with the number of columns."""
    factors = total.split("*")
    if len(factors) == 1 and total in values:
        by_value = {_bare(value): name for name, value in values.items()}
        factors = [by_value.get(part, part) for part in _bare(values[total]).split("*")]
    if len(factors) != 2 or columns not in factors:
        return None
    rows = factors[1] if factors[0] == columns else factors[0]
    return rows if rows in values or rows.isdigit() else None


def _values(unit: SourceUnit, kernel: KernelDescription) -> dict[str, str]:
    """Return the values of scalar arguments and macros, as expressions, by their names in the kernel."""
    scalars = LaunchSizes(kernel).scalars(unit)
    return {name: str(value) for name, value in kernel.defines.items()} | {name: str(a.value) for name, a in scalars.items()}


def _described(name: str, values: dict[str, str]) -> str | None:
    """Return the value of a name in the kernel as an expression of the description."""
    return name if name.isdigit() else values.get(name)
