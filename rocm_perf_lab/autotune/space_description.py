"""Model of a space in YAML: parameters with values or ranges, formulas as text, and defaults."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AliasChoices, Discriminator, Field, Tag, ValidationError, model_validator

from rocm_perf_lab.autotune.space import SpaceError, Value
from rocm_perf_lab.core.models import StrictModel

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_VALUES = 100_000


class Range(StrictModel):
    """Numbers from `start` to `stop` (inclusive), with an additive `step` or a `factor`."""

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
            raise ValueError("the start of a range with a factor must be above 0")
        if self._count() > _MAX_VALUES:
            raise ValueError(f"more than {_MAX_VALUES} values")
        return self

    def _count(self) -> int:
        if self.factor is not None:
            return int(math.log(self.stop / self.start) / math.log(self.factor) + 1e-9) + 1
        return int((self.stop - self.start) / (self.step or 1) + 1e-9) + 1

    def values(self) -> tuple[int | float, ...]:
        """Return all numbers of the range."""
        if self.factor is not None:
            return tuple(self.start * self.factor**i for i in range(self._count()))
        return tuple(self.start + (1 if self.step is None else self.step) * i for i in range(self._count()))


def _kind_of_values(given: Any) -> str:
    return "range" if isinstance(given, dict | Range) else "list"


Values = Annotated[Annotated[tuple[Value, ...], Tag("list")] | Annotated[Range, Tag("range")], Discriminator(_kind_of_values)]


class SpaceDescription(StrictModel):
    """Space in YAML; see docs/AUTOTUNING.md."""

    parameters: dict[str, Values] = {}
    derived: dict[str, str] = {}
    constraints: tuple[str, ...] = ()
    defaults: dict[str, Value] = Field({}, validation_alias=AliasChoices("defaults", "first"))
    """Configuration to measure first. In an option of a Hydra group, where `defaults` is a key of Hydra, use `first`."""
    fixed: dict[str, Value] = {}


def describe(content: Mapping[str, Any], *, where: str) -> SpaceDescription:
    """Validate plain data.

    Raises:
        SpaceError: A key is unknown, or a value has the wrong type.
    """
    try:
        return SpaceDescription.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        known = ", ".join(SpaceDescription.model_fields)
        raise SpaceError(f"invalid space: {first['msg']}", where=f"{where}, key {key}", hint=f"keys: {known}") from error
