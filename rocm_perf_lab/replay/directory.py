"""Safe access to the regular files of an untrusted capture directory: paths remain inside it, and symbolic links are rejected."""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.replay.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_HASHED_AT_ONCE = 1 << 22
_DAMAGED = "The directory was modified after the capture or copied incompletely: copy it again, or capture again."


class CaptureDirectory:
    """Directory of a capture. File names are relative to it, with `/`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self, name: str) -> bool:
        """Return whether a file, directory or symbolic link of that name exists."""
        return os.path.lexists(self.path / name)

    def size(self, name: str) -> int:
        """Return the size of a regular file in bytes."""
        with self.opened(name) as descriptor:
            return os.fstat(descriptor).st_size

    def content(self, name: str, limit: int = 1 << 30) -> bytes:
        """Return the content of a small file.

        Raises:
            CaptureError: The file is larger than `limit`.
        """
        with self.opened(name) as descriptor:
            size = os.fstat(descriptor).st_size
            if size > limit:
                raise CaptureError(
                    f"{name} has {size:,} bytes, more than the limit of {limit:,}", where=str(self.path), hint=_DAMAGED
                )
            with os.fdopen(os.dup(descriptor), "rb") as source:
                return source.read()

    def sha256(self, name: str) -> str:
        """Return the SHA-256 of a file in hexadecimal; holes count as zeros."""
        digest = hashlib.sha256()
        with self.opened(name) as descriptor, os.fdopen(os.dup(descriptor), "rb", buffering=0) as source:
            while piece := source.read(_HASHED_AT_ONCE):
                digest.update(piece)
        return digest.hexdigest()

    def view(self, name: str) -> NDArray[np.uint8]:
        """Return the bytes of a file, shape (size,), memory-mapped and read-only."""
        with self.opened(name) as descriptor:
            if not os.fstat(descriptor).st_size:
                return np.zeros(0, dtype=np.uint8)
            return np.frombuffer(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ), dtype=np.uint8)

    def pieces(self, name: str, nbytes: int) -> Iterator[NDArray[np.uint8]]:
        """Yield the bytes of a file in arrays of at most `nbytes`; mapped pages would count as memory in use."""
        with self.opened(name) as descriptor, os.fdopen(os.dup(descriptor), "rb") as source:
            while piece := source.read(nbytes):
                yield np.frombuffer(piece, dtype=np.uint8)

    def names(self) -> set[str]:
        """Return the names of all files and symbolic links in the directory."""
        found = set()
        for parent, directories, files in os.walk(self.path, followlinks=False):
            links = [name for name in directories if (Path(parent) / name).is_symlink()]
            found |= {(Path(parent) / name).relative_to(self.path).as_posix() for name in [*files, *links]}
        return found

    @contextmanager
    def opened(self, name: str) -> Iterator[int]:
        """Open a regular file below the directory without following symbolic links; yields the file descriptor.

        Raises:
            CaptureError: The name leads out of the directory, or the file is missing, a symbolic link, or not a regular file.
        """
        parts = name.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise CaptureError(f"the name {name!r} leads out of the capture", where=str(self.path), hint=_DAMAGED)
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for position, part in enumerate(parts):
                directory = os.O_DIRECTORY if position < len(parts) - 1 else os.O_NONBLOCK
                above = descriptor
                try:
                    descriptor = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | directory, dir_fd=above)
                finally:
                    os.close(above)
        except OSError as error:
            places = (self.path / name, *(self.path / directory for directory in Path(name).parents))
            link = any(os.path.islink(place) for place in places)  # noqa: PTH114 Path.is_symlink raises for names that are too long
            what = f"{name} is a symbolic link, or below a link" if link else f"{name} cannot be read: {error.strerror}"
            raise CaptureError(what, where=str(self.path), hint=_DAMAGED) from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise CaptureError(f"{name} is not a regular file", where=str(self.path), hint=_DAMAGED)
            yield descriptor
        finally:
            os.close(descriptor)
