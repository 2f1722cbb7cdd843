"""Base class of pydantic models, their JSON Schemas, and cache files with one model and its checksum."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from rocm_perf_lab.core.files import read_sealed, write_sealed, write_text

if TYPE_CHECKING:
    from pathlib import Path

Entry = TypeVar("Entry", bound=BaseModel)


class StrictModel(BaseModel):
    """Immutable model that rejects unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def write_schema(path: Path, model: type[BaseModel], mode: Literal["validation", "serialization"]) -> Path:
    """Write the JSON Schema of a document, and return its path.

    Args:
        path: File.
        model: Model of the document.
        mode: `serialization` describes written documents; `validation` describes accepted input, in which fields with defaults
            are optional.
    """
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema(mode=mode)}
    write_text(path, json.dumps(schema, indent=2, sort_keys=True) + "\n")
    return path


def write_model(path: Path, entry: BaseModel) -> None:
    """Write a model to a cache file; see :func:`rocm_perf_lab.core.files.write_sealed`."""
    write_sealed(path, entry.model_dump_json().encode())


def read_model(path: Path, kind: type[Entry]) -> Entry | None:
    """Return the model that :func:`write_model` wrote, or None if the file is missing, damaged or has another layout."""
    content = read_sealed(path)
    if content is None:
        return None
    try:
        return kind.model_validate_json(content)
    except ValidationError:
        return None
