"""Packs: files of compressed pages shared by captures. `PackWriter` stores each page once, `PackReader` returns pages.

Packs are immutable and named by their SHA-256. Captures in one parent directory share packs as hard links: each capture contains
every pack that it needs, and the file system frees a pack with its last capture. `native/FORMAT.md`
specifies the files.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final

import numpy as np
import zstandard

from rocm_perf_lab.replay.errors import CaptureError
from rocm_perf_lab.replay.format import PAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.replay.directory import CaptureDirectory

PACKS_DIRECTORY: Final = "packs"
ZERO_PAGE: Final = (1 << 64) - 1
"""Entry of a page map for a page of zeros, which is not stored."""

_MAGIC = b"RPLPACK1"
_HEADER = Struct("<8sII")
_DIGEST_BYTES = 32
_PAGES_PER_FRAME = 32
_FRAME_BYTES = _PAGES_PER_FRAME * PAGE_BYTES
_LARGEST_FRAME = 1024
_PAGES_PER_PACK = 4096
_LEVEL = 1
_THREADS = 2
_PACKS_AT_ONCE = 2
"""Maximum number of packs that are compressed and written in the background; each needs about 32 MiB."""
_KNOWN_PAGES = 400_000
"""Maximum number of indexed pages of this and earlier captures, which limits the memory of the index."""
_BATCH_PAGES = 4096
_FILE_MODE, _DIRECTORY_MODE = 0o600, 0o700


@dataclass(frozen=True)
class _Header:
    """Layout of a pack: `ends` are the end offsets of the frames in the file, shape (frames,)."""

    pages: int
    pages_per_frame: int
    data: int
    ends: NDArray[np.uint64]

    def frame(self, number: int) -> tuple[int, int, int]:
        """Return offset and size of a frame in the file, and its decompressed size, in bytes."""
        begin = self.data + (int(self.ends[number - 1]) if number else 0)
        pages = min(self.pages_per_frame, self.pages - number * self.pages_per_frame)
        return begin, self.data + int(self.ends[number]) - begin, pages * PAGE_BYTES


def _header(descriptor: int) -> _Header | None:
    """Return the layout of a pack, or None if the file is not a pack."""
    size = os.fstat(descriptor).st_size
    start = os.pread(descriptor, _HEADER.size, 0)
    if len(start) < _HEADER.size:
        return None
    magic, pages, per_frame = _HEADER.unpack(start)
    if magic != _MAGIC or not 0 < pages <= _PAGES_PER_PACK or not 0 < per_frame <= _LARGEST_FRAME:
        return None
    frames = -(-pages // per_frame)
    ends_at = _HEADER.size + pages * _DIGEST_BYTES
    data = ends_at + frames * 8
    if size < data:
        return None
    ends = np.frombuffer(os.pread(descriptor, frames * 8, ends_at), dtype="<u8")
    if int(ends[-1]) != size - data or (np.diff(ends.astype(np.float64), prepend=0) <= 0).any():
        return None
    return _Header(pages, per_frame, data, ends)


@dataclass
class _Earlier:
    """Pack of another capture; `number` is None until this capture uses it."""

    path: Path
    number: int | None = None
    is_usable: bool = True


class PackWriter:
    """Stores pages in packs of a new capture.

    Args:
        directory: Directory of the capture; packs are written to its subdirectory `packs`.
        earlier: Packs of other captures, whose pages are shared. Packs on other file systems or of other users are ignored.
    """

    def __init__(self, directory: Path, earlier: Iterable[Path] = ()) -> None:
        self._directory = directory / PACKS_DIRECTORY
        self._directory.mkdir(_DIRECTORY_MODE)
        self._names: list[str] = []
        self._places: dict[bytes, int] = {}
        self._foreign: dict[bytes, tuple[_Earlier, int]] = {}
        self._open: _OpenPack | None = None
        self._writing = ThreadPoolExecutor(_PACKS_AT_ONCE)
        self._written: deque[tuple[int, Future[str]]] = deque()
        for path in earlier:
            self._index(path)

    def write(self, pieces: Iterable[NDArray[np.uint8]]) -> bytes:
        """Store whole pages, in pieces of shape (size,); return their page map, one 64-bit word per page."""
        words: list[NDArray[np.uint64]] = []
        for piece in pieces:
            pages = np.ascontiguousarray(piece).reshape(-1, PAGE_BYTES)
            places = np.full(len(pages), ZERO_PAGE, dtype="<u8")
            content = pages.reshape(-1).data
            for number in np.flatnonzero(pages.view(np.uint64).any(axis=1)).tolist():
                places[number] = self._place(content[number * PAGE_BYTES : (number + 1) * PAGE_BYTES])
            words.append(places)
        return b"".join(word.tobytes() for word in words)

    def finish(self) -> tuple[str, ...]:
        """Write the last pack; return the names of all packs, in the order of their numbers."""
        self._flush()
        self._wait(0)
        return tuple(self._names)

    def close(self) -> None:
        """Wait until all packs are written, even after an error."""
        self._writing.shutdown()

    def _place(self, page: memoryview[int]) -> int:
        digest = hashlib.sha256(page).digest()
        known = self._places.get(digest)
        if known is None and self._foreign:
            known = self._place_in_earlier(digest)
        if known is None:
            if self._open is None:
                self._open = _OpenPack(len(self._names))
                self._names.append("")
            known = self._open.number << 32 | self._open.add(page, digest)
            if len(self._open.digests) == _PAGES_PER_PACK:
                self._flush()
        if len(self._places) + len(self._foreign) < _KNOWN_PAGES:
            self._places[digest] = known
        return known

    def _place_in_earlier(self, digest: bytes) -> int | None:
        pack, page = self._foreign.get(digest, (None, 0))
        if pack is None or not pack.is_usable:
            return None
        if pack.number is None:
            if not self._take(pack.path):
                pack.is_usable = False
                return None
            pack.number = len(self._names)
            self._names.append(f"{PACKS_DIRECTORY}/{pack.path.name}")
        return pack.number << 32 | page

    def _take(self, path: Path) -> bool:
        """Link a pack of another capture into this one if its content matches its name."""
        place = self._directory / path.name
        try:
            os.link(path, place, follow_symlinks=False)
            with place.open("rb") as source:
                if hashlib.file_digest(source, "sha256").hexdigest() == path.stem:
                    return True
            place.unlink()
        except OSError:  # removed concurrently, on another file system, or on one without hard links
            return False
        return False

    def _index(self, path: Path) -> None:
        """Add the pages of another capture's pack to the index."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
                return
            header = _header(descriptor)
            if header is None or len(self._foreign) + header.pages > _KNOWN_PAGES // 2:
                return
            digests = os.pread(descriptor, header.pages * _DIGEST_BYTES, _HEADER.size)
        finally:
            os.close(descriptor)
        pack = _Earlier(path)
        for page in range(header.pages):
            self._foreign.setdefault(digests[page * _DIGEST_BYTES : (page + 1) * _DIGEST_BYTES], (pack, page))

    def _flush(self) -> None:
        """Start writing the pages that are not in a pack yet in the background."""
        if self._open is None:
            return
        self._wait(_PACKS_AT_ONCE - 1)
        self._written.append((self._open.number, self._writing.submit(self._open.write, self._directory)))
        self._open = None

    def _wait(self, remaining: int) -> None:
        """Wait until at most `remaining` packs are being written."""
        while len(self._written) > remaining:
            number, name = self._written.popleft()
            self._names[number] = f"{PACKS_DIRECTORY}/{name.result()}"


class _OpenPack:
    """Pages of a pack before it is written."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.digests: list[bytes] = []
        self._content = np.empty(_PAGES_PER_PACK * PAGE_BYTES, dtype=np.uint8).data

    def add(self, page: memoryview[int], digest: bytes) -> int:
        """Add a page; return its number in the pack."""
        number = len(self.digests)
        self._content[number * PAGE_BYTES : (number + 1) * PAGE_BYTES] = page
        self.digests.append(digest)
        return number

    def write(self, directory: Path) -> str:
        """Write the pack to a file; return its name."""
        size = len(self.digests) * PAGE_BYTES
        frames: list[bytes | bytearray | memoryview[int]] = [
            self._content[at : min(at + _FRAME_BYTES, size)] for at in range(0, size, _FRAME_BYTES)
        ]
        compressor = zstandard.ZstdCompressor(level=_LEVEL)
        parts = compressor.multi_compress_to_buffer(frames, threads=_THREADS)
        packed = [parts[number].tobytes() for number in range(len(frames))]
        ends = np.cumsum([len(frame) for frame in packed], dtype="<u8").tobytes()
        content = b"".join([_HEADER.pack(_MAGIC, len(self.digests), _PAGES_PER_FRAME), *self.digests, ends, *packed])
        hidden = directory / f".new-{self.number}"
        with os.fdopen(os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _FILE_MODE), "wb") as sink:
            sink.write(content)
            sink.flush()
            os.fdatasync(sink.fileno())
        name = f"{hashlib.sha256(content).hexdigest()}.pack"
        hidden.replace(directory / name)
        return name


class PackReader:
    """Returns pages from the packs of a capture; `packs` are their names in the order of their numbers."""

    def __init__(self, directory: CaptureDirectory, packs: tuple[str, ...]) -> None:
        self._directory = directory
        self._packs = packs
        self._decompressor = zstandard.ZstdDecompressor()
        self._headers: dict[int, _Header] = {}

    def pieces(self, page_map: str, nbytes: int) -> Iterator[NDArray[np.uint8]]:
        """Yield a packed file in pieces of whole pages, (size,).

        Args:
            page_map: Name of the file's page map.
            nbytes: Size of the file in bytes.

        Raises:
            CaptureError: The page map or a pack is damaged.
        """
        content = self._directory.content(page_map)
        if len(content) * PAGE_BYTES != nbytes * 8:
            raise self._damaged(f"{page_map} has {len(content):,} bytes, but {nbytes:,} bytes were packed")
        places = np.frombuffer(content, dtype="<u8")
        for start in range(0, len(places), _BATCH_PAGES):
            yield self._pages(places[start : start + _BATCH_PAGES], page_map).reshape(-1)

    def unpacked(self, page_map: str, nbytes: int) -> NDArray[np.uint8]:
        """Return a packed file, (nbytes,), read-only, mapped from an unnamed temporary file.

        Raises:
            CaptureError: The page map or a pack is damaged, or the temporary file cannot be written.
        """
        try:
            with tempfile.TemporaryFile(prefix="rocm-perf-lab-pages-") as sink:
                sink.truncate(nbytes)
                place = 0
                for piece in self.pieces(page_map, nbytes):
                    if piece.any():
                        os.pwrite(sink.fileno(), piece.data, place)
                    place += piece.size
                return np.memmap(sink, dtype=np.uint8, mode="r", shape=(nbytes,)) if nbytes else np.zeros(0, dtype=np.uint8)
        except OSError as error:
            raise CaptureError(
                f"{page_map} cannot be unpacked: {error.strerror}",
                where=tempfile.gettempdir(),
                hint="Free some space there, or set TMPDIR to another directory.",
            ) from error

    def _pages(self, places: NDArray[np.uint64], page_map: str) -> NDArray[np.uint8]:
        pages = np.zeros((len(places), PAGE_BYTES), dtype=np.uint8)
        filled = np.flatnonzero(places != ZERO_PAGE)
        packs, numbers = (
            (places[filled] >> np.uint64(32)).astype(np.int64),
            (places[filled] & np.uint64(0xFFFFFFFF)).astype(np.int64),
        )
        for pack in np.unique(packs).tolist():
            if pack >= len(self._packs):
                raise self._damaged(f"{page_map} refers to pack {pack} of {len(self._packs)}")
            own = packs == pack
            with self._directory.opened(self._packs[pack]) as descriptor:
                header = self._header(pack, descriptor)
                if int(numbers[own].max()) >= header.pages:
                    raise self._damaged(f"{page_map} refers to a page that {self._packs[pack]} does not have")
                frames = numbers[own] // header.pages_per_frame
                for frame in np.unique(frames).tolist():
                    inside = frames == frame
                    content = self._frame(pack, header, frame, descriptor)
                    pages[filled[own][inside]] = content[numbers[own][inside] % header.pages_per_frame]
        return pages

    def _header(self, pack: int, descriptor: int) -> _Header:
        if pack not in self._headers:
            header = _header(descriptor)
            if header is None:
                raise self._damaged(f"{self._packs[pack]} is not a pack of pages")
            self._headers[pack] = header
        return self._headers[pack]

    def _frame(self, pack: int, header: _Header, number: int, descriptor: int) -> NDArray[np.uint8]:
        offset, size, nbytes = header.frame(number)
        packed = os.pread(descriptor, size, offset)
        content = b""
        with suppress(zstandard.ZstdError):
            if zstandard.frame_content_size(packed) == nbytes:
                content = self._decompressor.decompress(packed, max_output_size=nbytes)
        if len(content) != nbytes:
            raise self._damaged(f"frame {number} of {self._packs[pack]} is damaged")
        return np.frombuffer(content, dtype=np.uint8).reshape(-1, PAGE_BYTES)

    def _damaged(self, what: str) -> CaptureError:
        return CaptureError(
            what, where=str(self._directory.path), hint="Copy it again from its original directory, or capture again."
        )
