"""Positions of accesses in their buffers as sums of terms, with local variables and pointers replaced by their initialisers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.syntax_nodes import called_name, text_of
from rocm_perf_lab.optimize.transforms.matrix_products import depends_on_names
from rocm_perf_lab.optimize.transforms.memory_roots import root_of
from rocm_perf_lab.optimize.transforms.rewriting import INDEX_TYPES, initialiser, subscript_index

if TYPE_CHECKING:
    from tree_sitter import Node

_DEPTH = 12
_OPPOSITE = {"+": "-", "-": "+"}


class AccessPositions:
    """Positions of accesses as functions of some variables.

    Args:
        kernel: Function.
        names: Variables that are not replaced.
    """

    def __init__(self, kernel: Node, names: set[str]) -> None:
        self._kernel = kernel
        self._names = names

    def terms(self, access: Node) -> list[tuple[str, Node]] | None:
        """Return the terms of an access's position with their signs; None for an unknown buffer."""
        base, index = access.child_by_field_name("argument"), subscript_index(access)
        if base is None or index is None or base.type != "identifier" or root_of(self._kernel, text_of(base)) is None:
            return None
        return [*self._terms(index, "+", _DEPTH), *self._terms(base, "+", _DEPTH)]

    def is_contiguous(self, terms: list[tuple[str, Node]], name: str) -> bool:
        """Return whether a variable is exactly one term of a position, and does not occur in other terms."""
        own = [sign for sign, node in terms if text_of(node) == name]
        return own == ["+"] and sum(self.depends(node, name) for _, node in terms) == 1

    def depends(self, node: Node, name: str) -> bool:
        """Return whether a node depends on a variable, directly or through initialisers."""
        return bool(depends_on_names(text_of(node), self._kernel, {name}, depth=_DEPTH))

    def _terms(self, node: Node, sign: str, depth: int) -> list[tuple[str, Node]]:
        found = [(own, child) for own, child in self._operands(node) if child is not None] if depth else []
        if not found:
            return [(sign, node)]
        return [term for own, child in found for term in self._terms(child, sign if own == "+" else _OPPOSITE[sign], depth - 1)]

    def _operands(self, node: Node) -> list[tuple[str, Node | None]]:
        """Return the operands of a sum or of a conversion, or the initialiser of a variable; empty for other expressions."""
        operator = text_of(node.child_by_field_name("operator"))
        if node.type == "binary_expression" and operator in _OPPOSITE:
            return [("+", node.child_by_field_name("left")), (operator, node.child_by_field_name("right"))]
        if node.type == "parenthesized_expression":
            return [("+", node.named_children[0])]
        if node.type == "cast_expression":
            return [("+", node.child_by_field_name("value"))]
        if node.type == "call_expression" and called_name(node) in INDEX_TYPES | {"static_cast"}:
            return [("+", next(iter((node.child_by_field_name("arguments") or node).named_children), None))]
        if node.type == "pointer_expression" and is_access(node.named_children[0]):
            access = node.named_children[0]
            return [("+", access.child_by_field_name("argument")), ("+", subscript_index(access))]
        if node.type == "identifier" and text_of(node) not in self._names:
            return [("+", initialiser(self._kernel, text_of(node)))]
        return []


def is_access(node: Node) -> bool:
    """Return whether a node is `base[index]`."""
    return node.type == "subscript_expression"


def has_address_taken(access: Node) -> bool:
    """Return whether a node is an access whose address is used."""
    parent = access.parent
    return is_access(access) and parent is not None and parent.type == "pointer_expression" and text_of(parent).startswith("&")


def initialises_pointer(access: Node) -> bool:
    """Return whether the address of an access initialises a pointer."""
    holder = access.parent.parent if access.parent is not None else None
    declarator = holder.child_by_field_name("declarator") if holder is not None and holder.type == "init_declarator" else None
    return declarator is not None and declarator.type == "pointer_declarator"


def read_only_load(access: Node) -> Node | None:
    """Return the call `__ldg(&access)` around an access, or None."""
    arguments = access.parent.parent if has_address_taken(access) and access.parent is not None else None
    call = arguments.parent if arguments is not None and arguments.type == "argument_list" else None
    return call if call is not None and called_name(call) == "__ldg" else None
