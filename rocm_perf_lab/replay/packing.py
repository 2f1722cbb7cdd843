"""Packing of a complete capture: `pack_capture(source, target)` writes the same capture with deduplicated and compressed pages.

Its documents do not change. Memory files are replaced by page maps and packs, see :mod:`rocm_perf_lab.replay.packs`. The manifest
keeps the original sizes and SHA-256 of the memory files, so that every byte of the captured memory is checked when a packed
capture is opened.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.replay.directory import CaptureDirectory
from rocm_perf_lab.replay.errors import CaptureError
from rocm_perf_lab.replay.format import (
    MANIFEST_NAME,
    PACKED_VERSION,
    PAGE_BYTES,
    FileEntry,
    Manifest,
    PackedEntry,
    document_text,
)
from rocm_perf_lab.replay.packs import PACKS_DIRECTORY, PackWriter

if TYPE_CHECKING:
    from collections.abc import Iterable

_PIECE = 1 << 20  # small enough for the processor's cache
_FILE_MODE, _DIRECTORY_MODE = 0o600, 0o700


def pack_capture(source: Path, target: Path, *, near: Iterable[Path]) -> None:
    """Write a packed copy of a capture.

    Args:
        source: Complete, unpacked capture.
        target: Directory to create, on the same file system.
        near: Directories with captures whose pages are shared instead of stored again.

    Raises:
        CaptureError: The size of a file differs from the manifest.
        OSError: The copy cannot be written; `target` is then incomplete.
    """
    directory = CaptureDirectory(source)
    manifest = Manifest.model_validate_json(directory.content(MANIFEST_NAME))
    target.mkdir(_DIRECTORY_MODE)
    files: dict[str, FileEntry] = {}
    packed: dict[str, PackedEntry] = {}
    earlier = [pack for place in near for pack in sorted(place.glob(f"*/{PACKS_DIRECTORY}/*.pack"))]
    with closing(PackWriter(target, earlier)) as packs:
        for name, entry in manifest.files.items():
            if not name.endswith(".bin") or "/" not in name or entry.size % PAGE_BYTES or not entry.size:
                _place(target, name, directory.content(name), files)
                continue
            if directory.size(name) != entry.size:
                raise CaptureError(f"{name} differs in size from the manifest", where=str(source))
            words = packs.write(directory.pieces(name, _PIECE))
            pages = f"{name.removesuffix('.bin')}.pages"
            _place(target, pages, words, files)
            packed[name] = PackedEntry(size=entry.size, sha256=entry.sha256, pages=pages)
        names = packs.finish()
    own = CaptureDirectory(target)
    files |= {name: FileEntry(size=own.size(name), sha256=Path(name).stem) for name in names}
    files = dict(sorted(files.items()))
    whole = Manifest(format_version=PACKED_VERSION, files=files, packed=packed, packs=names, provenance=manifest.provenance)
    hidden = target / f".{MANIFEST_NAME}"
    _write(hidden, document_text(whole).encode())
    hidden.replace(target / MANIFEST_NAME)


def pack_in_place(capture: Path) -> None:
    """Replace a complete capture by its packed copy; keep it unchanged if the copy cannot be written."""
    with suppress(OSError), tempfile.TemporaryDirectory(prefix=f".{capture.name}.packing-", dir=capture.parent) as directory:
        scratch = Path(directory)
        pack_capture(capture, scratch / "packed", near=[capture.parent])
        capture.rename(scratch / "plain")
        try:
            (scratch / "packed").rename(capture)
        except OSError:
            (scratch / "plain").rename(capture)


def _place(target: Path, name: str, content: bytes, files: dict[str, FileEntry]) -> None:
    (target / name).parent.mkdir(_DIRECTORY_MODE, exist_ok=True)
    _write(target / name, content)
    files[name] = FileEntry(size=len(content), sha256=hashlib.sha256(content).hexdigest())


def _write(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _FILE_MODE), "wb") as sink:
        sink.write(content)
        sink.flush()
        os.fsync(sink.fileno())
