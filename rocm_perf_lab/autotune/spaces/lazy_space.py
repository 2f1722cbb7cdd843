"""Space with too many configurations to enumerate: rows are numbers of combinations, and constraints are applied on demand."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.autotune.spaces.space import Space, SpaceError, as_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.autotune.spaces.formula import Column, Formula
    from rocm_perf_lab.autotune.spaces.space import Configuration

_MOST_VALUES = 24
"""Values of one parameter that are tried around a configuration."""


@dataclass(frozen=True)
class LazySpace(Space):
    """Space of which `codes` are a random part. The row of a configuration is its number among all combinations.

    Args:
        valid: Estimated number of valid configurations.
    """

    valid: int = 0

    def __post_init__(self) -> None:
        """Refuse numbers of combinations that a row cannot have.

        Raises:
            SpaceError: There are more than 2**62 combinations.
        """
        if self._strides.dtype == object:
            raise SpaceError(f"{self.combinations:.1e} combinations", where=self.where, hint="at most 4e18 are possible")

    def __len__(self) -> int:
        return self.valid

    @property
    def size_text(self) -> str:
        """Estimated number of configurations as text, without digits that an estimate does not have."""
        return f"about {self.valid:.1e}"

    def sample(self) -> Space:
        """Return the drawn part as an enumerated space."""
        start = self._code(self.defaults) if self.defaults is not None else None
        codes = self.codes if start is None else np.vstack([np.array([start], np.int32), self.codes])
        unique = np.unique(codes, axis=0).astype(np.int32)
        return Space(
            self.values, unique, self.fixed, self.derived, self.defaults, self.combinations, self.where, self.constraints
        )

    def rows(self, codes: Column) -> Column:
        """Return the rows of value indices."""
        return np.asarray(codes.astype(np.int64) @ self._strides)

    def codes_of(self, rows: Column) -> Column:
        """Return the value indices of rows."""
        sizes = np.array([len(values) for values in self.values.values()])
        return np.asarray(np.asarray(rows, np.int64)[:, None] // self._strides % sizes, np.int32)

    def code_of(self, index: int) -> tuple[int, ...]:
        """Return the value indices of one configuration."""
        return tuple(self.codes_of(np.array([index]))[0].tolist())

    def configuration(self, index: int) -> Configuration:
        """Return the parameters of one configuration as Python values."""
        return {name: values[code] for (name, values), code in zip(self.values.items(), self.code_of(index), strict=True)}

    def index(self, parameters: Mapping[str, Any]) -> int | None:
        """Return the row of a configuration, or None if it is not in the space. Further keys are ignored."""
        code = self._code(parameters)
        if code is None or not self.allowed(np.array([code]))[0]:
            return None
        return int(self.rows(np.array([code]))[0])

    def _code(self, parameters: Mapping[str, Any]) -> list[int] | None:
        found = [codes.get(parameters.get(name)) for name, codes in self._codes_of_values.items()]
        return None if None in found else [code for code in found if code is not None]

    def allowed(self, codes: Column) -> Column:
        """Return which value indices satisfy all constraints."""
        able = np.arange(len(codes))
        for formula in self.constraints:
            if not len(able):
                break
            columns = self._columns(formula, codes[able], {})
            able = able[formula.holds({name: columns[name] for name in formula.names}, len(able))]
        found = np.zeros(len(codes), bool)
        found[able] = True
        return found

    def _columns(self, formula: Formula, codes: Column, known: dict[str, Column]) -> dict[str, Column]:
        for name in formula.names - known.keys():
            if name in self.fixed:
                known[name] = np.broadcast_to(as_column([self.fixed[name]]), (len(codes),))
            elif name in self.derived:
                inner = self.derived[name]
                self._columns(inner, codes, known)
                known[name] = inner.over({other: known[other] for other in inner.names}, len(codes))
            else:
                known[name] = as_column(self.values[name])[codes[:, self.names.index(name)]]
        return known

    def near(self, codes: Column, random: np.random.Generator, pairs: int) -> Column:
        """Return the valid value indices that differ from one of some in one parameter, or at random in two of them."""
        sizes = [len(values) for values in self.values.values()]
        found: list[Column] = []
        for code in codes:
            for position, size in enumerate(sizes):
                values = np.delete(np.arange(size), code[position])
                values = random.choice(values, _MOST_VALUES, replace=False) if len(values) > _MOST_VALUES else values
                changed = np.repeat(code[None], len(values), axis=0)
                changed[:, position] = values
                found.append(changed)
            changed = np.repeat(code[None], pairs, axis=0)
            for _ in range(2):
                positions = random.integers(len(sizes), size=pairs)
                changed[np.arange(pairs), positions] = random.integers(np.array(sizes)[positions])
            found.append(changed)
        every = np.vstack(found)
        return every[self.allowed(every)]

    def neighbours(self, index: int) -> Column:
        """Return the rows that differ from `index` in exactly one parameter, in ascending order."""
        near = self.near(self.codes_of(np.array([index])), np.random.default_rng(0), 0)
        return np.sort(self.rows(near))

    def fingerprint(self) -> str:
        """Return a hash that is equal for equal spaces."""
        formulas = [formula.text for formula in (*self.derived.values(), *self.constraints)]
        stated = json.dumps([list(self.values.items()), sorted(self.fixed.items()), list(self.derived), formulas], default=str)
        return hashlib.sha256(stated.encode()).hexdigest()[:16]

    def with_codes(self, codes: Column) -> Space:
        """Return a space of some configurations."""
        return replace(self.sample(), codes=codes, defaults=None)
