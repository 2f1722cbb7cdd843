"""Expressions over columns of configurations, evaluated by NumPy from a checked syntax tree, with Python's semantics.

`and`, `or` and `a if c else b` evaluate their later operands only for the rows for which Python would, so `n != 0 and m % n == 0`
is safe. Results that exceed 64-bit integers raise an error.

simpleeval, which evaluates the other expressions of rocm-perf-lab, cannot replace this module: it evaluates one row at a time
(12 µs each, so 12 s per constraint for a million combinations, against 0.2 s here), and on whole columns
its `and`, `or`, `not`, `in`, chained comparisons and conditionals fail, because they use the truth value of an array.
"""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.core.expressions import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Column = np.ndarray[Any, np.dtype[Any]]
Operand = Column | int | float | str

_LIMIT = 2.0**62
_MAX_LENGTH = 2000
_MAX_DEPTH = 100

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_GROWING: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a + b,
    ast.Mult: lambda a, b: a * b,
    ast.Pow: lambda a, b: max(a, 1.0) ** b,
    ast.LShift: lambda a, b: a * 2.0**b,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _integer(values: Any) -> Any:
    return np.trunc(values).astype(np.int64) if np.asarray(values).dtype.kind == "f" else values


def _whole(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: function(values).astype(np.int64) if np.asarray(values).dtype.kind == "f" else values


FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int | None]] = {
    "abs": (np.abs, 1, 1),
    "ceil": (_whole(np.ceil), 1, 1),
    "ceil_div": (lambda a, b: -(-np.asarray(a) // b), 2, 2),
    "float": (lambda a: np.asarray(a).astype(np.float64), 1, 1),
    "floor": (_whole(np.floor), 1, 1),
    "int": (_integer, 1, 1),
    "log2": (np.log2, 1, 1),
    "max": (lambda *values: _fold(np.maximum, values), 2, None),
    "min": (lambda *values: _fold(np.minimum, values), 2, None),
    "sqrt": (np.sqrt, 1, 1),
}
"""Name -> function, smallest and largest number of arguments."""


def _fold(function: Callable[[Any, Any], Any], values: tuple[Any, ...]) -> Any:
    result = values[0]
    for value in values[1:]:
        result = function(result, value)
    return result


@dataclass(frozen=True)
class Formula:
    """Checked expression. `names` are the columns that it reads."""

    text: str
    where: str
    tree: ast.expr
    names: frozenset[str]

    def over(self, columns: Mapping[str, Column], rows: int) -> Column:
        """Evaluate the expression for each row: (rows,).

        Raises:
            ExpressionError: An operand is invalid (division by zero, logarithm of 0, text), or the result exceeds 64 bits.
        """
        try:
            with np.errstate(divide="raise", invalid="raise", over="raise"):
                values = np.asarray(_Evaluation(columns, rows).value(self.tree))
        except (ArithmeticError, TypeError, ValueError) as error:
            hint = _LOGARITHMS if isinstance(error, OverflowError) else _GUARD
            raise ExpressionError(f"cannot evaluate {self.text!r}: {error}", where=self.where, hint=hint) from error
        return np.broadcast_to(values, (rows,)) if values.ndim == 0 else values

    def holds(self, columns: Mapping[str, Column], rows: int) -> Column:
        """Evaluate the expression as a truth value for each row: (rows,)."""
        return as_truth(self.over(columns, rows))


_LOGARITHMS = "compare logarithms of products: log2(a) + log2(b) <= 40"
_GUARD = "guard the operand, for example `n != 0 and m % n == 0`"


def compile_formula(text: str, *, where: str, known: frozenset[str] | set[str]) -> Formula:
    """Parse and check an expression.

    Raises:
        ExpressionError: The syntax is not allowed, or a name is not in `known`.
    """
    if len(text) > _MAX_LENGTH:
        raise ExpressionError(f"an expression of {len(text)} characters", where=where, hint=f"use at most {_MAX_LENGTH}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f"cannot read {text!r}: {error}", where=where, hint="write one expression") from error
    names: set[str] = set()
    _check(tree, text, where, names, 0)
    unknown = sorted(names - known)
    if unknown:
        raise ExpressionError(
            f"unknown name {unknown[0]!r} in {text!r}",
            where=where,
            hint=f"available names: {', '.join(sorted(known)) or 'none'}",
        )
    return Formula(text.strip(), where, tree, frozenset(names))


def _check(node: ast.AST, text: str, where: str, names: set[str], depth: int) -> None:
    forbidden = ExpressionError(
        f"{type(node).__name__} is not allowed in {text!r}",
        where=where,
        hint=f"numbers, names, + - * / // % ** and comparisons, and, or, not, in, `a if c else b`, {', '.join(FUNCTIONS)}",
    )
    if depth > _MAX_DEPTH:
        raise ExpressionError(f"{text!r} is nested too deeply", where=where, hint="split it into derived values")
    inner: list[ast.AST]
    match node:
        case ast.Constant(value=bool() | int() | float() | str()):
            inner = []
        case ast.Name(id=name):
            names.add(name)
            inner = []
        case ast.BoolOp(values=values):
            inner = list(values)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.UAdd(), operand=operand):
            inner = [operand]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            inner = [left, right]
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            inner = [left]
            for comparison, right in zip(ops, comparators, strict=True):
                if isinstance(comparison, ast.In | ast.NotIn):
                    if not isinstance(right, ast.Tuple | ast.List | ast.Set):
                        raise forbidden
                    inner += right.elts
                elif type(comparison) in _COMPARISONS:
                    inner.append(right)
                else:
                    raise forbidden
        case ast.IfExp(test=test, body=body, orelse=orelse):
            inner = [test, body, orelse]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            if name not in FUNCTIONS:
                known = ", ".join(FUNCTIONS)
                raise ExpressionError(f"unknown function {name!r} in {text!r}", where=where, hint=f"functions: {known}")
            _, fewest, most = FUNCTIONS[name]
            if len(arguments) < fewest or (most is not None and len(arguments) > most):
                expected = str(fewest) if fewest == most else f"{fewest} or more"
                raise ExpressionError(
                    f"{name} needs {expected} arguments, not {len(arguments)}, in {text!r}", where=where, hint="correct the call"
                )
            inner = list(arguments)
        case _:
            raise forbidden
    for part in inner:
        _check(part, text, where, names, depth + 1)


class _Evaluation:
    """Evaluation of one formula over a set of rows."""

    def __init__(self, columns: Mapping[str, Column], rows: int) -> None:
        self._columns = columns
        self._rows = rows

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return int(value) if isinstance(value, bool) else value
            case ast.Name(id=name):
                column = self._columns[name]
                return column.astype(np.int64) if column.dtype.kind == "b" else column
            case ast.BoolOp(op=op, values=values):
                return self._both(values) if isinstance(op, ast.And) else self._either(values)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return _as_number(~as_truth(self.value(operand)))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -_number(self.value(operand))
            case ast.UnaryOp(operand=operand):
                return _number(self.value(operand))
            case ast.BinOp(left=left, op=op, right=right):
                return _combine(type(op), _number(self.value(left)), _number(self.value(right)))
            case ast.Compare():
                return self._compare(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._choose(self._truths(test), body, orelse)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return FUNCTIONS[name][0](*(_number(self.value(argument)) for argument in arguments))
        raise TypeError(f"{type(node).__name__} cannot be evaluated")

    def _truths(self, node: ast.expr) -> Column:
        return np.broadcast_to(as_truth(self.value(node)), (self._rows,))

    def _part(self, mask: Column) -> _Evaluation:
        return _Evaluation({name: column[mask] for name, column in self._columns.items()}, int(mask.sum()))

    def _both(self, nodes: list[ast.expr]) -> Column:
        result = self._truths(nodes[0]).copy()
        for node in nodes[1:]:
            result[result] = self._part(result)._truths(node)
        return _as_number(result)

    def _either(self, nodes: list[ast.expr]) -> Column:
        result = self._truths(nodes[0]).copy()
        for node in nodes[1:]:
            result[~result] = self._part(~result)._truths(node)
        return _as_number(result)

    def _choose(self, mask: Column, body: ast.expr, orelse: ast.expr) -> Any:
        if mask.all():
            return self.value(body)
        if not mask.any():
            return self.value(orelse)
        chosen, other = np.asarray(self._part(mask).value(body)), np.asarray(self._part(~mask).value(orelse))
        mixed = (chosen.dtype.kind in "US") != (other.dtype.kind in "US")
        result = np.empty(self._rows, object if mixed else np.result_type(chosen, other))
        result[mask], result[~mask] = chosen, other
        return result

    def _compare(self, node: ast.Compare) -> Any:
        left = self.value(node.left)
        result: Any = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.In | ast.NotIn):
                assert isinstance(right_node, ast.Tuple | ast.List | ast.Set)
                found: Any = False
                for element in right_node.elts:
                    found = found | as_truth(_equal(left, self.value(element)))
                step = found if isinstance(op, ast.In) else ~np.asarray(found, bool)
                right: Any = None
            else:
                right = self.value(right_node)
                step = _compared(type(op), left, right)
            result = result & as_truth(step)
            left = right
        return _as_number(np.asarray(result))


def _compared(op: type[ast.cmpop], left: Any, right: Any) -> Any:
    if op in (ast.Eq, ast.NotEq):
        same = as_truth(_equal(left, right))
        return same if op is ast.Eq else ~same
    return _COMPARISONS[op](_number(left), _number(right))


def _equal(left: Any, right: Any) -> Any:
    """Return elementwise equality, which as in Python is false between text and numbers."""
    kinds = {_is_text(left), _is_text(right)}
    if kinds == {True, False}:
        return np.zeros(np.broadcast_shapes(np.shape(left), np.shape(right)), bool)
    return np.asarray(np.asarray(left) == np.asarray(right))


def _is_text(value: Any) -> bool | None:
    kind = np.asarray(value).dtype.kind
    return None if kind == "O" else kind in "US"


def as_truth(value: Any) -> Column:
    values = np.asarray(value)
    return values != "" if values.dtype.kind in "US" else values.astype(bool)


def _as_number(value: Any) -> Column:
    return np.asarray(np.asarray(value).astype(np.int64))


def _number(value: Any) -> Any:
    kind = np.asarray(value).dtype.kind
    if kind in "US":
        raise TypeError("text can only be compared with == and in")
    if kind == "O":
        raise TypeError("text and numbers are mixed")
    return value


def _combine(op: type[ast.operator], left: Any, right: Any) -> Any:
    left, right = np.asarray(left), np.asarray(right)
    integers = left.dtype.kind == right.dtype.kind == "i"
    if integers and left.size and right.size:
        grow = _GROWING.get(op)
        if grow is not None and grow(float(np.abs(left).max()), float(np.abs(right).max())) > _LIMIT:
            raise OverflowError("the result is too large for 64 bits")
        if op is ast.Pow and right.min() < 0:
            left = left.astype(np.float64)
        if op in (ast.LShift, ast.RShift) and (right.min() < 0 or right.max() > 63):
            raise ValueError("a shift by less than 0 or more than 63 bits")
    return _ARITHMETIC[op](left, right)
