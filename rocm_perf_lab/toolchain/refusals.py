"""What a compiler has refused, so that it is not asked again: a search meets the same impossible configurations in every run.

A refusal holds as long as the files do that the compiler had read, as a build does; its key names source, flags, compiler
and the compiler's version, and the directory, which diagnostics name.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.core.models import read_model, write_model
from rocm_perf_lab.toolchain.dependencies import are_unchanged, dependency_hashes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class Refusal(BaseModel):
    """What the compiler said, in the words of the error that it became."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: str
    log: str
    where: str | None = None
    hint: str | None = None


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    refusal: Refusal
    dependencies: dict[str, str]
    """Path -> SHA-256."""


class RefusalCache:
    """Refusals below one directory, each in a file named after the key of the build that there is not. A damaged one is none."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self, key: str, source_dir: Path) -> Refusal | None:
        """The refusal; None where there is none, or one of the files has changed."""
        entry = read_model(self._path(key, source_dir), _Entry)
        return entry.refusal if entry is not None and are_unchanged(entry.dependencies, source_dir) else None

    def store(self, key: str, refusal: Refusal, dependencies: Iterable[Path], source_dir: Path) -> None:
        """Keep one, with the files that the compiler had read."""
        entry = _Entry(refusal=refusal, dependencies=dependency_hashes(dependencies, source_dir))
        write_model(self._path(key, source_dir), entry)

    def _path(self, key: str, source_dir: Path) -> Path:
        return self._directory / hashlib.sha256(f"{key}\0{source_dir}".encode()).hexdigest()
