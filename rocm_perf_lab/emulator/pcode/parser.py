"""Parser of AMD's instruction pseudo-code to :mod:`.syntax` trees, by recursive descent with one method per construct.

The grammar is derived from the published CDNA instruction set documents, which do not define it formally.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from rocm_perf_lab.emulator.pcode.syntax import (
    Assign,
    Binary,
    Break,
    Cast,
    Concat,
    Conditional,
    Declare,
    Evaluate,
    Expression,
    Float,
    For,
    FunctionCall,
    If,
    Integer,
    Lambda,
    Name,
    Return,
    Slice,
    Statement,
    Subscript,
    Typed,
    Unary,
)

_TOKEN = re.compile(
    r"""
      (?P<space> \s+ | //[^\n]* )
    | (?P<type> \d+'(?:BF|[IUFB])(?![\w.]) )
    | (?P<sized> -?\d+'(?:0x[0-9a-fA-F]+|\d+\.\d+|\d+)[UILF]* )
    | (?P<number> 0x[0-9a-fA-F]+(?:ULL|LL|U)? | \d+\.\d+F? | \d+(?:ULL|LL|U|F)? )
    | (?P<name> [A-Za-z_]\w* )
    | (?P<text> "[^"]*" )
    | (?P<mark> \+: | <> | [=!<>]= | << | >> | && | \|\| | [-+*|]= | \*\* | [-+*/%&|^~!<>=?:;,.(){}\[\]] )
    """,
    re.VERBOSE,
)
_PRECEDENCE = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!=", "<>"), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
_KEYWORDS = frozenset(["if", "then", "elsif", "else", "endif", "for", "do", "endfor", "declare", "return", "break", "lambda"])


class PseudocodeError(ValueError):
    """Text that this parser cannot read as pseudo-code, such as prose."""


class _Token(NamedTuple):
    kind: str
    text: str


@lru_cache(maxsize=4096)
def parse(text: str) -> tuple[Statement, ...]:
    """Parse the pseudo-code of one instruction.

    Raises:
        PseudocodeError: The text is not pseudo-code.
    """
    parser = _Parser(_tokens(text))
    statements = parser.block(())
    parser.expect_end()
    return statements


def _tokens(text: str) -> list[_Token]:
    tokens, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise PseudocodeError(f"unexpected {text[position : position + 20]!r}")
        position = match.end()
        if match.lastgroup != "space":
            tokens.append(_Token(str(match.lastgroup), match.group()))
    return [*tokens, _Token("end", "")]


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0

    def block(self, ends: tuple[str, ...]) -> tuple[Statement, ...]:
        statements: list[Statement] = []
        while True:
            while self._accept(";"):
                pass
            if self._here.kind == "end" or self._here.text in ends:
                return tuple(statements)
            statements.append(self._statement())

    def expect_end(self) -> None:
        if self._here.kind != "end":
            raise PseudocodeError(f"unexpected {self._here.text!r}")

    # statements

    def _statement(self) -> Statement:
        match self._here.text:
            case "if":
                return self._if()
            case "for":
                return self._for()
            case "declare":
                return self._declare()
            case "return":
                self._take()
                return Return(self._expression())
            case "break":
                self._take()
                return Break()
        return self._assignment()

    def _if(self) -> If:
        self._expect("if")
        arms = [self._arm()]
        while self._accept("elsif"):
            arms.append(self._arm())
        otherwise = self.block(("endif",)) if self._accept("else") else ()
        self._expect("endif")
        return If(tuple(arms), otherwise)

    def _arm(self) -> tuple[Expression, tuple[Statement, ...]]:
        condition = self._expression()
        self._expect("then")
        return condition, self.block(("elsif", "else", "endif"))

    def _for(self) -> For:
        self._expect("for")
        variable = self._take().text
        self._expect("in")
        first = self._binary(0)
        self._expect(":")
        last = self._expression()
        self._expect("do")
        body = self.block(("endfor",))
        self._expect("endfor")
        return For(variable, first, last, body)

    def _declare(self) -> Declare:
        self._expect("declare")
        name = self._take().text
        self._expect(":")
        kind, text = self._take()
        if kind != "type":
            raise PseudocodeError(f"expected a type, not {text!r}")
        length = None
        if self._accept("["):
            length = self._expression()
            self._expect("]")
        return Declare(name, text, length)

    def _assignment(self) -> Statement:
        target = self._postfix()
        if self._here.text not in ("=", "+=", "-=", "*=", "|="):
            if isinstance(target, FunctionCall):
                return Evaluate(target)
            raise PseudocodeError(f"unexpected {self._here.text!r}")
        operator = self._take().text[:-1]
        if self._here.text == "lambda" and isinstance(target, Name):
            return self._lambda(target.name)
        targets, value = [target], self._expression()
        while self._accept("="):
            targets.append(value)
            value = self._expression()
        return Assign(tuple(targets), operator, value)

    def _lambda(self, name: str) -> Lambda:
        self._expect("lambda")
        self._expect("(")
        parameters = []
        while not self._accept(")"):
            parameters.append(self._take().text)
            self._accept(",")
        self._expect("(")
        is_block = self._here.text in ("if", "declare", "for")
        body: tuple[Statement, ...] = self.block((")",)) if is_block else (Return(self._expression()),)
        while self._accept(";"):
            pass
        self._expect(")")
        return Lambda(name, tuple(parameters), body)

    # expressions

    def _expression(self) -> Expression:
        condition = self._binary(0)
        if not self._accept("?"):
            return condition
        yes = self._expression()
        self._expect(":")
        return Conditional(condition, yes, self._expression())

    def _binary(self, level: int) -> Expression:
        if level == len(_PRECEDENCE):
            return self._power()
        left = self._binary(level + 1)
        while self._here.kind == "mark" and self._here.text in _PRECEDENCE[level]:
            operator = self._take().text
            left = Binary(operator, left, self._binary(level + 1))
        return left

    def _power(self) -> Expression:
        base = self._unary()
        return Binary("**", base, self._power()) if self._accept("**") else base

    def _unary(self) -> Expression:
        if self._here.kind == "mark" and self._here.text in "-~!+":
            operator = self._take().text
            value = self._unary()
            return value if operator == "+" else Unary(operator, value)
        return self._postfix()

    def _postfix(self) -> Expression:
        value = self._primary()
        while True:
            if self._accept("."):
                value = Typed(value, self._take().text)
            elif self._accept("["):
                value = self._subscript(value)
            else:
                return value

    def _subscript(self, value: Expression) -> Expression:
        first = self._expression()
        if self._accept(":"):
            last = self._expression()
            self._expect("]")
            return Slice(value, first, last)
        if self._accept("+:"):
            width = self._expression()
            self._expect("]")
            one = Integer(1, True, 32)
            return Slice(value, Binary("-", Binary("+", first, width), one), first)
        self._expect("]")
        return Subscript(value, first)

    def _primary(self) -> Expression:
        kind, text = self._take()
        if kind == "number":
            return _number(text)
        if kind == "sized":
            return _sized(text)
        if kind == "type":
            self._expect("(")
            value = self._expression()
            self._expect(")")
            return Cast(text, value)
        if text == "(":
            value = self._expression()
            self._expect(")")
            return value
        if text == "{":
            return Concat(self._list("}"))
        if kind == "name" and text not in _KEYWORDS:
            return FunctionCall(text, self._list(")")) if self._accept("(") else Name(text)
        raise PseudocodeError(f"unexpected {text!r}")

    def _list(self, end: str) -> tuple[Expression, ...]:
        items = []
        while not self._accept(end):
            items.append(self._expression())
            self._accept(",")
        return tuple(items)

    # tokens

    @property
    def _here(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        if token.kind == "end":
            raise PseudocodeError("unexpected end")
        self._next += 1
        return token

    def _accept(self, text: str) -> bool:
        if self._here.text != text or self._here.kind == "end":
            return False
        self._next += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise PseudocodeError(f"expected {text!r}, not {self._here.text!r}")


def _number(text: str) -> Expression:
    if "." in text or (text.endswith("F") and not text.startswith("0x")):
        return Float(float(text.rstrip("F")), 32 if text.endswith("F") else 64)
    digits = text.rstrip("UL")
    suffix = text[len(digits) :]
    value = int(digits, 0) if digits.startswith("0x") else int(digits)
    unsigned = "U" in suffix or (digits.startswith("0x") and not suffix)
    return Integer(value, not unsigned, 64 if "LL" in suffix or value >= 1 << 32 else 32)


def _sized(text: str) -> Expression:
    width, _, body = text.partition("'")
    bits = abs(int(width))
    if "." in body:
        return Float(float(body.rstrip("F")) * (-1 if width.startswith("-") else 1), bits)
    digits = body.rstrip("UILF") if not body.startswith("0x") else body.rstrip("UIL")
    value = int(digits, 0) if digits.startswith("0x") else int(digits)
    suffix = body[len(digits) :]
    signed = "I" in suffix or (bits > 8 and not suffix and not digits.startswith("0x"))
    return Integer(-value if width.startswith("-") else value, signed, bits)
