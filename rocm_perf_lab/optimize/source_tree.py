"""Syntax tree of a kernel's source: the kernel, the functions that it calls, and macros.

Sources are parsed with tree-sitter's CUDA grammar, which also covers HIP. Pragmas are blanked before parsing, because the grammar
does not allow them before the body of an `if`. Positions are byte offsets in the UTF-8 source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.syntax_nodes import (
    called_name,
    function_declarator,
    function_name,
    line_of,
    qualified_name,
    specifiers_of,
    text_of,
    walk,
    words_of,
)
from rocm_perf_lab.toolchain.demangle import base_name, demangle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

PRAGMA = re.compile(
    rb"""^[ \t]*\#[ \t]*pragma\b (?: \\\r?\n | [^\r\n] )* (?: \r?\n )?  |  \b_Pragma\s*\(\s*"[^"\n]*"\s*\)""",
    re.MULTILINE | re.VERBOSE,
)
"""Pragma line with its newline, or `_Pragma` operator."""
_PRAGMA_MACRO = re.compile(
    rb"""^[ \t]*\#[ \t]*define[ \t]+(?P<name>\w+)(?:\([^()\n]*\))?[ \t]+(?:_Pragma[ \t]*\([^\n]*\)[ \t]*)+$""", re.MULTILINE
)


class SourceError(LabError):
    """Source in which the kernel is missing or ambiguous."""


@dataclass(frozen=True)
class SourceUnit:
    """Source file, and the name of one kernel in it."""

    content: bytes
    entry: str

    @cached_property
    def root(self) -> Node:
        """Root of the syntax tree."""
        import tree_sitter_cuda
        from tree_sitter import Language, Parser

        blanked = _without_pragma_macros(PRAGMA.sub(_blank, self.content), self.content)
        return Parser(Language(tree_sitter_cuda.language())).parse(blanked).root_node

    @cached_property
    def kernel(self) -> Node:
        """Definition of the kernel.

        Raises:
            SourceError: The source contains no kernel with that name, or several.
        """
        qualified = base_name(demangle(self.entry))
        wanted = qualified.rpartition("::")[2]
        candidates = [node for node in self._functions.get(wanted, []) if self._is_kernel(node)]
        if len(candidates) > 1 and "::" in qualified:
            candidates = [node for node in candidates if qualified_name(node) == qualified] or candidates
        if len(candidates) == 1:
            return candidates[0]
        kernels = sorted(n for n, nodes in self._functions.items() if any(self._is_kernel(node) for node in nodes))
        if not candidates:
            error = next((node for node in walk(self.root) if node.type == "ERROR"), None)
            raise SourceError(
                f"the source has no kernel {wanted!r}",
                where="kernel.entry",
                hint=f"kernels in it: {', '.join(kernels) or 'none'}"
                + (f"; line {line_of(error)} cannot be parsed" if error is not None else ""),
            )
        lines = ", ".join(str(line_of(node)) for node in candidates)
        raise SourceError(
            f"the source has {len(candidates)} kernels {wanted!r} (lines {lines})",
            where="kernel.entry",
            hint="move overloads to separate files",
        )

    def signature(self) -> str:
        """Return the tokens of the kernel's declarator, without white space and comments."""
        leaves = (node for node in walk(function_declarator(self.kernel)) if not node.children)
        return " ".join(text_of(leaf) for leaf in leaves if leaf.type != "comment")

    def functions(self) -> list[Node]:
        """Return the kernel and the functions of this file that it calls, in source order."""
        return sorted(self.reachable(self.kernel), key=lambda node: node.start_byte)

    def reachable(self, start: Node) -> list[Node]:
        """Return `start` and the functions of this file that it calls, directly or indirectly."""
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
    def macros(self) -> dict[str, frozenset[str]]:
        """Identifiers in the text of each macro; several definitions of a macro are merged."""
        found: dict[str, frozenset[str]] = {}
        for node in walk(self.root):
            if node.type in ("preproc_def", "preproc_function_def"):
                name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
                words = frozenset(words_of(text_of(value))) if value is not None else frozenset()
                found[text_of(name)] = found.get(text_of(name), frozenset()) | words
        return found

    def macro_value(self, name: str) -> int | None:
        """Return the integer value of a macro; None if it has another value or several definitions."""
        values = [
            text_of(value).strip()
            for node in walk(self.root)
            if node.type == "preproc_def" and text_of(node.child_by_field_name("name")) == name
            for value in [node.child_by_field_name("value")]
            if value is not None
        ]
        return int(values[0]) if len(values) == 1 and values[0].isdigit() else None

    def expanded(self, word: str) -> frozenset[str]:
        """Return all identifiers in the expansion of a macro of this file; empty for other identifiers."""
        reached: set[str] = set()
        pending = [word]
        while pending:
            fresh = self.macros.get(pending.pop(), frozenset()) - reached
            reached |= fresh
            pending.extend(fresh)
        return frozenset(reached)

    @cached_property
    def dynamic_shared_names(self) -> frozenset[str]:
        """Names of dynamic shared memory arrays, and of pointers and references initialised from them."""
        names = {name.decode() for name in re.findall(rb"\bHIP_DYNAMIC_SHARED\s*\([^,()]+,\s*(\w+)\s*\)", self.content)}
        aliases: list[tuple[str, frozenset[str]]] = []
        for node in walk(self.root):
            if node.type != "declaration":
                continue
            if {"extern", "__shared__"} <= set(words_of(text_of(node))):
                names.update(text_of(i) for i in walk(node) if i.type == "identifier")
            aliases += _aliases(node)
        size = -1
        while size != len(names):
            size = len(names)
            names.update(alias for alias, sources in aliases if sources & names)
        return frozenset(names)

    @cached_property
    def _functions(self) -> dict[str, list[Node]]:
        """Function definitions by unqualified name."""
        found: dict[str, list[Node]] = {}
        for node in walk(self.root):
            if node.type == "function_definition" and node.child_by_field_name("body") is not None:
                name = function_name(node)
                if name:
                    found.setdefault(name, []).append(node)
        return found

    def _is_kernel(self, function: Node) -> bool:
        """Return whether the specifiers contain `__global__` or a macro for it."""
        words = specifiers_of(function)
        return any(word == "__global__" or "__global__" in self.expanded(word) for word in words)


def _blank(match: re.Match[bytes]) -> bytes:
    return re.sub(rb"[^\r\n]", b" ", match[0])


def _without_pragma_macros(blanked: bytes, content: bytes) -> bytes:
    """Blank uses of macros that only contain pragmas, which the grammar does not allow before a loop."""
    names = [match["name"] for match in _PRAGMA_MACRO.finditer(content)]
    if not names:
        return blanked
    uses = re.compile(
        rb"^[ \t]*\#[ \t]*(?:define|undef)[ \t]+(?:%s)\b[^\n]*|\b(?:%s)\b[ \t]*(?:\([^()\n]*\))?" % ((b"|".join(names),) * 2),
        re.MULTILINE,
    )
    return uses.sub(_blank, blanked)


def parse_source(content: bytes, entry: str) -> SourceUnit:
    """Parse a source and find the kernel in it.

    Raises:
        SourceError: The source has no kernel of that name, or several.
    """
    unit = SourceUnit(content, entry)
    _ = unit.kernel
    return unit


def _aliases(declaration: Node) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield pointers and references that a declaration initialises, with the identifiers in their initialisers."""
    kind = declaration.child_by_field_name("type")
    for child in declaration.named_children:
        declarator, value = child.child_by_field_name("declarator"), child.child_by_field_name("value")
        if child.type != "init_declarator" or declarator is None or value is None:
            continue
        if declarator.type in ("pointer_declarator", "reference_declarator") or (kind is not None and text_of(kind) == "auto"):
            sources = frozenset(text_of(node) for node in walk(value) if node.type == "identifier")
            yield from ((text_of(node), sources) for node in walk(declarator) if node.type == "identifier")
