"""Arithmetic of constants, done at translation time, so that the compiler can index and slice with what it gives."""

from __future__ import annotations

import math

from rocm_perf_lab.emulator.pcode.values import Value, constant, float_constant


def folded(operator: str, left: Value, right: Value) -> Value:
    """`left operator right` of two constants of one type."""
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
    """Whether `left operator right` holds, of two constants of one type."""
    a, b = (left.float, right.float) if left.kind == "f" else (left.integer, right.integer)
    return {"==": a == b, "!=": a != b, "<>": a != b, "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}[operator]
