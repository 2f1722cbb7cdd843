"""Hoisting of loop-invariant memory accesses: repeated loads and in-place sums are kept in a register.

The compiler cannot do this if another pointer may alias. The arguments of a described kernel are distinct buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.loops import loop_at
from rocm_perf_lab.optimize.syntax_nodes import line_of, text_of, walk
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.memory_roots import dereferenced, end_changes, root_of, touched
from rocm_perf_lab.optimize.transforms.pure_calls import impure_call
from rocm_perf_lab.optimize.transforms.rewriting import (
    CountedLoop,
    Edit,
    apply,
    apply_within,
    assigned_names,
    calls_in,
    counted_loop,
    element_type,
    enclosing_function,
    indentation,
    is_conditional,
    is_written,
    jumps_in,
    names_in,
    newline,
    statements_with_pragma,
    subscript_index,
    substituted,
    unused_name,
)

if TYPE_CHECKING:
    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit


class HoistInvariants:
    """Hoists all invariant accesses of one loop."""

    name = "hoist invariants"
    addresses = frozenset(
        {"memory_bandwidth_bound", "latency_bound", "compute_bound", "under_occupied", "launch_bound", "balanced", "unknown"}
    )

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return one rewrite per loop with invariant accesses."""
        rewrites = []
        for node, found in _candidates(unit):
            if isinstance(found, dict):
                loop = counted_loop(node)
                assert loop is not None
                what = ", ".join(found)
                text = apply(unit.content, [_edit(unit, loop, found)])
                rewrites.append(Rewrite(f"keep {what} in a register in line {line_of(node)}", text))
        return tuple(rewrites)

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return loops without such accesses, or with an obstacle."""
        return tuple(Rejection(line_of(node), why) for node, why in _candidates(unit) if isinstance(why, str))


def _candidates(unit: SourceUnit) -> list[tuple[Node, dict[str, tuple[str, bool]] | str]]:
    loops = [node for function in unit.functions() for node in walk(function) if node.type == "for_statement"]
    return [(node, _invariants(unit, node)) for node in loops]


def _invariants(unit: SourceUnit, node: Node) -> dict[str, tuple[str, bool]] | str:
    """Return invariant accesses by text, with element type and whether they are written, or the reason why there are none."""
    loop = counted_loop(node)
    if loop is None:
        return "is not a counted loop"
    obstacle = loop_at(unit, node).obstacle
    if obstacle is not None:
        return obstacle
    if jumps_in(loop.body):
        return "may end early"
    function = enclosing_function(node)
    if (impure := impure_call(unit, loop.body)) is not None:
        return f"calls {impure}"
    if "volatile" in text_of(function):
        return "uses volatile memory"
    if end_changes(function, loop):
        return "may change its end"
    others_than_indices = dereferenced(function, loop.body)
    read, written = touched(function, loop.body)
    if read is None or written is None:
        return "uses a pointer to an unknown buffer"
    changing = assigned_names(node)
    found: dict[str, tuple[str, bool]] = {}
    for access in (n for n in walk(loop.body) if n.type == "subscript_expression"):
        base, index = access.child_by_field_name("argument"), subscript_index(access)
        if base is None or base.type != "identifier" or index is None or (names_in(index) | {text_of(base)}) & changing:
            continue
        kind, root = element_type(function, text_of(base)), root_of(function, text_of(base))
        if kind is None or root is None or root in others_than_indices or calls_in(index) or is_conditional(access, loop.body):
            continue
        same = [n for n in walk(loop.body) if n.type == "subscript_expression" and text_of(n) == text_of(access)]
        others = [
            n for n in walk(loop.body)
            if n.type == "subscript_expression" and text_of(n) != text_of(access)
            and root_of(function, text_of(n).partition("[")[0]) == root
        ]  # fmt: skip
        is_stored = any(map(is_written, same))
        if (is_stored and (others or any(is_conditional(n, loop.body) for n in same))) or any(map(is_written, others)):
            continue
        found[text_of(access)] = (kind, is_stored)
    return found or "has no invariant access to memory"


def _edit(unit: SourceUnit, loop: CountedLoop, found: dict[str, tuple[str, bool]]) -> Edit:
    content, space = unit.content, indentation(unit.content, loop.node.start_byte)
    start, pragma = statements_with_pragma(unit, loop.node)
    names = {text: unused_name(unit, f"kept_{number}") for number, text in enumerate(found)}
    edits = [
        Edit(node.start_byte, node.end_byte, names[text_of(node)])
        for node in walk(loop.body)
        if node.type == "subscript_expression" and text_of(node) in names
    ]
    changed = apply_within(content[loop.node.start_byte : loop.node.end_byte], loop.node.start_byte, edits)
    test = text_of(loop.node.child_by_field_name("condition"))
    lines = [
        f"if ({substituted(test, loop.index, f'({loop.start_text})')}) {{",
        *(f"  {'' if stored else 'const '}{kind} {names[text]} = {text};" for text, (kind, stored) in found.items()),
        *([pragma.rstrip()] if pragma else []),
        f"  {changed}",
        *(f"  {text} = {names[text]};" for text, (_, stored) in found.items() if stored),
        "}",
    ]
    lead = space if start != loop.node.start_byte else ""
    return Edit(start, loop.node.end_byte, lead + f"{newline(content)}{space}".join(lines))
