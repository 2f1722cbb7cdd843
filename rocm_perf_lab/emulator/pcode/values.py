"""Typed values of the pseudo-code, names of its types, and arithmetic of constants at translation time.

A value is either the same for the whole wavefront (scalar) or a chunk of lanes (`<8 x T>`). Names of types are `f32` behind a
value (`x.f32`), and `32'F` before a cast or a declaration.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass

_PACK = {16: "<e", 32: "<f", 64: "<d"}
_SUFFIX = re.compile(r"(bf|fp|[uifb])(\d+)$")
_CAST = re.compile(r"(\d+)'(BF|[IUFB])$")
_KINDS = {"u": "u", "i": "i", "f": "f", "b": "u", "bf": "bf", "fp": "u"}
"""Kinds of :class:`Value` by the letters of type names."""


class UnsupportedSemantics(Exception):
    """Pseudo-code without a translation to IR; the message names the construct."""


@dataclass(frozen=True)
class Value:
    """SSA name or constant, with its type.

    operand: an SSA name, an int (modulo 2**bits) or a float.
    kind: `u` and `i` for integers, `f` for IEEE floats, `bf` for bfloat16 bits.
    narrow: the float of which this value is an exact widening; comparisons may use it.
    """

    operand: str | int | float
    kind: str
    bits: int
    is_chunk: bool = False
    narrow: Value | None = None

    @property
    def is_constant(self) -> bool:
        """True if the value is known at translation time."""
        return not isinstance(self.operand, str)

    @property
    def integer(self) -> int:
        """The constant as a Python int, signed for kind `i`."""
        if isinstance(self.operand, str) or self.kind == "f":
            raise UnsupportedSemantics("a value that is unknown at translation time")
        value = int(self.operand) & ((1 << self.bits) - 1)
        return value - (1 << self.bits) if self.kind == "i" and value >> (self.bits - 1) else value

    @property
    def float(self) -> float:
        """The constant as a Python float."""
        if isinstance(self.operand, str):
            raise UnsupportedSemantics("a float that is unknown at translation time")
        return float(self.operand) if self.kind == "f" else float(self.integer)


def constant(value: int, bits: int = 32, kind: str = "u") -> Value:
    """Return an integer constant."""
    return Value(value & ((1 << bits) - 1), kind, bits)


def float_constant(value: float, bits: int = 32) -> Value:
    """Return a float constant."""
    return Value(value, "f", bits)


TRUE, FALSE = constant(1, 1), constant(0, 1)


def float_bits(number: float, bits: int) -> int:
    """Return the IEEE bits of a number rounded to a float of `bits`, infinity if it is too large."""
    try:
        packed = struct.pack(_PACK[bits], number)
    except OverflowError:
        packed = struct.pack(_PACK[bits], math.copysign(math.inf, number))
    return int.from_bytes(packed, "little")


def float_of_bits(raw: int, bits: int) -> float:
    """Return the number whose IEEE bits are `raw`."""
    return float(struct.unpack(_PACK[bits], raw.to_bytes(bits // 8, "little"))[0])


def rounded(number: float, bits: int) -> float:
    """Return the nearest float of `bits`."""
    return float_of_bits(float_bits(number, bits), bits)


def folded(operator: str, left: Value, right: Value) -> Value:
    """Return `left operator right` for two constants of one type."""
    if left.kind == "f":
        a, b = left.float, right.float
        if operator == "/":
            result = a / b if b else math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
        else:
            result = {"+": a + b, "-": a - b, "*": a * b}[operator]
        return float_constant(result, left.bits)
    x, y = left.integer, right.integer
    if operator in "/%":
        return constant(x // y if operator == "/" else x % y, left.bits, left.kind)
    return constant({"+": x + y, "-": x - y, "*": x * y, "&": x & y, "|": x | y, "^": x ^ y}[operator], left.bits, left.kind)


def compared(operator: str, left: Value, right: Value) -> bool:
    """Return whether `left operator right` holds for two constants of one type."""
    a, b = (left.float, right.float) if left.kind == "f" else (left.integer, right.integer)
    return {"==": a == b, "!=": a != b, "<>": a != b, "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}[operator]


def suffix_type(name: str) -> tuple[str, int]:
    """Return kind and bits of `f32`.

    Raises:
        UnsupportedSemantics: The name is not that of a type.
    """
    match = _SUFFIX.match(name)
    if match is None:
        raise UnsupportedSemantics(f"type {name}")
    return _KINDS[match[1]], int(match[2])


def cast_type(name: str) -> tuple[str, int]:
    """Return kind and bits of `32'F`.

    Raises:
        UnsupportedSemantics: The name is not that of a type.
    """
    match = _CAST.match(name)
    if match is None:
        raise UnsupportedSemantics(f"cast to {name}")
    return _KINDS[match[2].lower()], int(match[1])
