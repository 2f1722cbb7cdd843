"""Inline assembly in the text of a source: `assembly_statements(scan) -> list[AssemblyStatement]`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocm_perf_lab.optimize.source_scan import ScannedSource, SourceToken

ASSEMBLY_WORDS = frozenset({"asm", "__asm", "__asm__", "_asm"})
_QUALIFIERS = frozenset({"volatile", "__volatile__", "__volatile", "inline", "goto"})
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}


@dataclass(frozen=True)
class AssemblyOperand:
    """Operand of inline assembly: `[name] "constraint"(expression)`; `expression` has single spaces between its tokens."""

    name: str
    constraint: str
    expression: str


@dataclass(frozen=True)
class AssemblyStatement:
    """One asm statement. `template` is None if it is not made of plain string literals, `text` has single spaces."""

    line: int
    text: str
    template: str | None = None
    outputs: tuple[AssemblyOperand, ...] = ()
    inputs: tuple[AssemblyOperand, ...] = ()
    clobbers: tuple[str, ...] = ()


def assembly_statements(source: ScannedSource) -> list[AssemblyStatement]:
    """Return the asm statements of a source, including those in macros."""
    lists = [source.tokens, *(directive.tokens for directive in source.directives)]
    return [statement for tokens in lists for statement in _statements(tokens)]


def _statements(tokens: Sequence[SourceToken]) -> Iterator[AssemblyStatement]:
    for index, token in enumerate(tokens):
        if token.kind != "word" or token.text not in ASSEMBLY_WORDS:
            continue
        start = index + 1
        while start < len(tokens) and tokens[start].text in _QUALIFIERS:
            start += 1
        inside = _bracketed(tokens, start)
        if inside is None:
            yield AssemblyStatement(token.line, token.text)
        else:
            yield _statement(token.line, [*tokens[index:start]], inside)


def _bracketed(tokens: Sequence[SourceToken], start: int) -> Sequence[SourceToken] | None:
    """Return the tokens between an opening bracket at `start` and the closing one."""
    if start >= len(tokens) or tokens[start].text != "(":
        return None
    depth = 0
    for end in range(start, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[end].text, 0)
        if depth == 0:
            return tokens[start + 1 : end]
    return None


def _statement(line: int, head: list[SourceToken], inside: Sequence[SourceToken]) -> AssemblyStatement:
    text = " ".join([*(token.text for token in head), "(", *(token.text for token in inside), ")"])
    sections = _split(inside, ":")
    strings = sections[0]
    if len(sections) > 4 or not strings or any(token.kind not in ("string", "raw string") for token in strings):
        return AssemblyStatement(line, text)
    operands = [[_operand(part) for part in _split(section, ",") if part] for section in sections[1:3]]
    clobbers = [part for section in sections[3:] for part in _split(section, ",") if part]
    if any(operand is None for row in operands for operand in row) or any(len(part) != 1 for part in clobbers):
        return AssemblyStatement(line, text)
    outputs, inputs = ([o for o in row if o is not None] for row in [*operands, [], []][:2])
    return AssemblyStatement(
        line, text, "".join(map(_content, strings)), tuple(outputs), tuple(inputs), tuple(_content(part[0]) for part in clobbers)
    )


def _split(tokens: Sequence[SourceToken], separator: str) -> list[list[SourceToken]]:
    """Split at separators outside brackets; `::` separates twice."""
    parts: list[list[SourceToken]] = [[]]
    depth = 0
    for token in tokens:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token.text, 0)
        if depth == 0 and separator == ":" and token.text == "::":
            parts += [[], []]
        elif depth == 0 and token.text == separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _operand(tokens: list[SourceToken]) -> AssemblyOperand | None:
    name = ""
    if len(tokens) > 3 and tokens[0].text == "[" and tokens[2].text == "]":
        name, tokens = tokens[1].text, tokens[3:]
    if len(tokens) < 4 or tokens[0].kind != "string" or tokens[1].text != "(" or tokens[-1].text != ")":
        return None
    return AssemblyOperand(name, _content(tokens[0]), " ".join(token.text for token in tokens[2:-1]))


def _content(token: SourceToken) -> str:
    if token.kind == "raw string":
        return token.text.partition("(")[2].rpartition(")")[0]
    inside = token.text.partition('"')[2].rpartition('"')[0]
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], f"\\{match[1]}"), inside)
