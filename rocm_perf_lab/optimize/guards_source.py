"""Guards on the source text: host code, other kernels, includes, macros and pragmas do not change.

Directives are found as the compiler finds them: continued lines are joined, comments and strings removed. The files that the
compiler read are compared too, so that an include cannot be hidden by its spelling.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.guards import GuardResult
from rocm_perf_lab.optimize.syntax_nodes import line_of, specifiers_of, text_of, walk, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tree_sitter import Node

    from rocm_perf_lab.optimize.inspection import CandidateSource
    from rocm_perf_lab.optimize.source_tree import SourceUnit

_TOKENS = re.compile(
    r"""(?P<kept>R"(?P<mark>[^()\\\s]{0,16})\((?:.|\n)*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<comment>//[^\n]*|/\*(?:.|\n)*?(?:\*/|\Z))""",
)
_DIRECTIVE = re.compile(r"^[ \t\v\f]*(?:\#|%:|\?\?=)[ \t]*(?P<text>[^\n]*)", re.MULTILINE)
_PLACE_AND_TIME = re.compile(
    r"\b__(?:FILE|FILE_NAME|BASE_FILE|TIME|DATE|TIMESTAMP|COUNTER|INCLUDE_LEVEL)__\b|\b__has_(?:include|embed)(?:_next)?\b"
)
"""Macros whose value depends on path, time and number of compilations."""
_PRAGMA_OPERATOR = re.compile(r"\b(?:_Pragma|__pragma)\s*\(")
_CLANG_HINT = r"(?:unroll|interleave|vectorize)\w*\s*\(\s*\w+\s*\)"
_LOOP_HINT = re.compile(
    rf"#pragma\s+(?:unroll(?:\s*\(?\s*\d+\s*\)?)?|nounroll|clang\s+loop\s+{_CLANG_HINT}(?:\s+{_CLANG_HINT})*)"
)
_ALLOWED_ITEMS = frozenset(
    {"struct_specifier", "class_specifier", "enum_specifier", "union_specifier", "alias_declaration", "type_definition",
     "static_assert_declaration", "using_declaration", ";"}
)  # fmt: skip
_CONTAINERS = frozenset({"namespace_definition", "linkage_specification"})


class SameDirectives:
    """No new includes, macros, conditions, pragmas or macros for file and time; loop unrolling pragmas are allowed."""

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Compare the directives of both texts and the files that the compiler read."""
        before, after = (_directives(c.source.content.decode(errors="replace")) for c in (baseline, candidate))
        changed = [f"{text} is new" for text in (after - before)] + [f"{text} is missing" for text in (before - after)]
        if changed:
            return GuardResult("directives", False, "; ".join(changed[:3]))
        files = sorted(candidate.inspected.dependencies - baseline.inspected.dependencies)
        if files:
            return GuardResult("directives", False, f"reads {', '.join(files[:3])}, which the unmodified source does not")
        return GuardResult("directives", True, "unchanged")


class SameHostCode:
    """Code outside the kernel and device functions does not change: host code, other kernels, launches."""

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Check that every item of the unmodified file is present, in order, and that new items are types or constants."""
        before = [item.tokens for item in fixed_items(baseline.source)]
        rest = iter(fixed_items(candidate.source))
        for tokens in before:
            for item in rest:
                if item.tokens == tokens:
                    break
                if not _is_harmless(item.kind, item.tokens):
                    return GuardResult("host", False, f"line {item.line} is new: {_shortened(item.tokens)}")
            else:
                return GuardResult("host", False, f"changed or missing: {_shortened(tokens)}")
        extra = next((item for item in rest if not _is_harmless(item.kind, item.tokens)), None)
        if extra is not None:
            return GuardResult("host", False, f"line {extra.line} is new: {_shortened(extra.tokens)}")
        return GuardResult("host", True, "unchanged")


def _is_harmless(kind: str, tokens: str) -> bool:
    return kind in _ALLOWED_ITEMS or (kind == "declaration" and "constexpr" in tokens.split())


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _directives(text: str) -> Counter[str]:
    joined = re.sub(r"(?:\\|\?\?/)[ \t]*\r?\n", "", text.replace("\r\n", "\n"))
    code = _TOKENS.sub(lambda match: match["kept"] or " ", joined)
    found: Iterable[str] = ("#" + " ".join(match["text"].split()) for match in _DIRECTIVE.finditer(code))
    names = (match[0] for match in _PLACE_AND_TIME.finditer(code))
    operators = (f"_Pragma {code[match.start() : match.end() + 60]}" for match in _PRAGMA_OPERATOR.finditer(code))
    return Counter(text for text in (*found, *names, *operators) if text != "#" and not _LOOP_HINT.fullmatch(text))


@dataclass(frozen=True)
class FixedItem:
    """Top-level item of a file that a rewrite must not change; `tokens` without white space and comments."""

    kind: str
    line: int
    tokens: str


def fixed_items(unit: SourceUnit) -> tuple[FixedItem, ...]:
    """Return all top-level items except the kernel and device-only functions, in source order."""
    return tuple(_fixed(unit, unit.root))


def _fixed(unit: SourceUnit, container: Node) -> Iterator[FixedItem]:
    for node in container.children:
        if node.type in ("comment", "{", "}"):
            continue
        body = node.child_by_field_name("body")
        if node.type in _CONTAINERS and body is not None and body.type == "declaration_list":
            yield FixedItem(node.type, line_of(node), _tokens(node, without=body))
            yield from _fixed(unit, body)
        elif node.type == "linkage_specification" and body is not None and _is_free(unit, body):
            continue
        elif not _is_free(unit, node):
            yield FixedItem(node.type, line_of(node), _tokens(node))


def _is_free(unit: SourceUnit, node: Node) -> bool:
    """Return whether a rewrite may change an item: the kernel, and device-only functions and their templates."""
    if node.type == "template_declaration":
        node = next((child for child in node.named_children if child.type == "function_definition"), node)
    if node.type == "declaration":  # a prototype
        words = set(words_of(text_of(node)))
        return "__device__" in words and not words & {"__host__", "__constant__"} and _has_prototype(node)
    if node.type != "function_definition":
        return False
    if node == unit.kernel:
        return True
    words = set(specifiers_of(node))
    words |= {inner for word in tuple(words) for inner in unit.expanded(word)}
    return "__device__" in words and not words & {"__host__", "__global__"}


def _tokens(node: Node, *, without: Node | None = None) -> str:
    leaves = (leaf for leaf in walk(node) if not leaf.children and leaf.type != "comment")
    kept = (leaf for leaf in leaves if without is None or not without.start_byte <= leaf.start_byte < without.end_byte)
    return " ".join(text_of(leaf) for leaf in kept)


def _has_prototype(declaration: Node) -> bool:
    return any(child.type == "function_declarator" for child in declaration.named_children)
