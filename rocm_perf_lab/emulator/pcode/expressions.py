"""Evaluation of pseudo-code expressions to values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from rocm_perf_lab.emulator.pcode import functions
from rocm_perf_lab.emulator.pcode.syntax import (
    Binary,
    Cast,
    Concat,
    Conditional,
    Expression,
    Float,
    FunctionCall,
    Integer,
    Name,
    Slice,
    Subscript,
    Typed,
    Unary,
)
from rocm_perf_lab.emulator.pcode.values import (
    TRUE,
    UnsupportedSemantics,
    Value,
    cast_type,
    constant,
    float_constant,
    suffix_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocm_perf_lab.emulator.pcode.ir import Builder

_NAMED_FLOATS = {"INF": math.inf, "NAN": math.nan, "PI": math.pi, "OVERFLOW_F32": math.inf, "OVERFLOW_F64": math.inf,
                 "UNDERFLOW_F32": 0.0, "UNDERFLOW_F64": 0.0}  # fmt: skip
_MODE_BITS = {"IEEE": 9, "DX10_CLAMP": 8, "FP16_OVFL": 23}
LANE_INDEX = frozenset({"laneId", "laneID"})


class RegisterReader(Protocol):
    """Operands and state that pseudo-code reads."""

    def read(self, name: str) -> Value | None:
        """Return the raw bits of an operand (S0, D0, ...) or register (VCC, SCC, ...), or None for an unknown name."""
        ...

    def lane_bit(self, name: str) -> Value:
        """Return the bits of a mask register, one per lane."""
        ...


class ExpressionEvaluator:
    """Evaluator of expressions; caches reads of registers in `variables`.

    Args:
        builder: Builder that emits the code.
        registers: Operands and state.
        variables: Known variables by name.
        call: Returns the value of a function for its name and arguments.
    """

    def __init__(
        self,
        builder: Builder,
        registers: RegisterReader,
        variables: Mapping[str, Value],
        call: Callable[[str, list[Value]], Value],
    ) -> None:
        self.builder = builder
        self.variables = dict(variables)
        self.arrays: dict[str, list[Value]] = {}
        self._registers = registers
        self._call = call

    def evaluate(self, node: Expression) -> Value:
        """Return the value of an expression.

        Raises:
            UnsupportedSemantics: A construct has no translation.
        """
        match node:
            case Integer(value, signed, bits):
                return constant(value, bits, "i" if signed else "u")
            case Float(value, bits):
                return float_constant(value, bits)
            case Name(name):
                return self.read(name)
            case Typed(value, type_name):
                return self._typed(value, type_name)
            case Cast(type_name, value):
                return self._cast(type_name, value)
            case Unary(operator, value):
                return self._unary(operator, self.evaluate(value))
            case Binary():
                return self._binary(node)
            case Conditional(condition, yes, no):
                return self._choice(condition, yes, no)
            case FunctionCall(function, arguments):
                return self._call(function, [self.evaluate(a) for a in arguments])
            case Concat(parts):
                return self._concat([self.evaluate(p) for p in parts])
            case Slice(value, high, low):
                return self._slice(self.evaluate(value), self.evaluate(high).integer, self.evaluate(low).integer)
            case Subscript():
                return self._index(node)

    def read(self, name: str) -> Value:
        """Return a variable or named constant, or else the raw bits of an operand or register.

        Raises:
            UnsupportedSemantics: The name is unknown.
        """
        if name in self.variables:
            return self.variables[name]
        if name in _NAMED_FLOATS:
            return float_constant(_NAMED_FLOATS[name], 64)
        if name == "ROUND_MODE" or name.startswith("ROUND_"):
            return constant(0)
        value = self._registers.read(name)
        if value is None:
            raise UnsupportedSemantics(f"register {name}")
        self.variables[name] = value
        return value

    def _typed(self, node: Expression, type_name: str) -> Value:
        if node == Name("WAVE_MODE"):
            if type_name in _MODE_BITS:
                return self.builder.mode_bit(_MODE_BITS[type_name])
            raise UnsupportedSemantics(f"WAVE_MODE.{type_name}")
        kind, bits = suffix_type(type_name)
        if isinstance(node, Name) and node.name in ("INF", "NAN"):
            return float_constant(_NAMED_FLOATS[node.name], bits)
        return self.builder.reinterpret(self.evaluate(node), kind, bits)

    def _cast(self, type_name: str, node: Expression) -> Value:
        kind, bits = cast_type(type_name)
        value = self.evaluate(node)
        if kind == "f":
            if isinstance(node, Integer) and value.operand >= 1 << bits - 1:  # type: ignore[operator]
                return self.builder.reinterpret(constant(value.integer, bits), "f", bits)  # 32'F(0xffc00000): a bit pattern
            return self.builder.to_float(value, bits)
        if kind == "bf":
            raise UnsupportedSemantics("cast to bfloat16")
        if value.kind == "f":
            return self.builder.to_integer(value, kind, bits)
        return self.builder.reinterpret(self.builder.resize(value, bits), kind, bits)

    def _unary(self, operator: str, value: Value) -> Value:
        if operator == "!":
            return self.builder.binary("^", self.builder.boolean(value), TRUE)
        return self.builder.invert(value) if operator == "~" else self.builder.negate(value)

    def _binary(self, node: Binary) -> Value:
        if node.operator == "**":
            base, exponent = self.evaluate(node.left), self.evaluate(node.right)
            if base.is_constant and base.float == 2.0 and not exponent.is_constant:
                return functions.ldexp(self.builder, float_constant(1.0, base.bits), exponent)
            return float_constant(base.float**exponent.float, base.bits)
        power = _power_of_two(node.right)
        if node.operator == "*" and power is not None:
            return functions.ldexp(self.builder, self.evaluate(node.left), self.evaluate(power))
        if node.operator == "==" and isinstance(node.right, Typed) and node.right.value == Name("DENORM"):
            return functions.is_denormal(self.builder, self.evaluate(node.left))
        return self.builder.binary(node.operator, self.evaluate(node.left), self.evaluate(node.right))

    def _choice(self, condition: Expression, yes: Expression, no: Expression) -> Value:
        test = self.builder.boolean(self.evaluate(condition))
        if test.is_constant:
            return self.evaluate(yes if test.integer else no)
        return self.builder.select(test, self.evaluate(yes), self.evaluate(no))

    def _concat(self, parts: list[Value]) -> Value:
        raw = [self.builder.raw(part) for part in parts]
        bits = sum(part.bits for part in raw)
        result, shift = constant(0, bits), 0
        for part in reversed(raw):
            wide = self.builder.resize(part, bits, signed=False)
            result = self.builder.binary("|", result, self.builder.binary("<<", wide, constant(shift, bits)))
            shift += part.bits
        return result

    def _slice(self, value: Value, high: int, low: int) -> Value:
        raw = self.builder.raw(value)
        if high < low:
            return self.builder.intrinsic("bitreverse", [raw], kind="u", bits=raw.bits)
        if high >= raw.bits:
            raw = self.builder.resize(raw, high + 1, signed=False)
        moved = self.builder.binary(">>", raw, constant(low, raw.bits)) if low else raw
        return self.builder.resize(moved, high - low + 1, signed=False)

    def _index(self, node: Subscript) -> Value:
        if isinstance(node.index, Name) and node.index.name in LANE_INDEX:
            return self._registers.lane_bit(base_name(node.value))
        if isinstance(node.value, Name) and node.value.name in self.arrays:
            return self.arrays[node.value.name][self.evaluate(node.index).integer]
        index = self.evaluate(node.index)
        if index.is_constant:
            return self._slice(self.evaluate(node.value), index.integer, index.integer)
        raw = self.builder.raw(self.evaluate(node.value))
        place = self.builder.resize(index, raw.bits, signed=False)
        return self.builder.resize(self.builder.shift_in_range(">>", raw, place), 1, signed=False)


def base_name(node: Expression) -> str:
    """Return the register or variable to which a slice, an element or a type belongs.

    Raises:
        UnsupportedSemantics: It belongs to an expression without a name.
    """
    while isinstance(node, Typed | Slice | Subscript):
        node = node.value
    if not isinstance(node, Name):
        raise UnsupportedSemantics("an lvalue without a name")
    return node.name


def _power_of_two(node: Expression) -> Expression | None:
    """Return n of `2.0 ** n`, with or without a cast, if n is not constant."""
    inner = node.value if isinstance(node, Cast) else node
    if isinstance(inner, Binary) and inner.operator == "**" and isinstance(inner.left, Float) and inner.left.value == 2.0:
        return None if isinstance(inner.right, Integer | Float) else inner.right
    return None
