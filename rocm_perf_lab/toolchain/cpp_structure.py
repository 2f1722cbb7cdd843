"""Declarations and statements of a C++ text, found by its brackets: `CppStructure.of(text)`.

The structure shows which function an offset belongs to, whether that function is compiled for the GPU, and which statement of
it has to be edited. It does not resolve names; the text should be preprocessed, so that attributes are not hidden by macros.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:\\\n|[^\n])*)
    |(?P<string>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<number>\.?\d(?:[eEpP][+-]|'?\w|\.)*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<other><<<|>>>|::|->|[^\s\w])""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_DEVICE_MACROS = frozenset({"__device__", "__global__", "__constant__", "__shared__", "__managed__"})
_DEVICE_ATTRIBUTES = frozenset({"device", "global", "constant", "shared", "managed"}) | _DEVICE_MACROS
_ATTRIBUTES = frozenset({"__attribute__", "__launch_bounds__", "alignas", "__declspec", "decltype", "noexcept"})
_CLASSES = frozenset({"class", "struct", "union", "enum"})
_ACCESS = frozenset({"public", "private", "protected"})
_EVALUATED_ON_BOTH_SIDES = frozenset({"constexpr", "consteval"})
"""Functions with these specifiers are host and device functions in HIP."""

DeclarationKind = Literal["namespace", "class", "function", "plain"]


class UnbalancedBrackets(ValueError):
    """Text whose brackets do not match, so that it has no structure."""


@dataclass(frozen=True)
class CppToken:
    """One token with its offsets; comments and preprocessor lines are not tokens."""

    text: str
    start: int
    end: int
    is_name: bool


@dataclass(frozen=True)
class Declaration:
    """A declaration: indices of its first and last token, and of the braces of its body.

    `is_device` is true if its specifiers contain a device attribute, or if it is a constexpr function.
    """

    kind: DeclarationKind
    first: int
    last: int
    body: tuple[int, int] | None = None
    is_device: bool = False
    children: tuple[Declaration, ...] = field(default=(), repr=False)

    @property
    def header_end(self) -> int:
        """Index after the last token before the body."""
        return self.body[0] if self.body else self.last + 1


class CppStructure:
    """Tokens, matching brackets and declarations of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tuple(_tokens(text))
        self.partner = _partners(self.tokens)
        self._starts = [token.start for token in self.tokens]
        self.declarations = self._scope(0, len(self.tokens), in_class=False)

    @classmethod
    def of(cls, text: str) -> CppStructure:
        """Return the structure of a text.

        Raises:
            UnbalancedBrackets: A bracket has no partner.
        """
        return cls(text)

    def token_at(self, offset: int) -> int | None:
        """Return the index of the token at an offset, or of the last one before it."""
        index = bisect_right(self._starts, offset) - 1
        return index if index >= 0 else None

    def word(self, index: int) -> str:
        """Return the text of a token; empty outside of the text."""
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def enclosing(self, index: int) -> tuple[Declaration, ...]:
        """Return the declarations that contain a token, the outermost first."""
        found: list[Declaration] = []
        level = self.declarations
        while inner := next((d for d in level if d.first <= index <= d.last), None):
            found.append(inner)
            level = inner.children
        return tuple(found)

    def functions(self) -> Iterator[Declaration]:
        """Yield all function definitions and function declarations without a body."""
        pending = list(self.declarations)
        while pending:
            declaration = pending.pop()
            pending.extend(declaration.children)
            if declaration.kind == "function" or self.parameters(declaration) is not None:
                yield declaration

    def has_device_code(self, first: int, last: int) -> bool:
        """Return whether a range of tokens, the last one included, contains a device attribute."""
        return any(self._is_device_attribute(index) for index in range(first, last + 1))

    def parameters(self, declaration: Declaration) -> tuple[int, int] | None:
        """Return the parentheses of the parameters of a function; None for other declarations."""
        if declaration.kind in {"namespace", "class"}:
            return None
        for index in self._top_level(declaration.first, declaration.header_end):
            if self.word(index) == "=" and self.word(index - 1) != "operator":
                return None
            if self.word(index) == "(" and self.tokens[index - 1].is_name and index > declaration.first:
                return index, self.partner[index]
        return None

    def _top_level(self, first: int, end: int) -> Iterator[int]:
        """Yield the indices of tokens outside of brackets, attributes and template headers; brackets by their opening one."""
        index = first
        while index < end:
            word = self.word(index)
            if word in _ATTRIBUTES and self.word(index + 1) == "(":
                index = self.partner[index + 1] + 1
                continue
            if word == "template" and self.word(index + 1) == "<":
                index = self.after_angles(index + 1, end)
                continue
            yield index
            index = self.partner[index] + 1 if word in _CLOSING else index + 1

    def after_angles(self, index: int, end: int) -> int:
        """Return the index after the template arguments that begin with the `<` at `index`."""
        depth = 0
        while index < end:
            word = self.word(index)
            depth += {"<": 1, ">": -1, ">>>": -3, "<<<": 3}.get(word, 0)
            if word in _CLOSING:
                index = self.partner[index]
            index += 1
            if depth <= 0:
                break
        return index

    def _is_device_attribute(self, index: int) -> bool:
        word = self.word(index)
        if word in _DEVICE_MACROS:
            return True
        if word != "__attribute__" or self.word(index + 1) != "(":
            return False
        return any(self.word(i) in _DEVICE_ATTRIBUTES for i in range(index + 2, self.partner[index + 1]))

    def _scope(self, index: int, end: int, *, in_class: bool) -> tuple[Declaration, ...]:
        """Return the declarations between two tokens."""
        found: list[Declaration] = []
        while index < end:
            if self.word(index) == ";" or (in_class and self.word(index) in _ACCESS and self.word(index + 1) == ":"):
                index += 1 + (self.word(index) != ";")
                continue
            declaration = self._declaration(index, end)
            found.append(declaration)
            index = declaration.last + 1
        return tuple(found)

    def _declaration(self, first: int, end: int) -> Declaration:
        """Return the declaration that begins at a token."""
        index = first
        kind: DeclarationKind = "plain"
        body: tuple[int, int] | None = None
        while index < end and self.word(index) != ";":
            if self.word(index) == "{" and body is None:
                opened = self._kind_of_body(first, index)
                if opened is not None:
                    kind, body = opened, (index, self.partner[index])
                    if kind in {"namespace", "function"}:
                        index = body[1]
                        break
            index = self.partner[index] + 1 if self.word(index) in _CLOSING else index + 1
        last = min(index, end - 1)
        return self._described(kind, first, last, body)

    def _described(self, kind: DeclarationKind, first: int, last: int, body: tuple[int, int] | None) -> Declaration:
        header_end = body[0] if body else last + 1
        is_device = any(self._is_device_attribute(i) for i in range(first, header_end))
        if kind == "function":
            is_device = is_device or any(self.word(i) in _EVALUATED_ON_BOTH_SIDES for i in range(first, header_end))
        children: tuple[Declaration, ...] = ()
        if body and kind in {"namespace", "class"} and "enum" not in {self.word(i) for i in self._top_level(first, body[0])}:
            children = self._scope(body[0] + 1, body[1], in_class=kind == "class")
        return Declaration(kind, first, last, body, is_device, children)

    def _kind_of_body(self, first: int, brace: int) -> DeclarationKind | None:
        """Return the kind of the declaration whose body begins at a brace; None for the brace of an initialiser."""
        top = list(self._top_level(first, brace))
        words = [self.word(i) for i in top]
        if "namespace" in words or (words[:1] == ["extern"] and len(words) == 2):
            return "namespace"
        if "=" in words and "operator" not in words:
            return None
        if "(" in words:
            follows = self.word(self.partner[brace] + 1)
            in_initialisers = ":" in words and self.tokens[brace - 1].is_name and follows in {",", "{"}
            return None if in_initialisers else "function"
        return "class" if _CLASSES & set(words) else None


def _tokens(text: str) -> Iterator[CppToken]:
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "skip":
            yield CppToken(match[0], match.start(), match.end(), match.lastgroup == "name")


def _partners(tokens: tuple[CppToken, ...]) -> dict[int, int]:
    """Return for every bracket the index of the one that closes or opens it."""
    partner: dict[int, int] = {}
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.text in _CLOSING:
            opened.append(index)
        elif token.text in _CLOSING.values():
            if not opened or _CLOSING[tokens[opened[-1]].text] != token.text:
                raise UnbalancedBrackets(f"{token.text} at offset {token.start} has no partner")
            partner[index] = opened.pop()
            partner[partner[index]] = index
    if opened:
        raise UnbalancedBrackets(f"{tokens[opened[-1]].text} at offset {tokens[opened[-1]].start} has no partner")
    return partner
