"""Checks of the text of candidates in Triton and in assembly, before they are compiled: `text_problem(language, before, after)`.

A source in Triton is a Python program, and the assembler reads files named in directives. The sandbox denies access to other
files; these checks reject constructs that kernels do not need. Like guards, they ignore constructs of the unmodified source.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.source_scan import scan_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_MODULES = frozenset({"__future__", "math", "triton", "typing"})
_NAMES = re.compile(
    r"open|exec|eval|compile|[gs]etattr|delattr|globals|locals|vars|input|breakpoint|__\w+__"
    r"|inline_asm_elementwise|extern_elementwise|call_extern|device_print|device_assert|static_print|globaltimer|smid"
)
"""Names of Python and Triton with an effect outside of a kernel, or with a result that the launch does not determine."""
_TRITON_CALLS = frozenset(
    {"jit", "autotune", "heuristics", "Config", "constexpr", "constexpr_function", "cdiv", "next_power_of_2"}
)
"""Calls that code outside of functions may add."""
_DIRECTIVE = re.compile(r"(?<![\w)\]\\])\.[A-Za-z_][\w.]*")
_STATEMENT = re.compile(r"(?:^|\n)[ \t]*(?:[\w.$]+:[ \t]*)*[^\s;/\"]*\\")
"""Statement whose name contains an argument of an assembler macro, and which may therefore be a directive."""
_READING = frozenset(
    {".incbin", ".include", ".print", ".err", ".error", ".warning", ".secure_log_unique", ".altmacro", ".cfi_sections"}
)
_DIRECTIVES = frozenset({"define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", ""})
_INSTRUCTIONS = re.compile(
    r"\bs_(?:mem(?:real)?time|[gs]etreg\w*|sendmsg\w*|sethalt|trap|sleep|rfe\w*|[id]cache\w*|ttrace\w*|\w*perflevel|atc\w*)\b"
)


def text_problem(language: str, before: bytes, after: bytes) -> str | None:
    """Return the reason to reject the text of a candidate, or None.

    Args:
        language: Name of its language; others than `triton` and `assembly` have no checks here.
        before: Unmodified source.
        after: Candidate.
    """
    find = _FINDERS.get(language)
    if find is None:
        return None
    known = {what for what, _ in find(before)}
    new = [f"{what} (line {line})" if line else what for what, line in find(after) if what not in known]
    return "; ".join(dict.fromkeys(new[:3])) or None


def _in_triton(content: bytes) -> Iterator[tuple[str, int]]:
    """Yield imports of other modules, names with effects outside of a kernel, and calls when the module is imported."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        yield f"is no Python source: {error}", 0
        return
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((f"imports {name}", line) for name in _modules(node) if name.partition(".")[0] not in _MODULES)
        elif isinstance(node, ast.alias | ast.Name | ast.Attribute):
            name = node.name.rpartition(".")[2] if isinstance(node, ast.alias) else _name(node)
            if _NAMES.fullmatch(name):
                yield f"uses {name}", line
    yield from _executed(tree)


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return ["." * node.level + (node.module or "")]


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _executed(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield calls, loops and assignments to attributes that run when the module is imported."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            arguments = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
            pending += [*arguments, *([] if isinstance(node, ast.Lambda) else node.decorator_list)]
            continue
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Call) and _name(node.func) not in _TRITON_CALLS:
            yield f"calls {_name(node.func) or 'a function'} outside of functions", line
        elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield "assigns to a part of an object outside of functions", line
        elif isinstance(node, ast.For | ast.While | ast.With | ast.Try | ast.ClassDef):
            yield f"has {type(node).__name__.lower()} outside of functions", line
        pending += ast.iter_child_nodes(node)


def _in_assembly(content: bytes) -> Iterator[tuple[str, int]]:
    """Yield directives that read files or print, statements whose name is composed by a macro, clocks and messages."""
    scanned = scan_source(content)
    yield from ((f"has {problem.partition(' (line')[0]}", 0) for problem in scanned.problems if "backslash" not in problem)
    for directive in scanned.directives:
        pastes = any(token.text == "##" for token in directive.tokens)
        if directive.name not in _DIRECTIVES or pastes or any(word.startswith("__has_") for word in directive.words):
            yield directive.text, directive.line
    text = content.decode(errors="replace").replace("\r", "\n")
    names = set(_DIRECTIVE.findall(text))
    for name in sorted({name.lower() for name in names} & _READING):
        yield f"has the directive {name}", 0
    if _STATEMENT.search(text):
        yield "has a statement whose name is made by a macro", 0
    for match in _INSTRUCTIONS.finditer(text):
        yield f"executes {match[0]}", text.count("\n", 0, match.start()) + 1


_FINDERS: Mapping[str, Callable[[bytes], Iterator[tuple[str, int]]]] = {"triton": _in_triton, "assembly": _in_assembly}
