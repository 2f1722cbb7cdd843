"""Resolve key paths in the configuration models: valid keys, and the path as a user writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Sequence

_SCALARS = ("str", "int", "float", "bool")
"""Names of the scalar members of a union in the location of a pydantic error."""


@dataclass(frozen=True)
class Located:
    """`path` as a user writes it (`kernel.arguments[0].shape`), the valid alternatives to its last key, and a valid override.

    The override is for the last key of the path whose field has `examples`; None without such a field.
    """

    path: str
    siblings: frozenset[str]
    example: str | None = None


def locate(model: type[BaseModel], location: Sequence[int | str]) -> Located:
    """Follow the location of a pydantic error, without its union tags and type names."""
    annotation: Any = model
    path, siblings, example = "", frozenset[str](), None
    for part in location:
        models = _models_in(annotation)
        if isinstance(part, int):
            path += f"[{part}]"
            continue
        mapping = _dict_value(annotation)
        if mapping is not None and not any(part in m.model_fields for m in models):
            path, annotation, siblings = f"{path}.{part}", mapping, frozenset()
            continue
        tagged = [m for m in models if part in (_tag(m), m.__name__)]
        if tagged:
            annotation = tagged[0]
        elif models and part not in _SCALARS:
            siblings = frozenset(f.alias or name for m in models for name, f in m.model_fields.items())
            path = f"{path}.{part}"
            field = next((m.model_fields[part] for m in models if part in m.model_fields), None)
            annotation = field.annotation if field is not None else None
            if field is not None and field.examples:
                example = _quoted(f"{path.lstrip('.')}={field.examples[0]}")
    return Located(path.lstrip("."), siblings, example)


def valid_keys(model: type[BaseModel], parents: Sequence[str]) -> frozenset[str]:
    """Return the valid keys below `parents`; empty if any key is allowed."""
    return locate(model, [*parents, ""]).siblings


def _quoted(override: str) -> str:
    """Return an override as a shell accepts it, in quotes if they are necessary."""
    if "'" in override:
        return f'"{override}"'
    return f"'{override}'" if any(character in override for character in " {[") else override


def _tag(model: type[BaseModel]) -> str | None:
    field = model.model_fields.get("kind")
    values = get_args(field.annotation) if field else ()
    return str(values[0]) if values else None


def _dict_value(annotation: Any) -> Any:
    candidates = [annotation, *get_args(annotation)]
    return next((get_args(a)[1] for a in candidates if get_origin(a) is dict), None)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) is dict:
        return []
    return [m for argument in get_args(annotation) for m in _models_in(argument)]
