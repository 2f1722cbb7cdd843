"""Operations on typed values, emitted as LLVM IR text with the pseudo-code's rules for mixed types.

Scalar code goes to `outer`, chunk code to `inner`, so that values that do not depend on the lane are computed once, before
the loop over chunks. Operations on constants emit no code.

Text is used instead of `llvmlite.ir` because that builds Python objects that LLVM then receives as text as well. For the kernel
of `experiments/gemm_hip` (610 instructions of gfx942, 18,447 of LLVM) the whole translation takes 0.21 s of processor time,
while `llvmlite.ir` 0.50 takes 0.38 s only to create and print the same instructions (minimum of 7 runs, Python 3.11).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode.llvm_text import CHUNK, FLOAT_TYPES, element_text, literal_text, type_text
from rocm_perf_lab.emulator.pcode.values import (
    FALSE,
    TRUE,
    UnsupportedSemantics,
    Value,
    compared,
    constant,
    float_bits,
    float_constant,
    float_of_bits,
    folded,
    rounded,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.pcode.llvm_text import SsaNames

_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor", "/": "udiv", "%": "urem"}
_FLOAT_ARITHMETIC = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_COMPARISONS = {"==": ("oeq", "eq"), "!=": ("une", "ne"), "<>": ("one", "ne"), "<": ("olt", "lt"), ">": ("ogt", "gt"),
                "<=": ("ole", "le"), ">=": ("oge", "ge")}  # fmt: skip


class Builder:
    """Emitter of IR; `outer` receives scalar code, `inner` chunk code, and both may be the same list.

    `mode_bit` returns a bit of the MODE register.
    """

    def __init__(
        self, names: SsaNames, outer: list[str], inner: list[str], mode_bit: Callable[[int], Value] | None = None
    ) -> None:
        self.names = names
        self.outer = outer
        self.inner = inner
        self.mode_bit = mode_bit or (lambda _: FALSE)

    # text

    def emit(self, text: str, kind: str, bits: int, is_chunk: bool) -> Value:
        """Append `%x = text` and return its value."""
        name = self.names.fresh()
        (self.inner if is_chunk else self.outer).append(f"{name} = {text}")
        return Value(name, kind, bits, is_chunk)

    def text(self, value: Value, as_chunk: bool | None = None) -> str:
        """Return operand text without its type; a scalar is broadcast if a chunk is needed."""
        wants_chunk = value.is_chunk if as_chunk is None else as_chunk
        if value.is_constant:
            literal = literal_text(value)
            return f"splat ({element_text(value.kind, value.bits)} {literal})" if wants_chunk else literal
        if wants_chunk and not value.is_chunk:
            return self._broadcast(value)
        return str(value.operand)

    def _broadcast(self, value: Value) -> str:
        element = element_text(value.kind, value.bits)
        first, name = self.names.fresh(), self.names.fresh()
        self.outer.append(f"{first} = insertelement <{CHUNK} x {element}> poison, {element} {value.operand}, i32 0")
        self.outer.append(
            f"{name} = shufflevector <{CHUNK} x {element}> {first}, <{CHUNK} x {element}> poison, <{CHUNK} x i32> zeroinitializer"
        )
        return name

    def intrinsic(self, name: str, arguments: list[Value], *, kind: str, bits: int, extra: str = "") -> Value:
        """Call `@llvm.name` with one overloaded type; `extra` is appended to the arguments (`, i1 false`)."""
        is_chunk = any(a.is_chunk for a in arguments)
        result = type_text(kind, bits, is_chunk)
        types = [type_text(a.kind, a.bits, is_chunk) for a in arguments]
        suffix = ("v" + str(CHUNK) if is_chunk else "") + ("f" if arguments[0].kind == "f" else "i")
        function = f"@llvm.{name}.{suffix}{arguments[0].bits}"
        declared = ", ".join(types) + "".join(f", {part.split()[0]}" for part in extra.split(", ") if part)
        self.names.declare(f"declare {result} {function}({declared})")
        given = ", ".join(f"{t} {self.text(a, is_chunk)}" for t, a in zip(types, arguments, strict=True))
        return self.emit(f"call {result} {function}({given}{extra})", kind, bits, is_chunk)

    # conversions

    def raw(self, value: Value) -> Value:
        """Return the same bits as an unsigned integer."""
        if value.kind != "f":
            return replace(value, kind="u", narrow=None)
        if value.is_constant:
            return constant(float_bits(value.float, value.bits), value.bits)
        types = type_text("f", value.bits, value.is_chunk), type_text("u", value.bits, value.is_chunk)
        return self.emit(f"bitcast {types[0]} {self.text(value)} to {types[1]}", "u", value.bits, value.is_chunk)

    def resize(self, value: Value, bits: int, *, signed: bool | None = None) -> Value:
        """Truncate or extend an integer; sign-extend kind `i` unless `signed` is given."""
        if value.bits == bits:
            return value
        signed = value.kind == "i" if signed is None else signed
        if value.is_constant:
            number = replace(value, kind="i" if signed else "u").integer
            return constant(number, bits, value.kind)
        operation = "trunc" if bits < value.bits else "sext" if signed else "zext"
        source, target = (type_text(value.kind, n, value.is_chunk) for n in (value.bits, bits))
        return self.emit(f"{operation} {source} {self.text(value)} to {target}", value.kind, bits, value.is_chunk)

    def reinterpret(self, value: Value, kind: str, bits: int) -> Value:
        """Return the bits as another type (`x.f32`); truncated or zero-extended (sign-extended from `i` to `i`) to fit."""
        if value.kind == kind == "f" and value.bits == bits:
            return value
        plain = self.resize(self.raw(value), bits, signed=value.kind == "i" and kind == "i")
        if kind != "f":
            return replace(plain, kind=kind)
        if bits not in FLOAT_TYPES:
            raise UnsupportedSemantics(f"a float of {bits} bits")
        if plain.is_constant:
            return float_constant(float_of_bits(int(plain.operand), bits), bits)
        types = type_text("u", bits, plain.is_chunk), type_text("f", bits, plain.is_chunk)
        return self.emit(f"bitcast {types[0]} {self.text(plain)} to {types[1]}", "f", bits, plain.is_chunk)

    def to_float(self, value: Value, bits: int) -> Value:
        """Convert to a float of `bits` by value."""
        if value.kind == "bf":
            wide = self.binary("<<", self.resize(replace(value, kind="u"), 32), constant(16))
            return self.to_float(self.reinterpret(wide, "f", 32), bits)
        if value.is_constant:
            narrow = value if value.kind == "f" and value.bits < bits else None
            return Value(rounded(value.float, bits), "f", bits, narrow=narrow)
        target = type_text("f", bits, value.is_chunk)
        source = type_text(value.kind, value.bits, value.is_chunk)
        if value.kind != "f":
            operation = "sitofp" if value.kind == "i" else "uitofp"
            return self.emit(f"{operation} {source} {self.text(value)} to {target}", "f", bits, value.is_chunk)
        if value.bits == bits:
            return value
        if value.narrow is not None and value.narrow.bits == bits:
            return value.narrow
        if value.bits == 64 and bits == 16:
            return self.to_float(self._rounded_to_odd(value), 16)
        operation = "fpext" if bits > value.bits else "fptrunc"
        result = self.emit(f"{operation} {source} {self.text(value)} to {target}", "f", bits, value.is_chunk)
        return replace(result, narrow=value) if bits > value.bits else result

    def _rounded_to_odd(self, value: Value) -> Value:
        """Convert a float64 to a float32 whose last bit is set if inexact, so that the next rounding is the only one."""
        near = self.to_float(value, 32)
        back = replace(self.to_float(near, 64), narrow=None)
        sizes = [self.intrinsic("fabs", [number], kind="f", bits=64) for number in (back, value)]
        is_beyond = self.resize(self.compare(">", *sizes), 32, signed=False)
        toward_zero = self.binary("-", self.raw(near), is_beyond)
        is_inexact = self.resize(self.compare("<>", back, value), 32, signed=False)
        return self.reinterpret(self.binary("|", toward_zero, is_inexact), "f", 32)

    def to_integer(self, value: Value, kind: str, bits: int) -> Value:
        """Convert a float by truncation, saturating; NaN becomes 0."""
        sign = "s" if kind == "i" else "u"
        prefix = f"v{CHUNK}" if value.is_chunk else ""
        result = type_text("u", bits, value.is_chunk)
        source = type_text("f", value.bits, value.is_chunk)
        function = f"@llvm.fpto{sign}i.sat.{prefix}i{bits}.{prefix}f{value.bits}"
        self.names.declare(f"declare {result} {function}({source})")
        return self.emit(f"call {result} {function}({source} {self.text(value)})", kind, bits, value.is_chunk)

    def boolean(self, value: Value) -> Value:
        """Return one bit: value != 0."""
        if value.bits == 1 and value.kind != "f":
            return value
        if value.is_constant:
            return TRUE if value.operand != 0 else FALSE
        zero = float_constant(0.0, value.bits) if value.kind == "f" else constant(0, value.bits)
        return self.compare("!=", value, zero)

    # operations

    def binary(self, operator: str, left: Value, right: Value) -> Value:
        """Emit arithmetic, logic, a shift or a comparison with the pseudo-code's rules for mixed types."""
        if operator in ("&&", "||"):
            return self._logical(operator, self.boolean(left), self.boolean(right))
        if operator in ("<<", ">>"):
            return self._shift(operator, left, right)
        if operator in _COMPARISONS:
            return self.compare(operator, left, right)
        left, right = self.unify(left, right)
        if operator in "+-*" and left.kind != "f" and left.bits < 32:  # integers of the pseudo-code are unbounded
            left, right = self.resize(left, 32), self.resize(right, 32)
        if left.is_constant and right.is_constant:
            return folded(operator, left, right)
        is_chunk = left.is_chunk or right.is_chunk
        if left.kind == "f":
            operation = _FLOAT_ARITHMETIC[operator]
        elif operator in "/%" and not right.is_constant:
            raise UnsupportedSemantics("integer division")
        else:
            operation = _ARITHMETIC[operator]
        text = (
            f"{operation} {type_text(left.kind, left.bits, is_chunk)} {self.text(left, is_chunk)}, {self.text(right, is_chunk)}"
        )
        return self.emit(text, left.kind, left.bits, is_chunk)

    def compare(self, operator: str, left: Value, right: Value) -> Value:
        """Return one bit per lane."""
        left, right = _narrowed(left, right)
        left, right = self.unify(left, right)
        if left.is_constant and right.is_constant:
            return TRUE if compared(operator, left, right) else FALSE
        is_chunk = left.is_chunk or right.is_chunk
        float_code, integer_code = _COMPARISONS[operator]
        if left.kind == "f":
            code = f"fcmp {float_code}"
        else:
            sign = "" if integer_code in ("eq", "ne") else "s" if left.kind == "i" else "u"
            code = f"icmp {sign}{integer_code}"
        text = f"{code} {type_text(left.kind, left.bits, is_chunk)} {self.text(left, is_chunk)}, {self.text(right, is_chunk)}"
        return self.emit(text, "u", 1, is_chunk)

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """Return `condition ? yes : no`, per lane."""
        condition = self.boolean(condition)
        if condition.is_constant:
            return yes if condition.integer else no
        yes, no = self.unify(yes, no)
        if yes == no and str(yes.operand) == str(no.operand):  # 0.0 == -0.0
            return yes
        is_chunk = condition.is_chunk or yes.is_chunk or no.is_chunk
        kind = type_text(yes.kind, yes.bits, is_chunk)
        test = f"<{CHUNK} x i1> {self.text(condition)}" if condition.is_chunk else f"i1 {condition.operand}"
        text = f"select {test}, {kind} {self.text(yes, is_chunk)}, {kind} {self.text(no, is_chunk)}"
        return self.emit(text, yes.kind, yes.bits, is_chunk)

    def invert(self, value: Value) -> Value:
        """Return the bitwise complement."""
        return self.binary("^", value, constant((1 << value.bits) - 1, value.bits, value.kind))

    def negate(self, value: Value) -> Value:
        """Return minus value; the sign bit of a float flips, also that of NaN."""
        if value.kind != "f":
            return self.binary("-", constant(0, value.bits, value.kind), value)
        if value.is_constant:
            return replace(value, operand=-value.float, narrow=None)
        kind = type_text("f", value.bits, value.is_chunk)
        return self.emit(f"fneg {kind} {self.text(value)}", "f", value.bits, value.is_chunk)

    def unify(self, left: Value, right: Value) -> tuple[Value, Value]:
        """Convert two operands to one type: to float by value, constants to the other type, else to the wider integer."""
        if left.kind == "f" or right.kind == "f":
            return self._unify_floats(left, right)
        bits = max(left.bits, right.bits)
        if left.is_constant and not right.is_constant:
            bits = max(right.bits, _needed_bits(left))
        elif right.is_constant and not left.is_constant:
            bits = max(left.bits, _needed_bits(right))
        both_signed = left.kind == right.kind == "i"
        signed_with_constant = (left.kind == "i" and right.is_constant) or (right.kind == "i" and left.is_constant)
        kind = "i" if both_signed or signed_with_constant else "u"
        return replace(self.resize(left, bits), kind=kind), replace(self.resize(right, bits), kind=kind)

    def _unify_floats(self, left: Value, right: Value) -> tuple[Value, Value]:
        if left.kind == right.kind:
            if left.is_constant == right.is_constant:
                bits = max(left.bits, right.bits)
            else:
                bits = right.bits if left.is_constant else left.bits
            return self.to_float(left, bits), self.to_float(right, bits)
        number, other = (left, right) if left.kind == "f" else (right, left)
        if other.is_constant or other.kind in ("i", "bf"):
            return self.to_float(left, number.bits), self.to_float(right, number.bits)
        bits = max(left.bits, right.bits)
        return self.resize(self.raw(left), bits), self.resize(self.raw(right), bits)

    def _logical(self, operator: str, left: Value, right: Value) -> Value:
        for known, other in ((left, right), (right, left)):
            if known.is_constant:
                decides = known.integer == (0 if operator == "&&" else 1)
                return known if decides else other
        return self.binary("&" if operator == "&&" else "|", left, right)

    def _shift(self, operator: str, left: Value, right: Value) -> Value:
        """Shift with amounts beyond the width yielding 0 (or the sign), as integers of the pseudo-code are unbounded."""
        if left.is_constant and right.is_constant:
            number = left.integer << right.integer if operator == "<<" else left.integer >> right.integer
            return constant(number, left.bits, left.kind)
        arithmetic = operator == ">>" and left.kind == "i"
        instruction = "shl" if operator == "<<" else "ashr" if arithmetic else "lshr"
        amount = self.resize(replace(right, kind="u"), left.bits)
        limit = constant(left.bits - 1, left.bits)
        if amount.is_constant:
            over = amount.integer >= left.bits
            if over and not arithmetic:
                return constant(0, left.bits, left.kind)
            amount = limit if over else amount
            return self._shifted(instruction, left, amount)
        if arithmetic:
            return self._shifted(instruction, left, self.intrinsic("umin", [amount, limit], kind="u", bits=left.bits))
        inside = self._shifted(instruction, left, self.binary("&", amount, limit))
        return self.select(self.compare("<=", amount, limit), inside, constant(0, left.bits, left.kind))

    def shift_in_range(self, operator: str, left: Value, right: Value) -> Value:
        """Shift by an amount that is known to be below the width."""
        instruction = "shl" if operator == "<<" else "ashr" if left.kind == "i" else "lshr"
        return self._shifted(instruction, left, self.resize(replace(right, kind="u"), left.bits))

    def _shifted(self, instruction: str, left: Value, amount: Value) -> Value:
        is_chunk = left.is_chunk or amount.is_chunk
        kind = type_text("u", left.bits, is_chunk)
        text = f"{instruction} {kind} {self.text(left, is_chunk)}, {self.text(amount, is_chunk)}"
        return self.emit(text, left.kind, left.bits, is_chunk)


def _needed_bits(value: Value) -> int:
    """Return the width that a constant requires: a plain `1` adapts to its partner, `1U` and `1LL` keep their width."""
    if value.kind != "i" or value.bits > 32:
        return value.bits
    number = value.integer
    return min(value.bits, max(number.bit_length() + (1 if number < 0 else 0), 1))


def _narrowed(left: Value, right: Value) -> tuple[Value, Value]:
    """Narrow operands to 32 bits that were only widened for the comparison."""
    if left.narrow is not None and right.narrow is not None and left.narrow.bits == right.narrow.bits:
        return left.narrow, right.narrow
    for wide, other in ((left, right), (right, left)):
        if wide.narrow is not None and not wide.is_constant and other.is_constant and other.kind == "f":
            number = other.float
            if math.isnan(number) or rounded(number, wide.narrow.bits) == number:
                small = float_constant(number, wide.narrow.bits)
                return (wide.narrow, small) if wide is left else (small, wide.narrow)
    return left, right
