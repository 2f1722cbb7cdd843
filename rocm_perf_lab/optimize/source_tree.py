"""A kernel's source as a syntax tree: which function it is, which loops it has, and what forbids to unroll them.

Parsed with tree-sitter's CUDA grammar, which HIP shares. Functions are found by their declarators, never by text. Pragmas
are blanked before parsing: the grammar does not allow them before the body of an `if`, the compiler does.
Positions are byte offsets of the UTF-8 source; lines count from 1.
"""

from __future__ import annotations

import re
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
_FOR_LOOPS = frozenset({"for_statement", "for_range_loop"})
_LOOPS = _FOR_LOOPS | {"while_statement", "do_statement"}
_CONTAINERS = frozenset({"namespace_definition", "linkage_specification"})
_ATOMIC_CALLS = ("fetch_", "compare_exchange", "__builtin_amdgcn_ds_f")
_ASSEMBLY_WORDS = frozenset({"asm", "__asm", "__asm__"})
_WORDS = re.compile(r"[A-Za-z_]\w*")
_PRAGMA = re.compile(
    rb"""^[ \t]*\#[ \t]*pragma\b (?: \\\r?\n | [^\r\n] )* (?: \r?\n )?  |  \b_Pragma\s*\(\s*"[^"\n]*"\s*\)""",
    re.MULTILINE | re.VERBOSE,
)
_BETWEEN = re.compile(rb"(?:\s|//[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*")
_UNROLL_LINE = re.compile(rb"\s*#\s*pragma\s+unroll\b")


class SourceError(LabError):
    """The kernel cannot be found in its source."""


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


@dataclass(frozen=True)
class FixedItem:
    """Something at the top of a file that a rewrite must leave alone; `tokens` without white space and comments."""

    kind: str
    line: int
    tokens: str


@dataclass(frozen=True)
class SourceUnit:
    """A source file and the kernel in it that is meant."""

    content: bytes
    entry: str

    @cached_property
    def _root(self) -> Node:
        import tree_sitter_cuda
        from tree_sitter import Language, Parser

        blanked = _PRAGMA.sub(lambda match: re.sub(rb"[^\r\n]", b" ", match[0]), self.content)
        return Parser(Language(tree_sitter_cuda.language())).parse(blanked).root_node

    @cached_property
    def _functions(self) -> dict[str, list[Node]]:
        """Definitions with a body, by plain name."""
        found: dict[str, list[Node]] = {}
        for node in walk(self._root):
            if node.type == "function_definition" and node.child_by_field_name("body") is not None:
                name = function_name(node)
                if name:
                    found.setdefault(name, []).append(node)
        return found

    @cached_property
    def _macros(self) -> dict[str, frozenset[str]]:
        """Words of each macro's text; those of several definitions together."""
        found: dict[str, frozenset[str]] = {}
        for node in walk(self._root):
            if node.type in ("preproc_def", "preproc_function_def"):
                name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
                words = frozenset(_WORDS.findall(text_of(value))) if value is not None else frozenset()
                found[text_of(name)] = found.get(text_of(name), frozenset()) | words
        return found

    def macro_value(self, name: str) -> int | None:
        """The whole number that a macro of this file stands for; None where it has none, or several definitions."""
        values = [
            text_of(value).strip()
            for node in walk(self._root)
            if node.type == "preproc_def" and text_of(node.child_by_field_name("name")) == name
            for value in [node.child_by_field_name("value")]
            if value is not None
        ]
        return int(values[0]) if len(values) == 1 and values[0].isdigit() else None

    def _expanded(self, word: str) -> frozenset[str]:
        """What stands behind a word when it is a macro of this file, through all macros."""
        reached: set[str] = set()
        pending = [word]
        while pending:
            fresh = self._macros.get(pending.pop(), frozenset()) - reached
            reached |= fresh
            pending.extend(fresh)
        return frozenset(reached)

    @cached_property
    def kernel(self) -> Node:
        """The definition of the entry.

        Raises:
            SourceError: None, or several of that name.
        """
        qualified = base_name(demangle(self.entry))
        wanted = qualified.rpartition("::")[2]
        candidates = [node for node in self._functions.get(wanted, []) if self._is_kernel(node)]
        if len(candidates) > 1 and "::" in qualified:
            candidates = [node for node in candidates if _qualified_name(node) == qualified] or candidates
        if len(candidates) == 1:
            return candidates[0]
        kernels = sorted(n for n, nodes in self._functions.items() if any(self._is_kernel(node) for node in nodes))
        if not candidates:
            error = next((node for node in walk(self._root) if node.type == "ERROR"), None)
            raise SourceError(
                f"the source has no kernel {wanted!r}",
                where="kernel.entry",
                remedy=f"kernels in it: {', '.join(kernels) or 'none'}"
                + (f"; line {line_of(error)} is not understood by the parser" if error is not None else ""),
            )
        lines = ", ".join(str(line_of(node)) for node in candidates)
        raise SourceError(
            f"the source has {len(candidates)} kernels {wanted!r} (lines {lines})",
            where="kernel.entry",
            remedy="keep overloads in files of their own",
        )

    def _is_kernel(self, function: Node) -> bool:
        """True where `__global__`, or a macro for it, stands before the declarator."""
        length = function_declarator(function).start_byte - function.start_byte
        words = _WORDS.findall((function.text or b"")[:length].decode(errors="replace"))
        return any(word == "__global__" or "__global__" in self._expanded(word) for word in words)

    def signature(self) -> str:
        """The tokens of the kernel's declarator: equal for declarators that differ in white space and comments alone."""
        leaves = (node for node in walk(function_declarator(self.kernel)) if not node.children)
        return " ".join(text_of(leaf) for leaf in leaves if leaf.type != "comment")

    def fixed_items(self) -> tuple[FixedItem, ...]:
        """Everything at the top of the file but the kernel and functions that run on the device alone, in source order."""
        return tuple(self._fixed(self._root))

    def _fixed(self, container: Node) -> Iterator[FixedItem]:
        for node in container.children:
            if node.type in ("comment", "{", "}"):
                continue
            body = node.child_by_field_name("body")
            if node.type in _CONTAINERS and body is not None and body.type == "declaration_list":
                yield FixedItem(node.type, line_of(node), _tokens(node, without=body))
                yield from self._fixed(body)
            elif node.type == "linkage_specification" and body is not None and self._is_free(body):
                continue
            elif not self._is_free(node):
                yield FixedItem(node.type, line_of(node), _tokens(node))

    def _is_free(self, node: Node) -> bool:
        """The kernel itself, and functions (and templates of them) that run on the device alone."""
        if node.type == "template_declaration":
            node = next((child for child in node.named_children if child.type == "function_definition"), node)
        if node.type == "declaration":  # a prototype
            words = set(_WORDS.findall(text_of(node)))
            return "__device__" in words and not words & {"__host__", "__constant__"} and _has_prototype(node)
        if node.type != "function_definition":
            return False
        if node == self.kernel:
            return True
        length = function_declarator(node).start_byte - node.start_byte
        words = set(_WORDS.findall((node.text or b"")[:length].decode(errors="replace")))
        words |= {inner for word in tuple(words) for inner in self._expanded(word)}
        return "__device__" in words and not words & {"__host__", "__global__"}

    def loops(self) -> tuple[Loop, ...]:
        """Loops of the kernel and of the device functions that it calls, in source order."""
        loops: list[Loop] = []
        for function in self._reachable(self.kernel):
            name = function_name(function)
            loops += [self._loop(node, name) for node in walk(function) if node.type in _LOOPS]
        return tuple(sorted(loops, key=lambda loop: loop.start))

    def functions(self) -> list[Node]:
        """The kernel and the functions of this file that it calls, in source order."""
        return sorted(self._reachable(self.kernel), key=lambda node: node.start_byte)

    def loop_at(self, node: Node) -> Loop:
        """What is known of the loop statement `node`."""
        function = next((parent for parent in ancestors(node) if parent.type == "function_definition"), self.kernel)
        return self._loop(node, function_name(function))

    def _reachable(self, start: Node) -> list[Node]:
        """`start` and the functions of this file that it calls, directly or not."""
        reached, pending = {}, [start]
        while pending:
            node = pending.pop()
            if node.start_byte in reached:
                continue
            reached[node.start_byte] = node
            for inner in walk(node):
                if inner.type == "call_expression":
                    pending.extend(self._functions.get(called_name(inner), []))
        return list(reached.values())

    @cached_property
    def _dynamic_shared_names(self) -> frozenset[str]:
        """Arrays of dynamic shared memory, and the pointers and references that are initialised from them."""
        names = {name.decode() for name in re.findall(rb"\bHIP_DYNAMIC_SHARED\s*\([^,()]+,\s*(\w+)\s*\)", self.content)}
        aliases: list[tuple[str, frozenset[str]]] = []
        for node in walk(self._root):
            if node.type != "declaration":
                continue
            if {"extern", "__shared__"} <= set(_WORDS.findall(text_of(node))):
                names.update(text_of(i) for i in walk(node) if i.type == "identifier")
            aliases += _aliases(node)
        size = -1
        while size != len(names):
            size = len(names)
            names.update(alias for alias, sources in aliases if sources & names)
        return frozenset(names)

    def _loop(self, node: Node, function: str) -> Loop:
        start = (
            node.parent.start_byte if node.parent is not None and node.parent.type == "attributed_statement" else node.start_byte
        )
        body = node.child_by_field_name("body")
        header_end = body.start_byte if body is not None else node.end_byte
        header = (node.text or b"")[: header_end - node.start_byte].decode(errors="replace")
        pragma, foreign = self._pragmas(start)
        obstacle = self._obstacle(node) or (f"has a pragma of its own: {foreign}" if foreign else None)
        return Loop(start, line_of(node), function, " ".join(header.split()), obstacle, pragma)

    def _pragmas(self, start: int) -> tuple[tuple[int, int] | None, str | None]:
        """Of the pragmas right before `start`: the line with `#pragma unroll`, and another that decides about unrolling."""
        own, foreign = None, None
        for match in reversed(list(_PRAGMA.finditer(self.content, 0, start))):
            if not _BETWEEN.fullmatch(self.content, match.end(), start):
                break
            start = match.start()
            if own is None and _UNROLL_LINE.match(match[0]):
                own = match.span()
            elif b"unroll" in match[0]:
                foreign = match[0].decode(errors="replace").strip()
        return own, foreign

    def _obstacle(self, loop: Node) -> str | None:
        if loop.type not in _FOR_LOOPS:
            return "is not a for loop"
        if any(called_name(call) in self._macros for call in ancestors(loop) if call.type == "call_expression"):
            return "stands in the arguments of a macro"
        for part in self._reachable(loop):
            for node in walk(part):
                reason = (_jump(node, loop) if part == loop else None) or self._forbidden(node)
                if reason is not None:
                    return f"{reason} (line {line_of(node)})"
        return None

    def _forbidden(self, node: Node) -> str | None:
        """What must not stand in the loop, nor in a function that it calls."""
        if node.type in ("asm_statement", "gnu_asm_expression"):
            return "contains inline assembly"
        if node.type == "ERROR":
            return "is not understood by the parser"
        if node.type == "identifier":
            name = text_of(node)
            if name in self._dynamic_shared_names:
                return "uses dynamic shared memory"
            reasons = sorted(filter(None, map(_forbidden_word, self._expanded(name))))
            return f"{reasons[0]} in the macro {name}" if reasons else None
        return _forbidden_call(called_name(node)) if node.type == "call_expression" else None


def parse_source(content: bytes, entry: str) -> SourceUnit:
    """Parse a source and find the kernel in it.

    Raises:
        SourceError: The kernel is not there, or more than once.
    """
    unit = SourceUnit(content, entry)
    _ = unit.kernel
    return unit


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


def _aliases(declaration: Node) -> Iterator[tuple[str, frozenset[str]]]:
    """Pointers and references that a declaration initialises, with the names in their initialisers."""
    kind = declaration.child_by_field_name("type")
    for child in declaration.named_children:
        declarator, value = child.child_by_field_name("declarator"), child.child_by_field_name("value")
        if child.type != "init_declarator" or declarator is None or value is None:
            continue
        if declarator.type in ("pointer_declarator", "reference_declarator") or (kind is not None and text_of(kind) == "auto"):
            sources = frozenset(text_of(node) for node in walk(value) if node.type == "identifier")
            yield from ((text_of(node), sources) for node in walk(declarator) if node.type == "identifier")


def _tokens(node: Node, *, without: Node | None = None) -> str:
    leaves = (leaf for leaf in walk(node) if not leaf.children and leaf.type != "comment")
    kept = (leaf for leaf in leaves if without is None or not without.start_byte <= leaf.start_byte < without.end_byte)
    return " ".join(text_of(leaf) for leaf in kept)


def _has_prototype(declaration: Node) -> bool:
    return any(child.type == "function_declarator" for child in declaration.named_children)


def ancestors(node: Node) -> Iterator[Node]:
    """The nodes around `node`, innermost first."""
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def walk(node: Node) -> Iterator[Node]:
    """`node` and all below it, in source order."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.children))


def function_declarator(function: Node) -> Node:
    """Name and parameters of a function definition."""
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


def function_name(function: Node) -> str:
    """Plain name of a function definition."""
    declarator = function.child_by_field_name("declarator")
    if declarator is None:
        return ""
    name = function_declarator(function).child_by_field_name("declarator")
    return text_of(name).rpartition("::")[2] if name is not None else ""


def _qualified_name(function: Node) -> str:
    """With the named namespaces around it."""
    names = [node.child_by_field_name("name") for node in ancestors(function) if node.type == "namespace_definition"]
    return "::".join([*(text_of(name) for name in reversed(names) if name is not None), function_name(function)])


def called_name(call: Node) -> str:
    """Plain name of what a call expression calls."""
    function = call.child_by_field_name("function")
    if function is None:
        return ""
    if function.type == "template_function":
        function = function.child_by_field_name("name") or function
    if function.type == "field_expression":
        function = function.child_by_field_name("field") or function
    return text_of(function).rpartition("::")[2]


def text_of(node: Node | None) -> str:
    """Source text of a node."""
    return ((node.text if node is not None else None) or b"").decode(errors="replace")


def line_of(node: Node) -> int:
    """Line of a node, from 1."""
    return int(node.start_point[0]) + 1
