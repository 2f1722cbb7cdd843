"""Indices that a kernel computes from its work-item: `blockIdx.x * blockDim.x + threadIdx.x`, and its early return."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.expressions import ExpressionError, evaluate, evaluate_integer
from rocm_perf_lab.optimize.syntax_nodes import text_of, walk

if TYPE_CHECKING:
    from tree_sitter import Node

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit

_CASTS = re.compile(r"\((?:const )?(?:int|unsigned|unsigned int|size_t|long|long long|uint32_t|int64_t)\)|\s+|[()]")
_BUILTIN = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*[xyz]\b")


@dataclass(frozen=True)
class GlobalIndex:
    """Variable with the global index of the work-item along one axis. `node` is the initialiser."""

    name: str
    axis: str
    node: Node


class LaunchSizes:
    """Workgroup size of a description, and the macros that have its value.

    Args:
        kernel: Description with an own workgroup size.
    """

    def __init__(self, kernel: KernelDescription) -> None:
        self._kernel = kernel

    @property
    def block(self) -> tuple[int, int, int] | None:
        """Return the workgroup size, or None if it has none or cannot be evaluated."""
        try:
            sizes = [evaluate_integer(e, self._kernel.params, where="kernel.block") for e in self._kernel.block]
        except ExpressionError:
            return None
        x, y, z = (*sizes, 1, 1, 1)[:3]
        return (x, y, z) if sizes else None

    def value(self, unit: SourceUnit, text: str) -> int | None:
        """Return the value of a literal or of a macro, or None."""
        text = text.strip()
        if text.isdigit():
            return int(text)
        if text in self._kernel.defines:
            try:
                found = evaluate(self._kernel.defines[text], self._kernel.params, where="kernel.defines")
            except ExpressionError:
                return None
            return int(found) if isinstance(found, int) else None
        return unit.macro_value(text)

    def global_indices(self, unit: SourceUnit) -> dict[str, GlobalIndex]:
        """Return the variables of the kernel that are the global index of an axis, by axis. An axis with several has none."""
        block = self.block
        found: dict[str, list[GlobalIndex]] = {}
        for node in walk(unit.kernel) if block is not None else ():
            if node.type != "init_declarator":
                continue
            name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
            if name is None or value is None or name.type != "identifier":
                continue
            axis = self._axis(unit, value, block or (1, 1, 1))
            if axis is not None:
                found.setdefault(axis, []).append(GlobalIndex(text_of(name), axis, value))
        return {axis: rows[0] for axis, rows in found.items() if len(rows) == 1}

    def _axis(self, unit: SourceUnit, value: Node, block: tuple[int, int, int]) -> str | None:
        bare = _CASTS.sub("", text_of(value))
        for number, axis in enumerate("xyz"):
            terms = sorted(bare.split("+"))
            if len(terms) != 2 or terms[1] != f"threadIdx.{axis}":
                continue
            factors = sorted(terms[0].split("*"))
            if f"blockIdx.{axis}" not in factors or len(factors) != 2:
                continue
            other = next(f for f in factors if f != f"blockIdx.{axis}")
            if other == f"blockDim.{axis}" or self.value(unit, other) == block[number]:
                return axis
        return None


def builtin_uses(node: Node, *, without: tuple[Node, ...] = ()) -> set[str]:
    """Return the work-item builtins that are used in a node, outside of the nodes `without`."""
    spans = [(n.start_byte, n.end_byte) for n in without]
    return {
        text_of(inner).replace(" ", "")
        for inner in walk(node)
        if inner.type == "field_expression"
        and _BUILTIN.fullmatch(text_of(inner))
        and not any(start <= inner.start_byte < end for start, end in spans)
    }


def early_return(statement: Node) -> Node | None:
    """Return the condition of `if (condition) return;`, or None."""
    if statement.type != "if_statement" or statement.child_by_field_name("alternative") is not None:
        return None
    inner = statement.child_by_field_name("consequence")
    if inner is not None and inner.type == "compound_statement":
        children = [c for c in inner.named_children if c.type != "comment"]
        inner = children[0] if len(children) == 1 else None
    is_return = inner is not None and inner.type == "return_statement" and not inner.named_children
    return statement.child_by_field_name("condition") if is_return else None


def statements(body: Node) -> list[Node]:
    """Return the statements of a block without comments, or the statement itself."""
    if body.type != "compound_statement":
        return [body]
    return [child for child in body.named_children if child.type != "comment"]


@dataclass(frozen=True)
class Guarded:
    """Statements of a kernel without the test of its indices.

    Args:
        nodes: Statements.
        bounds: Limit of each index.
        others: Conditions for an early return that name no index.
    """

    nodes: list[Node]
    bounds: dict[str, str]
    others: list[str]


def guarded(nodes: list[Node], names: set[str]) -> Guarded | None:
    """Return the statements behind tests that limit all indices, or None."""
    found = Guarded([], {}, [])
    while True:
        inner: list[Node] = []
        for place, node in enumerate(nodes):
            returned = early_return(node) if set(found.bounds) != names else None
            if returned is not None:
                if not _add_bounds(found, returned, names, outside=True):
                    return None
                continue
            condition = node.child_by_field_name("condition") if node.type == "if_statement" else None
            is_last = place == len(nodes) - 1 and node.child_by_field_name("alternative") is None
            if condition is not None and is_last and set(found.bounds) != names:
                block = node.child_by_field_name("consequence")
                if block is None or not _add_bounds(found, condition, names, outside=False):
                    return None
                inner = statements(block)
                continue
            found.nodes.append(node)
        if not inner:
            return found if set(found.bounds) == names else None
        nodes = inner


def _add_bounds(found: Guarded, condition: Node, names: set[str], *, outside: bool) -> bool:
    """Add the bounds in `row >= m || col >= n` (outside) or `row < m && col < n`; return False for other conditions."""
    text = re.sub(r"\s+", " ", text_of(condition)).strip()
    while text.startswith("(") and text.endswith(")") and _closes_at_end(text):
        text = text[1:-1].strip()
    for part in text.split("||" if outside else "&&"):
        if "||" in part or "&&" in part:
            return False
        match = re.fullmatch(r"\(?\s*(\w+)\s*(>=|<)\s*(\w+)\s*\)?", part.strip())
        if match is not None and match[1] in names and match[2] == (">=" if outside else "<") and match[3] not in names:
            found.bounds[match[1]] = match[3]
        elif part.count("(") == part.count(")") and not names & set(re.findall(r"[A-Za-z_]\w*", part)):
            found.others.append(part.strip() if outside else f"!({part.strip()})")
        else:
            return False
    return True


def _closes_at_end(text: str) -> bool:
    """Return whether the first parenthesis is closed by the last character."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return place == len(text) - 1
    return False


def covering(kernel: KernelDescription, grid: str, old: int, new: int) -> str:
    """Return the workgroups of size `new` that cover those of size `old`, without the part that no work-item needed."""
    match = re.fullmatch(r"ceil_div\((?P<items>[^(),]+), *(?P<block>\w+)\)", grid)
    if match is not None:
        try:
            if evaluate_integer(match["block"], kernel.params, where="kernel.grid") == old:
                return f"ceil_div({match['items'].strip()}, {new})"
        except ExpressionError:
            pass
    return f"ceil_div(({grid}) * {old}, {new})"
