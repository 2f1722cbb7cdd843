"""What stands at the top of a source besides device code, and has to stay as it is: host code, globals, includes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.syntax_nodes import line_of, specifiers_of, text_of, walk, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit

_CONTAINERS = frozenset({"namespace_definition", "linkage_specification"})


@dataclass(frozen=True)
class FixedItem:
    """Something at the top of a file that a rewrite must leave alone; `tokens` without white space and comments."""

    kind: str
    line: int
    tokens: str


def fixed_items(unit: SourceUnit) -> tuple[FixedItem, ...]:
    """Everything at the top of the file but the kernel and functions that run on the device alone, in source order."""
    return tuple(_fixed(unit, unit.root))


def _fixed(unit: SourceUnit, container: Node) -> Iterator[FixedItem]:
    for node in container.children:
        if node.type in ("comment", "{", "}"):
            continue
        body = node.child_by_field_name("body")
        if node.type in _CONTAINERS and body is not None and body.type == "declaration_list":
            yield FixedItem(node.type, line_of(node), _tokens(node, without=body))
            yield from _fixed(unit, body)
        elif node.type == "linkage_specification" and body is not None and _is_free(unit, body):
            continue
        elif not _is_free(unit, node):
            yield FixedItem(node.type, line_of(node), _tokens(node))


def _is_free(unit: SourceUnit, node: Node) -> bool:
    """The kernel itself, and functions (and templates of them) that run on the device alone."""
    if node.type == "template_declaration":
        node = next((child for child in node.named_children if child.type == "function_definition"), node)
    if node.type == "declaration":  # a prototype
        words = set(words_of(text_of(node)))
        return "__device__" in words and not words & {"__host__", "__constant__"} and _has_prototype(node)
    if node.type != "function_definition":
        return False
    if node == unit.kernel:
        return True
    words = set(specifiers_of(node))
    words |= {inner for word in tuple(words) for inner in unit.expanded(word)}
    return "__device__" in words and not words & {"__host__", "__global__"}


def _tokens(node: Node, *, without: Node | None = None) -> str:
    leaves = (leaf for leaf in walk(node) if not leaf.children and leaf.type != "comment")
    kept = (leaf for leaf in leaves if without is None or not without.start_byte <= leaf.start_byte < without.end_byte)
    return " ".join(text_of(leaf) for leaf in kept)


def _has_prototype(declaration: Node) -> bool:
    return any(child.type == "function_declarator" for child in declaration.named_children)
