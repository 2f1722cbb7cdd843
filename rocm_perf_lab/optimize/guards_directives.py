"""Guard on directives, which are checked before compilation.

A rewrite may define macros, compile conditionally, include standard headers and give hints to the optimizer. It must not read
other files, redefine names used by host code, headers or the kernel's declaration, or depend on file, time or build.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.guards import GuardResult
from rocm_perf_lab.optimize.guards_source import fixed_words
from rocm_perf_lab.optimize.source_scan import Directive, ScannedSource, scan_source
from rocm_perf_lab.optimize.standard_headers import is_standard_header
from rocm_perf_lab.optimize.syntax_nodes import function_declarator, text_of, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.optimize.inspection import CandidateSource
    from rocm_perf_lab.optimize.source_scan import SourceToken
    from rocm_perf_lab.optimize.source_tree import SourceUnit

_KEYWORDS = (
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl concept "
    "const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double "
    "dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept "
    "not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return short signed sizeof "
    "static static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union "
    "unsigned using virtual void volatile wchar_t while xor xor_eq defined main threadIdx blockIdx blockDim gridDim warpSize "
    "final override import module half"
)
_RESERVED = re.compile(r"_[_A-Z]\w*|hip[A-Z_]\w*|HIP_\w*|HIPRT_\w*")
_SWITCHES = frozenset({"HIP_ENABLE_WARP_SYNC_BUILTINS", "NDEBUG", "_USE_MATH_DEFINES"})
"""Documented switches of headers without an effect on code that does not use them."""
_BEFORE_HEADERS = re.compile(
    r"(?!ROC|AMD|CUDA|U?INT|FLT|L?DBL|S?CHAR|SHRT|U?LL?ONG|SIZE|PTRDIFF|M_|HUGE|NAN|FP_|MATH)[A-Z][A-Z0-9_]{2,}"
)
"""Names that do not change a header that is included later."""
_CONDITIONS = re.compile(
    r"defined|and|or|not|true|false|__gfx\w+__|__AMDGCN\w*|__AMDGPU__|__HIP__|__HIPCC__|__HIP_DEVICE_COMPILE__|__HIP_ARCH_\w+"
    r"|__HIP_PLATFORM_AMD__|__cplusplus|__clang__|__has_(?:builtin|attribute|cpp_attribute|feature|extension)"
)
"""Words in conditions with the same value in every build for one target."""
_PREDEFINED = re.compile(r"_[_A-Z]\w*|linux|unix")
"""Macros of the compiler; others are defined in the source or by the build command."""
_PLACE_AND_TIME = re.compile(
    r"__(?:FILE|FILE_NAME|BASE_FILE|TIME|DATE|TIMESTAMP|COUNTER|INCLUDE_LEVEL)__|__has_(?:include|embed)\w*|__pragma|import|export"
    r"|__builtin_(?:FILE|FILE_NAME|source_location)"
)
_PASTEABLE = (
    *(f"__{name}__" for name in ["FILE", "FILE_NAME", "BASE_FILE", "TIME", "DATE", "TIMESTAMP", "COUNTER", "INCLUDE_LEVEL"]),
    *("__has_include", "__has_include_next", "__has_embed", "_Pragma", "__pragma"),
)
_LOOP = r"(?:unroll|interleave|vectorize|distribute|unroll_and_jam|pipeline)\w*\(\w+\)"
_PRAGMA = re.compile(
    rf"(?:(?:GCC|clang)?unroll_?(?:\(?\w+\)?)?|nounroll|unroll_and_jam(?:\(\w+\))?|nounroll_and_jam|clangloop(?:{_LOOP})+"
    r"|clangfp(?:(?:contract|reassociate|reciprocal|exceptions|eval_method)\(\w+\))+|STDCFP_CONTRACT\w+|STDCFENV_ACCESSOFF"
    r"|(?:clang|GCC)diagnostic(?:push|pop|(?:ignored|warning|error)\"-W[\w=+-]+\")|once|(?:region|endregion|mark)\w*|ivdep|GCCivdep)"
)
_FREE = frozenset({"", "else", "endif", "warning", "error"})
_IF = frozenset({"if", "ifdef", "ifndef", "elif", "elifdef", "elifndef"})


class SafeDirectives:
    """New directives are `#define` and `#undef` of the source's own names, conditions on them or on the architecture, standard
    HIP and C++ headers, and pragmas for loops, floating-point contraction and diagnostics; no other files, no `__FILE__`,
    `__TIME__` or `__COUNTER__`."""

    def check_source(self, baseline: SourceUnit, candidate: SourceUnit) -> GuardResult:
        """Check the text of a candidate before compilation."""
        before, after = scan_source(baseline.content), scan_source(candidate.content)
        refused = [*_new_problems(before, after), *_new_words(before, after), *_refused(baseline, before, after)]
        return GuardResult("directives", not refused, "; ".join(dict.fromkeys(refused[:3])) or "harmless")

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Check the text, and that the compiler read no other file next to the source."""
        result = self.check_source(baseline.source, candidate.source)
        new = candidate.inspected.dependencies - baseline.inspected.dependencies
        files = sorted(name for name in new if not name.startswith("/"))
        if result.passed and files:
            return GuardResult("directives", False, f"reads {', '.join(files[:3])}, which the unmodified source does not")
        return result


def _new_problems(before: ScannedSource, after: ScannedSource) -> Iterator[str]:
    known = {problem.partition(" (line")[0] for problem in before.problems}
    yield from (f"has {problem}" for problem in after.problems if problem.partition(" (line")[0] not in known)


def _new_words(before: ScannedSource, after: ScannedSource) -> Iterator[str]:
    """Yield words for location and time, and `_Pragma` operators that are not allowed, in code and in macros."""
    known = {token.text for token in _all_tokens(before)}
    for token in _all_tokens(after):
        if token.kind == "word" and token.text not in known and _PLACE_AND_TIME.fullmatch(token.text):
            yield f"{token.text} is new (line {token.line})"
    yield from _pasted(after, known)
    tokens = list(_all_tokens(after))
    operators_before = Counter(_operands(list(_all_tokens(before))))
    for line, operand in _operators(tokens):
        if operand not in operators_before and not _is_allowed_pragma(operand):
            yield f"_Pragma is new (line {line})"


def _pasted(after: ScannedSource, known: set[str]) -> Iterator[str]:
    """Yield new words that macros, including those of headers, could paste to the name of a macro for location, time or files.

    The first part of such a name has a leading underscore. A single underscore, which may name an unused variable, is
    reported only if the source itself pastes tokens.
    """
    pastes = any(token.text == "##" for directive in after.directives for token in directive.tokens)
    for token in _all_tokens(after):
        if token.kind == "word" and token.text not in known and "_" in token.text:
            begins = token.text.startswith("_" if pastes else "__")
            others = (n for n in _PASTEABLE if n != token.text)
            name = next((n for n in others if (begins and n.startswith(token.text)) or n.endswith(token.text)), None)
            if name is not None and (pastes or token.text != "_"):
                yield f"{token.text} can be pasted to {name} (line {token.line})"


def _all_tokens(source: ScannedSource) -> Iterator[SourceToken]:
    for directive in source.directives:
        yield from directive.tokens
    yield from source.tokens


def _operators(tokens: list[SourceToken]) -> Iterator[tuple[int, str]]:
    """Yield line and operand of each `_Pragma`; operands other than one plain string are empty."""
    for index, token in enumerate(tokens):
        if token.text == "_Pragma":
            operand = tokens[index + 2] if index + 3 < len(tokens) and tokens[index + 3].text == ")" else None
            plain = operand is not None and operand.kind == "string" and operand.text.startswith('"')
            yield token.line, re.sub(r"\\(.)", r"\1", operand.text[1:-1]) if plain and operand is not None else ""


def _operands(tokens: list[SourceToken]) -> list[str]:
    return [operand for _, operand in _operators(tokens)]


def _is_allowed_pragma(text: str) -> bool:
    return _PRAGMA.fullmatch(re.sub(r"\s+", "", text)) is not None


def _refused(baseline: SourceUnit, before: ScannedSource, after: ScannedSource) -> Iterator[str]:
    known = Counter(directive.text for directive in before.directives)
    macros = {word for source in (before, after) for word in _macros_of(source)}
    last_header = max((i for i, d in enumerate(after.directives) if d.name == "include"), default=-1)
    fixed = _fixed_names(baseline)
    for index, directive in enumerate(after.directives):
        text = directive.text
        if known[text] > 0:
            known[text] -= 1
            continue
        why = _reason(directive, macros, fixed, is_before_headers=index < last_header)
        if why is not None:
            yield f"{text if len(text) <= 80 else text[:77] + '...'} {why} (line {directive.line})"
    for text in +known:
        name = text.split()[1] if text.startswith(("#define ", "#undef ")) else ""
        if name in fixed:
            yield f"{text} is missing"


def _macros_of(source: ScannedSource) -> Iterator[str]:
    for directive in source.directives:
        if directive.name in ("define", "undef") and directive.tokens:
            yield directive.tokens[0].text


def _fixed_names(baseline: SourceUnit) -> frozenset[str]:
    """Return the names that macros must not change: those of host code, other kernels and the kernel's declaration."""
    words = {*fixed_words(baseline), *words_of(text_of(function_declarator(baseline.kernel)))}
    return frozenset(words | {inner for word in tuple(words) for inner in baseline.expanded(word)})


def _reason(directive: Directive, macros: set[str], fixed: frozenset[str], *, is_before_headers: bool) -> str | None:
    """Return the reason to reject a new directive; None if it is harmless."""
    name, words = directive.name, directive.words
    if name in _FREE:
        return None
    if name in ("define", "undef"):
        return _reason_of_macro(words[0] if words else "", fixed, is_before_headers=is_before_headers)
    if name in _IF:
        words = tuple(word for word in _condition_words(directive) if word not in macros and _PREDEFINED.fullmatch(word))
        other = next((word for word in words if not _CONDITIONS.fullmatch(word)), None)
        return f"depends on {other}, which may differ between builds" if other is not None else None
    if name == "include":
        header = directive.tokens[0] if len(directive.tokens) == 1 else None
        if header is not None and header.kind == "header" and is_standard_header(header.text[1:-1]):
            return None
        return "is new and not a standard header"
    if name == "pragma":
        text = "".join(token.text for token in directive.tokens)
        return None if _is_allowed_pragma(text) else "is new"
    return "is new"


def _condition_words(directive: Directive) -> Iterator[str]:
    """Yield the words of a condition; arguments of `__has_builtin` and similar are not macros."""
    tokens = directive.tokens
    for index, token in enumerate(tokens):
        is_argument = index > 1 and tokens[index - 1].text == "(" and tokens[index - 2].text.startswith("__has_")
        if token.kind == "word" and not is_argument:
            yield token.text


def _reason_of_macro(name: str, fixed: frozenset[str], *, is_before_headers: bool) -> str | None:
    if name in _SWITCHES:
        return None
    if not name or name in _KEYWORDS.split() or _RESERVED.fullmatch(name):
        return "changes a name of the language"
    if name in fixed:
        return "changes a name that host code, other kernels or the kernel's declaration use"
    if is_before_headers and not _BEFORE_HEADERS.fullmatch(name):
        return "may change a header that is included below; define it after the headers"
    return None
