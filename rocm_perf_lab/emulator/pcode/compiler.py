"""Compiler of the pseudo-code of one instruction to IR, so that AMD's specification is the implementation.

The caller supplies a `RegisterReader`. Afterwards `variables` holds the assigned names (D0, SCC, ...) and `masks` the
per-lane bits of VCC, EXEC, D0 or D1. Branches become selects; loops are unrolled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.isa.pseudocode import pseudocode_of
from rocm_perf_lab.emulator.pcode import functions
from rocm_perf_lab.emulator.pcode.expressions import LANE_INDEX, ExpressionEvaluator, RegisterReader, base_name
from rocm_perf_lab.emulator.pcode.parser import parse
from rocm_perf_lab.emulator.pcode.syntax import (
    Assign,
    Break,
    Concat,
    Declare,
    Evaluate,
    Expression,
    For,
    If,
    Lambda,
    Name,
    Return,
    Slice,
    Statement,
    Subscript,
    Typed,
)
from rocm_perf_lab.emulator.pcode.values import FALSE, TRUE, UnsupportedSemantics, Value, cast_type, constant, suffix_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.emulator.pcode.ir import Builder

_CALLED_INSTRUCTIONS = frozenset({"v_sad_u8", "v_msad_u8"})


class SemanticsCompiler:
    """Symbolic execution of statements.

    Args:
        builder: Builder that emits the code.
        registers: Operands and state.
        per_lane: Assign VCC and EXEC lane by lane, as vector instructions do.
        variables: Known variables by name, such as the arguments of a call.
        lambdas: Known functions by name.
    """

    def __init__(
        self,
        builder: Builder,
        registers: RegisterReader,
        *,
        per_lane: bool,
        variables: Mapping[str, Value] | None = None,
        lambdas: Mapping[str, Lambda] | None = None,
    ) -> None:
        self.builder = builder
        self._expressions = ExpressionEvaluator(builder, registers, variables or {}, self._call)
        self._evaluate = self._expressions.evaluate
        self.variables = self._expressions.variables
        self.masks: dict[str, Value] = {}
        self.assigned: set[str] = set()
        self._lambdas = dict(lambdas or {})
        self._registers = registers
        self._per_lane = per_lane
        self._predicate: Value = TRUE
        self._live: Value = TRUE
        self._result: Value | None = None

    def run(self, statements: Sequence[Statement]) -> None:
        """Execute statements in order.

        Raises:
            UnsupportedSemantics: A construct has no translation.
        """
        for statement in statements:
            self._statement(statement)

    def evaluate_register(self, name: str) -> Value:
        """Return the raw bits of an operand, as the pseudo-code reads it."""
        return self._expressions.read(name)

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
            condition = self.builder.boolean(self._evaluate(test))
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
        first, last = self._evaluate(statement.first).integer, self._evaluate(statement.last).integer
        outer = self._live
        for i in range(first, last + 1):
            self.variables[statement.variable] = constant(i, 32, "i")
            self.run(statement.body)
        self._live = outer

    def _declare(self, statement: Declare) -> None:
        kind, bits = cast_type(statement.type)
        if statement.length is not None:
            length = self._evaluate(statement.length).integer
            operands = [self._registers.read(f"S{i}") for i in range(length)] if statement.name == "S" else []
            zero = constant(0, bits)
            self._expressions.arrays[statement.name] = [operand or zero for operand in operands] or [zero] * length
            return
        self.variables.setdefault(statement.name, constant(0, bits, "i" if kind == "i" else "u"))

    def _return(self, statement: Return) -> None:
        value = self._evaluate(statement.value)
        condition = self._condition()
        self._result = value if self._result is None else self.builder.select(condition, value, self._result)
        self._live = self.builder.binary("&&", self._live, self._not(condition))

    def _assign(self, statement: Assign) -> None:
        value = self._evaluate(statement.value)
        if statement.operator:
            value = self.builder.binary(statement.operator, self._evaluate(statement.targets[0]), value)
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
            case Subscript(base, Name(lane)) if lane in LANE_INDEX:
                self._set_mask(base_name(base), value)
            case Subscript(Name(name), index) if name in self._expressions.arrays:
                position = self._evaluate(index).integer
                elements = self._expressions.arrays[name]
                elements[position] = self.builder.select(self._condition(), value, elements[position])
            case Subscript(base, index):
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
                before = self._expressions.read(name)
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
        position = self._evaluate(index)
        if position.is_constant:
            self._store_slice(base, index, index, value)
            return
        name = base_name(base)
        before = self.builder.raw(self._evaluate(base))
        place = self.builder.resize(position, before.bits, signed=False)
        bit = self.builder.resize(self.builder.boolean(value), before.bits, signed=False)
        hole = self.builder.invert(self.builder.shift_in_range("<<", constant(1, before.bits), place))
        kept = self.builder.binary("&", before, hole)
        self._set(name, self.builder.binary("|", kept, self.builder.shift_in_range("<<", bit, place)))

    def _store_slice(self, base: Expression, high: Expression, low: Expression, value: Value) -> None:
        name = base_name(base)
        top, bottom = self._evaluate(high).integer, self._evaluate(low).integer
        if top < bottom:
            raise UnsupportedSemantics("assignment to a reversed slice")
        width = top - bottom + 1
        known = name in self.variables or name == "D0"
        before = self.builder.raw(self._expressions.read(name)) if known else constant(0, 64 if top >= 32 else 32)
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
            width = suffix_type(part.type)[1] if isinstance(part, Typed) else 64
            field = self.builder.binary(">>", bits, constant(shift, bits.bits)) if shift else bits
            field = self.builder.resize(field, width, signed=False)
            shift += width
            if isinstance(part, Typed) and part.value == Name("D1"):
                self._set_mask("D1", field)
            else:
                self._store(part, field)

    def _as_type(self, value: Value, type_name: str) -> Value:
        """Convert a value for an assignment to `x.type`: floats by value, integers by width."""
        kind, bits = suffix_type(type_name)
        if kind == "f":
            is_number = value.kind in ("f", "bf") or value.is_constant
            return self.builder.to_float(value, bits) if is_number else self.builder.reinterpret(value, kind, bits)
        if value.kind == "f":
            if value.bits != bits:
                raise UnsupportedSemantics("assignment of a float to an integer of another width")
            return self.builder.raw(value)
        return self.builder.reinterpret(self.builder.resize(value, bits), kind, bits)

    # calls

    def _call(self, function: str, arguments: list[Value]) -> Value:
        if function in self._lambdas:
            return self._call_lambda(self._lambdas[function], arguments)
        if function in _CALLED_INSTRUCTIONS:
            return self._call_instruction(function, arguments)
        return functions.call(self.builder, function, arguments)

    def _call_instruction(self, function: str, arguments: list[Value]) -> Value:
        """Run the pseudo-code of an operation that another one calls."""
        text = pseudocode_of(function.upper())
        if text is None:
            raise UnsupportedSemantics(f"function {function}")
        known = {f"S{i}": argument for i, argument in enumerate(arguments)}
        inner = SemanticsCompiler(self.builder, self._registers, per_lane=self._per_lane, variables=known)
        inner.run(parse(text))
        return inner.variables["D0"]

    def _call_lambda(self, callee: Lambda, arguments: list[Value]) -> Value:
        known = {**self.variables, **dict(zip(callee.parameters, arguments, strict=True))}
        inner = SemanticsCompiler(self.builder, self._registers, per_lane=self._per_lane, variables=known, lambdas=self._lambdas)
        inner.run(callee.body)
        if inner._result is None:
            raise UnsupportedSemantics(f"{callee.name} without a result")
        return inner._result
