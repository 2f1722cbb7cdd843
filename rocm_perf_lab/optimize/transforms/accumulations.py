"""Statements that accumulate a variable: sums, bit operations, and extremes by calls, tests or selections."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.optimize.syntax_nodes import called_name, is_statement, text_of, walk
from rocm_perf_lab.optimize.transforms.expression_types import is_floating, scalar_type
from rocm_perf_lab.optimize.transforms.rewriting import element_type, names_in

if TYPE_CHECKING:
    from tree_sitter import Node

Operation = Literal["sum", "max", "min", "or", "and", "first max", "first min", "scaled sums"]
MAXIMA = frozenset({"fmaxf", "fmax", "max", "__builtin_fmaxf", "__builtin_fmax"})
MINIMA = frozenset({"fminf", "fmin", "min", "__builtin_fminf", "__builtin_fmin"})
_SIMPLE: dict[str, Operation] = {"+=": "sum", "-=": "sum", "|=": "or", "&=": "and"}


def accumulating(name: str, node: Node) -> Operation | None:
    """Return the operation with which a statement accumulates a variable; None for other statements."""
    if not is_statement(node):
        return None
    if node.type == "update_expression":
        return "sum" if "++" in text_of(node) else None
    right, operator = node.child_by_field_name("right"), text_of(node.child_by_field_name("operator"))
    if right is None:
        return None
    if operator in _SIMPLE:
        return _SIMPLE[operator] if name not in names_in(right) else None
    if operator != "=" or occurrences(right, name) != 1:
        return None
    if right.type == "call_expression" and called_name(right) in MAXIMA | MINIMA:
        arguments = right.child_by_field_name("arguments")
        if arguments is not None and name in [text_of(a) for a in arguments.named_children]:
            return "max" if called_name(right) in MAXIMA else "min"
    sides = (text_of(right.child_by_field_name("left")), text_of(right.child_by_field_name("right")))
    is_sum = right.type == "binary_expression" and text_of(right.child_by_field_name("operator")) == "+" and name in sides
    return "sum" if is_sum else None


def tested_extreme(name: str, node: Node) -> tuple[Operation, Node] | None:
    """Return the operation of `if (value > name) name = value;` with its test, or None. A NaN is never assigned there."""
    statement = node.parent
    block = statement.parent if statement is not None and statement.type == "expression_statement" else None
    if block is not None and block.type == "compound_statement":
        block = block.parent if [c for c in block.named_children if c.type != "comment"] == [statement] else None
    right = node.child_by_field_name("right")
    if block is None or block.type != "if_statement" or block.child_by_field_name("alternative") is not None or right is None:
        return None
    test = block.child_by_field_name("condition")
    if test is None or text_of(node.child_by_field_name("operator")) != "=":
        return None
    operation = _compared(test, name, right)
    return (operation, test) if operation is not None else None


def chosen_extreme(name: str, node: Node, kind: str) -> Operation | None:
    """Return the operation of `name = value > name ? value : name`, or None.

    If `name` is chosen by a test that a NaN fails, the order of floating-point elements matters.
    """
    right = node.child_by_field_name("right")
    while right is not None and right.type == "parenthesized_expression":
        right = next(iter(right.named_children), None)
    if right is None or right.type != "conditional_expression" or text_of(node.child_by_field_name("operator")) != "=":
        return None
    test, first, second = (right.child_by_field_name(n) for n in ("condition", "consequence", "alternative"))
    if test is None or first is None or second is None:
        return None
    if _bare(second) == name:
        return _compared(test, name, first)
    if _bare(first) == name and not is_floating(kind):
        opposite = _compared(test, name, second)
        return None if opposite is None else ("min" if opposite == "max" else "max")
    return None


def compares_otherwise(function: Node, kind: str, node: Node) -> bool:
    """Return whether a test may compare values in an integer type other than that of the variable."""
    if is_floating(kind):
        return False
    plain = kind.removeprefix("const ")
    for value in (
        n for n in walk(node) if n.type in ("identifier", "subscript_expression", "call_expression", "cast_expression")
    ):
        if value.type == "identifier" and scalar_type(function, text_of(value)) not in (plain, f"const {plain}", None):
            return True
        base = value.child_by_field_name("argument") if value.type == "subscript_expression" else None
        if value.type != "identifier" and (base is None or element_type(function, text_of(base)) != plain):
            return True
    return False


def occurrences(node: Node, name: str) -> int:
    """Return the number of uses of a variable in a node."""
    return sum(1 for inner in walk(node) if inner.type == "identifier" and text_of(inner) == name)


def _compared(test: Node, name: str, value: Node) -> Operation | None:
    """Return `max` for the test `value > name`, `min` for `value < name`, including their reversed forms; None for others."""
    while test.type in ("parenthesized_expression", "condition_clause") and len(test.named_children) == 1:
        test = test.named_children[0]
    sides = (_bare(test.child_by_field_name("left")), _bare(test.child_by_field_name("right")))
    sign = text_of(test.child_by_field_name("operator"))
    if test.type != "binary_expression" or name in names_in(value) or sign not in ("<", "<=", ">", ">="):
        return None
    if sides == (_bare(value), name):
        return "max" if ">" in sign else "min"
    return ("max" if "<" in sign else "min") if sides == (name, _bare(value)) else None


def _bare(node: Node | None) -> str:
    """Return the text of a node without white space and outer parentheses."""
    while node is not None and node.type == "parenthesized_expression" and len(node.named_children) == 1:
        node = node.named_children[0]
    return re.sub(r"\s+", "", text_of(node))
