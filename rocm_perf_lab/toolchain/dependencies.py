"""The files that a compiler read, by content: what it made of them, or refused, holds as long as they do."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def dependency_hashes(files: Iterable[Path], source_dir: Path) -> dict[str, str]:
    """Path -> SHA-256, of paths that are relative to `source_dir` or absolute; empty for a file that cannot be read."""
    return {str(path): _sha256(source_dir / path) or "" for path in files}


def are_unchanged(hashes: Mapping[str, str], source_dir: Path) -> bool:
    """Whether every file is there and holds what it held."""
    return all(_sha256(source_dir / path) == expected for path, expected in hashes.items())


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
