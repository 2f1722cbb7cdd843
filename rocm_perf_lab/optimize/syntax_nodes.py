"""Helpers for nodes of tree-sitter's CUDA grammar: traversal, positions, names of functions and calls. Lines count from 1."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

_WORD = re.compile(r"[A-Za-z_]\w*")


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and its descendants in source order."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.children))


def ancestors(node: Node) -> Iterator[Node]:
    """Yield the ancestors of a node, innermost first."""
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def text_of(node: Node | None) -> str:
    """Return the source text of a node; empty for None."""
    return ((node.text if node is not None else None) or b"").decode(errors="replace")


def line_of(node: Node) -> int:
    """Return the line of a node, from 1."""
    return int(node.start_point[0]) + 1


def words_of(text: str) -> list[str]:
    """Return identifiers and keywords in source order."""
    return _WORD.findall(text)


def is_statement(expression: Node) -> bool:
    """Return whether an expression is a whole statement, so that its value is unused."""
    return expression.parent is not None and expression.parent.type == "expression_statement"


def function_declarator(function: Node) -> Node:
    """Return the declarator of a function definition: name and parameters."""
    declarator = function.child_by_field_name("declarator")
    assert declarator is not None
    while declarator.type != "function_declarator":
        inner = declarator.child_by_field_name("declarator") or next(
            (child for child in declarator.named_children if "declarator" in child.type), None
        )
        if inner is None:
            break
        declarator = inner
    return declarator


def specifiers_of(function: Node) -> list[str]:
    """Return the identifiers before a function's declarator: `__global__`, `static`, the return type, macros."""
    length = function_declarator(function).start_byte - function.start_byte
    return words_of((function.text or b"")[:length].decode(errors="replace"))


def function_name(function: Node) -> str:
    """Return the unqualified name of a function definition."""
    declarator = function.child_by_field_name("declarator")
    if declarator is None:
        return ""
    name = function_declarator(function).child_by_field_name("declarator")
    return text_of(name).rpartition("::")[2] if name is not None else ""


def qualified_name(function: Node) -> str:
    """Return the name of a function definition with its namespaces."""
    names = [node.child_by_field_name("name") for node in ancestors(function) if node.type == "namespace_definition"]
    return "::".join([*(text_of(name) for name in reversed(names) if name is not None), function_name(function)])


def called_name(call: Node) -> str:
    """Return the unqualified name of the called function."""
    function = call.child_by_field_name("function")
    if function is None:
        return ""
    if function.type == "template_function":
        function = function.child_by_field_name("name") or function
    if function.type == "field_expression":
        function = function.child_by_field_name("field") or function
    return text_of(function).rpartition("::")[2]
