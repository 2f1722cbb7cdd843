"""Printf without host calls (`-mprintf-kind=buffered`): kernels leave records in a buffer, the host reads them afterwards.

The buffer begins with two 32-bit words: bytes used and bytes there are. A record is a control word, with the record's size above
two flags (to stderr; the format string is a constant), and then 64-bit words: a constant format's hash in its place, or the
string itself, then the arguments as in :mod:`~rocm_perf_lab.emulator.device_printf`. The metadata note has the constant formats,
`0:0:hash,text` each. Source: ROCm device libraries (`printf_alloc.cl`), ROCclr (`devhcprintf.cpp`, `rocprintf.cpp`).
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.device_printf import Arguments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.device_printf import Formatter

BUFFER_NAME = "printf buffer"
BUFFER_BYTES = 16 << 20
"""What does not fit is not printed; the kernel's printf returns -1 then."""
_HEADER_BYTES, _CONTROL_BYTES, _WORD_BYTES = 8, 4, 8
_TO_STDERR, _IS_CONSTANT, _SIZE_SHIFT = 1, 2, 2
_FORMAT = re.compile(r"0:0:([0-9a-fA-F]{1,16}),(.*)", re.DOTALL)


@dataclass(frozen=True)
class BufferedMessage:
    """One printf of one work-item."""

    text: bytes
    to_stderr: bool


def constant_formats(entries: Sequence[str]) -> dict[int, bytes]:
    """Format strings by their hash, from the entries of `amdhsa.printf`; those of OpenCL, which have no hash, are left out."""
    matches = filter(None, map(_FORMAT.fullmatch, entries))
    return {int(match[1], 16): match[2].encode() for match in matches}


def clear(content: NDArray[np.uint8]) -> None:
    """Make the buffer an empty one."""
    struct.pack_into("<II", content.data, 0, 0, len(content))


def messages(content: NDArray[np.uint8], formats: dict[int, bytes], formatter: Formatter) -> Iterator[BufferedMessage]:
    """What the records say, in their order; reading ends at the first that is damaged."""
    (used,) = struct.unpack_from("<I", content.data, 0)
    position, end = _HEADER_BYTES, min(_HEADER_BYTES + used, len(content))
    while position + _CONTROL_BYTES <= end:
        (control,) = struct.unpack_from("<I", content.data, position)
        size = control >> _SIZE_SHIFT
        if size < _CONTROL_BYTES or position + size > end:
            return
        count = (size - _CONTROL_BYTES) // _WORD_BYTES
        words = struct.unpack_from(f"<{count}Q", content.data, position + _CONTROL_BYTES)
        position += size
        if control & _IS_CONSTANT:
            text = formatter.formatted(formats.get(words[0], b""), Arguments(words[1:])) if words else b""
        else:
            text = formatter.message(words)
        yield BufferedMessage(text, bool(control & _TO_STDERR))
