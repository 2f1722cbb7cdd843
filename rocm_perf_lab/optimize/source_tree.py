"""A kernel's source as a syntax tree: which function it is, which loops it has, and what forbids to unroll them.

Parsed with tree-sitter's CUDA grammar, which HIP shares. Functions are found by their declarators, never by text.
Positions are byte offsets of the UTF-8 source; lines count from 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rocm_perf_lab.errors import LabError
from rocm_perf_lab.toolchain.demangle import base_name, demangle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

_BARRIERS = frozenset(
    {"__syncthreads", "__syncthreads_and", "__syncthreads_or", "__syncthreads_count", "__syncwarp", "__barrier",
     "__builtin_amdgcn_s_barrier", "__work_group_barrier", "sync"}
)  # fmt: skip
_LOOPS = frozenset({"for_statement", "while_statement", "do_statement"})
_EXITS = {"return_statement": "leaves the function from inside", "goto_statement": "jumps with goto"}


class SourceError(LabError):
    """The kernel cannot be found in its source."""


@dataclass(frozen=True)
class Loop:
    """One loop. `start` is the byte where it begins; `obstacle` says why it must not be unrolled, or is None."""

    start: int
    line: int
    function: str
    header: str
    obstacle: str | None


@dataclass(frozen=True)
class SourceUnit:
    """A source file and the kernel in it that is meant."""

    content: bytes
    entry: str

    @cached_property
    def _root(self) -> Node:
        import tree_sitter_cuda
        from tree_sitter import Language, Parser

        return Parser(Language(tree_sitter_cuda.language())).parse(self.content).root_node

    @cached_property
    def _functions(self) -> dict[str, list[Node]]:
        """Definitions with a body, by plain name."""
        found: dict[str, list[Node]] = {}
        for node in _walk(self._root):
            if node.type == "function_definition" and node.child_by_field_name("body") is not None:
                name = _function_name(node)
                if name:
                    found.setdefault(name, []).append(node)
        return found

    @cached_property
    def kernel(self) -> Node:
        """The definition of the entry.

        Raises:
            SourceError: None, or several of that name.
        """
        wanted = base_name(demangle(self.entry)).rpartition("::")[2]
        candidates = [node for node in self._functions.get(wanted, []) if _is_kernel(node)]
        if len(candidates) == 1:
            return candidates[0]
        kernels = sorted(n for n, nodes in self._functions.items() if any(_is_kernel(node) for node in nodes))
        if not candidates:
            raise SourceError(
                f"the source has no kernel {wanted!r}",
                where="kernel.entry",
                remedy=f"kernels in it: {', '.join(kernels) or 'none'}",
            )
        lines = ", ".join(str(_line(node)) for node in candidates)
        raise SourceError(
            f"the source has {len(candidates)} kernels {wanted!r} (lines {lines})",
            where="kernel.entry",
            remedy="keep overloads in files of their own",
        )

    def signature(self) -> str:
        """The kernel's declarator with white space normalised."""
        return " ".join(_text(_declarator(self.kernel)).split())

    def loops(self) -> tuple[Loop, ...]:
        """Loops of the kernel and of the device functions that it calls, in source order."""
        dynamic = self._dynamic_shared_names()
        loops: list[Loop] = []
        for function in self._reachable():
            name = _function_name(function)
            loops += [_loop(node, name, dynamic) for node in _walk(function) if node.type in _LOOPS]
        return tuple(sorted(loops, key=lambda loop: loop.start))

    def _reachable(self) -> list[Node]:
        """The kernel and the functions of this file that it calls, directly or not."""
        reached, pending = {}, [self.kernel]
        while pending:
            function = pending.pop()
            if function.start_byte in reached:
                continue
            reached[function.start_byte] = function
            for node in _walk(function):
                if node.type == "call_expression":
                    pending.extend(self._functions.get(_called(node), []))
        return list(reached.values())

    def _dynamic_shared_names(self) -> frozenset[str]:
        names: set[str] = set()
        for node in _walk(self._root):
            if node.type == "declaration" and {"extern", "__shared__"} <= set(_text(node).split()):
                names.update(_text(i) for i in _walk(node) if i.type == "identifier")
        return frozenset(names)


def parse_source(content: bytes, entry: str) -> SourceUnit:
    """Parse a source and find the kernel in it.

    Raises:
        SourceError: The kernel is not there, or more than once.
    """
    unit = SourceUnit(content, entry)
    _ = unit.kernel
    return unit


def preceding_pragma(content: bytes, loop: Loop) -> tuple[int, int] | None:
    """Byte range of a `#pragma unroll` line right before a loop, its newline included."""
    line_start = content.rfind(b"\n", 0, loop.start) + 1
    if content[line_start : loop.start].strip():
        return None
    before = content.rfind(b"\n", 0, max(line_start - 1, 0)) + 1
    words = content[before:line_start].split()
    is_pragma = words[:2] == [b"#pragma", b"unroll"] or words[:3] == [b"#", b"pragma", b"unroll"]
    return (before, line_start) if line_start and is_pragma else None


def _loop(node: Node, function: str, dynamic: frozenset[str]) -> Loop:
    body = node.child_by_field_name("body")
    header_end = body.start_byte if body is not None else node.end_byte
    header = (node.text or b"")[: header_end - node.start_byte].decode(errors="replace")
    return Loop(node.start_byte, _line(node), function, " ".join(header.split()), _obstacle(node, dynamic))


def _obstacle(loop: Node, dynamic: frozenset[str]) -> str | None:
    if loop.type != "for_statement":
        return "is not a for loop"
    for node in _walk(loop):
        reason = _forbidden(node, loop, dynamic)
        if reason is not None:
            return f"{reason} (line {_line(node)})"
    return None


def _forbidden(node: Node, loop: Node, dynamic: frozenset[str]) -> str | None:
    if node.type in _EXITS:
        return _EXITS[node.type]
    if node.type == "break_statement" and _left_by_break(node) == loop:
        return "ends early with break"
    if node.type in ("asm_statement", "gnu_asm_expression"):
        return "contains inline assembly"
    if node.type == "ERROR":
        return "is not understood by the parser"
    if node.type == "identifier" and _text(node) in dynamic:
        return "uses dynamic shared memory"
    if node.type == "call_expression":
        name = _called(node)
        if name in _BARRIERS:
            return "contains a barrier"
        if "atomic" in name.lower():
            return "contains an atomic"
    return None


def _left_by_break(node: Node) -> Node | None:
    """The loop or switch that a break leaves."""
    parent = node.parent
    while parent is not None and parent.type not in {*_LOOPS, "switch_statement"}:
        parent = parent.parent
    return parent


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _is_kernel(node: Node) -> bool:
    declarator = _declarator(node)
    return any(child.type == "__global__" for child in node.children if child.end_byte <= declarator.start_byte) or (
        b"__global__" in (node.text or b"")[: declarator.start_byte - node.start_byte].split()
    )


def _declarator(function: Node) -> Node:
    declarator = function.child_by_field_name("declarator")
    assert declarator is not None
    while declarator.type != "function_declarator":
        inner = declarator.child_by_field_name("declarator") or next(
            (child for child in declarator.named_children if "declarator" in child.type), None
        )
        if inner is None:
            break
        declarator = inner
    return declarator


def _function_name(function: Node) -> str:
    declarator = function.child_by_field_name("declarator")
    if declarator is None:
        return ""
    name = _declarator(function).child_by_field_name("declarator")
    return _text(name).rpartition("::")[2] if name is not None else ""


def _called(call: Node) -> str:
    function = call.child_by_field_name("function")
    if function is None:
        return ""
    if function.type == "template_function":
        function = function.child_by_field_name("name") or function
    if function.type == "field_expression":
        function = function.child_by_field_name("field") or function
    return _text(function).rpartition("::")[2]


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _line(node: Node) -> int:
    return int(node.start_point[0]) + 1
