"""Draws from spaces with tight constraints: partial configurations that cannot be completed are dropped at once.

Drawing along the constraints (:mod:`.chains`) fails if few combinations satisfy a constraint of many parameters.
Here each constraint is checked as soon as one of its parameters is bound: by intervals, and by sets for sums and products.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.autotune.spaces.chains import Enumeration, TooManyRows
from rocm_perf_lab.autotune.spaces.intervals import PartialRows, domain_of
from rocm_perf_lab.autotune.spaces.separable import Separable, separable
from rocm_perf_lab.autotune.spaces.space import SpaceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.autotune.spaces.formula import Column, Formula

_MOST_ROWS = 30_000
"""Number of partial configurations up to which all valid configurations are listed."""
_KEPT = 12_000
"""Partial configurations that are kept while drawing."""
_CHUNKS = 32
"""Largest number of parts in which the kept ones are extended by a parameter with many values."""
_SEEDS = 4
_ENOUGH = 2_000


class GuidedEnumeration(Enumeration):
    """Enumeration that drops partial configurations which cannot be completed.

    Args:
        made: Arguments of :class:`.Enumeration`.
        separables: Text of a constraint -> its form as a sum or product.
        seed: Seed of the choice of partial configurations; None keeps all, up to a limit.
    """

    def __init__(self, *made: Any, separables: dict[str, Separable | None], seed: int | None = None) -> None:
        super().__init__(*made)
        self._random = np.random.default_rng(seed) if seed is not None else None
        self._domains = {name: domain_of(values) for name, values in self._values.items()}
        self._separables = separables
        self.weight = 1.0
        """Number of configurations per row."""

    def _next(self) -> list[str]:
        """Return the next parameters; those of a sum in the order of their influence, so that bounds are soon tight."""
        names = super()._next()
        for formula, needs in self._open:
            sums = self._separables[formula.text]
            if sums is not None and set(names) == needs - self._columns.keys():
                return [*(name for name in sums.terms if name in names), *(name for name in names if name not in sums.terms)]
        return names

    def _cut(self) -> None:
        super()._cut()
        for formula, needs in self._open:
            if self._columns and not needs & self._columns.keys():
                continue
            able = self._possible(formula, needs)
            if not able.any():
                raise self._empty(formula)
            if not able.all():
                self._keep(np.flatnonzero(able))

    def _possible(self, formula: Formula, needs: frozenset[str]) -> Column:
        bound = {name: self._lookup[name][codes] for name, codes in self._columns.items() if name in needs}
        fixed = {name: np.broadcast_to(column, (self._rows,)) for name, column in self._fixed.items()}
        rows = PartialRows({**fixed, **bound}, self._domains, self._derived, self._rows)
        able = rows.possible(formula)
        sums = self._separables[formula.text]
        if sums is not None and able.any():
            codes = {name: codes for name, codes in self._columns.items() if name in sums.terms}
            able = able & sums.possible(codes, self._rows)
        return able

    def _bind(self, name: str) -> None:
        count = len(self._values[name])
        if self._random is None:
            if self._rows * count > _MOST_ROWS * 8 or self._rows > _MOST_ROWS:
                raise TooManyRows
            super()._bind(name)
            return
        part = max(1, _KEPT // count)
        if self._rows <= part:
            super()._bind(name)
            return
        self._extend(name, self._random.permutation(self._rows), part)

    def _make_room(self, count: int) -> None:
        """Keep all rows: :meth:`_bind` limits their number."""

    def _extend(self, name: str, order: Column, part: int) -> None:
        """Bind a parameter in parts of the rows in this order, until enough are left."""
        columns, open_ = self._columns, self._open
        found: list[dict[str, Column]] = []
        rows, used, total = 0, 0, len(order)
        failed: SpaceError | None = None
        for start in range(0, min(total, part * _CHUNKS), part):
            chunk = order[start : start + part]
            self._columns, self._rows, self._open = columns, total, open_
            self._keep(chunk)
            used += len(chunk)
            super()._bind(name)
            try:
                self._cut()
            except SpaceError as error:
                failed = error
                continue
            found.append(self._columns)
            rows += self._rows
            if rows >= _KEPT:
                break
        self.weight *= total / used
        if not found:
            assert failed is not None
            raise failed
        self._columns = {key: np.concatenate([one[key] for one in found]) for key in found[0]}
        self._rows = rows


def guided(
    values: dict[str, tuple[Any, ...]],
    fixed: Mapping[str, Any],
    derived: dict[str, Formula],
    constraints: list[Formula],
    where: str,
) -> tuple[Column, int | None]:
    """Return the codes of all valid configurations and None, or those of some and an estimate of the number of all.

    Raises:
        SpaceError: There is no valid configuration, or none was found.
    """
    known = {**fixed, **derived}
    separables = {formula.text: separable(formula, values, known) for formula in constraints}
    made = (values, fixed, derived, constraints, where)
    try:
        return GuidedEnumeration(*made, separables=separables).run(), None
    except TooManyRows:
        pass
    codes: list[Column] = []
    sizes: list[float] = []
    for seed in range(_SEEDS):
        drawn = GuidedEnumeration(*made, separables=separables, seed=seed)
        try:
            codes.append(drawn.run())
        except SpaceError as error:
            sizes.append(0.0)
            failed = error
            continue
        sizes.append(len(codes[-1]) * drawn.weight)
        if sum(map(len, codes)) >= _ENOUGH:
            break
    if not codes:
        raise SpaceError(
            f"no valid configuration was found by drawing; the last constraint that excluded all: {failed.where}",
            where=where,
            hint="relax it, or state the constraints of few parameters that it implies",
        ) from failed
    found = np.unique(np.vstack(codes), axis=0)
    return found, max(len(found), round(float(np.mean(sizes))))
