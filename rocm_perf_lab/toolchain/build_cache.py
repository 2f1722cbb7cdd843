"""Compiled code objects on disk, by key. Nothing read back is trusted before its hash is checked.

`entries/<key>.json` states size and SHA-256 of the code object, and of every file that went into it;
`objects/<sha256>` holds the bytes. Both appear by one rename, so concurrent writers cannot tear them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.core.files import write_bytes
from rocm_perf_lab.toolchain.code_object import LaunchContract
from rocm_perf_lab.toolchain.dependencies import are_unchanged, dependency_hashes


@dataclass(frozen=True)
class CachedBuild:
    """A code object and what it was made of."""

    content: bytes
    dependencies: tuple[Path, ...]
    """Files that the compiler read; those found from the source's directory are relative to it."""
    command: tuple[str, ...]
    log: str
    contract: LaunchContract | None = None


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str
    size: int
    dependencies: dict[str, str]
    """Path -> SHA-256."""
    command: tuple[str, ...]
    log: str
    contract: LaunchContract | None = None


class BuildCache:
    """The cache below one directory."""

    def __init__(self, directory: Path) -> None:
        self._entries = directory / "entries"
        self._objects = directory / "objects"

    def load(self, key: str, source_dir: Path) -> CachedBuild | None:
        """The build of that key; None where there is none, a dependency changed, or the stored bytes are damaged."""
        try:
            entry = _Entry.model_validate_json((self._entries / f"{key}.json").read_bytes())
            content = (self._objects / entry.sha256).read_bytes()
        except (OSError, ValueError):
            return None
        if len(content) != entry.size or _sha256(content) != entry.sha256:
            return None
        if not are_unchanged(entry.dependencies, source_dir):
            return None
        return CachedBuild(content, tuple(map(Path, entry.dependencies)), entry.command, entry.log, entry.contract)

    def store(self, key: str, build: CachedBuild, source_dir: Path) -> None:
        """Write a build; the entry comes last, so that it never names bytes that are not there."""
        digest = _sha256(build.content)
        entry = _Entry(
            sha256=digest,
            size=len(build.content),
            dependencies=dependency_hashes(build.dependencies, source_dir),
            command=build.command,
            log=build.log,
            contract=build.contract,
        )
        write_bytes(self._objects / digest, build.content)
        write_bytes(self._entries / f"{key}.json", entry.model_dump_json(indent=1).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
