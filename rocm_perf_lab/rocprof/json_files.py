"""JSON results of rocprofv3: discovery by content, opening, and identification of other JSON documents.

Neither names nor directories matter. Files compressed with gzip are decompressed.
"""

from __future__ import annotations

import gzip
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, cast

from rocm_perf_lab.rocprof.json_stream import JsonError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOT = "rocprofiler-sdk-tool"
"""Root key of the document."""
COLLECT = "collect it with: rocprofv3 --kernel-trace -f json -- APP"
_GZIP_MAGIC = b"\x1f\x8b"
_HEAD_BYTES = 1 << 16
OWN_DOCUMENT = "a document of rocm-perf-lab"
_OTHERS = (
    ("rocprofiler-sdk-json-tool", "output of the test tool of rocprofiler-sdk"),
    ("traceEvents", "a trace in Chrome's format (written by rocprof, PyTorch and Perfetto tools)"),
    ("schema_version", OWN_DOCUMENT),
)


def is_json(path: Path) -> bool:
    """Return True if the content of a file, compressed or not, is JSON."""
    return _head(path).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def is_results(path: Path) -> bool:
    """Return True if a file is JSON of rocprofv3."""
    return is_json(path) and f'"{ROOT}"'.encode() in _head(path)


def refuse_other(path: Path, key: str) -> None:
    """Reject a document of another tool, recognised by a key of its root.

    Raises:
        JsonError: The key identifies another document.
    """
    for mark, name in _OTHERS:
        if key == mark:
            raise JsonError(f"this is {name}, not JSON of rocprofv3", where=str(path), hint=COLLECT)


def other_document(path: Path) -> str | None:
    """Return the type of another tool's JSON document, by a key near its start; None if unknown."""
    head = _head(path)
    return next((name for mark, name in _OTHERS if f'"{mark}"'.encode() in head), None)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open the decompressed content of a file.

    Raises:
        JsonError: The file cannot be opened or decompressed.
    """
    try:
        with path.open("rb") as source:
            packed = source.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            source.seek(0)
            with gzip.open(source) if packed else source as content:
                yield cast("BinaryIO", content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise JsonError(f"the file cannot be decompressed: {error}", where=str(path), hint="copy it again") from error
    except OSError as error:
        raise JsonError(f"cannot open the file: {error.strerror}", where=str(path)) from error


def _head(path: Path) -> bytes:
    try:
        with opened(path) as content:
            return content.read(_HEAD_BYTES)
    except JsonError:
        return b""
