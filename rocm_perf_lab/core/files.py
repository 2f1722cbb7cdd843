"""Atomic file writes, caches with a checksum, and errors for files that do not exist."""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DIGEST_BYTES = 32
_MOST_SUGGESTIONS = 3


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8; see :func:`write_bytes`."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` atomically, through a temporary file next to it; create its directory if necessary.

    Raises:
        OSError: The directory cannot be written; `path` is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # tempfile would make the file readable by its owner only; this respects the umask.
    temporary = path.with_name(f".{path.name[:100]}.{os.urandom(16).hex()}")
    try:
        with temporary.open("xb") as sink:
            sink.write(content)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def replace_link(path: Path, target: Path) -> None:
    """Create a symbolic link unless it exists; safe if several processes create it concurrently."""
    if path.is_symlink() and path.readlink() == target:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        temporary.unlink()
    temporary.symlink_to(target)
    temporary.replace(path)


def write_sealed(path: Path, content: bytes) -> None:
    """Write `content` after its SHA-256 checksum, for caches that must detect damage."""
    write_bytes(path, hashlib.sha256(content).digest() + content)


def read_sealed(path: Path) -> bytes | None:
    """Return the content written by :func:`write_sealed`; None if the file is missing or damaged."""
    try:
        stored = path.read_bytes()
    except FileNotFoundError:
        return None
    digest, content = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    return content if hashlib.sha256(content).digest() == digest else None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, created if it does not exist; wait while another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def require_existing(path: Path, what: str) -> None:
    """Check that a file or directory of the user exists.

    Args:
        path: The file or directory.
        what: Name of the path in the error message, for example `the database`.

    Raises:
        LabError: It does not exist; the hint names similar files in its directory.
    """
    if path.exists():
        return
    near = similar_paths(path)
    hint = f"did you mean {' or '.join(near)}?" if near else "check the path"
    raise LabError(f"cannot read {what}: No such file or directory", where=str(path), hint=hint)


def similar_paths(path: Path) -> list[str]:
    """Return paths next to a missing one: similar names first, then files with the same suffix."""
    try:
        names = sorted(entry.name for entry in path.parent.iterdir() if not entry.name.startswith("."))
    except OSError:
        return []
    close = difflib.get_close_matches(path.name, names, _MOST_SUGGESTIONS)
    same_suffix = [name for name in names if path.suffix and name.endswith(path.suffix) and name not in close]
    return [str(path.with_name(name)) for name in (*close, *same_suffix)][:_MOST_SUGGESTIONS]
