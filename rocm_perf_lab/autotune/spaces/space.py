"""Search spaces: parameters, fixed and derived values, and all valid configurations as an array of value indices.

A :class:`Space` is enumerated from a description (:mod:`.enumeration`), or read from a list of configurations
(:mod:`.space_files`).
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import AfterValidator

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.distributions import CategoricalDistribution

    from rocm_perf_lab.autotune.spaces.formula import Column, Formula


class SpaceError(LabError):
    """Space that is unreadable, contradictory, or empty."""


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("values are finite")
    return value


Value = Annotated[bool | int | float | str, AfterValidator(_finite)]
Configuration = dict[str, bool | int | float | str]


@dataclass(frozen=True)
class Space:
    """Search space as its valid configurations.

    Args:
        values: Parameter -> values.
        codes: Value indices (configurations, parameters).
        fixed: Further values, equal in all configurations.
        derived: Name -> formula over parameters, fixed values and earlier derived values.
        defaults: Configuration to measure first, or None.
        combinations: Number of combinations without constraints.
        where: Origin, for error messages.
        constraints: Formulas that every configuration satisfies.
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
    def size_text(self) -> str:
        """Number of configurations as text."""
        return f"{len(self):,}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters, in the order of the description."""
        return tuple(self.values)

    @property
    def settings(self) -> tuple[str, ...]:
        """Names with values in a configuration, without derived ones."""
        return (*self.values, *self.fixed)

    def configuration(self, index: int) -> Configuration:
        """Return the parameters of one valid configuration as Python values."""
        return {name: values[code] for (name, values), code in zip(self.values.items(), self.codes[index].tolist(), strict=True)}

    def code_of(self, index: int) -> tuple[int, ...]:
        """Return the value indices of one valid configuration."""
        return tuple(self.codes[index].tolist())

    def example(self) -> Configuration:
        """Return the parameters of any valid configuration."""
        return Space.configuration(self, 0)

    def complete(self, parameters: Mapping[str, Any]) -> Configuration:
        """Return a configuration with its fixed and derived values."""
        complete: Configuration = {**parameters, **self.fixed}
        for name, formula in self.derived.items():
            columns = {key: np.array([complete[key]]) for key in formula.names}
            complete[name] = formula.over(columns, 1)[0].item()
        return complete

    def index(self, parameters: Mapping[str, Any]) -> int | None:
        """Return the row of a configuration, or None if it is not in the space. Further keys are ignored."""
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
        """Return the text of the constraints that a combination of values violates."""
        complete = self.complete(parameters)
        columns = {name: np.array([value]) for name, value in complete.items()}
        return tuple(formula.text for formula in self.constraints if not formula.holds(columns, 1)[0])

    def column(self, name: str) -> Column:
        """Return the values of one parameter for all valid configurations."""
        return as_column(self.values[name])[self.codes[:, self.names.index(name)]]

    def derived_column(self, name: str) -> Column:
        """Return a derived value for all valid configurations."""
        formula, columns = self.derived[name], {}
        for other in formula.names:
            if other in self.fixed:
                columns[other] = np.broadcast_to(as_column([self.fixed[other]]), (len(self),))
            else:
                columns[other] = self.derived_column(other) if other in self.derived else self.column(other)
        return formula.over(columns, len(self))

    def neighbours(self, index: int) -> Column:
        """Return the rows that differ from `index` in exactly one parameter, in ascending order."""
        own = self._keys[index]
        keys = np.concatenate(
            [
                own + (np.delete(np.arange(len(values)), code) - code).astype(self._strides.dtype) * stride
                for values, code, stride in zip(self.values.values(), self.codes[index].tolist(), self._strides, strict=True)
            ]
        )
        places = np.minimum(np.searchsorted(self._sorted_keys, keys), len(self) - 1)
        return np.sort(self._order[places[self._sorted_keys[places] == keys]])

    def distributions(self) -> dict[str, CategoricalDistribution]:
        """Return the distributions for Optuna."""
        from optuna.distributions import CategoricalDistribution

        return {name: CategoricalDistribution(values) for name, values in self.values.items()}

    def fingerprint(self) -> str:
        """Return a hash that is equal for equal spaces, to refuse resuming a study with another space."""
        stated = json.dumps([list(self.values.items()), sorted(self.fixed.items())], default=str).encode()
        return hashlib.sha256(stated + np.ascontiguousarray(self.codes, np.int32).tobytes()).hexdigest()[:16]

    @cached_property
    def _codes_of_values(self) -> dict[str, dict[Any, int]]:
        return {name: {value: code for code, value in enumerate(values)} for name, values in self.values.items()}

    @cached_property
    def _strides(self) -> Any:
        # Python integers: the product of many parameters may exceed 64 bits.
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


def all_combinations(values: Mapping[str, Sequence[bool | int | float | str]]) -> Space:
    """Return the space of all combinations of the values of each parameter."""
    sizes = [len(each) for each in values.values()]
    codes = np.indices(sizes).reshape(len(sizes), -1).T
    return Space({name: tuple(each) for name, each in values.items()}, np.ascontiguousarray(codes), combinations=math.prod(sizes))


def as_column(values: Sequence[Any]) -> Column:
    """Return values as an array of text, numbers, booleans, or objects for a mixture."""
    texts = sum(isinstance(value, str) for value in values)
    if texts == len(values):
        return np.array(values, dtype=str)
    if texts:
        mixed = np.empty(len(values), object)
        mixed[:] = values
        return mixed
    return np.array(values, dtype=bool if all(isinstance(v, bool) for v in values) else None)
