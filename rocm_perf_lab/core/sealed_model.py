"""Models in cache files that are whole, or count as not there: JSON behind its own hash."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from rocm_perf_lab.core.files import read_sealed, write_sealed

if TYPE_CHECKING:
    from pathlib import Path

Entry = TypeVar("Entry", bound=BaseModel)


def write_model(path: Path, entry: BaseModel) -> None:
    """Keep a model; see :func:`rocm_perf_lab.core.files.write_sealed`."""
    write_sealed(path, entry.model_dump_json().encode())


def read_model(path: Path, kind: type[Entry]) -> Entry | None:
    """What :func:`write_model` wrote; None where there is nothing, or a damaged file, or one of another layout."""
    content = read_sealed(path)
    if content is None:
        return None
    try:
        return kind.model_validate_json(content)
    except ValidationError:
        return None
