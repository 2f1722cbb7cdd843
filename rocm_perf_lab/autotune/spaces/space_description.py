"""Model of a space in YAML: parameters with values or ranges, formulas as text, and defaults."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AliasChoices, Discriminator, Field, Tag, ValidationError, model_validator

from rocm_perf_lab.autotune.spaces.space import SpaceError, Value
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
        raise _explained(error.errors()[0], where) from error


_MAPPING = "is not a mapping of names to values"
_MESSAGES = {
    "dict_type": _MAPPING,
    "tuple_type": "is not a list",
    "missing": "is missing",
    "string_type": "is not text",
    "greater_than": "is not above {gt}",
    "bool_type": "is not a value",
    "int_type": "is not a number",
    "int_parsing": "is not a number",
    "extra_forbidden": "is not a key of a space",
}
"""Type of a pydantic error -> message in terms of YAML."""
_EXAMPLES = {
    "parameters": "{block: [64, 128]}, or {block: {start: 64, stop: 1024, factor: 2}}, with numbers, text, true or false",
    "derived": '{lds_bytes: "4 * block"}',
    "constraints": '["lds_bytes <= 65536"]',
    "defaults": "{block: 64}",
    "fixed": "{stages: 2}, with numbers, text, true or false",
}
_ALTERNATIVES = {"list", "range", "bool", "int", "float", "str", "[key]"}
"""Parts of the place of a pydantic error that are not keys of the file."""


def _explained(error: Mapping[str, Any], where: str) -> SpaceError:
    parts = [str(part) for place, part in enumerate(error["loc"]) if place < 2 or part not in _ALTERNATIVES]
    group, shown = parts[0], f" ({json.dumps(error['input'])})" if isinstance(error["input"], str | int | float | None) else ""
    message = _MESSAGES[error["type"]].format(**error.get("ctx", {})) if error["type"] in _MESSAGES else None
    if group == "parameters" and len(parts) == 2 and error["type"] == "tuple_type":
        message = "is neither a list of values nor a range"
    what = f"{'.'.join(parts)}{shown} {message}" if message is not None else str(error["msg"]).removeprefix("Value error, ")
    hint = (
        f"for example {group}: {_EXAMPLES[group]}" if group in _EXAMPLES else f"keys: {', '.join(SpaceDescription.model_fields)}"
    )
    if len(parts) == 3 and error["type"] == "extra_forbidden":
        what, hint = f"{'.'.join(parts)} is not a key of a range", f"keys: {', '.join(Range.model_fields)}"
    return SpaceError(f"invalid space: {what}", where=f"{where}, {'.'.join(parts)}", hint=hint)
