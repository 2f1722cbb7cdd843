"""Files that are whole or not there: written under a temporary name beside the target, then renamed."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_DIGEST_BYTES = 32


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8; see :func:`write_bytes`."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` in one step; its directory is created.

    Raises:
        OSError: The directory cannot be written; `path` is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not by tempfile, whose files only their owner may read: others get what the user's umask lets them have.
    temporary = path.with_name(f".{path.name[:100]}.{os.urandom(16).hex()}")
    try:
        with temporary.open("xb") as sink:
            sink.write(content)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def write_sealed(path: Path, content: bytes) -> None:
    """Write `content` behind its own SHA-256, for caches whose damage must be noticed."""
    write_bytes(path, hashlib.sha256(content).digest() + content)


def read_sealed(path: Path) -> bytes | None:
    """What :func:`write_sealed` wrote; None where there is nothing, or something else by now."""
    try:
        stored = path.read_bytes()
    except FileNotFoundError:
        return None
    digest, content = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    return content if hashlib.sha256(content).digest() == digest else None
