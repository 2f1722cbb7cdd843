"""Guards on the text: host code, other kernels, includes, macros and pragmas stay what they are.

Directives are found as the compiler finds them: lines are joined, comments and strings taken out first. The files that
the compiler read are compared as well, so that no spelling of an include can hide.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.fixed_items import fixed_items
from rocm_perf_lab.optimize.guards import GuardResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocm_perf_lab.optimize.guards import Candidate

_TOKENS = re.compile(
    r"""(?P<kept>R"(?P<mark>[^()\\\s]{0,16})\((?:.|\n)*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<comment>//[^\n]*|/\*(?:.|\n)*?(?:\*/|\Z))""",
)
_DIRECTIVE = re.compile(r"^[ \t\v\f]*(?:\#|%:|\?\?=)[ \t]*(?P<text>[^\n]*)", re.MULTILINE)
_PLACE_AND_TIME = re.compile(
    r"\b__(?:FILE|FILE_NAME|BASE_FILE|TIME|DATE|TIMESTAMP|COUNTER|INCLUDE_LEVEL)__\b|\b__has_(?:include|embed)(?:_next)?\b"
)
"""What they give depends on where, when and how often a source is compiled."""
_PRAGMA_OPERATOR = re.compile(r"\b(?:_Pragma|__pragma)\s*\(")
_CLANG_HINT = r"(?:unroll|interleave|vectorize)\w*\s*\(\s*\w+\s*\)"
_LOOP_HINT = re.compile(
    rf"#pragma\s+(?:unroll(?:\s*\(?\s*\d+\s*\)?)?|nounroll|clang\s+loop\s+{_CLANG_HINT}(?:\s+{_CLANG_HINT})*)"
)
_ALLOWED_ITEMS = frozenset(
    {"struct_specifier", "class_specifier", "enum_specifier", "union_specifier", "alias_declaration", "type_definition",
     "static_assert_declaration", "using_declaration", ";"}
)  # fmt: skip


class SameDirectives:
    """No new includes, macros, conditions, pragmas, nor the names of file and time. Hints how to unroll a loop are free."""

    def check(self, baseline: Candidate, candidate: Candidate) -> GuardResult:
        """Compares the directives of both texts, and the files that the compiler read for them."""
        before, after = (_directives(c.source.content.decode(errors="replace")) for c in (baseline, candidate))
        changed = [f"{text} is new" for text in (after - before)] + [f"{text} is gone" for text in (before - after)]
        if changed:
            return GuardResult("directives", False, "; ".join(changed[:3]))
        files = sorted(candidate.inspected.dependencies - baseline.inspected.dependencies)
        if files:
            return GuardResult("directives", False, f"reads {', '.join(files[:3])}, which the unmodified source does not")
        return GuardResult("directives", True, "unchanged")


class SameHostCode:
    """Outside of the kernel and of device functions nothing changes: no host code, no other kernel, no launch."""

    def check(self, baseline: Candidate, candidate: Candidate) -> GuardResult:
        """Every item of the unmodified file is there, in order; new ones are types and constants alone."""
        before = [item.tokens for item in fixed_items(baseline.source)]
        rest = iter(fixed_items(candidate.source))
        for tokens in before:
            for item in rest:
                if item.tokens == tokens:
                    break
                if not _is_harmless(item.kind, item.tokens):
                    return GuardResult("host", False, f"line {item.line} is new: {_shortened(item.tokens)}")
            else:
                return GuardResult("host", False, f"changed or gone: {_shortened(tokens)}")
        extra = next((item for item in rest if not _is_harmless(item.kind, item.tokens)), None)
        if extra is not None:
            return GuardResult("host", False, f"line {extra.line} is new: {_shortened(extra.tokens)}")
        return GuardResult("host", True, "unchanged")


def _is_harmless(kind: str, tokens: str) -> bool:
    words = set(tokens.split())
    return kind in _ALLOWED_ITEMS or (kind == "declaration" and "constexpr" in words)


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _directives(text: str) -> Counter[str]:
    joined = re.sub(r"(?:\\|\?\?/)[ \t]*\r?\n", "", text.replace("\r\n", "\n"))
    code = _TOKENS.sub(lambda match: match["kept"] or " ", joined)
    found: Iterable[str] = ("#" + " ".join(match["text"].split()) for match in _DIRECTIVE.finditer(code))
    names = (match[0] for match in _PLACE_AND_TIME.finditer(code))
    operators = (f"_Pragma {code[match.start() : match.end() + 60]}" for match in _PRAGMA_OPERATOR.finditer(code))
    return Counter(text for text in (*found, *names, *operators) if text != "#" and not _LOOP_HINT.fullmatch(text))
