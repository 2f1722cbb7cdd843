"""What translated code depends on besides the kernel: this package's sources and the decoder's version."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

_DIRECTORY = Path(__file__).parent


@cache
def translator_fingerprint() -> str:
    """Changes whenever the same kernel might be decoded or translated to something else."""
    digest = hashlib.sha256(version("tinygrad").encode())
    for path in sorted([*_DIRECTORY.rglob("*.py"), *_DIRECTORY.rglob("*.h")]):
        digest.update(f"\0{path.relative_to(_DIRECTORY)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


@cache
def emulator_fingerprint() -> str:
    """Changes whenever a launch might be executed or timed differently."""
    digest = hashlib.sha256(translator_fingerprint().encode())
    for path in sorted(_DIRECTORY.rglob("*.c")):
        digest.update(f"\0{path.relative_to(_DIRECTORY)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
