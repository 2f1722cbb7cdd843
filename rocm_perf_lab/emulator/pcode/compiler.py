"""Compiles the pseudo-code of one instruction to IR: the specification is the implementation.

The caller supplies the registers (`Registers`); afterwards `variables` holds what the pseudo-code assigned (D0, SCC, ...)
and `masks` the per-lane bits that it wrote to VCC, EXEC, D0 or D1. Branches become selects, loops are unrolled.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Protocol

from rocm_perf_lab.emulator.isa.decode import pseudocode_of
from rocm_perf_lab.emulator.pcode import functions
from rocm_perf_lab.emulator.pcode.parser import parse
from rocm_perf_lab.emulator.pcode.syntax import (
    Assign,
    Binary,
    Break,
    Call,
    Cast,
    Choice,
    Concat,
    Declare,
    Evaluate,
    Expression,
    Float,
    For,
    If,
    Index,
    Integer,
    Lambda,
    Name,
    Return,
    Slice,
    Statement,
    Typed,
    Unary,
)
from rocm_perf_lab.emulator.pcode.values import FALSE, TRUE, UnsupportedSemantics, Value, constant, float_constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.emulator.pcode.ir import Builder

_TYPE = re.compile(r"(bf|fp|[uifb])(\d+)$")
_CAST = re.compile(r"(\d+)'(BF|[IUFB])$")
_KINDS = {
    "u": "u",
    "i": "i",
    "f": "f",
    "b": "u",
    "bf": "bf",
    "fp": "u",
    "U": "u",
    "I": "i",
    "B": "u",
    "F": "f",
    "BF": "bf",
}
_NAMED_FLOATS = {"INF": math.inf, "NAN": math.nan, "PI": math.pi, "OVERFLOW_F32": math.inf, "OVERFLOW_F64": math.inf,
                 "UNDERFLOW_F32": 0.0, "UNDERFLOW_F64": 0.0}  # fmt: skip
_MODE_BITS = {"IEEE": 9, "DX10_CLAMP": 8, "FP16_OVFL": 23}
_CALLED_INSTRUCTIONS = frozenset({"v_sad_u8", "v_msad_u8"})
_LANE_INDEX = frozenset({"laneId", "laneID"})


class Registers(Protocol):
    """Operands and state that the pseudo-code reads."""

    def read(self, name: str) -> Value | None:
        """Raw bits of an operand (S0, D0, ...) or register (VCC, SCC, ...); None where there is no such name."""
        ...

    def lane_bit(self, name: str) -> Value:
        """The lanes' own bits of a mask register."""
        ...


class SemanticsCompiler:
    """Runs statements symbolically."""

    def __init__(self, builder: Builder, registers: Registers, *, per_lane: bool) -> None:
        self.builder = builder
        self.variables: dict[str, Value] = {}
        self.masks: dict[str, Value] = {}
        self.assigned: set[str] = set()
        self._arrays: dict[str, list[Value]] = {}
        self._lambdas: dict[str, Lambda] = {}
        self._registers = registers
        self._per_lane = per_lane
        self._predicate: Value = TRUE
        self._live: Value = TRUE
        self._result: Value | None = None

    def run(self, statements: Sequence[Statement]) -> None:
        """Execute in order.

        Raises:
            UnsupportedSemantics: A construct without a translation.
        """
        for statement in statements:
            self._statement(statement)

    def evaluate_register(self, name: str) -> Value:
        """Raw bits of an operand, as the pseudo-code would read it."""
        return self._read(name)

    # statements

    def _statement(self, statement: Statement) -> None:
        match statement:
            case If():
                self._if(statement)
            case For():
                self._for(statement)
            case Assign():
                self._assign(statement)
            case Declare():
                self._declare(statement)
            case Lambda():
                self._lambdas[statement.name] = statement
            case Return():
                self._return(statement)
            case Break():
                self._live = self.builder.binary("&&", self._live, self._not(self._predicate))
            case Evaluate() if statement.call.function == "nop":
                pass
            case _:
                raise UnsupportedSemantics(f"statement {type(statement).__name__}")

    def _if(self, statement: If) -> None:
        outer = self._predicate
        remaining = outer
        for test, body in statement.arms:
            condition = self.builder.boolean(self.evaluate(test))
            if condition == FALSE:
                continue
            self._predicate = self.builder.binary("&&", remaining, condition)
            self.run(body)
            if condition == TRUE:
                self._predicate = outer
                return
            remaining = self.builder.binary("&&", remaining, self._not(condition))
        self._predicate = remaining
        self.run(statement.otherwise)
        self._predicate = outer

    def _for(self, statement: For) -> None:
        first, last = self.evaluate(statement.first).integer, self.evaluate(statement.last).integer
        outer = self._live
        for i in range(first, last + 1):
            self.variables[statement.variable] = constant(i, 32, "i")
            self.run(statement.body)
        self._live = outer

    def _declare(self, statement: Declare) -> None:
        match = _CAST.match(statement.type)
        if match is None:
            raise UnsupportedSemantics(f"declaration of {statement.type}")
        if statement.length is not None:
            length = self.evaluate(statement.length).integer
            operands = [self._registers.read(f"S{i}") for i in range(length)] if statement.name == "S" else []
            zero = constant(0, int(match[1]))
            self._arrays[statement.name] = [operand or zero for operand in operands] or [zero] * length
            return
        kind = "i" if match[2] == "I" else "u"
        self.variables.setdefault(statement.name, constant(0, int(match[1]), kind))

    def _return(self, statement: Return) -> None:
        value = self.evaluate(statement.value)
        condition = self._condition()
        self._result = value if self._result is None else self.builder.select(condition, value, self._result)
        self._live = self.builder.binary("&&", self._live, self._not(condition))

    def _assign(self, statement: Assign) -> None:
        value = self.evaluate(statement.value)
        if statement.operator:
            value = self.builder.binary(statement.operator, self.evaluate(statement.targets[0]), value)
        for target in statement.targets:
            self._store(target, value)

    def _condition(self) -> Value:
        return self.builder.binary("&&", self._predicate, self._live)

    def _not(self, condition: Value) -> Value:
        return self.builder.binary("^", condition, TRUE)

    # stores

    def _store(self, target: Expression, value: Value) -> None:
        match target:
            case Name("ROUND_MODE"):
                return
            case Name("VCC" | "EXEC" as name) if self._per_lane:
                self._set_mask(name, value)
            case Name(name):
                self._set(name, value)
            case Typed(Name(name), type_name):
                self._set(name, self._as_type(value, type_name))
            case Typed(inner, type_name):
                self._store(inner, self._as_type(value, type_name))
            case Index(base, Name(lane)) if lane in _LANE_INDEX:
                self._set_mask(_base_name(base), value)
            case Index(Name(name), index) if name in self._arrays:
                position = self.evaluate(index).integer
                elements = self._arrays[name]
                elements[position] = self.builder.select(self._condition(), value, elements[position])
            case Index(base, index):
                self._store_bit(base, index, value)
            case Slice(base, high, low):
                self._store_slice(base, high, low, value)
            case Concat(parts):
                self._store_parts(parts, value)
            case _:
                raise UnsupportedSemantics(f"assignment to {type(target).__name__}")

    def _set(self, name: str, value: Value) -> None:
        condition = self._condition()
        if condition != TRUE:
            before = self.variables.get(name)
            if before is None and name in ("D0", "D1", "SCC", "VCC", "EXEC", "M0"):
                before = self._read(name)
            if before is not None:
                if before.kind != value.kind or before.bits != value.bits:
                    before = self.builder.reinterpret(before, value.kind, value.bits)
                value = self.builder.select(condition, value, before)
        self.variables[name] = value
        self.assigned.add(name)

    def _set_mask(self, name: str, value: Value) -> None:
        bit = self.builder.boolean(value)
        condition = self._condition()
        if name in self.masks:
            bit = self.builder.select(condition, bit, self.masks[name])
        elif condition != TRUE:
            bit = self.builder.binary("&&", condition, bit)
        self.masks[name] = bit

    def _store_bit(self, base: Expression, index: Expression, value: Value) -> None:
        position = self.evaluate(index)
        if position.is_constant:
            self._store_slice(base, index, index, value)
            return
        name = _base_name(base)
        before = self.builder.raw(self.evaluate(base))
        place = self.builder.resize(position, before.bits, signed=False)
        bit = self.builder.resize(self.builder.boolean(value), before.bits, signed=False)
        hole = self.builder.invert(self.builder.shift_in_range("<<", constant(1, before.bits), place))
        kept = self.builder.binary("&", before, hole)
        self._set(name, self.builder.binary("|", kept, self.builder.shift_in_range("<<", bit, place)))

    def _store_slice(self, base: Expression, high: Expression, low: Expression, value: Value) -> None:
        name = _base_name(base)
        top, bottom = self.evaluate(high).integer, self.evaluate(low).integer
        if top < bottom:
            raise UnsupportedSemantics("assignment to a reversed slice")
        width = top - bottom + 1
        known = name in self.variables or name == "D0"
        before = self.builder.raw(self._read(name)) if known else constant(0, 64 if top >= 32 else 32)
        if top >= before.bits:
            before = self.builder.resize(before, 64 if top < 64 else 128, signed=False)
        part = self.builder.resize(self.builder.resize(self.builder.raw(value), width, signed=False), before.bits, signed=False)
        moved = self.builder.binary("<<", part, constant(bottom, before.bits)) if bottom else part
        keep = ((1 << before.bits) - 1) & ~(((1 << width) - 1) << bottom)
        kept = self.builder.binary("&", before, constant(keep, before.bits))
        self._set(name, self.builder.binary("|", kept, moved) if keep else moved)

    def _store_parts(self, parts: tuple[Expression, ...], value: Value) -> None:
        bits = self.builder.raw(value)
        shift = 0
        for part in reversed(parts):
            match = _TYPE.match(part.type) if isinstance(part, Typed) else None
            width = int(match[2]) if match else 64
            field = self.builder.binary(">>", bits, constant(shift, bits.bits)) if shift else bits
            field = self.builder.resize(field, width, signed=False)
            shift += width
            if isinstance(part, Typed) and part.value == Name("D1"):
                self._set_mask("D1", field)
            else:
                self._store(part, field)

    def _as_type(self, value: Value, type_name: str) -> Value:
        """A value converted for an assignment to `x.type`: floats by value, integers by width."""
        kind, bits = _type(type_name)
        if kind == "f":
            is_number = value.kind in ("f", "bf") or value.is_constant
            return self.builder.to_float(value, bits) if is_number else self.builder.reinterpret(value, kind, bits)
        if value.kind == "f":
            if value.bits != bits:
                raise UnsupportedSemantics("assignment of a float to an integer of another width")
            return self.builder.raw(value)
        return self.builder.reinterpret(self.builder.resize(value, bits), kind, bits)

    # expressions

    def evaluate(self, node: Expression) -> Value:
        """The value of an expression."""
        match node:
            case Integer(value, signed, bits):
                return constant(value, bits, "i" if signed else "u")
            case Float(value, bits):
                return float_constant(value, bits)
            case Name(name):
                return self._read(name)
            case Typed(value, type_name):
                return self._typed(value, type_name)
            case Cast(type_name, value):
                return self._cast(type_name, value)
            case Unary(operator, value):
                return self._unary(operator, self.evaluate(value))
            case Binary():
                return self._binary(node)
            case Choice(condition, yes, no):
                return self._choice(condition, yes, no)
            case Call(function, arguments):
                return self._call(function, [self.evaluate(a) for a in arguments])
            case Concat(parts):
                return self._concat([self.evaluate(p) for p in parts])
            case Slice(value, high, low):
                return self._slice(self.evaluate(value), self.evaluate(high).integer, self.evaluate(low).integer)
            case Index():
                return self._index(node)

    def _read(self, name: str) -> Value:
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
        kind, bits = _type(type_name)
        if isinstance(node, Name) and node.name in ("INF", "NAN"):
            return float_constant(_NAMED_FLOATS[node.name], bits)
        return self.builder.reinterpret(self.evaluate(node), kind, bits)

    def _cast(self, type_name: str, node: Expression) -> Value:
        match = _CAST.match(type_name)
        if match is None:
            raise UnsupportedSemantics(f"cast to {type_name}")
        bits, kind = int(match[1]), _KINDS[match[2]]
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
            return self._not(self.builder.boolean(value))
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

    def _index(self, node: Index) -> Value:
        if isinstance(node.index, Name) and node.index.name in _LANE_INDEX:
            return self._registers.lane_bit(_base_name(node.value))
        if isinstance(node.value, Name) and node.value.name in self._arrays:
            return self._arrays[node.value.name][self.evaluate(node.index).integer]
        index = self.evaluate(node.index)
        if index.is_constant:
            return self._slice(self.evaluate(node.value), index.integer, index.integer)
        raw = self.builder.raw(self.evaluate(node.value))
        place = self.builder.resize(index, raw.bits, signed=False)
        return self.builder.resize(self.builder.shift_in_range(">>", raw, place), 1, signed=False)

    def _call(self, function: str, arguments: list[Value]) -> Value:
        if function in self._lambdas:
            return self._call_lambda(self._lambdas[function], arguments)
        if function in _CALLED_INSTRUCTIONS:
            return self._call_instruction(function, arguments)
        return functions.call(self.builder, function, arguments)

    def _call_instruction(self, function: str, arguments: list[Value]) -> Value:
        """An operation that the pseudo-code of another one names: run its own pseudo-code."""
        text = pseudocode_of(function.upper())
        if text is None:
            raise UnsupportedSemantics(f"function {function}")
        inner = SemanticsCompiler(self.builder, self._registers, per_lane=self._per_lane)
        inner.variables = {f"S{i}": argument for i, argument in enumerate(arguments)}
        inner.run(parse(text))
        return inner.variables["D0"]

    def _call_lambda(self, callee: Lambda, arguments: list[Value]) -> Value:
        inner = SemanticsCompiler(self.builder, self._registers, per_lane=self._per_lane)
        inner.variables = {**self.variables, **dict(zip(callee.parameters, arguments, strict=True))}
        inner._lambdas = self._lambdas
        inner.run(callee.body)
        if inner._result is None:
            raise UnsupportedSemantics(f"{callee.name} returns nothing")
        return inner._result


def _type(name: str) -> tuple[str, int]:
    match = _TYPE.match(name)
    if match is None:
        raise UnsupportedSemantics(f"type {name}")
    return _KINDS[match[1]], int(match[2])


def _base_name(node: Expression) -> str:
    while isinstance(node, Typed | Slice | Index):
        node = node.value
    if not isinstance(node, Name):
        raise UnsupportedSemantics("an lvalue without a name")
    return node.name


def _power_of_two(node: Expression) -> Expression | None:
    """n of `2.0 ** n`, with or without a cast around it, where n is not constant."""
    inner = node.value if isinstance(node, Cast) else node
    if isinstance(inner, Binary) and inner.operator == "**" and isinstance(inner.left, Float) and inner.left.value == 2.0:
        return None if isinstance(inner.right, Integer | Float) else inner.right
    return None
