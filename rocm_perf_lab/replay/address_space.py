"""Reservation of the captured addresses in a new process before they can be occupied.

A replay process calls `claim(ranges)` first. If a library, the heap or a stack already occupies a range, the process restarts
itself with a new randomised layout of the address space, the last time without randomisation. This module imports only the
standard library, because imports occupy addresses.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Any

ATTEMPTS = 8
"""Number of starts with a randomised layout, before one without randomisation."""
ATTEMPT_VARIABLE = "ROCM_PERF_LAB_REPLAY_ATTEMPT"

_PROT_NONE, _PROT_READ_WRITE = 0, 3
_MAP_PRIVATE, _MAP_FIXED, _MAP_ANONYMOUS, _MAP_NORESERVE, _MAP_FIXED_NOREPLACE = 0x2, 0x10, 0x20, 0x4000, 0x100000
_MADV_HUGEPAGE = 14
_ADDR_NO_RANDOMIZE = 0x0040000
_UNCHANGED = 0xFFFF_FFFF
_FAILED = ctypes.c_void_p(-1).value

Range = tuple[int, int]
"""(address, bytes), both multiples of the page size."""


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.personality.argtypes = [ctypes.c_ulong]
    return libc


def reserve(address: int, nbytes: int) -> bool:
    """Reserve a range in this process; return False if part of it is in use."""
    flags = _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_NORESERVE | _MAP_FIXED_NOREPLACE
    got = _libc().mmap(address, nbytes, _PROT_NONE, flags, -1, 0)
    if got == address:
        return True
    if got != _FAILED:  # Linux before 4.17 treats the address as a hint.
        _libc().munmap(got, nbytes)
    return False


def release(address: int, nbytes: int) -> None:
    """Release a reserved range."""
    _libc().munmap(address, nbytes)


def materialise(address: int, nbytes: int) -> bool:
    """Map zeroed, writable memory into a reserved range; return False if memory is insufficient."""
    flags = _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_NORESERVE | _MAP_FIXED
    if _libc().mmap(address, nbytes, _PROT_READ_WRITE, flags, -1, 0) != address:
        return False
    _libc().madvise(address, nbytes, _MADV_HUGEPAGE)  # Reduces page faults; failure is harmless.
    return True


def claim(ranges: list[Range]) -> list[Range]:
    """Reserve all ranges. If some are in use, restart the process with a new layout, up to `ATTEMPTS` + 1 times.

    Returns:
        The ranges that are still in use after the last start; empty if all are reserved.
    """
    taken = [(address, nbytes) for address, nbytes in ranges if not reserve(address, nbytes)]
    attempt = int(os.environ.get(ATTEMPT_VARIABLE, "0"))
    if taken and attempt <= ATTEMPTS:
        os.environ[ATTEMPT_VARIABLE] = str(attempt + 1)
        if attempt == ATTEMPTS:
            _libc().personality(_libc().personality(_UNCHANGED) | _ADDR_NO_RANDOMIZE)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    return taken


def owner_of(address: int, nbytes: int) -> str | None:
    """Return the owner of memory in a range: a file, `[heap]`, `[stack]` or unnamed memory; None if the range is free."""
    with open("/proc/self/maps", encoding="utf-8") as maps:  # noqa: PTH123 pathlib is not loaded this early
        for line in maps:
            bounds, *rest = line.split(maxsplit=5)
            begin, end = (int(bound, 16) for bound in bounds.split("-"))
            if begin < address + nbytes and address < end:
                return rest[4].strip() if len(rest) > 4 else "unnamed memory of this process"
    return None
