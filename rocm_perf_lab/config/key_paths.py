"""Walks the config models along a key path: which keys are valid there, and how a user would write the path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Located:
    """`path` as a user writes it (`kernel.arguments[0].shape`), and the keys that are valid beside its last part."""

    path: str
    siblings: frozenset[str]


def locate(model: type[BaseModel], location: Sequence[int | str]) -> Located:
    """Follow a pydantic error location; union tags and type names in it are not part of the user's path."""
    annotation: Any = model
    path, siblings = "", frozenset[str]()
    for part in location:
        models = _models_in(annotation)
        if isinstance(part, int):
            path += f"[{part}]"
            continue
        mapping = _dict_value(annotation)
        if mapping is not None and not any(part in m.model_fields for m in models):
            path, annotation, siblings = f"{path}.{part}", mapping, frozenset()
            continue
        tagged = [m for m in models if _tag(m) == part]
        if tagged:
            annotation = tagged[0]
        elif models:
            siblings = frozenset(f.alias or name for m in models for name, f in m.model_fields.items())
            path = f"{path}.{part}"
            annotation = next((m.model_fields[part].annotation for m in models if part in m.model_fields), None)
    return Located(path.lstrip("."), siblings)


def valid_keys(model: type[BaseModel], parents: Sequence[str]) -> frozenset[str]:
    """Keys below `parents`; empty where any key is allowed."""
    return locate(model, [*parents, ""]).siblings


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
