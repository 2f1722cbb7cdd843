"""Memory of large arrays: what one leaves is used for the next, instead of being given back and mapped anew.

The C library maps every block above 32 MiB by itself. Of five million rows each temporary column is one, and zeroing its
pages takes longer than computing with it: without this, time would grow faster than the number of rows.
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Of glibc's mallopt(3)."""
_LIMIT_BYTES = 1 << 30


def keep_freed_memory() -> None:
    """From here on, in this process. Does nothing where the C library has no such setting."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
            mallopt(parameter, _LIMIT_BYTES)
