"""Writer of capture directories: memory first, then the documents, then the manifest, so that only complete captures have one.

Files are sparse: pages of zeros are holes. Directories have mode 0700 and files 0600, because memory may contain sensitive data.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO, Self

import numpy as np

from rocm_perf_lab import __version__
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.replay.format import (
    AFTER_VARIABLES_NAME,
    CODE_OBJECT_NAME,
    DISPATCH_NAME,
    KERNARG_NAME,
    MANIFEST_NAME,
    MEMORY_NAME,
    PAGE_BYTES,
    VARIABLES_NAME,
    AfterPages,
    CaptureProvenance,
    FileEntry,
    Manifest,
    after_file,
    document_text,
    region_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

    from rocm_perf_lab.replay.format import DispatchDocument, MemoryDocument

_WRITTEN_AT_ONCE = 4096 * PAGE_BYTES
_DIRECTORY_MODE, _FILE_MODE = 0o700, 0o600


class CaptureNotWritten(LabError):
    """Failure to create or fill the directory; a partial capture is removed."""


@dataclass(frozen=True)
class WrittenFile:
    """Name of a written file, and its number of zero pages."""

    file: str
    zero_pages: int


class CaptureWriter:
    """Writer of one capture; a context manager that removes the directory if the block fails.

    Args:
        directory: Directory that does not exist or is empty.

    Raises:
        CaptureNotWritten: The directory is not empty or cannot be created.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[str, FileEntry] = {}
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if any(directory.iterdir()):
                raise CaptureNotWritten(
                    "the output directory is not empty",
                    where=str(directory),
                    hint="Choose another one with --output, or remove it first.",
                )
            directory.chmod(_DIRECTORY_MODE)
            (directory / "memory").mkdir(_DIRECTORY_MODE)
        except OSError as error:
            raise self._not_written(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            return
        shutil.rmtree(self._directory, ignore_errors=True)
        if isinstance(error, OSError):
            raise self._not_written(error) from error

    def write_region(self, base: int, content: NDArray[np.uint8]) -> WrittenFile:
        """Write the bytes of a region before the dispatch, (size,)."""
        return self._write_pages(region_file(base), content)

    def write_after(self, base: int, before: NDArray[np.uint8], after: NDArray[np.uint8]) -> AfterPages | None:
        """Write the pages that differ, packed; return None if no page differs. `before` and `after` have shape (size,)."""
        changed = np.flatnonzero((before != after).reshape(-1, PAGE_BYTES).any(axis=1))
        if not len(changed):
            return None
        starts = np.flatnonzero(np.diff(changed, prepend=-2) != 1)
        counts = np.diff(starts, append=len(changed))
        pages = after.reshape(-1, PAGE_BYTES)[changed].reshape(-1)
        self._write_pages(after_file(base), pages)
        runs = tuple((int(changed[start]), int(count)) for start, count in zip(starts, counts, strict=True))
        return AfterPages(file=after_file(base), runs=runs)

    def write_kernarg(self, content: bytes) -> None:
        """Write the kernarg segment."""
        self._write(KERNARG_NAME, [content])

    def write_code_object(self, content: bytes) -> None:
        """Write the loaded ELF file."""
        self._write(CODE_OBJECT_NAME, [content])

    def write_variables(self, before: bytes, after: bytes) -> None:
        """Write the module variables before the dispatch, and after it if they changed."""
        if before:
            self._write(VARIABLES_NAME, [before])
            if after != before:
                self._write(AFTER_VARIABLES_NAME, [after])

    def finish(self, dispatch: DispatchDocument, memory: MemoryDocument, *, writer: str, emulated: bool) -> None:
        """Write the documents and then the manifest."""
        self._write(MEMORY_NAME, [document_text(memory).encode()])
        self._write(DISPATCH_NAME, [document_text(dispatch).encode()])
        provenance = CaptureProvenance(
            writer=writer,
            version=__version__,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            emulated=emulated,
        )
        manifest = Manifest(files=dict(sorted(self._files.items())), provenance=provenance)
        hidden = self._directory / f".{MANIFEST_NAME}"
        with self._created(hidden) as sink:
            os.write(sink.fileno(), document_text(manifest).encode())
            os.fsync(sink.fileno())
        hidden.replace(self._directory / MANIFEST_NAME)

    def _write_pages(self, name: str, content: NDArray[np.uint8]) -> WrittenFile:
        zero_pages = 0
        digest = hashlib.sha256()
        with self._created(self._directory / name) as sink:
            for start in range(0, len(content), _WRITTEN_AT_ONCE):
                piece = np.ascontiguousarray(content[start : start + _WRITTEN_AT_ONCE])
                digest.update(piece.data)
                filled: NDArray[np.bool_] = np.asarray(piece.reshape(-1, PAGE_BYTES).any(axis=1))
                zero_pages += int((~filled).sum())
                for first, last in _runs(filled):
                    os.pwrite(sink.fileno(), piece[first * PAGE_BYTES : last * PAGE_BYTES].data, start + first * PAGE_BYTES)
            os.ftruncate(sink.fileno(), len(content))
        self._files[name] = FileEntry(size=len(content), sha256=digest.hexdigest())
        return WrittenFile(name, zero_pages)

    def _write(self, name: str, pieces: Iterable[bytes]) -> None:
        digest, size = hashlib.sha256(), 0
        with self._created(self._directory / name) as sink:
            for piece in pieces:
                sink.write(piece)
                digest.update(piece)
                size += len(piece)
        self._files[name] = FileEntry(size=size, sha256=digest.hexdigest())

    def _created(self, path: Path) -> BinaryIO:
        path.parent.mkdir(_DIRECTORY_MODE, exist_ok=True)
        return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _FILE_MODE), "wb")

    def _not_written(self, error: OSError) -> CaptureNotWritten:
        return CaptureNotWritten(
            f"the capture cannot be written: {error.strerror or error}",
            where=str(self._directory),
            hint="Free some space, or choose another directory with --output. The partial capture was removed.",
        )


def _runs(filled: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return (first, last + 1) of every run of True."""
    edges = np.flatnonzero(np.diff(filled.astype(np.int8), prepend=0, append=0))
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]
