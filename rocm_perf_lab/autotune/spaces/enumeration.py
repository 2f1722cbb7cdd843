"""Spaces from their descriptions: all valid configurations, or some of them if they are too many."""

from __future__ import annotations

import keyword
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.autotune.spaces.chains import Enumeration, ThinnedEnumeration, TooManyRows
from rocm_perf_lab.autotune.spaces.formula import FUNCTIONS, Column, Formula, compile_formula
from rocm_perf_lab.autotune.spaces.guided_draws import guided
from rocm_perf_lab.autotune.spaces.lazy_space import LazySpace
from rocm_perf_lab.autotune.spaces.space import Space, SpaceError
from rocm_perf_lab.autotune.spaces.space_description import Range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.autotune.spaces.space import Configuration
    from rocm_perf_lab.autotune.spaces.space_description import SpaceDescription

_DRAWN = 8_000
"""Configurations that are drawn from a space that is not enumerated."""
_FEW = 1_000
"""Number of drawn configurations below which they are drawn again, with more effort: see :mod:`.guided_draws`."""


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
        parts = (values, codes, dict(description.fixed), derived, None, combinations, where, tuple(constraints))
        space = Space(*parts) if valid is None else LazySpace(*parts, valid)
    if not description.defaults:
        return space
    return replace(space, defaults=_checked_defaults(space, description, constraints))


def _enumerated(*made: Any) -> Column | None:
    """Return the codes of all valid configurations, or None if there are too many partial ones."""
    try:
        return Enumeration(*made).run()
    except TooManyRows:
        return None


def _drawn(*made: Any) -> tuple[Column, int | None]:
    """Return the codes of some valid configurations and an estimate of the number of all; None if these are all."""
    found = ThinnedEnumeration(*made)
    try:
        codes = found.run()
    except SpaceError:
        if not found.thinned:
            raise
        codes = np.zeros((0, 0))
    valid: int | None = max(len(codes), round(len(codes) * found.weight))
    if len(codes) < _FEW:
        codes, valid = guided(*made)
    if valid is None:
        return codes, None
    rows = np.random.default_rng(1).permutation(len(codes))[:_DRAWN]
    return codes[np.sort(rows)], valid


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
