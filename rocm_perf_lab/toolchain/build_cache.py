"""Cache of compilations: code objects and compiler errors, by key.

An entry is valid as long as the files that the compiler read have the same content. `builds/entries/<key>.json` has size and
SHA-256 of the code object and of every file that it depends on; `builds/objects/<sha256>` has the bytes. Files are created by
one rename, so that concurrent writers cannot damage them, and hashes are checked on every load.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.core.files import write_bytes
from rocm_perf_lab.core.models import read_model, write_model
from rocm_perf_lab.toolchain.code_object import LaunchContract

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class CachedBuild:
    """A code object and the inputs of its compilation."""

    content: bytes
    dependencies: tuple[Path, ...]
    """Files that the compiler read; relative to the directory of the source if they are below it."""
    command: tuple[str, ...]
    log: str
    contract: LaunchContract | None = None
    notes: tuple[str, ...] = ()
    """Messages for the user about omitted parts."""
    absent: tuple[Path, ...] = ()
    """Files that must not exist: the compiler would have read them instead of a stand-in."""


class _BuildEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str
    size: int
    dependencies: dict[str, str]
    """Path -> SHA-256."""
    command: tuple[str, ...]
    log: str
    contract: LaunchContract | None = None
    notes: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


class BuildCache:
    """Cache of code objects below one directory."""

    def __init__(self, directory: Path) -> None:
        self._entries = directory / "entries"
        self._objects = directory / "objects"

    def load(self, key: str, source_dir: Path) -> CachedBuild | None:
        """Return the build of a key; None if there is none, a dependency has changed, or the stored bytes are damaged."""
        try:
            entry = _BuildEntry.model_validate_json((self._entries / f"{key}.json").read_bytes())
            content = (self._objects / entry.sha256).read_bytes()
        except (OSError, ValueError):
            return None
        if len(content) != entry.size or hashlib.sha256(content).hexdigest() != entry.sha256:
            return None
        if not _are_unchanged(entry.dependencies, source_dir) or any((source_dir / path).exists() for path in entry.absent):
            return None
        return CachedBuild(
            content,
            tuple(map(Path, entry.dependencies)),
            entry.command,
            entry.log,
            entry.contract,
            entry.notes,
            tuple(map(Path, entry.absent)),
        )

    def store(self, key: str, build: CachedBuild, source_dir: Path) -> None:
        """Store a build; the entry is written last, so that it never refers to missing bytes."""
        digest = hashlib.sha256(build.content).hexdigest()
        entry = _BuildEntry(
            sha256=digest,
            size=len(build.content),
            dependencies=_hashes(build.dependencies, source_dir),
            command=build.command,
            log=build.log,
            contract=build.contract,
            notes=build.notes,
            absent=tuple(map(str, build.absent)),
        )
        write_bytes(self._objects / digest, build.content)
        write_bytes(self._entries / f"{key}.json", entry.model_dump_json(indent=1).encode())


class CachedError(BaseModel):
    """Message of a compilation that failed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: str
    log: str
    where: str | None = None
    hint: str | None = None


class _ErrorEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    refusal: CachedError
    dependencies: dict[str, str]
    """Path -> SHA-256."""


class ErrorCache:
    """Cache of compiler errors below one directory: searches meet the same invalid configurations in every run.

    The file name is derived from the key of the build and the directory of the source, which diagnostics contain.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self, key: str, source_dir: Path) -> CachedError | None:
        """Return the error of a key; None if there is none, it is damaged, or a dependency has changed."""
        entry = read_model(self._path(key, source_dir), _ErrorEntry)
        return entry.refusal if entry is not None and _are_unchanged(entry.dependencies, source_dir) else None

    def store(self, key: str, error: CachedError, dependencies: Iterable[Path], source_dir: Path) -> None:
        """Store an error with the files that the compiler had read."""
        entry = _ErrorEntry(refusal=error, dependencies=_hashes(dependencies, source_dir))
        write_model(self._path(key, source_dir), entry)

    def _path(self, key: str, source_dir: Path) -> Path:
        return self._directory / hashlib.sha256(f"{key}\0{source_dir}".encode()).hexdigest()


def _hashes(files: Iterable[Path], source_dir: Path) -> dict[str, str]:
    """Return path -> SHA-256; an empty hash for a file that cannot be read."""
    return {str(path): _sha256(source_dir / path) or "" for path in files}


def _are_unchanged(hashes: Mapping[str, str], source_dir: Path) -> bool:
    return all(_sha256(source_dir / path) == expected for path, expected in hashes.items())


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
