"""Loops of a kernel, their pragmas, and obstacles to unrolling."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.source_tree import PRAGMA
from rocm_perf_lab.optimize.syntax_nodes import ancestors, called_name, function_name, line_of, text_of, walk

if TYPE_CHECKING:
    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit

_BARRIERS = frozenset(
    {"__syncthreads", "__syncthreads_and", "__syncthreads_or", "__syncthreads_count", "__syncwarp", "__barrier",
     "__builtin_amdgcn_s_barrier", "__work_group_barrier", "sync"}
)  # fmt: skip
_FOR_LOOPS = frozenset({"for_statement", "for_range_loop"})
_LOOPS = _FOR_LOOPS | {"while_statement", "do_statement"}
_ATOMIC_CALLS = ("fetch_", "compare_exchange", "__builtin_amdgcn_ds_f")
_ASSEMBLY_KEYWORDS = frozenset({"asm", "__asm", "__asm__"})
_BETWEEN = re.compile(rb"(?:\s|//[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*")
_UNROLL_LINE = re.compile(rb"\s*#\s*pragma\s+unroll\b")


@dataclass(frozen=True)
class Loop:
    """One loop.

    Args:
        start: Byte offset of the loop.
        line: Line of the loop, from 1.
        function: Name of the enclosing function.
        header: Text of the loop up to its body.
        obstacle: Reason not to unroll the loop, or None.
        pragma: Byte range of the `#pragma unroll` line of the loop, with its newline.
    """

    start: int
    line: int
    function: str
    header: str
    obstacle: str | None
    pragma: tuple[int, int] | None = None


def loops_of(unit: SourceUnit) -> tuple[Loop, ...]:
    """Return the loops of the kernel and of the device functions that it calls, in source order."""
    loops: list[Loop] = []
    for function in unit.reachable(unit.kernel):
        name = function_name(function)
        loops += [_loop(unit, node, name) for node in walk(function) if node.type in _LOOPS]
    return tuple(sorted(loops, key=lambda loop: loop.start))


def loop_at(unit: SourceUnit, node: Node) -> Loop:
    """Return the loop of a statement."""
    function = next((parent for parent in ancestors(node) if parent.type == "function_definition"), unit.kernel)
    return _loop(unit, node, function_name(function))


def _loop(unit: SourceUnit, node: Node, function: str) -> Loop:
    start = node.parent.start_byte if node.parent is not None and node.parent.type == "attributed_statement" else node.start_byte
    body = node.child_by_field_name("body")
    header_end = body.start_byte if body is not None else node.end_byte
    header = (node.text or b"")[: header_end - node.start_byte].decode(errors="replace")
    pragma, foreign = _pragmas(unit, start)
    obstacle = _obstacle(unit, node) or (f"has another pragma: {foreign}" if foreign else None)
    return Loop(start, line_of(node), function, " ".join(header.split()), obstacle, pragma)


def _pragmas(unit: SourceUnit, start: int) -> tuple[tuple[int, int] | None, str | None]:
    """Return the range of the `#pragma unroll` line right before `start`, and the text of another pragma about unrolling."""
    own, foreign = None, None
    for match in reversed(list(PRAGMA.finditer(unit.content, 0, start))):
        if not _BETWEEN.fullmatch(unit.content, match.end(), start):
            break
        start = match.start()
        if own is None and _UNROLL_LINE.match(match[0]):
            own = match.span()
        elif b"unroll" in match[0]:
            foreign = match[0].decode(errors="replace").strip()
    return own, foreign


def _obstacle(unit: SourceUnit, loop: Node) -> str | None:
    if loop.type not in _FOR_LOOPS:
        return "is not a for loop"
    if any(called_name(call) in unit.macros for call in ancestors(loop) if call.type == "call_expression"):
        return "is an argument of a macro"
    for part in unit.reachable(loop):
        for node in walk(part):
            reason = (_jump(node, loop) if part == loop else None) or _forbidden(unit, node)
            if reason is not None:
                return f"{reason} (line {line_of(node)})"
    return None


def _jump(node: Node, loop: Node) -> str | None:
    """Return a description of a jump out of or into the loop, or None."""
    if node.type == "goto_statement":
        return "jumps with goto"
    if node.type == "labeled_statement":
        return "contains a jump label"
    if node.type == "return_statement" and _nearest(node, {"lambda_expression", loop.type}, loop) == loop:
        return "contains return"
    if node.type == "break_statement" and _nearest(node, {*_LOOPS, "switch_statement"}, loop) == loop:
        return "contains break"
    return None


def _nearest(node: Node, types: set[str], last: Node) -> Node | None:
    """Return the first ancestor of one of `types`, or `last`."""
    return next((parent for parent in ancestors(node) if parent == last or parent.type in types), None)


def _forbidden(unit: SourceUnit, node: Node) -> str | None:
    """Return the reason why a node prevents unrolling, or None."""
    if node.type in ("asm_statement", "gnu_asm_expression"):
        return "contains inline assembly"
    if node.type == "ERROR":
        return "cannot be parsed"
    if node.type == "identifier":
        name = text_of(node)
        if name in unit.dynamic_shared_names:
            return "uses dynamic shared memory"
        reasons = sorted(filter(None, map(_forbidden_identifier, unit.expanded(name))))
        return f"{reasons[0]} in the macro {name}" if reasons else None
    return _forbidden_call(called_name(node)) if node.type == "call_expression" else None


def _forbidden_call(name: str) -> str | None:
    if name in _BARRIERS or name.startswith("__builtin_amdgcn_s_barrier"):
        return "contains a barrier"
    if "atomic" in name.lower() or name.startswith(_ATOMIC_CALLS):
        return "contains an atomic"
    return None


def _forbidden_identifier(name: str) -> str | None:
    """Return the reason why an identifier in a macro, whose text is not parsed, prevents unrolling, or None."""
    if name in _ASSEMBLY_KEYWORDS:
        return "contains inline assembly"
    if name in ("return", "goto", "break"):
        return f"may contain {name}"
    return _forbidden_call(name)
