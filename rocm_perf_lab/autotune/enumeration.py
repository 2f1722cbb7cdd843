"""Enumeration of the valid configurations of a space: parameters are bound in turn, and constraints applied early.

The order follows the constraints, so parameters that depend on each other form chains (Rasch et al.: Efficient auto-tuning of
parallel programs with interdependent tuning parameters, 2021). If there are too many configurations, the chains are not
enumerated but drawn from: after each parameter, a random part of the partial configurations is kept.
"""

from __future__ import annotations

import keyword
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.autotune.formula import FUNCTIONS, Column, Formula, compile_formula
from rocm_perf_lab.autotune.lazy_space import LazySpace
from rocm_perf_lab.autotune.space import Space, SpaceError, as_column
from rocm_perf_lab.autotune.space_description import Range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.autotune.space import Configuration
    from rocm_perf_lab.autotune.space_description import SpaceDescription

_MAX_ROWS = 2_000_000
"""Number of partial configurations above which a space is drawn from instead of being enumerated."""
_DRAWN = 8_000
"""Configurations that are drawn from such a space."""
_THIN = 60_000
"""Partial configurations that are kept while drawing; again with more if they cannot be completed."""
_THINNEST = 16


def build_space(description: SpaceDescription, *, where: str = "space") -> Space:
    """Enumerate the valid configurations.

    Raises:
        SpaceError: Values are duplicated, names clash, or no configuration satisfies a constraint.
        ExpressionError: A derived value or constraint cannot be evaluated.
    """
    values = {name: _values_of(name, given, where) for name, given in description.parameters.items()}
    _check_names(description, where)
    if not values:
        raise SpaceError("a space without parameters", where=where, hint="add `parameters: {name: [values]}`")
    known = {*values, *description.fixed}
    derived: dict[str, Formula] = {}
    for name, text in description.derived.items():
        derived[name] = compile_formula(text, where=f"{where}, derived.{name}", known=known)
        known.add(name)
    constraints = [
        compile_formula(text, where=f"{where}, constraints[{i}]", known=known) for i, text in enumerate(description.constraints)
    ]
    combinations = math.prod(map(len, values.values()))
    made = (values, description.fixed, derived, constraints, where)
    codes = _enumerated(*made)
    if codes is not None:
        space = Space(values, codes, dict(description.fixed), derived, None, combinations, where, tuple(constraints))
    else:
        codes, valid = _drawn(*made)
        space = LazySpace(values, codes, dict(description.fixed), derived, None, combinations, where, tuple(constraints), valid)
    if not description.defaults:
        return space
    return replace(space, defaults=_checked_defaults(space, description, constraints))


class _TooManyRows(Exception):
    """More partial configurations than are enumerated."""


def _enumerated(*made: Any) -> Column | None:
    """Return the codes of all valid configurations, or None if there are too many partial ones."""
    try:
        return Enumeration(*made).run()
    except _TooManyRows:
        return None


def _drawn(*made: Any) -> tuple[Column, int]:
    """Return the codes of some valid configurations, and an estimate of the number of all of them."""
    for widening in (1, _THINNEST):
        found = ThinnedEnumeration(*made, kept=_THIN * widening)
        try:
            codes = found.run()
        except SpaceError as error:
            if not found.thinned:
                raise
            if widening == _THINNEST:
                raise SpaceError(
                    f"no valid configuration was found by drawing; the last constraint that excluded all: {error.where}",
                    where=found.where,
                    hint="relax it, or state the constraints of few parameters that it implies",
                ) from error
        else:
            rows = np.random.default_rng(1).permutation(len(codes))[:_DRAWN]
            return codes[np.sort(rows)], max(len(codes), round(len(codes) * found.weight))
    raise AssertionError("unreachable")


def _values_of(name: str, given: tuple[Any, ...] | Range, where: str) -> tuple[Any, ...]:
    values = given.values() if isinstance(given, Range) else given
    place = f"{where}, parameters.{name}"
    if not values:
        raise SpaceError(f"parameter {name} has no values", where=place, hint="list at least one, or make it fixed")
    for i, value in enumerate(values):
        if value in values[:i] if len(values) < 100 else len(set(values)) < len(values):
            raise SpaceError(f"parameter {name} lists {value!r} more than once", where=place, hint="remove the duplicates")
    return values


def _check_names(description: SpaceDescription, where: str) -> None:
    groups: dict[str, Mapping[str, Any]] = {
        "parameters": description.parameters,
        "fixed": description.fixed,
        "derived": description.derived,
    }
    seen: dict[str, str] = {}
    for group, entries in groups.items():
        for name in entries:
            place = f"{where}, {group}.{name}"
            if not name.isidentifier() or keyword.iskeyword(name) or name in FUNCTIONS:
                raise SpaceError(
                    f"{name!r} cannot be a name", where=place, hint="use letters, digits and _, and no name of a function"
                )
            if name in seen:
                raise SpaceError(f"{name} is in both {seen[name]} and {group}", where=place, hint="keep one of them")
            seen[name] = group


def _checked_defaults(space: Space, description: SpaceDescription, constraints: list[Formula]) -> Configuration:
    defaults, place = dict(description.defaults), f"{space.where}, defaults"
    odd = sorted(defaults.keys() ^ space.values.keys())
    if odd:
        raise SpaceError(f"defaults and parameters differ in {', '.join(odd)}", where=place, hint="list every parameter once")
    for name, value in defaults.items():
        if value not in space.values[name]:
            raise SpaceError(f"{value!r}, the default of {name}, is not one of its values", where=place, hint="use one of them")
    complete = space.complete(defaults)
    columns = {name: np.array([value]) for name, value in complete.items()}
    for formula in constraints:
        if not formula.holds(columns, 1)[0]:
            raise SpaceError(f"the defaults violate {formula.text!r}", where=place, hint="start from a valid configuration")
    return defaults


class Enumeration:
    """Enumeration that binds first the parameters that complete a constraint, and applies each constraint at once."""

    def __init__(
        self,
        values: dict[str, tuple[Any, ...]],
        fixed: Mapping[str, Any],
        derived: dict[str, Formula],
        constraints: list[Formula],
        where: str,
    ) -> None:
        self._values = values
        self._lookup = {name: as_column(v) for name, v in values.items()}
        self._fixed = {name: as_column([value]) for name, value in fixed.items()}
        self._derived = derived
        self._where = where
        self._open = [(formula, self._needs(formula)) for formula in constraints]
        self._columns: dict[str, Column] = {}
        self._rows = 1

    def _needs(self, formula: Formula) -> frozenset[str]:
        """Return the parameters that a formula reads, directly or through derived values."""
        needs: set[str] = set()
        for name in formula.names:
            if name in self._derived:
                needs |= self._needs(self._derived[name])
            elif name in self._values:
                needs.add(name)
        return frozenset(needs)

    def run(self) -> Column:
        """Return the value indices of each valid configuration, in lexicographic order: (configurations, parameters)."""
        self._cut()
        while len(self._columns) < len(self._values):
            for name in self._next():
                self._bind(name)
                self._cut()
        codes = np.empty((self._rows, len(self._values)), np.int32)
        for position, name in enumerate(self._values):
            codes[:, position] = self._columns[name]
        order = np.lexsort(codes.T[::-1])
        return codes[order]

    def _next(self) -> list[str]:
        """Return the unbound parameters of the constraint with the fewest combinations, or all if no constraint is left."""
        candidates = [sorted(needs - self._columns.keys(), key=list(self._values).index) for _, needs in self._open]
        if candidates:
            return min(candidates, key=lambda names: math.prod(len(self._values[name]) for name in names))
        return [name for name in self._values if name not in self._columns]

    def _bind(self, name: str) -> None:
        count = len(self._values[name])
        self._make_room(count)
        self._columns = {key: np.repeat(column, count) for key, column in self._columns.items()}
        self._columns[name] = np.tile(np.arange(count, dtype=np.int32), self._rows)
        self._rows *= count

    def _make_room(self, count: int) -> None:
        """Prepare for `count` times as many rows.

        Raises:
            _TooManyRows: That is too many.
        """
        if self._rows * count > _MAX_ROWS:
            raise _TooManyRows

    def _keep(self, rows: Column) -> None:
        self._columns = {key: column[rows] for key, column in self._columns.items()}
        self._rows = len(rows)

    def _cut(self) -> None:
        bound = self._columns.keys()
        for formula in [formula for formula, needs in self._open if needs <= bound]:
            keep = formula.holds(self._read(formula), self._rows)
            if not keep.any():
                excluded = "all configurations" if self._rows == 1 else f"all of {self._rows:,} configurations"
                raise SpaceError(
                    f"the space is empty: constraint {formula.text!r} excludes {excluded}",
                    where=formula.where,
                    hint="relax it, or the constraints and values before it",
                )
            self._keep(np.flatnonzero(keep))
        self._open = [entry for entry in self._open if not entry[1] <= bound]

    def _read(self, formula: Formula) -> dict[str, Column]:
        columns: dict[str, Column] = {}
        for name in formula.names:
            columns[name] = self._column(name)
        return columns

    def _column(self, name: str) -> Column:
        if name in self._derived:
            formula = self._derived[name]
            return formula.over(self._read(formula), self._rows)
        if name in self._fixed:
            return np.broadcast_to(self._fixed[name], (self._rows,))
        return self._lookup[name][self._columns[name]]


class ThinnedEnumeration(Enumeration):
    """Enumeration that keeps a random part of the partial configurations after each parameter.

    Args:
        made: Arguments of :class:`Enumeration`.
        kept: Number of partial configurations that are kept.
    """

    def __init__(self, *made: Any, kept: int) -> None:
        super().__init__(*made)
        self._kept = kept
        self._random = np.random.default_rng(0)
        self.weight = 1.0
        """Number of configurations per row."""

    @property
    def where(self) -> str:
        """Origin of the space, for error messages."""
        return self._where

    @property
    def thinned(self) -> bool:
        """Return whether rows were dropped, so that the space may have configurations although the result is empty."""
        return self.weight > 1

    def _make_room(self, count: int) -> None:
        most = max(1, self._kept // count)
        if self._rows > most:
            self.weight *= self._rows / most
            self._keep(self._random.choice(self._rows, most, replace=False))
