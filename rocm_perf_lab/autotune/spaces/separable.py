"""Constraints `sum == value`, `product == value` and `sum % m == value` of many parameters: which of them can be completed.

Each term depends on one parameter. The values that the unbound parameters can contribute are a set, so a partial configuration
is dropped if no completion satisfies the constraint, which bounds alone do not show.
"""

from __future__ import annotations

import ast
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.autotune.spaces.formula import FUNCTIONS, Formula
from rocm_perf_lab.autotune.spaces.space import as_column
from rocm_perf_lab.core.expressions import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.autotune.spaces.formula import Column

_MOST = 200_000
"""Largest number of values that the unbound parameters contribute."""
_MOST_PAIRS = 2_000_000
_MOST_WORK = 10_000_000
_WIDEST = 4_000_000
"""Range up to which a set is found by marking its members, which is faster than sorting."""
_LIMIT = 2.0**61


@dataclass(frozen=True)
class Separable:
    """Equality of a target with the sum or the product of one integer per parameter.

    Args:
        terms: Parameter -> integer of each of its values, in the order in which the parameters are bound.
        target: Right side.
        modulus: Modulus of the sum, or None.
        is_product: Whether the integers are multiplied.
    """

    terms: Mapping[str, Column]
    target: int
    modulus: int | None = None
    is_product: bool = False
    _work: list[int] = field(default_factory=list)
    """Number of pairs of each set so far, which is limited if parameters are bound in another order."""
    _sets: dict[tuple[str, ...], Column | None] = field(default_factory=dict)

    def possible(self, codes: Mapping[str, Column], count: int) -> Column:
        """Return which rows can be completed: (rows,).

        Args:
            codes: Value indices of the bound parameters (rows,).
            count: Number of rows.
        """
        able = np.ones(count, bool)
        contributions = self._contributions(tuple(name for name in self.terms if name not in codes))
        if contributions is None:
            return able
        needed = np.full(count, self.target, np.int64)
        for name in self.terms.keys() & codes.keys():
            term = self.terms[name][codes[name]]
            if self.is_product:
                able &= needed % term == 0
                needed //= term
            else:
                needed -= term
        needed = needed % self.modulus if self.modulus is not None else needed
        if not len(contributions):
            return np.zeros(count, bool)
        places = np.minimum(np.searchsorted(contributions, needed), len(contributions) - 1)
        return np.asarray(able & (contributions[places] == needed))

    def _contributions(self, names: tuple[str, ...]) -> Column | None:
        """Return all sums or products of terms of some parameters that may be part of the target, sorted; None for too many."""
        if not names:
            return np.array([1 if self.is_product else 0], np.int64)
        if names not in self._sets:
            others = self._contributions(names[1:])
            self._sets[names] = self._with(names[0], others) if others is not None else None
        return self._sets[names]

    def _with(self, name: str, others: Column) -> Column | None:
        term = np.unique(self.terms[name])
        if self.is_product:
            term = term[self.target % term == 0]
        count = len(others) * len(term)
        self._work.append(count)
        if count > _MOST_PAIRS or sum(self._work) > _MOST_WORK:
            return None
        pairs = (others[:, None] * term if self.is_product else others[:, None] + term).ravel()
        if self.modulus is not None:
            pairs %= self.modulus
        elif self.is_product:
            pairs = pairs[self.target % pairs == 0]
        elif self._never_falls:
            pairs = pairs[pairs <= self.target]
        found = _sorted_set(pairs)
        return found if len(found) <= _MOST else None

    @cached_property
    def _never_falls(self) -> bool:
        return all((term >= 0).all() for term in self.terms.values())


def _sorted_set(numbers: Column) -> Column:
    """Return the different numbers, sorted."""
    if not len(numbers):
        return numbers
    low, high = int(numbers.min()), int(numbers.max())
    if high - low > _WIDEST:
        return np.unique(numbers)
    present = np.zeros(high - low + 1, bool)
    present[numbers - low] = True
    return np.flatnonzero(present) + low


def separable(formula: Formula, values: Mapping[str, Sequence[Any]], known: Mapping[str, Formula | Any]) -> Separable | None:
    """Return a constraint as an equality of separate terms, None if it has another form.

    Args:
        formula: The constraint.
        values: Parameter -> values.
        known: Name -> formula of derived names, value of fixed ones.
    """
    tree = _Inlined(known).visit(deepcopy(formula.tree))
    match tree:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            if not _names(left):
                left, right = right, left
        case _:
            return None
    try:
        return _of_sides(left, right, values)
    except (ExpressionError, _OtherForm):
        return None


class _OtherForm(Exception):
    """The constraint has another form."""


def _of_sides(left: ast.expr, right: ast.expr, values: Mapping[str, Sequence[Any]]) -> Separable:
    modulus: int | None = None
    target = 0
    terms: list[tuple[int, ast.expr]] = []
    if _names(right):
        terms = [(-sign, term) for sign, term in _summands(right)]
    else:
        target = _integer(right)
    if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod) and not _names(left.right) and not terms:
        modulus, left = _integer(left.right), left.left
        if modulus <= 0 or not 0 <= target < modulus:
            raise _OtherForm
    terms += _summands(left)
    if len(terms) == 1 and modulus is None and len(_names(terms[0][1])) > 1:
        return _product(terms[0][0] * target, _factors(terms[0][1]), values)
    tables: dict[str, Column] = {}
    for sign, term in terms:
        names = _names(term)
        if not names:
            target -= sign * _integer(term)
            continue
        name, table = _table(term, values)
        tables[name] = tables.get(name, 0) + sign * table
    if sum(float(np.abs(table).max()) for table in tables.values()) + abs(target) > _LIMIT:
        raise _OtherForm
    if modulus is not None:
        target %= modulus
    return Separable(_ordered(tables), target, modulus)


def _ordered(tables: Mapping[str, Column]) -> dict[str, Column]:
    """Return the terms in descending order of their influence."""
    return dict(sorted(tables.items(), key=lambda item: -int(np.ptp(item[1]))))


def _product(target: int, factors: list[ast.expr], values: Mapping[str, Sequence[Any]]) -> Separable:
    tables: dict[str, Column] = {}
    for factor in factors:
        if not _names(factor):
            value = _integer(factor)
            if value == 0 or target % value:
                raise _OtherForm
            target //= value
            continue
        name, table = _table(factor, values)
        tables[name] = tables.get(name, 1) * table
    if target <= 0 or any((table <= 0).any() or float(table.max()) > 2.0**30 for table in tables.values()) or target > _LIMIT:
        raise _OtherForm
    return Separable(_ordered(tables), target, None, is_product=True)


def _names(node: ast.expr) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} - FUNCTIONS.keys()


def _summands(node: ast.expr, sign: int = 1) -> list[tuple[int, ast.expr]]:
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _summands(left, sign) + _summands(right, sign)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _summands(left, sign) + _summands(right, -sign)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _summands(operand, -sign)
    return [(sign, node)]


def _factors(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _factors(left) + _factors(right)
    return [node]


def _table(term: ast.expr, values: Mapping[str, Sequence[Any]]) -> tuple[str, Column]:
    names = _names(term)
    if len(names) != 1:
        raise _OtherForm
    (name,) = names
    column = as_column(values[name])
    found = Formula("", "", term, frozenset(names)).over({name: column}, len(column))
    if found.dtype.kind not in "ib":
        raise _OtherForm
    return name, found.astype(np.int64)


def _integer(node: ast.expr) -> int:
    value = Formula("", "", node, frozenset()).over({}, 1)[0].item()
    if not isinstance(value, int):
        raise _OtherForm
    return value


class _Inlined(ast.NodeTransformer):
    """Replaces derived and fixed names by their formulas and values."""

    def __init__(self, known: Mapping[str, Formula | Any]) -> None:
        self._known = known

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Return what a name stands for."""
        if node.id not in self._known:
            return node
        known = self._known[node.id]
        return self.visit(deepcopy(known.tree)) if isinstance(known, Formula) else ast.Constant(known)
