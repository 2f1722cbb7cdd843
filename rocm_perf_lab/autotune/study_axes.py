"""Parameters of Optuna studies as numbers: values at random and near others, and inputs of a model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.distributions import BaseDistribution

    from rocm_perf_lab.autotune.spaces.formula import Column

_MOST_CHOICES = 24
"""Number of choices above which a category has random columns instead of one for each choice."""
_RANDOM_COLUMNS = 12
_OTHER_CHOICE = 5.0
"""Distance between two choices, relative to the range of a number."""


@dataclass(frozen=True)
class Axis:
    """One parameter. Its values are numbers, the positions of the choices for a category; NaN if a trial lacks it."""

    name: str
    distribution: BaseDistribution

    def drawn(self, count: int, random: np.random.Generator) -> Column:
        """Return random numbers."""
        if isinstance(self.distribution, CategoricalDistribution):
            return random.integers(len(self.distribution.choices), size=count).astype(float)
        return self._at(random.random(count))

    def near(self, numbers: Column, distance: float, random: np.random.Generator) -> Column:
        """Return numbers at about this distance from others, which is relative to the range; of categories any number."""
        if isinstance(self.distribution, CategoricalDistribution):
            return self.drawn(len(numbers), random)
        steps = distance * random.standard_normal(len(numbers))
        moved = self._at(np.clip(self._position(numbers) + steps, 0, 1))
        if isinstance(self.distribution, IntDistribution):
            one = numbers + np.copysign(self.distribution.step, steps)
            moved = np.where(moved == numbers, np.clip(one, self.distribution.low, self.distribution.high), moved)
        return moved

    def columns(self, numbers: Column) -> Column:
        """Return the inputs of the model, between 0 and 1: one column for a number, several for a category."""
        table = self._choices
        if table is None:
            return np.nan_to_num(self._position(numbers), nan=0.5)[:, None]
        absent = np.isnan(numbers)
        found: Column = table[np.where(absent, 0, numbers).astype(int)]
        found[absent] = 0.0
        return found

    def distances(self, left: Column, right: Column) -> Column:
        """Return the distances between all of some numbers and all of others, 0 from absent ones: (left, right)."""
        if isinstance(self.distribution, CategoricalDistribution):
            apart = _OTHER_CHOICE * np.asarray(left[:, None] != right[None])
        else:
            apart = np.abs(self._position(left)[:, None] - self._position(right)[None])
        return np.where(np.isnan(right)[None], 0.0, apart)

    def value(self, number: float) -> Any:
        """Return a number as the objective receives it."""
        if isinstance(self.distribution, CategoricalDistribution):
            return self.distribution.choices[int(number)]
        if isinstance(self.distribution, IntDistribution):
            return min(max(int(number), self.distribution.low), self.distribution.high)
        return number

    def number(self, value: Any) -> float:
        """Return the inverse of :meth:`value`."""
        return float(self.distribution.to_internal_repr(value))

    @cached_property
    def _choices(self) -> Column | None:
        """Return the inputs of each choice (choices, columns), or None for a number.

        Choices that are numbers have a further column with their order. Many of them have that column only, and many other
        choices have random columns, because a column for each would take too long.
        """
        if not isinstance(self.distribution, CategoricalDistribution):
            return None
        choices = self.distribution.choices
        count = len(choices)
        numeric = count > 2 and all(isinstance(choice, int | float) and not isinstance(choice, bool) for choice in choices)
        order = np.argsort(np.argsort(np.array(choices, float)))[:, None] / (count - 1) if numeric else np.zeros((count, 0))
        if count <= _MOST_CHOICES:
            return np.hstack([np.eye(count), order])
        return order if numeric else np.random.default_rng(count).integers(2, size=(count, _RANDOM_COLUMNS)).astype(float)

    def _limits(self) -> tuple[float, float]:
        assert isinstance(self.distribution, FloatDistribution | IntDistribution)
        low, high = self.distribution.low, self.distribution.high
        return (float(np.log(low)), float(np.log(high))) if self.distribution.log else (low, high)

    def _position(self, numbers: Column) -> Column:
        """Return the positions of numbers in the range; those of other trials may be outside of it."""
        assert isinstance(self.distribution, FloatDistribution | IntDistribution)
        low, high = self._limits()
        numbers = np.clip(numbers, self.distribution.low, self.distribution.high)
        numbers = np.log(numbers) if self.distribution.log else numbers
        return np.asarray((numbers / 2 - low / 2) / (high / 2 - low / 2))  # halves: the range itself may be infinite

    def _at(self, positions: Column) -> Column:
        """Return the numbers at positions between 0 and 1."""
        distribution = self.distribution
        assert isinstance(distribution, FloatDistribution | IntDistribution)
        low, high = self._limits()
        numbers = low * (1 - positions) + high * positions
        numbers = np.exp(numbers) if distribution.log else numbers
        if distribution.step is not None:
            numbers = distribution.low + np.round((numbers - distribution.low) / distribution.step) * distribution.step
        return np.clip(numbers, distribution.low, distribution.high)


@dataclass(frozen=True)
class Axes:
    """The parameters of a study. Numbers have the shape (trials, axes)."""

    parts: tuple[Axis, ...]

    def drawn(self, count: int, random: np.random.Generator) -> Column:
        """Return random numbers."""
        return np.column_stack([axis.drawn(count, random) for axis in self.parts])

    def near(self, numbers: Column, distance: float, random: np.random.Generator) -> Column:
        """Return numbers that differ from others in a random part of the parameters, at least in one."""
        count, width = numbers.shape
        moved = np.column_stack([axis.near(numbers[:, i], distance, random) for i, axis in enumerate(self.parts)])
        share = np.array([0.5, 0.15, 0.0])[random.integers(3, size=count)]
        changed = random.random((count, width)) < share[:, None]
        changed[np.arange(count), random.integers(width, size=count)] = True
        return np.where(changed, moved, numbers)

    def columns(self, numbers: Column) -> Column:
        """Return the inputs of the model."""
        return np.hstack([axis.columns(numbers[:, i]) for i, axis in enumerate(self.parts)])

    def filled(self, numbers: Column, random: np.random.Generator) -> Column:
        """Return numbers with random ones in place of absent ones."""
        return np.where(np.isnan(numbers), self.drawn(len(numbers), random), numbers) if np.isnan(numbers).any() else numbers

    def without_unused(self, numbers: Column, trials: Column) -> Column:
        """Return numbers without the parameters that the most similar one of some trials lacks."""
        absent = np.isnan(trials)
        if not absent.any():
            return numbers
        apart = np.zeros((len(numbers), len(trials)))
        for i, axis in enumerate(self.parts):
            apart += axis.distances(numbers[:, i], trials[:, i])
        return np.where(absent[apart.argmin(axis=1)], np.nan, numbers)


def are_among(rows: Column, others: Column) -> Column:
    """Return which rows of numbers are equal to one of others."""
    known = {row.tobytes() for row in np.nan_to_num(others, nan=np.inf) + 0.0}
    return np.array([row.tobytes() in known for row in np.nan_to_num(rows, nan=np.inf) + 0.0], bool)


def axes_of(distributions: dict[str, BaseDistribution], names: Sequence[str]) -> Axes:
    """Return the axes of the parameters of these names."""
    return Axes(tuple(Axis(name, distributions[name]) for name in names))
