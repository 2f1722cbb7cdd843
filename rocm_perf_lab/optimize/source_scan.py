"""Preprocessing tokens and directives of a source: `scan_source(content) -> ScannedSource`.

Sources are scanned before they are passed to a compiler. Continued lines are joined, comments removed, digraphs
and raw strings recognised. A text that compilers may read differently (trigraphs, universal character names, bidirectional
control characters, other white space than ASCII, unterminated comments) is listed under `problems`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

TokenKind = Literal["word", "number", "string", "raw string", "character", "header", "punctuator"]

_SPLICE = re.compile(r"\\[ \t\v\f]*(?:\r\n|\n|\r)")
_TRIGRAPH = re.compile(r"\?\?[=/'()!<>-]")
_CONTROL = re.compile("[\x00\u202a-\u202e\u2066-\u2069\u2028\u2029\u0085]")
_BLANK = re.compile(r"[ \t\v\f]+|/\*.*?\*/|//[^\n]*", re.DOTALL)
_OPEN_COMMENT = re.compile(r"/\*")
_RAW = re.compile(r'(?:u8|u|U|L)?R"')
_RAW_REST = re.compile(r'(?P<mark>[^()\\\s"]{0,16})\(.*?\)(?P=mark)"', re.DOTALL)
_STRING = re.compile(r'(?:u8|u|U|L)?"(?:\\[^\n]|[^"\\\n])*("|(?=\n|\Z))')
_CHARACTER = re.compile(r"(?:u8|u|U|L)?'(?:\\[^\n]|[^'\\\n])*('|(?=\n|\Z))")
_WORD = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_NUMBER = re.compile(r"\.?\d(?:[eEpP][+-]|'\w|[\w.])*")
_PUNCTUATOR = re.compile(
    r"%:%:|%:|<%|%>|<:|:>|\#\#|<<=|>>=|<=>|\.\.\.|->\*|::|->|<<|>>|<=|>=|==|!=|&&|\|\||[+\-*/%&|^]=|\+\+|--|."
)
_HEADER = re.compile(r'<[^>\n]*>|"[^"\n]*"')
_DIGRAPHS = {"%:": "#", "%:%:": "##", "<%": "{", "%>": "}", "<:": "[", ":>": "]"}
_WITH_HEADER = frozenset({"include", "include_next", "import", "embed"})
_WITH_TOKENS = frozenset({"define", "undef", "include", "if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif"})
"""Directives whose operands are tokens. The operand of others, such as `#warning`, is text to the end of the line."""


@dataclass(frozen=True)
class SourceToken:
    """One preprocessing token; digraphs are replaced by the usual characters. `line` counts from 1."""

    kind: TokenKind
    text: str
    line: int


@dataclass(frozen=True)
class Directive:
    """One directive: its name without `#`, and the tokens after the name."""

    name: str
    tokens: tuple[SourceToken, ...]
    line: int

    @property
    def text(self) -> str:
        """The directive with single spaces between its tokens."""
        return " ".join((f"#{self.name}", *(token.text for token in self.tokens)))

    @property
    def words(self) -> tuple[str, ...]:
        """Identifiers after the name of the directive."""
        return tuple(token.text for token in self.tokens if token.kind == "word")


@dataclass(frozen=True)
class ScannedSource:
    """Directives and other tokens of a source in order, and spellings that compilers may read differently."""

    directives: tuple[Directive, ...]
    tokens: tuple[SourceToken, ...]
    problems: tuple[str, ...]

    @property
    def words(self) -> frozenset[str]:
        """Identifiers outside directives."""
        return frozenset(token.text for token in self.tokens if token.kind == "word")


def scan_source(content: bytes) -> ScannedSource:
    """Scan a source.

    Args:
        content: Bytes of the file; a byte order mark is skipped.
    """
    scanner = _Scanner(content)
    return scanner.scanned()


class _Scanner:
    """Scanner of one source. `text` has joined lines; `original` is needed for raw strings, in which lines are not joined."""

    def __init__(self, content: bytes) -> None:
        decoded = content.decode("utf-8", errors="replace").removeprefix("\ufeff")
        self.original = re.sub(r"\r\n?", "\n", decoded)
        self.problems: list[str] = []
        self._splices = [(m.start(), m.end()) for m in _SPLICE.finditer(self.original)]
        self.text = _SPLICE.sub("", self.original)
        self._removed: list[tuple[int, int]] = []
        removed = 0
        for start, end in self._splices:
            self._removed.append((start - removed, removed + end - start))
            removed += end - start
        self._places = [place for place, _ in self._removed]
        self._lines = [m.start() for m in re.finditer("\n", self.original)]
        self._at = 0
        if "\ufffd" in decoded:
            self.problems.append("bytes that are not UTF-8")
        for match in _CONTROL.finditer(self.original):
            self.problems.append(f"the control character U+{ord(match[0]):04X} (line {self._line_of_original(match.start())})")

    def scanned(self) -> ScannedSource:
        """Return the whole source."""
        directives: list[Directive] = []
        tokens: list[SourceToken] = []
        at_start = True
        while self._at < len(self.text):
            if self._skip_blank():
                continue
            if self.text[self._at] == "\n":
                self._at, at_start = self._at + 1, True
                continue
            token = self._next()
            if at_start and token.text == "#":
                directives.append(self._directive(token.line))
            else:
                tokens.append(token)
            at_start = False
        self._check_spellings([*tokens, *(token for directive in directives for token in directive.tokens)])
        return ScannedSource(tuple(directives), tuple(tokens), tuple(dict.fromkeys(self.problems)))

    def _directive(self, line: int) -> Directive:
        tokens = list(self._rest_of_line())
        if not tokens:
            return Directive("", (), line)
        name = tokens[0].text if tokens[0].kind in ("word", "number") else ""
        return Directive(name, tuple(tokens[1:] if name else tokens), line)

    def _rest_of_line(self) -> Iterator[SourceToken]:
        """Yield the tokens of a directive; header names are one token."""
        name, first = "", ""
        while self._at < len(self.text) and self.text[self._at] != "\n":
            start = self._at
            if self._skip_blank():
                if name and name not in _WITH_TOKENS and "\n" in self.text[start : self._at]:
                    self.problems.append(
                        f"a comment in a directive that compilers may end at the line's end (line {self._line()})"
                    )
                continue
            header = _HEADER.match(self.text, self._at) if first in _WITH_HEADER else None
            if header is not None:
                token = SourceToken("header", header[0], self._line())
                self._at, first = header.end(), "done"
            else:
                token = self._next()
                if token.kind == "raw string":
                    self.problems.append(f"a raw string in a directive (line {token.line})")
            first = first or token.text
            name = name or token.text
            yield token

    def _skip_blank(self) -> bool:
        match = _BLANK.match(self.text, self._at)
        if match is not None:
            if match[0].startswith("//") and (match[0].endswith(("??/", "\\"))):
                self.problems.append(f"a comment that may continue on the next line (line {self._line()})")
            self._at = match.end()
            return True
        if _OPEN_COMMENT.match(self.text, self._at):
            self.problems.append(f"an unterminated comment (line {self._line()})")
            self._at = len(self.text)
            return True
        return False

    def _next(self) -> SourceToken:
        line = self._line()
        if _RAW.match(self.text, self._at):
            return self._raw_string(line)
        patterns: tuple[tuple[TokenKind, re.Pattern[str]], ...] = (
            ("string", _STRING),
            ("character", _CHARACTER),
            ("word", _WORD),
            ("number", _NUMBER),
            ("punctuator", _PUNCTUATOR),
        )
        for kind, pattern in patterns:
            match = pattern.match(self.text, self._at)
            if match is not None:
                self._at = match.end()
                return SourceToken(kind, _DIGRAPHS.get(match[0], match[0]), line)
        self._at += 1
        return SourceToken("punctuator", self.text[self._at - 1], line)

    def _raw_string(self, line: int) -> SourceToken:
        """Return a raw string, and continue after it."""
        match = _RAW.match(self.text, self._at)
        assert match is not None
        start = self._original_offset(match.end() - 1) + 1
        rest = _RAW_REST.match(self.original, start)
        if rest is None:
            self.problems.append(f"an unterminated raw string (line {line})")
            self._at = len(self.text)
            return SourceToken("raw string", match[0], line)
        self._at = self._joined_offset(rest.end())
        return SourceToken("raw string", match[0] + rest[0], line)

    def _check_spellings(self, tokens: list[SourceToken]) -> None:
        joined = "\n".join(token.text for token in tokens if token.kind not in ("string", "raw string", "character"))
        if "\\" in joined:
            self.problems.append("a backslash outside of strings")
        for token in tokens:
            if token.kind == "punctuator" and not (token.text.isascii() and token.text.isprintable()):
                self.problems.append(f"the character U+{ord(token.text):04X} outside of strings (line {token.line})")
        codes = [token for token in tokens if token.kind not in ("raw string", "header")]
        for before, middle, after in zip(codes, codes[1:], codes[2:], strict=False):
            if before.text == middle.text == "?" and _TRIGRAPH.match("??" + after.text):
                self.problems.append(f"a trigraph (line {before.line})")

    def _line(self) -> int:
        return self._line_of_original(self._original_offset(self._at))

    def _line_of_original(self, offset: int) -> int:
        return bisect_left(self._lines, offset) + 1

    def _original_offset(self, joined: int) -> int:
        index = bisect_right(self._places, joined) - 1
        return joined + (self._removed[index][1] if index >= 0 else 0)

    def _joined_offset(self, original: int) -> int:
        return original - sum(end - start for start, end in self._splices if end <= original)
