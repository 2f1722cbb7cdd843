"""Enumeration of the valid configurations of a space: parameters are bound in turn, and constraints applied early.

The order follows the constraints, so parameters that depend on each other form chains (Rasch et al.: Efficient auto-tuning of
parallel programs with interdependent tuning parameters, 2021). If there are too many configurations, the chains are not
enumerated but drawn from: after each parameter, a random part of the partial configurations is kept.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.autotune.spaces.space import SpaceError, as_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.autotune.spaces.formula import Column, Formula

_MAX_ROWS = 2_000_000
"""Number of partial configurations above which a space is drawn from instead of being enumerated."""
_THIN = 60_000
"""Partial configurations that are kept while drawing."""


class TooManyRows(Exception):
    """More partial configurations than are enumerated."""


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

    @property
    def where(self) -> str:
        """Origin of the space, for error messages."""
        return self._where

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
            TooManyRows: That is too many.
        """
        if self._rows * count > _MAX_ROWS:
            raise TooManyRows

    def _keep(self, rows: Column) -> None:
        self._columns = {key: column[rows] for key, column in self._columns.items()}
        self._rows = len(rows)

    def _cut(self) -> None:
        bound = self._columns.keys()
        for formula in [formula for formula, needs in self._open if needs <= bound]:
            keep = formula.holds(self._read(formula), self._rows)
            if not keep.any():
                raise self._empty(formula)
            self._keep(np.flatnonzero(keep))
        self._open = [entry for entry in self._open if not entry[1] <= bound]

    def _empty(self, formula: Formula) -> SpaceError:
        excluded = "all configurations" if self._rows == 1 else f"all of {self._rows:,} configurations"
        return SpaceError(
            f"the space is empty: constraint {formula.text!r} excludes {excluded}",
            where=formula.where,
            hint="relax it, or the constraints and values before it",
        )

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
    """

    def __init__(self, *made: Any) -> None:
        super().__init__(*made)
        self._random = np.random.default_rng(0)
        self.weight = 1.0
        """Number of configurations per row."""

    @property
    def thinned(self) -> bool:
        """Return whether rows were dropped, so that the space may have configurations although the result is empty."""
        return self.weight > 1

    def _make_room(self, count: int) -> None:
        most = max(1, _THIN // count)
        if self._rows > most:
            self.weight *= self._rows / most
            self._keep(self._random.choice(self._rows, most, replace=False))
