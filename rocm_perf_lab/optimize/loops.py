"""The loops of a kernel, the pragmas that apply to them, and what forbids to unroll them."""

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
_ASSEMBLY_WORDS = frozenset({"asm", "__asm", "__asm__"})
_BETWEEN = re.compile(rb"(?:\s|//[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*")
_UNROLL_LINE = re.compile(rb"\s*#\s*pragma\s+unroll\b")


@dataclass(frozen=True)
class Loop:
    """One loop. `start` is the byte where it begins; `obstacle` says why it must not be unrolled, or is None.

    `pragma` is the byte range of the `#pragma unroll` line that applies to it, its newline included.
    """

    start: int
    line: int
    function: str
    header: str
    obstacle: str | None
    pragma: tuple[int, int] | None = None


def loops_of(unit: SourceUnit) -> tuple[Loop, ...]:
    """Loops of the kernel and of the device functions that it calls, in source order."""
    loops: list[Loop] = []
    for function in unit.reachable(unit.kernel):
        name = function_name(function)
        loops += [_loop(unit, node, name) for node in walk(function) if node.type in _LOOPS]
    return tuple(sorted(loops, key=lambda loop: loop.start))


def loop_at(unit: SourceUnit, node: Node) -> Loop:
    """What is known of the loop statement `node`."""
    function = next((parent for parent in ancestors(node) if parent.type == "function_definition"), unit.kernel)
    return _loop(unit, node, function_name(function))


def _loop(unit: SourceUnit, node: Node, function: str) -> Loop:
    start = node.parent.start_byte if node.parent is not None and node.parent.type == "attributed_statement" else node.start_byte
    body = node.child_by_field_name("body")
    header_end = body.start_byte if body is not None else node.end_byte
    header = (node.text or b"")[: header_end - node.start_byte].decode(errors="replace")
    pragma, foreign = _pragmas(unit, start)
    obstacle = _obstacle(unit, node) or (f"has a pragma of its own: {foreign}" if foreign else None)
    return Loop(start, line_of(node), function, " ".join(header.split()), obstacle, pragma)


def _pragmas(unit: SourceUnit, start: int) -> tuple[tuple[int, int] | None, str | None]:
    """Of the pragmas right before `start`: the line with `#pragma unroll`, and another that decides about unrolling."""
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
        return "stands in the arguments of a macro"
    for part in unit.reachable(loop):
        for node in walk(part):
            reason = (_jump(node, loop) if part == loop else None) or _forbidden(unit, node)
            if reason is not None:
                return f"{reason} (line {line_of(node)})"
    return None


def _jump(node: Node, loop: Node) -> str | None:
    """How the statement at `node` leaves or enters `loop` in the middle."""
    if node.type == "goto_statement":
        return "jumps with goto"
    if node.type == "labeled_statement":
        return "contains a jump label"
    if node.type == "return_statement" and _nearest(node, {"lambda_expression", loop.type}, loop) == loop:
        return "leaves the function from inside"
    if node.type == "break_statement" and _nearest(node, {*_LOOPS, "switch_statement"}, loop) == loop:
        return "ends early with break"
    return None


def _nearest(node: Node, types: set[str], last: Node) -> Node | None:
    """The first of `types` around `node`, up to `last`."""
    return next((parent for parent in ancestors(node) if parent == last or parent.type in types), None)


def _forbidden(unit: SourceUnit, node: Node) -> str | None:
    """What must not stand in the loop, nor in a function that it calls."""
    if node.type in ("asm_statement", "gnu_asm_expression"):
        return "contains inline assembly"
    if node.type == "ERROR":
        return "is not understood by the parser"
    if node.type == "identifier":
        name = text_of(node)
        if name in unit.dynamic_shared_names:
            return "uses dynamic shared memory"
        reasons = sorted(filter(None, map(_forbidden_word, unit.expanded(name))))
        return f"{reasons[0]} in the macro {name}" if reasons else None
    return _forbidden_call(called_name(node)) if node.type == "call_expression" else None


def _forbidden_call(name: str) -> str | None:
    if name in _BARRIERS or name.startswith("__builtin_amdgcn_s_barrier"):
        return "contains a barrier"
    if "atomic" in name.lower() or name.startswith(_ATOMIC_CALLS):
        return "contains an atomic"
    return None


def _forbidden_word(word: str) -> str | None:
    """Of a macro's text, which is not parsed."""
    if word in _ASSEMBLY_WORDS:
        return "contains inline assembly"
    if word in ("return", "goto", "break"):
        return f"may jump with {word}"
    return _forbidden_call(word)
