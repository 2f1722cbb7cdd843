"""The joint space of a workload: every shape with every configuration that is valid for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.autotune.shapes import SHAPE, ShapeError, WorkloadShape
from rocm_perf_lab.autotune.spaces.encoding import encode
from rocm_perf_lab.autotune.spaces.lazy_space import LazySpace
from rocm_perf_lab.autotune.spaces.space import Space, as_column

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.space import Configuration


@dataclass(frozen=True)
class ShapedSpace(Space):
    """Space whose first parameter, `shape`, is the label of a shape. Derived values and constraints may read shapes.

    Args:
        shapes: The shapes, in the order of the values of `shape`.
    """

    shapes: tuple[WorkloadShape, ...] = ()

    @property
    def tuned(self) -> tuple[str, ...]:
        """Names of the parameters without the shape."""
        return self.names[1:]

    @property
    def settings(self) -> tuple[str, ...]:
        """Names with values in a configuration, without derived ones."""
        return (*self.tuned, *self.fixed, *self.shapes[0].values)

    @property
    def tasks(self) -> Column:
        """Position of the shape of each row."""
        return self.codes[:, 0]

    def complete(self, parameters: Mapping[str, Any]) -> Configuration:
        """Return a configuration with the values of its shape, and its fixed and derived values."""
        shape = self.shapes[self.values[SHAPE].index(parameters[SHAPE])]
        return super().complete({**parameters, **shape.values})

    def column(self, name: str) -> Column:
        """Return the values of a parameter, or of a name of the shapes, for all rows."""
        if name in self.shapes[0].values:
            return as_column([shape.values[name] for shape in self.shapes])[self.tasks]
        return super().column(name)

    def rows_of(self, task: int) -> Column:
        """Return the rows of a shape."""
        return np.flatnonzero(self.tasks == task)

    @cached_property
    def configurations(self) -> Column:
        """Number of each row's configuration: equal for rows that differ in the shape only."""
        _, numbers = np.unique(self.codes[:, 1:], axis=0, return_inverse=True)
        return np.asarray(numbers).reshape(-1)

    @cached_property
    def table(self) -> Column:
        """Row of each shape with each configuration, -1 for invalid ones: (shapes, configurations)."""
        found = np.full((len(self.shapes), int(self.configurations.max()) + 1), -1, np.int64)
        found[self.tasks, self.configurations] = np.arange(len(self))
        return found

    def encoded(self) -> Column:
        """Return the rows' configurations as inputs of a model."""
        return encode(self, without=SHAPE)


def shaped_space(shapes: Sequence[WorkloadShape], space_of: Callable[[WorkloadShape], Space], *, where: str) -> ShapedSpace:
    """Return the joint space of some shapes.

    Args:
        shapes: The shapes.
        space_of: Returns the space of one shape, whose fixed values include those of the shape.
        where: Origin of the shapes, for error messages.

    Raises:
        ShapeError: A name of a shape is a parameter of the space.
        SpaceError: No configuration is valid for a shape.
    """
    spaces = [space_of(shape) for shape in shapes]
    first, names = spaces[0], shapes[0].values.keys()
    for name in (*names, SHAPE):
        if name in first.values and (name in names or name == SHAPE):
            raise ShapeError(
                f"{name} is a name of the shapes and a parameter of the space"
                if name in names
                else "the space has a parameter shape",
                where=where,
                hint="remove it from the space, or rename it",
            )
    if any(isinstance(space, LazySpace) for space in spaces):
        raise ShapeError(
            "the space has too many configurations for several shapes",
            where=first.where,
            hint="add constraints, or fix parameters",
        )
    codes = np.vstack([np.column_stack([np.full(len(space), task, np.int32), space.codes]) for task, space in enumerate(spaces)])
    return ShapedSpace(
        {SHAPE: tuple(shape.label for shape in shapes), **first.values},
        codes,
        fixed={name: value for name, value in first.fixed.items() if name not in names},
        derived=first.derived,
        combinations=sum(space.combinations for space in spaces),
        where=first.where,
        constraints=first.constraints,
        shapes=tuple(shapes),
    )


def features_of(shapes: Sequence[Configuration]) -> Column:
    """Return one row per shape: numbers, logarithmic if positive, scaled to 0..1, and one column per text."""
    columns: list[Column] = []
    for name in shapes[0]:
        values = [shape[name] for shape in shapes]
        if any(isinstance(value, str) for value in values):
            texts = sorted({str(value) for value in values})
            columns += [np.array([float(str(value) == text) for value in values]) for text in texts[len(texts) == 2 :]]
            continue
        numbers = np.array(values, float)
        numbers = np.log2(numbers) if numbers.min() > 0 else numbers
        columns.append((numbers - numbers.min()) / (np.ptp(numbers) or 1.0))
    varying = [column for column in columns if np.ptp(column) > 0]
    return np.column_stack(varying) if varying else np.zeros((len(shapes), 1))
