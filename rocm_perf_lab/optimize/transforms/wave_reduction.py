"""Replacement of atomics of all work-items on one address by a reduction in registers and one atomic per wavefront.

This applies to statements `atomicAdd(&place, value)` (and Max, Min, And, Or, Xor) with the same address for all work-items, in
workgroups of whole wavefronts. Every work-item must execute the statement, or it must be the only statement of an `if`, whose
condition then selects a neutral value. The order of floating-point additions changes, which is undefined with atomics anyway.
"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING

from rocm_perf_lab.core.expressions import evaluate_integer
from rocm_perf_lab.optimize.syntax_nodes import ancestors, called_name, line_of, text_of, walk
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.reductions import declared_in
from rocm_perf_lab.optimize.transforms.rewriting import (
    Edit,
    apply,
    assigned_names,
    indentation,
    initialiser,
    names_in,
    newline,
    subscript_index,
)
from rocm_perf_lab.optimize.transforms.thread_indices import is_hidden_index

if TYPE_CHECKING:
    from tree_sitter import Node

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit

_WAVE = 64
_COMBINED = {
    "atomicAdd": "{a} + {b}",
    "atomicMax": "({a} > {b} ? {a} : {b})",
    "atomicMin": "({a} < {b} ? {a} : {b})",
    "atomicAnd": "{a} & {b}",
    "atomicOr": "{a} | {b}",
    "atomicXor": "{a} ^ {b}",
}
_NEUTRAL_IS_ZERO = frozenset({"atomicAdd", "atomicOr", "atomicXor"})
_CONDITIONS = frozenset(
    {"if_statement", "for_statement", "while_statement", "do_statement", "switch_statement", "conditional_expression"}
)
_ONE_LANE = re.compile(r"(?:__lane_id\(\)|threadIdx\.x)\s*==\s*\w+")
_LANE_DEPENDENT = re.compile(r"\b(?:threadIdx|__lane_id|__builtin_amdgcn_(?:workitem|mbcnt)\w*)\b")


class WaveReduction:
    """Rewrites all such atomics together, then each one.

    Args:
        kernel: Description; its workgroup must consist of whole wavefronts.
    """

    name = "wave reduction"
    addresses = frozenset(
        {"lds_bank_conflicts", "latency_bound", "divergence_limited", "under_occupied", "compute_bound", "memory_bandwidth_bound",
         "launch_bound", "balanced", "unknown"}
    )  # fmt: skip

    def __init__(self, *, kernel: KernelDescription) -> None:
        self._kernel = kernel

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return one rewrite per group of atomics."""
        free = [(call, edit) for call, edit, _ in self._found(unit) if edit is not None]
        groups = ([free] if len(free) > 1 else []) + [[row] for row in free]
        return tuple(
            Rewrite(
                f"one atomic per wavefront in line {', '.join(str(line_of(call)) for call, _ in group)}",
                apply(unit.content, [edit for _, edit in group]),
            )
            for group in groups
        )

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return atomics that cannot be rewritten."""
        return tuple(Rejection(line_of(call), why) for call, edit, why in self._found(unit) if edit is None)

    def _found(self, unit: SourceUnit) -> list[tuple[Node, Edit | None, str]]:
        calls = [n for n in walk(unit.kernel) if n.type == "call_expression" and called_name(n) in _COMBINED]
        rows = []
        for number, call in enumerate(calls):
            why = self._obstacle(unit, call)
            rows.append((call, None if why else _edit(unit, call, number), why or ""))
        return rows

    def _obstacle(self, unit: SourceUnit, call: Node) -> str | None:
        items = prod(evaluate_integer(e, self._kernel.params, where="kernel.block") for e in self._kernel.block)
        if items % _WAVE:
            return "the workgroup does not consist of whole wavefronts"
        statement = call.parent
        if statement is None or statement.type != "expression_statement":
            return "its result is used"
        place, value = _arguments(call)
        if place is None or value is None:
            return "it has arguments other than an address and a value"
        if _depends_on_lane(unit, place):
            return "its address differs between work-items"
        condition = _lone_condition(statement)
        if condition is not None and _ONE_LANE.search(text_of(condition.child_by_field_name("condition"))):
            return "only one work-item executes it"
        outer = condition or statement
        if any(p.type in _CONDITIONS for p in ancestors(outer) if unit.kernel.start_byte < p.start_byte):
            return "not every work-item executes it"
        if condition is not None and called_name(call) not in _NEUTRAL_IS_ZERO:
            return "it is conditional and has no neutral value"
        if any(n.type == "return_statement" and n.end_byte < call.start_byte for n in walk(unit.kernel)):
            return "work-items may have returned earlier"
        return None


def _arguments(call: Node) -> tuple[Node | None, Node | None]:
    arguments = call.child_by_field_name("arguments")
    given = [c for c in (arguments.named_children if arguments is not None else []) if c.type != "comment"]
    return (given[0], given[1]) if len(given) == 2 else (None, None)


def _depends_on_lane(unit: SourceUnit, place: Node, *, depth: int = 6) -> bool:
    """Return whether an address may differ within a workgroup: it depends on the work-item index, loaded values or calls."""
    names = names_in(place)
    if _LANE_DEPENDENT.search(text_of(place)) or any(is_hidden_index(unit, name) for name in names):
        return True
    if re.fullmatch(r"&\s*\w+", text_of(place)):  # the address of a variable
        return False
    if depth == 0 or any(_loads_in_index(node) or node.type == "call_expression" for node in walk(place)):
        return True
    return any(_differs(unit, name, depth) for name in names - {"blockIdx", "blockDim", "gridDim"})


def _differs(unit: SourceUnit, name: str, depth: int) -> bool:
    """Return whether a variable may differ within a workgroup. Variables that are assigned are not analysed."""
    declared = [n for n in walk(unit.kernel) if n.type == "declaration" and name in declared_in(n)]
    if not declared:
        assigned = assigned_names(unit.kernel.child_by_field_name("body") or unit.kernel)
        return name in assigned  # otherwise a parameter or a constant
    value = initialiser(unit.kernel, name)
    if value is None or _has_address_taken(unit.kernel, name):
        return True
    return _depends_on_lane(unit, value, depth=depth - 1) or "[" in text_of(value)


def _has_address_taken(function: Node, name: str) -> bool:
    return any(n.type == "pointer_expression" and re.sub(r"\s", "", text_of(n)) == f"&{name}" for n in walk(function))


def _loads_in_index(node: Node) -> bool:
    if node.type != "subscript_expression":
        return False
    index = subscript_index(node)
    return index is None or any(inner.type == "subscript_expression" for inner in walk(index))


def _lone_condition(statement: Node) -> Node | None:
    """Return the `if` without `else` that contains only this statement, or None."""
    parent = statement.parent
    if parent is not None and parent.type == "compound_statement" and len(parent.named_children) == 1:
        parent = parent.parent
    if parent is None or parent.type != "if_statement" or parent.child_by_field_name("alternative") is not None:
        return None
    return parent


def _edit(unit: SourceUnit, call: Node, number: int) -> Edit:
    place, value = _arguments(call)
    statement = call.parent
    assert statement is not None and place is not None and value is not None
    condition = _lone_condition(statement)
    outer = condition or statement
    test = text_of(condition.child_by_field_name("condition")) if condition is not None else None
    start = text_of(value) if test is None else f"{test} ? {text_of(value)} : 0"
    name = f"wave_value_{number}"
    while name.encode() in unit.content:
        name += "_"
    combined = _COMBINED[called_name(call)].format(a=name, b="rpl_other")
    content, space = unit.content, indentation(unit.content, outer.start_byte)
    pointee = f"__typeof__(*({text_of(place)}))"
    lines = [
        "{",
        f"  {pointee} {name} = {start};",
        f"  for (int rpl_lane = {_WAVE // 2}; rpl_lane > 0; rpl_lane >>= 1) {{",
        f"    const {pointee} rpl_other = __shfl_xor({name}, rpl_lane);",
        f"    {name} = {combined};",
        "  }",
        f"  if (__lane_id() == 0) {called_name(call)}({text_of(place)}, {name});",
        "}",
    ]
    return Edit(outer.start_byte, outer.end_byte, f"{newline(content)}{space}".join(lines))
