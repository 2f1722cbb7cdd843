"""Statements of one work-item, written for several elements: `sum += a[i];` becomes `sum_0 += a[i_0]; sum_1 += a[i_1];`.

A variable has one copy per element on which it depends. Statements, loops and branches that do not depend on an element are not
copied: elements share loads of a row for several columns, or the header of a loop over a common dimension. The result is one of
the possible orders of execution of independent work-items, because the order of the statements of one element does not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.loops import loop_at
from rocm_perf_lab.optimize.syntax_nodes import is_statement, text_of, walk
from rocm_perf_lab.optimize.transforms.reductions import declared_in
from rocm_perf_lab.optimize.transforms.rewriting import Edit, apply_within, assigned_names, jumps_in, names_in
from rocm_perf_lab.optimize.transforms.thread_indices import statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit

_LOOPS = frozenset({"for_statement", "while_statement"})
_PLACES = frozenset({"subscript_expression", "pointer_expression", "field_expression"})
_ASSIGNMENTS = frozenset({"assignment_expression", "update_expression"})

Coordinates = dict[str, int]
"""Number of an element along each axis."""


@dataclass(frozen=True)
class ElementAxis:
    """Elements of a work-item along one axis of the launch.

    Args:
        index: Variable with the index of the element.
        initialiser: Its initialiser in the source.
        count: Number of elements.
        first: Index of the first element, as source text.
        step: Distance between elements.
    """

    index: str
    initialiser: Node
    count: int
    first: str
    step: int


class ElementCopies:
    """Copies of statements for the elements of a work-item.

    Args:
        unit: Source.
        axes: Elements by axis.
        nodes: Statements of the kernel.
    """

    def __init__(self, unit: SourceUnit, axes: Mapping[str, ElementAxis], nodes: Sequence[Node]) -> None:
        self._unit = unit
        self._axes = dict(axes)
        self._locals = frozenset().union(*map(declared_in, nodes))
        self._arrays = frozenset().union(*map(local_arrays, nodes))
        self._depends: dict[str, frozenset[str]] = {axis.index: frozenset({name}) for name, axis in axes.items()}
        size = -1
        while size != sum(map(len, self._depends.values())):
            size = sum(map(len, self._depends.values()))
            for node in nodes:
                self._mark(node)
        self._separator = "_"
        known = {text_of(node) for node in walk(unit.root) if node.type == "identifier"}
        while any(name.startswith(f"{own}{self._separator}") for name in known for own in self._depends):
            self._separator += "_"

    def elements(self) -> list[Coordinates]:
        """Return the coordinates of all elements of a work-item."""
        return self._coordinates(frozenset(self._axes))

    def name(self, name: str, at: Coordinates) -> str:
        """Return the name of the copy of a variable."""
        axes = sorted(self._depends.get(name, ()))
        return name + self._separator + "".join(str(at[axis]) for axis in axes) if axes else name

    def copies(self, node: Node) -> list[str]:
        """Return a statement for all elements."""
        if node.type == "compound_statement":
            return ["{", *(line for inner in statements(node) for line in self.copies(inner)), "}"]
        if node.type in _LOOPS and self._is_shared(node):
            body = node.child_by_field_name("body")
            assert body is not None
            pragma = loop_at(self._unit, node).pragma
            before = [] if pragma is None else [self._unit.content[slice(*pragma)].decode().strip()]
            return [*before, f"{self._header(node, body)} {{", *self._inside(body), "}"]
        if node.type == "if_statement" and self._is_shared(node):
            return self._branches(node)
        if len(variables := node.children_by_field_name("declarator")) > 1:
            kind = self._unit.content[node.start_byte : variables[0].start_byte].decode()
            return [f"{kind}{self.copy(one, at)};" for one in variables for at in self._coordinates(self._axes_of(one))]
        return [self.copy(node, at) for at in self._coordinates(self._axes_of(node))]

    def copy(self, node: Node, at: Coordinates) -> str:
        """Return a statement or expression for one element."""
        edits = []
        replaced = {axis.initialiser.start_byte: self._initial(name, at) for name, axis in self._axes.items() if name in at}
        ends = {axis.initialiser.start_byte: axis.initialiser.end_byte for axis in self._axes.values()}
        skipped_to = -1
        for inner in walk(node):
            if inner.start_byte in replaced and inner.end_byte == ends[inner.start_byte] and inner.start_byte >= skipped_to:
                edits.append(Edit(inner.start_byte, inner.end_byte, replaced[inner.start_byte]))
                skipped_to = inner.end_byte
            elif inner.type == "identifier" and inner.start_byte >= skipped_to and text_of(inner) in self._depends:
                edits.append(Edit(inner.start_byte, inner.end_byte, self.name(text_of(inner), at)))
        pragma = loop_at(self._unit, node).pragma if node.type in _LOOPS else None
        start = node.start_byte if pragma is None else pragma[0]
        return apply_within(self._unit.content[start : node.end_byte], start, edits).strip()

    def _initial(self, name: str, at: Coordinates) -> str:
        """Return the index of an element; those after the first are sums, which show the compiler consecutive addresses."""
        axis = self._axes[name]
        return axis.first if at[name] == 0 else f"{self.name(axis.index, {**at, name: 0})} + {at[name] * axis.step}"

    def _branches(self, node: Node) -> list[str]:
        inside, other = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
        assert inside is not None
        lines = [f"{self._header(node, inside)} {{", *self._inside(inside)]
        if other is not None:
            lines += ["} else {", *(line for part in _clauses(other) for line in self._inside(part))]
        return [*lines, "}"]

    def _header(self, node: Node, body: Node) -> str:
        before = [child for child in node.children if child.start_byte < body.start_byte and child.type != "comment"]
        return self._unit.content[node.start_byte : before[-1].end_byte].decode()

    def _inside(self, body: Node) -> list[str]:
        return [line for inner in statements(body) for line in self.copies(inner)]

    def _coordinates(self, axes: Iterable[str]) -> list[Coordinates]:
        names = sorted(axes)
        return [dict(zip(names, at, strict=True)) for at in product(*(range(self._axes[name].count) for name in names))]

    def _axes_of(self, node: Node) -> frozenset[str]:
        """Return the axes on which a statement depends; all of them if it has side effects other than on variables."""
        return self._named_axes(node) if all(map(_only_assigns, walk(node))) else frozenset(self._axes)

    def _named_axes(self, *nodes: Node) -> frozenset[str]:
        empty: frozenset[str] = frozenset()
        return empty.union(*(self._depends.get(name, empty) for node in nodes for name in names_in(node)))

    def _is_shared(self, node: Node) -> bool:
        """Return whether a loop or branch has the same control flow for all elements, and no jump."""
        header = (node.child_by_field_name(field) for field in ("initializer", "condition", "update"))
        return not self._named_axes(*(part for part in header if part is not None)) and not any(map(jumps_in, node.children))

    def _mark(self, node: Node) -> None:
        """Add the axes on which the variables changed by a statement depend."""
        if node.type == "compound_statement" or (node.type in _LOOPS | {"if_statement"} and self._is_shared(node)):
            for part in _parts(node):
                self._mark(part)
            return
        if len(variables := node.children_by_field_name("declarator")) > 1:
            for variable in variables:
                self._mark(variable)
            return
        axes = self._axes_of(node)
        for name in self._changed(node) if axes else ():
            self._depends[name] = self._depends.get(name, frozenset()) | axes

    def _changed(self, node: Node) -> set[str]:
        """Return the local variables that a statement declares or changes, and local arrays with changed elements."""
        found = (assigned_names(node) | declared_in(node)) & self._locals
        if node.type.endswith("declarator") or node.type == "identifier":
            found.add(next(text_of(name) for name in walk(node) if name.type == "identifier"))
        for inner in walk(node):
            if inner.type in _ASSIGNMENTS:
                found |= names_in(inner.child_by_field_name("left") or inner) & self._arrays
        return found


def local_arrays(node: Node) -> set[str]:
    """Return the names of arrays that are declared in a node."""
    found = set()
    for declarator in walk(node):
        inner: Node | None = declarator if declarator.type == "array_declarator" else None
        while inner is not None and inner.type != "identifier":
            inner = inner.child_by_field_name("declarator") or next(iter(inner.named_children), None)
        found |= {text_of(inner)} if inner is not None else set()
    return found


def _parts(node: Node) -> list[Node]:
    """Return the statements in a block, branch or loop."""
    if node.type == "compound_statement":
        return statements(node)
    found = (node.child_by_field_name(field) for field in ("consequence", "alternative", "body"))
    return [statement for part in found if part is not None for clause in _clauses(part) for statement in statements(clause)]


def _clauses(node: Node) -> list[Node]:
    """Return the content of an `else` clause, or the node itself."""
    return [child for child in node.named_children if child.type != "comment"] if node.type == "else_clause" else [node]


def _only_assigns(node: Node) -> bool:
    """Return False for a node with side effects other than on variables: stores to memory, or calls whose result is unused."""
    if node.type == "call_expression":
        return not is_statement(node)
    if node.type not in _ASSIGNMENTS:
        return True
    target = node.child_by_field_name("left") or node.child_by_field_name("argument")
    return not any(part.type in _PLACES for part in walk(target or node))


def indented(code: Sequence[str]) -> list[str]:
    """Return code, split into lines and indented by two spaces per open brace."""
    found, depth = [], 0
    for line in (part.strip() for lines in code for part in lines.splitlines()):
        closing = len(line) - len(line.lstrip("}"))
        found.append("  " * (depth - closing) + line if line else "")
        depth += line.count("{") - line.count("}")
    return found
