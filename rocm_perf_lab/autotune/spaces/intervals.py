"""Bounds of formulas of which some parameters are not bound yet: which partial configurations can still satisfy a constraint.

Every value is an interval, a truth value one between 0 and 1. Unknown bounds are infinite, so the result is never too narrow.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.autotune.spaces.formula import FUNCTIONS, Formula, as_truth
from rocm_perf_lab.core.expressions import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rocm_perf_lab.autotune.spaces.formula import Column

_SLACK = 1e-9
"""Relative distance up to which numbers count as possibly equal: bounds have 53 bits, values up to 64."""


@dataclass(frozen=True)
class Interval:
    """Smallest and largest values of each row (rows,)."""

    low: Column
    high: Column

    @classmethod
    def of(cls, low: Any, high: Any) -> Interval:
        """Return an interval; undefined bounds become infinite."""
        low, high = np.asarray(low, float), np.asarray(high, float)
        if np.isnan(low.sum() + high.sum()):  # one pass; infinite bounds are replaced as well, by themselves
            low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
        return cls(low, high)

    @classmethod
    def hull(cls, *ends: Any) -> Interval:
        """Return the interval from the smallest to the largest of some values."""
        several = np.stack(np.broadcast_arrays(*ends))
        undefined = np.isnan(several).any(axis=0)
        return cls.of(np.where(undefined, np.nan, several.min(axis=0)), np.where(undefined, np.nan, several.max(axis=0)))

    def map(self, function: Callable[[Any], Any]) -> Interval:
        """Apply a function that never decreases."""
        return Interval.of(function(self.low), function(self.high))

    @property
    def truth(self) -> Interval:
        """Truth value of a number: false for 0 only."""
        return Interval.of((self.low > 0) | (self.high < 0), (self.low != 0) | (self.high != 0))


_UNKNOWN = Interval(np.array(-np.inf), np.array(np.inf))
_UNDECIDED = Interval(np.array(0.0), np.array(1.0))


def domain_of(values: Sequence[Any]) -> Interval:
    """Return the interval of the values of a parameter, without bounds if some are text."""
    if any(isinstance(value, str) for value in values):
        return _UNKNOWN
    return Interval.of(float(min(values)), float(max(values)))


@dataclass(frozen=True)
class PartialRows:
    """Configurations of which some parameters are bound.

    Args:
        bound: Name -> values of the bound parameters and of fixed names (rows,).
        domains: Name -> interval of the other parameters.
        derived: Name -> formula of derived values.
        count: Number of rows.
    """

    bound: Mapping[str, Column]
    domains: Mapping[str, Interval]
    derived: Mapping[str, Formula]
    count: int
    _derived_values: dict[str, Column | None] = field(default_factory=dict)

    def possible(self, formula: Formula) -> Column:
        """Return which rows may satisfy a constraint: (rows,)."""
        with np.errstate(all="ignore"):
            truth = self._bounds(formula.tree).truth
        return np.broadcast_to(truth.high > 0, (self.count,))

    def exact(self, name: str) -> Column | None:
        """Return the values of a name, None if they depend on parameters that are not bound, or cannot be evaluated."""
        if name in self.bound:
            return self.bound[name]
        if name not in self.derived:
            return None
        if name not in self._derived_values:
            self._derived_values[name] = self._exact(self.derived[name].tree)
        return self._derived_values[name]

    def _exact(self, node: ast.expr) -> Column | None:
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        found = {name: self.exact(name) for name in names - FUNCTIONS.keys()}
        columns = {name: column for name, column in found.items() if column is not None}
        if len(columns) < len(found):
            return None
        try:
            return Formula("", "", node, frozenset(columns)).over(columns, self.count)
        except ExpressionError:  # guarded by another part of the constraint
            return None

    def _bounds(self, node: ast.expr) -> Interval:
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                return Interval.of(float(value), float(value))
            case ast.Constant():
                return _UNKNOWN
            case ast.Name(id=name):
                return self._bounds_of(name)
            case ast.BoolOp(op=op, values=values):
                parts = [self._bounds(value).truth for value in values]
                fold = np.minimum if isinstance(op, ast.And) else np.maximum
                return Interval.of(_folded(fold, [part.low for part in parts]), _folded(fold, [part.high for part in parts]))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                truth = self._bounds(operand).truth
                return Interval.of(1 - truth.high, 1 - truth.low)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self._bounds(operand)
                return Interval.of(-inner.high, -inner.low)
            case ast.UnaryOp(operand=operand):
                return self._bounds(operand)
            case ast.BinOp(left=left, op=op, right=right):
                return _combined(type(op), self._bounds(left), self._bounds(right), lambda: self._exact(node))
            case ast.Compare():
                return self._compared(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return _chosen(self._bounds(test).truth, self._bounds(body), self._bounds(orelse))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return _called(name, [self._bounds(argument) for argument in arguments])
        return _UNKNOWN

    def _bounds_of(self, name: str) -> Interval:
        values = self.exact(name)
        if values is not None:
            return Interval.of(values, values) if values.dtype.kind in "iufb" else _UNKNOWN
        if name in self.derived:
            return self._bounds(self.derived[name].tree)
        return self.domains[name]

    def _compared(self, node: ast.Compare) -> Interval:
        exact = self._exact(node)
        if exact is not None:
            return Interval.of(as_truth(exact), as_truth(exact))
        result, left = Interval.of(1.0, 1.0), self._bounds(node.left)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.In | ast.NotIn):
                assert isinstance(right_node, ast.Tuple | ast.List | ast.Set)
                parts = [_comparison(ast.Eq, left, self._bounds(element)) for element in right_node.elts]
                found = Interval.of(
                    _folded(np.maximum, [part.low for part in parts]), _folded(np.maximum, [part.high for part in parts])
                )
                step = found if isinstance(op, ast.In) else Interval.of(1 - found.high, 1 - found.low)
            else:
                right = self._bounds(right_node)
                step = _comparison(type(op), left, right)
                left = right
            result = Interval.of(np.minimum(result.low, step.low), np.minimum(result.high, step.high))
        return result


def _folded(function: Callable[[Any, Any], Any], columns: Sequence[Any]) -> Any:
    result = columns[0] if columns else np.array(0.0)
    for column in columns[1:]:
        result = function(result, column)
    return result


def _comparison(op: type[ast.cmpop], left: Interval, right: Interval) -> Interval:
    scale = np.maximum.reduce([np.abs(end) for end in np.broadcast_arrays(left.low, left.high, right.low, right.high)])
    slack = np.where(np.isfinite(scale), scale, 0.0) * _SLACK
    below, above = left.high < right.low - slack, left.low > right.high + slack
    if op in (ast.Lt, ast.LtE):
        return Interval.of(below, ~above)
    if op in (ast.Gt, ast.GtE):
        return Interval.of(above, ~below)
    apart = below | above
    return Interval.of(np.zeros_like(slack), ~apart) if op is ast.Eq else Interval.of(apart, np.ones_like(slack))


def _combined(op: type[ast.operator], left: Interval, right: Interval, exact: Callable[[], Column | None]) -> Interval:
    if op is ast.Add:
        return Interval.of(left.low + right.low, left.high + right.high)
    if op is ast.Sub:
        return Interval.of(left.low - right.high, left.high - right.low)
    if op is ast.Mult:
        return Interval.hull(*(a * b for a in (left.low, left.high) for b in (right.low, right.high)))
    values = exact()
    if values is not None:
        return Interval.of(values, values) if values.dtype.kind in "iufb" else _UNKNOWN
    if op in (ast.Div, ast.FloorDiv):
        crosses = (right.low <= 0) & (right.high >= 0)
        found = Interval.hull(*(a / b for a in (left.low, left.high) for b in (right.low, right.high)))
        found = found.map(np.floor) if op is ast.FloorDiv else found
        return Interval.of(np.where(crosses, -np.inf, found.low), np.where(crosses, np.inf, found.high))
    if op is ast.Mod:
        positive, small = right.low > 0, (left.low >= 0) & (left.high < right.low)
        low = np.where(small, left.low, 0.0)
        high = np.where(small, left.high, np.where(left.low >= 0, np.minimum(left.high, right.high), right.high))
        return Interval.of(np.where(positive, low, -np.inf), np.where(positive, high, np.inf))
    if op in (ast.Pow, ast.LShift):
        grows = (left.low >= (1 if op is ast.Pow else 0)) & (right.low >= 0)
        ends = (left.low**right.low, left.high**right.high) if op is ast.Pow else (left.low, left.high * 2.0**right.high)
        return Interval.of(np.where(grows, ends[0], -np.inf), np.where(grows, ends[1], np.inf))
    return _UNKNOWN


def _chosen(test: Interval, body: Interval, orelse: Interval) -> Interval:
    low = np.where(test.low > 0, body.low, np.where(test.high <= 0, orelse.low, np.minimum(body.low, orelse.low)))
    high = np.where(test.low > 0, body.high, np.where(test.high <= 0, orelse.high, np.maximum(body.high, orelse.high)))
    return Interval.of(low, high)


def _called(name: str, arguments: Sequence[Interval]) -> Interval:
    first = arguments[0]
    match name:
        case "max" | "min":
            fold = np.maximum if name == "max" else np.minimum
            return Interval.of(_folded(fold, [one.low for one in arguments]), _folded(fold, [one.high for one in arguments]))
        case "abs":
            ends = Interval.hull(np.abs(first.low), np.abs(first.high))
            return Interval.of(np.where((first.low <= 0) & (first.high >= 0), 0.0, ends.low), ends.high)
        case "ceil_div":
            divided = _combined(ast.Div, first, arguments[1], lambda: None)
            return divided.map(np.ceil)
        case "log2" | "sqrt":
            return first.map(np.log2 if name == "log2" else np.sqrt)
        case "ceil" | "floor" | "int" | "float":
            return first.map({"ceil": np.ceil, "floor": np.floor, "int": np.trunc, "float": np.positive}[name])
    return _UNKNOWN
