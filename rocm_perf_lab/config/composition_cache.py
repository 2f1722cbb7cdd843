"""Cache of composed configurations, since Hydra takes longer than the rest of a short run.

The key contains the content of every file that a composition can read, so that a changed file is a new key. Configurations
that read the environment are not cached.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab import __version__
from rocm_perf_lab.core.files import read_sealed, write_sealed
from rocm_perf_lab.core.resources import cache_dir, resource_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_RESOLVER = b"${oc."
"""Resolvers of OmegaConf, which read environment variables and other files."""


class Composition:
    """Cache entry of a list of overrides in the working directory."""

    def __init__(self, overrides: Sequence[str]) -> None:
        self._overrides = tuple(overrides)
        self._path = self._entry()

    def recall(self) -> dict[str, Any] | None:
        """Return the plain, resolved configuration; None if it is not cached."""
        stored = read_sealed(self._path) if self._path is not None else None
        found: dict[str, Any] | None = json.loads(stored) if stored is not None else None
        return found

    def remember(self, plain: dict[str, Any]) -> None:
        """Store a validated configuration; errors of the cache are ignored."""
        if self._path is None:
            return
        try:
            write_sealed(self._path, json.dumps(plain).encode())
        except (OSError, TypeError):
            return

    def _entry(self) -> Path | None:
        digest = hashlib.sha256(repr((__version__, sys.version_info[:2], self._overrides)).encode())
        try:
            for path in _sources():
                content = path.read_bytes()
                if _RESOLVER in content:
                    return None
                digest.update(repr((str(path), len(content))).encode() + content)
            return cache_dir() / "compositions" / f"{digest.hexdigest()}.json"
        except OSError:
            return None


def _sources() -> Iterator[Path]:
    """Yield every file on the search path of Hydra, in a fixed order."""
    for directory in (resource_dir("conf"), Path.cwd() / "conf"):
        yield from sorted(directory.rglob("*.yaml"))
    for directory in (resource_dir("experiments"), Path.cwd() / "experiments"):
        yield from sorted((*directory.glob("*/kernel.yaml"), *directory.glob("*/space.yaml")))
