"""Search spaces: parameters, derived values and constraints, and the valid configurations as columns of numbers.

A space is described in YAML (:class:`SpaceDescription`) or listed in JSON, one configuration after the other. Either way it
becomes a :class:`Space`: one row of value numbers a valid configuration, in the order of the description.
"""

from __future__ import annotations

import hashlib
import json
import keyword
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from rocm_perf_lab.autotune.foreign_spaces import flattened, from_t1, is_t1
from rocm_perf_lab.autotune.formula import FUNCTIONS, Column, Formula, compile_formula
from rocm_perf_lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from optuna.distributions import CategoricalDistribution

_MAX_VALUES = 100_000
_MAX_ROWS = 40_000_000


class SpaceError(LabError):
    """A space that cannot be read, contradicts itself, or holds nothing."""


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("values are finite")
    return value


Value = Annotated[bool | int | float | str, AfterValidator(_finite)]
Configuration = dict[str, bool | int | float | str]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Range(_Strict):
    """Numbers from `start` to `stop`, which is included where the steps reach it; `step` adds, `factor` multiplies."""

    start: int | float
    stop: int | float
    step: int | float | None = Field(None, gt=0)
    factor: int | float | None = Field(None, gt=1)

    @model_validator(mode="after")
    def _one_way(self) -> Range:
        if self.step is not None and self.factor is not None:
            raise ValueError("step and factor exclude each other")
        if self.stop < self.start:
            raise ValueError(f"stop {self.stop} is below start {self.start}")
        if self.factor is not None and self.start <= 0:
            raise ValueError("a range with a factor starts above 0")
        if self._count() > _MAX_VALUES:
            raise ValueError(f"more than {_MAX_VALUES} values")
        return self

    def _count(self) -> int:
        if self.factor is not None:
            return int(math.log(self.stop / self.start) / math.log(self.factor) + 1e-9) + 1
        return int((self.stop - self.start) / (self.step or 1) + 1e-9) + 1

    def values(self) -> tuple[int | float, ...]:
        """Every number of the range."""
        if self.factor is not None:
            return tuple(self.start * self.factor**i for i in range(self._count()))
        return tuple(self.start + (1 if self.step is None else self.step) * i for i in range(self._count()))


def _kind_of_values(given: Any) -> str:
    return "range" if isinstance(given, dict | Range) else "list"


Values = Annotated[Annotated[tuple[Value, ...], Tag("list")] | Annotated[Range, Tag("range")], Discriminator(_kind_of_values)]


class SpaceDescription(_Strict):
    """A space as YAML states it; see docs/AUTOTUNING.md."""

    parameters: dict[str, Values] = {}
    derived: dict[str, str] = {}
    constraints: tuple[str, ...] = ()
    defaults: dict[str, Value] = Field({}, validation_alias=AliasChoices("defaults", "first"))
    """What is measured first. In an option of a Hydra group `defaults` is Hydra's own key: there it is called `first`."""
    fixed: dict[str, Value] = {}


@dataclass(frozen=True)
class Space:
    """The valid configurations of a space.

    Args:
        values: Parameter -> its values.
        codes: One row a valid configuration, one column a parameter: which of its values.
        fixed: Values that every configuration has besides.
        derived: Name -> formula over parameters, fixed values and earlier derived ones.
        defaults: The configuration to measure first, if there is one.
        combinations: How many there would be without constraints.
        constraints: What every configuration of `codes` fulfils.
    """

    values: dict[str, tuple[bool | int | float | str, ...]]
    codes: Column
    fixed: Configuration = field(default_factory=dict)
    derived: dict[str, Formula] = field(default_factory=dict)
    defaults: Configuration | None = None
    combinations: int = 0
    where: str = "space"
    constraints: tuple[Formula, ...] = ()

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters, in the order of the description."""
        return tuple(self.values)

    def configuration(self, index: int) -> Configuration:
        """Parameters of one valid configuration, as Python values."""
        return {name: values[code] for (name, values), code in zip(self.values.items(), self.codes[index].tolist(), strict=True)}

    def complete(self, parameters: Mapping[str, Any]) -> Configuration:
        """A configuration with fixed and derived values: all that a kernel or a command template may name."""
        complete: Configuration = {**parameters, **self.fixed}
        for name, formula in self.derived.items():
            columns = {key: np.array([complete[key]]) for key in formula.names}
            complete[name] = formula.over(columns, 1)[0].item()
        return complete

    def index(self, parameters: Mapping[str, Any]) -> int | None:
        """The row of a configuration; None where the space does not have it. Other keys are ignored."""
        key = []
        for name, codes in self._codes_of_values.items():
            code = codes.get(parameters.get(name))
            if code is None:
                return None
            key.append(code)
        number = int(np.dot(key, self._strides)) if key else 0
        row = int(np.searchsorted(self._sorted_keys, number))
        return int(self._order[row]) if row < len(self) and self._sorted_keys[row] == number else None

    def violated(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """The constraints that a combination of values breaks, as they are written."""
        complete = self.complete(parameters)
        columns = {name: np.array([value]) for name, value in complete.items()}
        return tuple(formula.text for formula in self.constraints if not formula.holds(columns, 1)[0])

    def column(self, name: str) -> Column:
        """The values of one parameter over all valid configurations."""
        return _as_column(self.values[name])[self.codes[:, self.names.index(name)]]

    def derived_column(self, name: str) -> Column:
        """A derived value over all valid configurations."""
        formula, columns = self.derived[name], {}
        for other in formula.names:
            if other in self.fixed:
                columns[other] = np.broadcast_to(_as_column([self.fixed[other]]), (len(self),))
            else:
                columns[other] = self.derived_column(other) if other in self.derived else self.column(other)
        return formula.over(columns, len(self))

    def neighbours(self, index: int) -> Column:
        """Rows that differ from `index` in exactly one parameter."""
        return np.flatnonzero((self.codes != self.codes[index]).sum(axis=1) == 1)

    def distributions(self) -> dict[str, CategoricalDistribution]:
        """What Optuna's `ask` and `suggest` are given."""
        from optuna.distributions import CategoricalDistribution

        return {name: CategoricalDistribution(values) for name, values in self.values.items()}

    def fingerprint(self) -> str:
        """Equal for equal spaces: a study must not be resumed with another one."""
        stated = json.dumps([list(self.values.items()), sorted(self.fixed.items())], default=str).encode()
        return hashlib.sha256(stated + np.ascontiguousarray(self.codes, np.int32).tobytes()).hexdigest()[:16]

    @cached_property
    def _codes_of_values(self) -> dict[str, dict[Any, int]]:
        return {name: {value: code for code, value in enumerate(values)} for name, values in self.values.items()}

    @cached_property
    def _strides(self) -> Any:
        # Python's integers: the product of many parameters does not fit 64 bits.
        strides, product = [], 1
        for values in reversed(self.values.values()):
            strides.append(product)
            product *= len(values)
        return np.array(strides[::-1], dtype=np.int64 if product < 2**62 else object)

    @cached_property
    def _keys(self) -> Column:
        return np.asarray(self.codes.astype(self._strides.dtype) @ self._strides)

    @cached_property
    def _order(self) -> Column:
        return np.argsort(self._keys, kind="stable")

    @cached_property
    def _sorted_keys(self) -> Column:
        return self._keys[self._order]


def load_space(path: Path) -> Space:
    """The space of a file: a mapping as in YAML, a JSON list of configurations, or what other tuners write.

    Raises:
        SpaceError: The file cannot be read, is neither, or its space is contradictory.
    """
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpaceError(f"cannot read the space: {error}", where=str(path), remedy="name a YAML or JSON file") from error
    try:
        content = json.loads(text)
    except ValueError:
        try:
            content = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise _unreadable(path) from error
    if isinstance(content, list):
        return space_of_list(flattened(content), where=str(path))
    if not isinstance(content, dict):
        raise _unreadable(path)
    if is_t1(content):
        try:
            content = from_t1(content)
        except ValueError as error:
            raise SpaceError(
                f"no space of Kernel Tuner: {error}", where=str(path), remedy="see T1 in docs/AUTOTUNING.md"
            ) from error
    return build_space(describe(content, where=str(path)), where=str(path))


def _unreadable(path: Path) -> SpaceError:
    return SpaceError(
        "neither a YAML mapping nor a JSON list of configurations",
        where=str(path),
        remedy='state `parameters: {name: [values]}`, or a list like [{"BLOCK_M": 64}]',
    )


def describe(content: Mapping[str, Any], *, where: str) -> SpaceDescription:
    """Validate plain data.

    Raises:
        SpaceError: An unknown key or a value of the wrong kind.
    """
    try:
        return SpaceDescription.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        known = ", ".join(SpaceDescription.model_fields)
        raise SpaceError(f"invalid space: {first['msg']}", where=f"{where}, key {key}", remedy=f"keys: {known}") from error


def space_of_list(configurations: Sequence[Any], *, where: str) -> Space:
    """The space that is exactly these configurations.

    Raises:
        SpaceError: Nothing in it, keys that differ between configurations, or one that is listed twice.
    """
    if not configurations:
        raise SpaceError("an empty list of configurations", where=where, remedy="list at least one")
    first = configurations[0]
    for number, configuration in enumerate(configurations):
        place = f"{where}, configuration {number}"
        if not isinstance(configuration, dict) or not configuration:
            raise SpaceError("a configuration maps names to values", where=place, remedy='for example {"BLOCK_M": 64}')
        if configuration.keys() != first.keys():
            odd = sorted(configuration.keys() ^ first.keys())
            raise SpaceError(f"{', '.join(odd)} is not in every configuration", where=place, remedy="give all of them equal keys")
        for name, value in configuration.items():
            if not isinstance(value, bool | int | float | str) or (isinstance(value, float) and not math.isfinite(value)):
                raise SpaceError(f"{name} is {value!r}", where=place, remedy="values are numbers, text, true or false")
    values = {name: _distinct(configuration[name] for configuration in configurations) for name in first}
    numbers = {name: {value: code for code, value in enumerate(column)} for name, column in values.items()}
    codes = np.array([[numbers[name][c[name]] for name in first] for c in configurations], np.int32)
    _, rows, counts = np.unique(codes, axis=0, return_index=True, return_counts=True)
    if (counts > 1).any():
        twice = configurations[int(rows[counts > 1][0])]
        raise SpaceError(f"listed more than once: {twice}", where=where, remedy="remove the duplicates")
    return Space(values, codes, combinations=len(codes), where=where)


def _distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    found = list(dict.fromkeys(values))
    return tuple(sorted(found) if not any(isinstance(value, str) for value in found) else found)


def build_space(description: SpaceDescription, *, where: str = "space") -> Space:
    """Enumerate the valid configurations.

    Raises:
        SpaceError: Duplicate values, names that clash, or constraints that leave nothing: the one that did is named.
        ExpressionError: A derived value or constraint that cannot be evaluated.
    """
    values = {name: _values_of(name, given, where) for name, given in description.parameters.items()}
    _check_names(description, where)
    if not values:
        raise SpaceError("a space without parameters", where=where, remedy="state `parameters: {name: [values]}`")
    known = {*values, *description.fixed}
    derived: dict[str, Formula] = {}
    for name, text in description.derived.items():
        derived[name] = compile_formula(text, where=f"{where}, derived.{name}", known=known)
        known.add(name)
    constraints = [
        compile_formula(text, where=f"{where}, constraints[{i}]", known=known) for i, text in enumerate(description.constraints)
    ]
    codes = _Enumeration(values, description.fixed, derived, constraints, where).run()
    combinations = math.prod(map(len, values.values()))
    space = Space(values, codes, dict(description.fixed), derived, None, combinations, where, tuple(constraints))
    if not description.defaults:
        return space
    return replace(space, defaults=_checked_defaults(space, description, constraints))


def _values_of(name: str, given: tuple[Any, ...] | Range, where: str) -> tuple[Any, ...]:
    values = given.values() if isinstance(given, Range) else given
    place = f"{where}, parameters.{name}"
    if not values:
        raise SpaceError(f"parameter {name} has no values", where=place, remedy="list at least one, or make it fixed")
    for i, value in enumerate(values):
        if value in values[:i] if len(values) < 100 else len(set(values)) < len(values):
            raise SpaceError(f"parameter {name} lists {value!r} more than once", where=place, remedy="remove the duplicates")
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
                raise SpaceError(f"{name!r} cannot be a name", where=place, remedy="letters, digits and _; no function's name")
            if name in seen:
                raise SpaceError(f"{name} is in {seen[name]} and in {group}", where=place, remedy="keep one of them")
            seen[name] = group


def _checked_defaults(space: Space, description: SpaceDescription, constraints: list[Formula]) -> Configuration:
    defaults, place = dict(description.defaults), f"{space.where}, defaults"
    odd = sorted(defaults.keys() ^ space.values.keys())
    if odd:
        raise SpaceError(
            f"defaults and parameters differ in {', '.join(odd)}", where=place, remedy="give every parameter a default"
        )
    for name, value in defaults.items():
        if value not in space.values[name]:
            raise SpaceError(f"the default {value!r} of {name} is none of its values", where=place, remedy="take one of them")
    complete = space.complete(defaults)
    columns = {name: np.array([value]) for name, value in complete.items()}
    for formula in constraints:
        if not formula.holds(columns, 1)[0]:
            raise SpaceError(f"the defaults violate {formula.text!r}", where=place, remedy="start from a valid configuration")
    return defaults


def _as_column(values: Sequence[Any]) -> Column:
    texts = sum(isinstance(value, str) for value in values)
    if texts == len(values):
        return np.array(values, dtype=str)
    if texts:
        mixed = np.empty(len(values), object)
        mixed[:] = values
        return mixed
    return np.array(values, dtype=bool if all(isinstance(v, bool) for v in values) else None)


class _Enumeration:
    """Parameters are bound one after the other, those first that complete a constraint; each constraint cuts at once."""

    def __init__(
        self,
        values: dict[str, tuple[Any, ...]],
        fixed: Mapping[str, Any],
        derived: dict[str, Formula],
        constraints: list[Formula],
        where: str,
    ) -> None:
        self._values = values
        self._lookup = {name: _as_column(v) for name, v in values.items()}
        self._fixed = {name: _as_column([value]) for name, value in fixed.items()}
        self._derived = derived
        self._where = where
        self._open = [(formula, self._needs(formula)) for formula in constraints]
        self._columns: dict[str, Column] = {}
        self._rows = 1

    def _needs(self, formula: Formula) -> frozenset[str]:
        """Parameters that a formula reads, through derived values too."""
        needs: set[str] = set()
        for name in formula.names:
            if name in self._derived:
                needs |= self._needs(self._derived[name])
            elif name in self._values:
                needs.add(name)
        return frozenset(needs)

    def run(self) -> Column:
        """One row of value numbers a valid configuration, in lexicographic order."""
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
        """Parameters of the constraint that costs the fewest combinations; all the rest where none is left."""
        candidates = [sorted(needs - self._columns.keys(), key=list(self._values).index) for _, needs in self._open]
        if candidates:
            return min(candidates, key=lambda names: math.prod(len(self._values[name]) for name in names))
        return [name for name in self._values if name not in self._columns]

    def _bind(self, name: str) -> None:
        count = len(self._values[name])
        if self._rows * count > _MAX_ROWS:
            raise SpaceError(
                f"more than {_MAX_ROWS:,} configurations at parameter {name}",
                where=self._where,
                remedy="add constraints, or fix parameters",
            )
        self._columns = {key: np.repeat(column, count) for key, column in self._columns.items()}
        self._columns[name] = np.tile(np.arange(count, dtype=np.int32), self._rows)
        self._rows *= count

    def _cut(self) -> None:
        bound = self._columns.keys()
        for formula in [formula for formula, needs in self._open if needs <= bound]:
            keep = formula.holds(self._read(formula), self._rows)
            if not keep.any():
                before = "configuration" if self._rows == 1 else f"of {self._rows:,} configurations"
                raise SpaceError(
                    f"the space is empty: constraint {formula.text!r} leaves none {before}".replace(
                        "none configuration", "nothing"
                    ),
                    where=formula.where,
                    remedy="relax it, or the constraints and values before it",
                )
            self._columns = {key: column[keep] for key, column in self._columns.items()}
            self._rows = int(keep.sum())
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
