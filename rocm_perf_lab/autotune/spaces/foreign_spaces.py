"""Conversion of spaces of other tuners: T1 files of Kernel Tuner, and lists of Triton configurations.

T1: https://github.com/KernelTuner/kernel_tuner, `ConfigurationSpace` with `TuningParameters` (values as text) and `Conditions`.
Triton: `triton.Config(kwargs, num_warps, num_stages)` as JSON, `{"kwargs": {"BLOCK_M": 64}, "num_warps": 4}`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_T1 = "ConfigurationSpace"
_KWARGS = "kwargs"


class _Foreign(BaseModel):
    model_config = ConfigDict(frozen=True, defer_build=True)


class _Parameter(_Foreign):
    name: str = Field(alias="Name")
    values: list[Any] = Field(alias="Values")

    @field_validator("values", mode="before")
    @classmethod
    def _from_text(cls, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        try:
            found = ast.literal_eval(given)
        except (ValueError, SyntaxError) as error:
            raise ValueError(f"{given!r} is not a list of values") from error
        return list(found) if isinstance(found, list | tuple) else found


class _Condition(_Foreign):
    expression: str = Field(alias="Expression")


class _ConfigurationSpace(_Foreign):
    parameters: list[_Parameter] = Field(alias="TuningParameters")
    conditions: list[_Condition] = Field([], alias="Conditions")


def is_t1(content: Mapping[str, Any]) -> bool:
    """Return whether a mapping is a T1 file."""
    return _T1 in content


def from_t1(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters and constraints of a T1 file.

    Raises:
        ValueError: The file is invalid; the message names the key.
    """
    try:
        space = _ConfigurationSpace.model_validate(content[_T1])
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in (_T1, *first["loc"]))
        raise ValueError(f"{place}: {first['msg'].removeprefix('Value error, ')}") from error
    names = [parameter.name for parameter in space.parameters]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{_T1}.TuningParameters: {twice} is listed twice")
    return {
        "parameters": {parameter.name: parameter.values for parameter in space.parameters},
        "constraints": [condition.expression for condition in space.conditions],
    }


def flattened(configurations: Sequence[Any]) -> Sequence[Any]:
    """Return Triton configurations as flat ones without null values; return any other list unchanged."""
    if not configurations or not all(isinstance(c, dict) and isinstance(c.get(_KWARGS), dict) for c in configurations):
        return configurations
    return [
        {**c[_KWARGS], **{name: value for name, value in c.items() if name != _KWARGS and value is not None}}
        for c in configurations
    ]
