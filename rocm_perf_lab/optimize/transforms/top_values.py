"""Loops that keep the largest or smallest few values of a row in variables, `if (v > first) { second = first; first = v; } ...`.

The chain of tests is proved correct by executing it for all orders of the variables and a new value.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.syntax_nodes import text_of, walk
from rocm_perf_lab.optimize.transforms.expression_types import scalar_type
from rocm_perf_lab.optimize.transforms.pure_calls import impure_call
from rocm_perf_lab.optimize.transforms.reductions import assigned_outside, names_in_text
from rocm_perf_lab.optimize.transforms.rewriting import counted_loop, jumps_in, loops_in, names_in, substituted
from rocm_perf_lab.optimize.transforms.thread_indices import statements

if TYPE_CHECKING:
    from collections.abc import Callable

    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.optimize.transforms.rewriting import CountedLoop

_MOST = 6
_TESTS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class _UnknownError(Exception):
    """Statement that is neither a test nor a copy of the variables."""


@dataclass(frozen=True)
class TopLoop:
    """Loop with step 1 that keeps the extreme values of a row.

    Args:
        loop: Loop.
        names: Variables, the most extreme value first.
        type_name: Their type.
        value: Variable with the new value.
        insert: Statement that inserts it.
    """

    loop: CountedLoop
    names: tuple[str, ...]
    type_name: str
    value: str
    insert: Node


def top_loop(unit: SourceUnit, node: Node) -> TopLoop | str:
    """Return a loop that keeps extreme values, or the reason why this is not proved."""
    loop = counted_loop(node)
    if loop is None or loop.step_text != "1" or jumps_in(loop.body) or loops_in(loop.body):
        return "is not a plain counted loop with step 1"
    impure = impure_call(unit, loop.body)
    carried = assigned_outside(loop)
    if impure is not None or isinstance(carried, str):
        return f"calls {impure}" if impure is not None else str(carried)
    body = statements(loop.body)
    insert = body[-1] if body else None
    if insert is None or insert.type != "if_statement" or any(n.type != "declaration" for n in body[:-1]):
        return "does not end with a chain of tests"
    if any(n.type == "subscript_expression" for n in walk(insert)) or not 2 <= len(carried) <= _MOST:
        return "keeps no values in variables"
    if any(names_in(n) & set(carried) for n in body[:-1]) or names_in_text(loop.end_text) & set(carried):
        return "uses the kept values otherwise"
    others = names_in(insert) - set(carried)
    kinds = {scalar_type(unit.kernel, name) for name in (*carried, *others)}
    starts = {_start(unit.kernel, name) for name in carried}
    if len(others) != 1 or len(kinds) != 1 or None in kinds or len(starts) != 1 or "" in starts:
        return "keeps values of several types, or with different starts"
    (value,) = others
    if any(_is_assigned_before(unit.kernel, name, loop) for name in carried):
        return "keeps values that are assigned elsewhere"
    ordered = _ordered(insert, tuple(sorted(carried)), value)
    if ordered is None:
        return "does not keep the most extreme values"
    kind = str(kinds.pop()).removeprefix("const ")
    return TopLoop(loop, ordered, kind, value, insert)


def _start(kernel: Node, name: str) -> str:
    """Return the initialiser of a variable as text; empty if there is none."""
    found = [n for n in walk(kernel) if n.type == "init_declarator" and text_of(n.child_by_field_name("declarator")) == name]
    return text_of(found[0].child_by_field_name("value")) if len(found) == 1 else ""


def _is_assigned_before(kernel: Node, name: str, loop: CountedLoop) -> bool:
    """Return whether a variable is assigned before a loop, other than by its declaration."""
    found = [n for n in walk(kernel) if n.type in ("assignment_expression", "update_expression")]
    targets = [n.child_by_field_name("left") or n.child_by_field_name("argument") for n in found]
    return any(t is not None and t.start_byte < loop.node.start_byte and text_of(t) == name for t in targets)


def merge_lines(top: TopLoop, lanes: int) -> list[str]:
    """Return the code that merges the values of all lanes of a group."""
    fetched = [f"const {top.type_name} rpl_of_{name} = __shfl_xor({name}, rpl_step);" for name in top.names]
    text = text_of(top.insert)
    return [
        f"for (int rpl_step = {lanes // 2}; rpl_step > 0; rpl_step >>= 1) {{",
        *(f"  {line}" for line in fetched),
        *(f"  {substituted(text, top.value, f'rpl_of_{name}')}" for name in top.names),
        "}",
    ]


def _ordered(insert: Node, names: tuple[str, ...], value: str) -> tuple[str, ...] | None:
    """Return the variables in order, the most extreme first, if a statement always keeps the most extreme values."""
    count = len(names)
    for sign in (-1, 1):
        state = dict.fromkeys(names, (count + 1) * sign)
        for new in range(count):
            state = _inserted(insert, state, value, new) or state
        order = tuple(sorted(names, key=lambda name: sign * state[name]))
        if len(set(state.values())) == count and _is_proved(insert, order, value, sign):
            return order
    return None


def _is_proved(insert: Node, order: tuple[str, ...], value: str, sign: int) -> bool:
    """Return whether a statement keeps the extreme values, in order, for all orders of the kept values and a new one."""
    numbers = range(len(order) + 1)
    for kept in product(numbers, repeat=len(order)):
        if list(kept) != sorted(kept, key=lambda number: sign * number):
            continue
        for new in numbers:
            state = _inserted(insert, dict(zip(order, kept, strict=True)), value, new)
            expected = sorted((*kept, new), key=lambda number: sign * number)[: len(order)]
            if state is None or [state[name] for name in order] != expected:
                return False
    return True


def _inserted(insert: Node, state: dict[str, int], value: str, new: int) -> dict[str, int] | None:
    """Return the variables after a statement; None if it is not understood."""
    variables = state | {value: new}
    try:
        _run(insert, variables)
    except _UnknownError:
        return None
    return {name: variables[name] for name in state}


def _run(node: Node, variables: dict[str, int]) -> None:
    if node.type in ("compound_statement", "else_clause"):
        for child in node.named_children:
            if child.type != "comment":
                _run(child, variables)
    elif node.type == "if_statement":
        condition = node.child_by_field_name("condition")
        branch = node.child_by_field_name("consequence" if _holds(condition, variables) else "alternative")
        if branch is not None:
            _run(branch, variables)
    elif node.type == "expression_statement" and len(node.named_children) == 1:
        copy = node.named_children[0]
        left, right = (text_of(copy.child_by_field_name(name)) for name in ("left", "right"))
        if text_of(copy.child_by_field_name("operator")) != "=" or left not in variables or right not in variables:
            raise _UnknownError
        variables[left] = variables[right]
    else:
        raise _UnknownError


def _holds(node: Node | None, variables: dict[str, int]) -> bool:
    while node is not None and node.type in ("parenthesized_expression", "condition_clause") and len(node.named_children) == 1:
        node = node.named_children[0]
    left, right = (node.child_by_field_name(name) if node is not None else None for name in ("left", "right"))
    sign = text_of(node.child_by_field_name("operator")) if node is not None else ""
    if sign in ("&&", "||"):
        first, second = _holds(left, variables), _holds(right, variables)
        return (first and second) if sign == "&&" else (first or second)
    if sign not in _TESTS or text_of(left) not in variables or text_of(right) not in variables:
        raise _UnknownError
    return _TESTS[sign](variables[text_of(left)], variables[text_of(right)])
