"""Base classes of pydantic models, and cache files that hold one model with its own checksum."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from rocm_perf_lab.core.files import read_sealed, write_sealed

if TYPE_CHECKING:
    from pathlib import Path

Entry = TypeVar("Entry", bound=BaseModel)


class StrictModel(BaseModel):
    """Immutable model that rejects unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


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
