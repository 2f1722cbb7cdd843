"""Alias analysis of pointers in a kernel: pointers with different roots do not alias.

A root is a pointer parameter or an LDS array. The arguments of a described kernel are distinct buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.syntax_nodes import called_name, function_declarator, text_of, walk
from rocm_perf_lab.optimize.transforms.rewriting import initialiser, is_written, names_in

if TYPE_CHECKING:
    from tree_sitter import Node

    from rocm_perf_lab.optimize.transforms.rewriting import CountedLoop


def root_of(function: Node, pointer: str, *, depth: int = 8) -> str | None:
    """Return the parameter or array from which `pointer` is derived; None if unknown."""
    origins = _parameters(function) | _arrays(function)
    if pointer in origins:
        return pointer
    value = initialiser(function, pointer)
    if value is None or depth == 0:
        return None
    found = {root for name in names_in(value) if (root := root_of(function, name, depth=depth - 1)) is not None}
    return found.pop() if len(found) == 1 else None


def touched(function: Node, part: Node) -> tuple[set[str] | None, set[str] | None]:
    """Return the roots that are read and the roots that are written in `part`; None if one of them is unknown.

    A dereferenced pointer and the address of an atomic are both read and written. References may refer to anything.
    """
    if any(node.type == "reference_declarator" for node in walk(function.child_by_field_name("body") or function)):
        return None, None
    read: set[str | None] = set(dereferenced(function, part))
    written: set[str | None] = set(read)
    for node in walk(part):
        if node.type == "subscript_expression":
            base = node.child_by_field_name("argument")
            while base is not None and base.type == "subscript_expression":
                base = base.child_by_field_name("argument")
            if (
                node.parent is not None
                and node.parent.type == "subscript_expression"
                and node.parent.child_by_field_name("argument") == node
            ):
                continue
            root = root_of(function, text_of(base)) if base is not None and base.type == "identifier" else None
            read.add(root)
            if is_written(node):
                written.add(root)
    return (None if None in read else {r for r in read if r}, None if None in written else {r for r in written if r})


def _base(place: Node) -> Node:
    """Return `a` for `&a[i][b[j]]`, because the buffer does not depend on the index."""
    if place.type == "pointer_expression" and text_of(place).startswith("&"):
        argument = place.child_by_field_name("argument")
        while argument is not None and argument.type == "subscript_expression":
            argument = argument.child_by_field_name("argument")
        return argument or place
    return place


def dereferenced(function: Node, part: Node) -> set[str | None]:
    """Return the roots of pointers that `part` uses other than by an index: `*p`, `p->x`, `atomicAdd(p, x)`; None for unknown."""
    found: set[str | None] = set()
    for node in walk(part):
        if node.type == "pointer_expression" and text_of(node).startswith("*"):
            place: Node | None = node
        elif node.type == "field_expression" and text_of(node.child_by_field_name("operator")) == "->":
            place = node.child_by_field_name("argument")
        elif node.type == "call_expression" and "atomic" in called_name(node).lower():
            place = next(iter((node.child_by_field_name("arguments") or node).named_children), None)
        else:
            continue
        roots = {root_of(function, name) for name in names_in(_base(place))} - {None} if place is not None else set()
        found.add(next(iter(roots)) if len(roots) == 1 else None)
    return found


def end_changes(function: Node, loop: CountedLoop) -> bool:
    """Return whether a loop may write to the memory from which its end is read."""
    test = loop.node.child_by_field_name("condition")
    read, _ = touched(function, test) if test is not None else (set(), set())
    _, written = touched(function, loop.body)
    return bool(read is None or (read and (written is None or read & written)))


def _parameters(function: Node) -> set[str]:
    parameters = function_declarator(function).child_by_field_name("parameters")
    found = set()
    for parameter in parameters.named_children if parameters is not None else []:
        declarator = parameter.child_by_field_name("declarator")
        if declarator is not None and declarator.type == "pointer_declarator":
            found.add(text_of(declarator.named_children[-1]))
    return found


def _arrays(function: Node) -> set[str]:
    found = set()
    for node in walk(function):
        if node.type == "declaration":
            for declarator in (c for c in node.named_children if c.type == "array_declarator"):
                inner: Node | None = declarator
                while inner is not None and inner.type == "array_declarator":
                    inner = inner.child_by_field_name("declarator")
                found.add(text_of(inner))
    return found
