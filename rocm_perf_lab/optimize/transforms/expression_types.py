"""Arithmetic types of local variables and expressions, from the source text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.syntax_nodes import called_name, text_of, walk
from rocm_perf_lab.optimize.transforms.rewriting import element_type, initialiser

if TYPE_CHECKING:
    from tree_sitter import Node

_ARITHMETIC = re.compile(
    r"(?:const |unsigned |signed )*(?:float|double|int|unsigned|long|long long|int32_t|uint32_t|size_t|int64_t)"
)
_FLOATING = re.compile(r"float|double")
_INTEGRAL = re.compile(
    r"(?:const |unsigned |signed )*(?:int|unsigned|signed|long|long long|char|short|bool|size_t|uint"
    r"|u?int(?:8|16|32|64)_t)(?: int)?"
)
_INTEGER_CALL = re.compile(r"__popcll?|__clzl*|__ffsl*|__brev|__float2u?int_\w+|__float_as_u?int|int|unsigned")
_TRUTH = frozenset({"<", ">", "<=", ">=", "==", "!=", "&&", "||", "!"})


def scalar_type(function: Node, name: str) -> str | None:
    """Return the arithmetic type of a local variable that is declared once, or None."""
    found = []
    for node in walk(function):
        if node.type != "declaration":
            continue
        for child in node.children_by_field_name("declarator"):
            inner = child.child_by_field_name("declarator") if child.type == "init_declarator" else child
            if inner is not None and inner.type == "identifier" and text_of(inner) == name:
                found.append(text_of(node.child_by_field_name("type")))
    return found[0] if len(found) == 1 and _ARITHMETIC.fullmatch(found[0]) else None


def is_floating(type_name: str) -> bool:
    """Return whether a type is a floating-point type."""
    return _FLOATING.search(type_name) is not None


def loses_digits(function: Node, kind: str, update: Node) -> bool:
    """Return whether a variable has an integer type, and the assigned value is not known to be an integer."""
    right = update.child_by_field_name("right")
    return not is_floating(kind) and right is not None and not is_integer(function, right)


def is_integer(function: Node, node: Node, *, depth: int = 6) -> bool:
    """Return whether an expression is known to have an integer type."""
    operator = text_of(node.child_by_field_name("operator"))
    inner = [c for c in node.named_children if c.type != "comment"]
    if node.type == "number_literal":
        return re.fullmatch(r"(?:0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*", text_of(node)) is not None
    if node.type in ("true", "false", "char_literal", "sizeof_expression") or operator in _TRUTH or operator == "%":
        return True
    if node.type == "identifier":
        return _is_integer_variable(function, text_of(node), depth)
    if node.type == "subscript_expression":
        base = node.child_by_field_name("argument")
        return base is not None and _INTEGRAL.fullmatch(element_type(function, text_of(base)) or "") is not None
    if node.type == "field_expression":
        return text_of(node.child_by_field_name("argument")) in ("threadIdx", "blockIdx", "blockDim", "gridDim")
    if node.type == "cast_expression":
        return _INTEGRAL.fullmatch(text_of(node.child_by_field_name("type"))) is not None
    if node.type == "call_expression":
        arguments = (node.child_by_field_name("arguments") or node).named_children
        is_alike = called_name(node) in ("min", "max", "abs") and all(is_integer(function, a, depth=depth) for a in arguments)
        return is_alike or _INTEGER_CALL.fullmatch(called_name(node)) is not None
    if node.type == "conditional_expression":
        return all(is_integer(function, c, depth=depth) for c in inner[-2:])
    is_arithmetic = node.type in ("binary_expression", "unary_expression", "parenthesized_expression")
    return is_arithmetic and bool(inner) and all(is_integer(function, c, depth=depth) for c in inner)


def _is_integer_variable(function: Node, name: str, depth: int) -> bool:
    kinds = set()
    for node in walk(function):
        if node.type not in ("declaration", "parameter_declaration"):
            continue
        for child in node.children_by_field_name("declarator"):
            inner = child.child_by_field_name("declarator") if child.type == "init_declarator" else child
            if inner is not None and inner.type == "identifier" and text_of(inner) == name:
                kinds.add(text_of(node.child_by_field_name("type")))
    if kinds == {"auto"}:
        value = initialiser(function, name)
        return value is not None and depth > 0 and is_integer(function, value, depth=depth - 1)
    return bool(kinds) and all(_INTEGRAL.fullmatch(kind) for kind in kinds)
