"""Guard on the source text outside the kernel: host code and other kernels do not change.

A rewrite may add device functions, types, constants, aliases and namespaces, and may change those that only the kernel uses.
Names used by host code, other kernels or the kernel's declaration must keep their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.guards import GuardResult
from rocm_perf_lab.optimize.syntax_nodes import (
    function_declarator,
    function_name,
    line_of,
    specifiers_of,
    text_of,
    walk,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tree_sitter import Node

    from rocm_perf_lab.optimize.inspection import CandidateSource
    from rocm_perf_lab.optimize.source_tree import SourceUnit

_TYPES = frozenset({"struct_specifier", "class_specifier", "enum_specifier", "union_specifier"})
_NAMES = frozenset(
    {"alias_declaration", "type_definition", "using_declaration", "namespace_alias_definition", "concept_definition"}
)
_WITHOUT_EFFECT = frozenset({"static_assert_declaration", ";", "empty_statement"})
_CONTAINERS = frozenset({"namespace_definition", "linkage_specification"})
_CONDITIONALS = frozenset({"preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef"})
_DIRECTIVES = frozenset({"preproc_def", "preproc_function_def", "preproc_call", "preproc_include", "preproc_directive"})
_CALLS = frozenset({"call_expression", "lambda_expression", "new_expression", "statement_expression", "assignment_expression"})


class SameHostCode:
    """Code outside the kernel and device functions does not change: host code, other kernels, launches. Device functions, types,
    constants and namespaces may be added under names that this code does not use."""

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Check that fixed items are present, in order, and that new items cannot change their meaning."""
        expected, words = _required(baseline.source)
        position = 0
        for item in fixed_items(candidate.source):
            if position < len(expected) and item.tokens == expected[position].tokens:
                position += 1
                continue
            why = _reason(candidate.source, item, words)
            if why is not None:
                return GuardResult("host", False, f"line {item.line} {why}: {_shortened(item.tokens)}")
        if position < len(expected):
            return GuardResult("host", False, f"changed or missing: {_shortened(expected[position].tokens)}")
        return GuardResult("host", True, "unchanged")


@dataclass(frozen=True)
class FixedItem:
    """Top-level item of a file other than the kernel and device functions.

    `tokens` excludes white space and comments, and begins with the enclosing namespaces and preprocessor conditions.
    """

    kind: str
    line: int
    tokens: str
    node: Node = field(compare=False, repr=False)


def fixed_items(unit: SourceUnit) -> tuple[FixedItem, ...]:
    """Return all top-level items except the kernel, device-only functions and directives, in source order."""
    return tuple(_items(unit, unit.root, ""))


def fixed_words(unit: SourceUnit) -> frozenset[str]:
    """Return the identifiers in code that a rewrite must not change."""
    return _required(unit)[1]


def _required(unit: SourceUnit) -> tuple[Sequence[FixedItem], frozenset[str]]:
    """Return the items that must not change, and their identifiers.

    These are host code, other kernels, and the types and constants used by them or by the kernel's declaration.
    """
    items = fixed_items(unit)
    required = {item for item in items if _reason(unit, item, frozenset()) is not None}
    words = set(words_of(text_of(function_declarator(unit.kernel)))) | set(specifiers_of(unit.kernel))
    size = -1
    while size != len(required) + len(words):
        size = len(required) + len(words)
        words |= {word for item in required for word in words_of(item.tokens)}
        words |= {inner for word in tuple(words) for inner in unit.expanded(word)}
        required |= {item for item in items if _introduced(item.node) & words}
    return [item for item in items if item in required], frozenset(words)


def _items(unit: SourceUnit, container: Node, around: str) -> Iterator[FixedItem]:
    for node in container.children:
        body = node.child_by_field_name("body")
        if node.type == "comment" or node.type in _DIRECTIVES or (not node.is_named and node.type != ";"):
            continue
        if node.type in _CONDITIONALS:
            condition = node.child_by_field_name("condition") or node.child_by_field_name("name")
            kind = node.children[0].type
            yield from _items(unit, node, f"{around}{kind} {text_of(condition)} ")
        elif container.type in _CONDITIONALS and node in (
            container.child_by_field_name("condition"),
            container.child_by_field_name("name"),
        ):
            continue
        elif node.type in _CONTAINERS and body is not None and body.type == "declaration_list":
            yield from _items(unit, body, f"{around}{_tokens(node, without=body)} ")
        elif node.type == "linkage_specification" and body is not None and _is_free(unit, body):
            continue
        elif not _is_free(unit, node):
            yield FixedItem(node.type, line_of(node), around + _tokens(node), node)


def _reason(unit: SourceUnit, item: FixedItem, fixed: frozenset[str]) -> str | None:
    """Return the reason to reject a new item; None if it has no effect on other code."""
    node = _inside_template(item.node)
    taken = sorted(_introduced(node) & fixed)
    if taken:
        return f"changes {taken[0]}, which host code, other kernels or the kernel's declaration use"
    words = _specifiers(unit, node)
    harmless = (
        node.type in _WITHOUT_EFFECT
        or node.type in _NAMES
        or (node.type in _TYPES and not _has_static_state(unit, node) and "::" not in text_of(node.child_by_field_name("name")))
        or (node.type == "template_instantiation" and "__global__" not in words_of(text_of(node)))
        or (node.type == "declaration" and _is_constant(node, words))
        or (node.type == "function_definition" and _is_helper(node, words))
    )
    return None if harmless else "is new"


def _is_constant(node: Node, words: set[str]) -> bool:
    if any(child.type in _TYPES and child.child_by_field_name("body") is not None for child in node.named_children):
        return False
    if words & {"constexpr", "__constant__", "__device__", "__shared__"}:
        return "__managed__" not in words
    return "const" in words and not any(inner.type in _CALLS for inner in walk(node))


def _is_helper(node: Node, words: set[str]) -> bool:
    return (
        bool(words & {"constexpr", "__device__"}) and "__global__" not in words and not function_name(node).startswith("operator")
    )


def _has_static_state(unit: SourceUnit, node: Node) -> bool:
    """Return whether a type has static data members, which host code initialises."""
    fields = (inner for inner in walk(node) if inner.type == "field_declaration")
    return any(
        "static" in (words := _specifiers(unit, inner)) and "constexpr" not in words for inner in fields if not _is_method(inner)
    )


def _is_method(declaration: Node) -> bool:
    return any(child.type == "function_declarator" for child in declaration.named_children)


def _introduced(node: Node) -> frozenset[str]:
    """Return the names that an item declares."""
    node = _inside_template(node)
    if node.type == "function_definition":
        return frozenset({function_name(node)})
    if node.type == "using_declaration":
        return frozenset(words_of(text_of(node))[-1:])
    if node.type == "type_definition":
        return frozenset(words_of(text_of(node.child_by_field_name("declarator")))[-1:])
    if node.type in _TYPES or node.type in _NAMES:
        names = words_of(text_of(node.child_by_field_name("name")).partition("<")[0])
        return frozenset(names) | (_enumerators(node) if node.type == "enum_specifier" else frozenset())
    if node.type == "declaration":
        return frozenset(name for child in node.children_by_field_name("declarator") for name in _declared(child))
    return frozenset()


def _enumerators(node: Node) -> frozenset[str]:
    return frozenset(text_of(inner.child_by_field_name("name")) for inner in walk(node) if inner.type == "enumerator")


def _declared(declarator: Node) -> Iterator[str]:
    while (inner := declarator.child_by_field_name("declarator")) is not None:
        declarator = inner
    yield from words_of(text_of(declarator))[-1:]


def _inside_template(node: Node) -> Node:
    while node.type == "template_declaration":
        node = next((child for child in reversed(node.named_children) if child.type != "comment"), node)
    return node


def _specifiers(unit: SourceUnit, node: Node) -> set[str]:
    """Return the words before the declarator, including those in the expansion of macros."""
    if node.type == "function_definition":
        words = set(specifiers_of(node))
    else:
        first = node.child_by_field_name("declarator")
        end = first.start_byte if first is not None else node.end_byte
        words = {
            w for child in node.children if child.start_byte < end and child.type not in _TYPES for w in words_of(text_of(child))
        }
    return words | {inner for word in tuple(words) for inner in unit.expanded(word)}


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _is_free(unit: SourceUnit, node: Node) -> bool:
    """Return whether a rewrite may change an item: the kernel, and device-only functions and their templates."""
    node = _inside_template(node)
    if node.type == "declaration":  # a prototype
        words = set(words_of(text_of(node)))
        return "__device__" in words and not words & {"__host__", "__constant__"} and _has_prototype(node)
    if node.type != "function_definition":
        return False
    if node == unit.kernel:
        return True
    words = _specifiers(unit, node)
    return "__device__" in words and not words & {"__host__", "__global__"}


def _tokens(node: Node, *, without: Node | None = None) -> str:
    leaves = (leaf for leaf in walk(node) if not leaf.children and leaf.type != "comment")
    kept = (leaf for leaf in leaves if without is None or not without.start_byte <= leaf.start_byte < without.end_byte)
    return " ".join(text_of(leaf) for leaf in kept)


def _has_prototype(declaration: Node) -> bool:
    return any(child.type == "function_declarator" for child in declaration.named_children)
