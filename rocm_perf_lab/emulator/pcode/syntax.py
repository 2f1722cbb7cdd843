"""Syntax tree of AMD's instruction pseudo-code, created by :mod:`.parser` and read by :mod:`.compiler`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Integer:
    """`3`, `0xffU`, `4'1U`: an integer of `bits` bits."""

    value: int
    signed: bool
    bits: int


@dataclass(frozen=True)
class Float:
    """`1.0` (64 bits) or `1.0F` (32 bits)."""

    value: float
    bits: int


@dataclass(frozen=True)
class Name:
    """Variable, register or constant."""

    name: str


@dataclass(frozen=True)
class Typed:
    """`x.f32`: the bits of x as another type."""

    value: Expression
    type: str


@dataclass(frozen=True)
class Cast:
    """`64'F(x)`: x converted to another type."""

    type: str
    value: Expression


@dataclass(frozen=True)
class Unary:
    """`-x`, `~x`, `!x`."""

    operator: str
    value: Expression


@dataclass(frozen=True)
class Binary:
    """`a + b` and so on; `**` is power."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Conditional:
    """`c ? a : b`."""

    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True)
class FunctionCall:
    """`floor(x)`."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Concat:
    """`{ high, low }`."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Slice:
    """`x[high : low]`; reversed bounds reverse the bits."""

    value: Expression
    high: Expression
    low: Expression


@dataclass(frozen=True)
class Subscript:
    """`x[i]`: one bit, one lane of a mask, or one element of an array."""

    value: Expression
    index: Expression


Expression = Integer | Float | Name | Typed | Cast | Unary | Binary | Conditional | FunctionCall | Concat | Slice | Subscript


@dataclass(frozen=True)
class Assign:
    """`targets[0] = targets[1] = value`; `operator` is "" or that of `+=`."""

    targets: tuple[Expression, ...]
    operator: str
    value: Expression


@dataclass(frozen=True)
class If:
    """Arms in order, then the else part."""

    arms: tuple[tuple[Expression, tuple[Statement, ...]], ...]
    otherwise: tuple[Statement, ...]


@dataclass(frozen=True)
class For:
    """`for i in first : last do ... endfor`, both ends included."""

    variable: str
    first: Expression
    last: Expression
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Declare:
    """`declare x : 32'U[3]`."""

    name: str
    type: str
    length: Expression | None


@dataclass(frozen=True)
class Lambda:
    """`f = lambda(a, b) (...)`."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Return:
    """Result of a lambda."""

    value: Expression


@dataclass(frozen=True)
class Break:
    """Leave the innermost loop."""


@dataclass(frozen=True)
class Evaluate:
    """Call without a result: `nop()`."""

    call: FunctionCall


Statement = Assign | If | For | Declare | Lambda | Return | Break | Evaluate
