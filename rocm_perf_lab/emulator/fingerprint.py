"""Hashes of the sources and of the decoder's version, for keys of caches."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

_DIRECTORY = Path(__file__).parent


@cache
def translator_fingerprint() -> str:
    """Return a hash of everything that decoding and translation depend on except the kernel."""
    digest = hashlib.sha256(version("tinygrad").encode())
    for path in sorted([*_DIRECTORY.rglob("*.py"), *_DIRECTORY.rglob("*.h")]):
        digest.update(f"\0{path.relative_to(_DIRECTORY)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


@cache
def emulator_fingerprint() -> str:
    """Return a hash of everything that execution and timing depend on except the launch."""
    digest = hashlib.sha256(translator_fingerprint().encode())
    for path in sorted(_DIRECTORY.rglob("*.c")):
        digest.update(f"\0{path.relative_to(_DIRECTORY)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
