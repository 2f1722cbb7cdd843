"""Sampled lines of device memory that a launch accesses: `FootprintRecorder` while it runs, `LineFootprint` afterwards.

The runtime (`runtime/footprint.c`) samples lines of 128 bytes by their offset within an allocation and records every access
to them. The sample is equal in every process and for any number of threads. See "Shared caches" in `docs/timing-model.md`.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.build import Runtime
    from rocm_perf_lab.emulator.structures import AllocationEntry

LINE_BYTES = 128
LINE_ACCESS = np.dtype([("place", np.uint64), ("workgroup", np.uint32), ("time", np.uint32)])
"""struct rpl_line_access."""
ALLOCATION_SHIFT, ALLOCATION_MASK = 32, 0x7FFF
PRIVATE_ALLOCATION = 0x7FFF
"""Number of scratch among the allocations."""
NEW_ALLOCATION = 0x7FFE
"""Number of memory that was allocated while the kernel ran."""
CHANNEL_BITS_MAX = 8
WINDOWS = 8
_COUNTED_LINES = 4096
# Bits of the address whose parity is a bit of the channel's number: AMD's address translation library in Linux
# (drivers/ras/amd/atl/dehash.c, MI300). Four bits select a channel of a stack, three a stack.
_CHANNEL_BITS = (
    (8, 12, 15, 22, 29, 36, 43),
    (9, 13, 16, 23, 30, 37, 44),
    (10, 14, 17, 24, 31, 38, 45),
    (11, 18, 25, 32, 39, 46),
    (14, 19, 26, 33, 40, 47),
    (12, 20, 27, 34, 41),
    (13, 21, 28, 35, 42),
)
CHANNEL_MASKS = tuple(sum(1 << bit for bit in bits) for bits in _CHANNEL_BITS)
"""Masks of the address bits whose parities number a channel; the first ones number a channel of L2."""
_LINES_IN_DETAIL = 1 << 13
"""Lines of all allocations up to which every line is recorded."""
_LARGEST_SHIFT = 8
_RECORDS = 1 << 18


class FootprintRecord(ctypes.Structure):
    """struct rpl_footprint."""

    _fields_ = (
        ("records", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("capacity", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
        ("memory_instructions", ctypes.c_void_p),
        ("shift", ctypes.c_uint32),
        ("level", ctypes.c_uint32),
        ("is_truncated", ctypes.c_uint32),
        ("xcds", ctypes.c_uint32),
        ("channel_bits", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
        ("channel_masks", ctypes.c_uint64 * CHANNEL_BITS_MAX),
        ("windows", ctypes.c_void_p),
        ("counted", ctypes.c_void_p),
        ("known", ctypes.c_void_p),
        ("known_count", ctypes.c_uint64),
    )


@dataclass(frozen=True)
class LineFootprint:
    """Accesses of a whole launch to a sample of the lines.

    `accesses` is (n_accesses) of :data:`LINE_ACCESS`, by workgroup, then by time, the number of earlier memory instructions of
    the wavefront. Those of workgroup `w` are `accesses[first[w]:first[w + 1]]`; `first` is (n_workgroups + 1).
    `memory_instructions` is (n_workgroups), that of the longest wavefront. `allocations` are (address, bytes) of the allocations
    that the records number, besides :data:`PRIVATE_ALLOCATION` and :data:`NEW_ALLOCATION`.
    """

    accesses: NDArray[np.void]
    first: NDArray[np.uint64]
    memory_instructions: NDArray[np.uint32]
    sampling: int
    """One of this number of lines is sampled."""
    allocations: tuple[tuple[int, int], ...]
    channel_windows: NDArray[np.uint64]
    """Lines by channel in short parts of the launch, not sampled: (xcds, windows, channels)."""
    is_complete: bool = True
    """False if the host had too little memory."""

    def span(self, number: int) -> tuple[int, int]:
        """Return address and bytes of an allocation; one that was made while the kernel ran follows all others."""
        if number < len(self.allocations):
            return self.allocations[number]
        places = self.accesses["place"]
        lines = places[places >> np.uint64(ALLOCATION_SHIFT) & np.uint64(ALLOCATION_MASK) == number] & np.uint64(2**32 - 1)
        end = max((address + nbytes for address, nbytes in self.allocations), default=0)
        return end, (int(lines.max(initial=0)) + 1) * LINE_BYTES


class FootprintRecorder:
    """Buffers of the threads of a launch; a context manager that frees them.

    Args:
        runtime: C runtime.
        threads: Threads that run workgroups.
        workgroups: Workgroups of the launch.
        registry: Allocations sorted by address, as passed to the launch.
        xcds: Number of XCDs, to which workgroups are distributed round-robin.
        channel_bits: Binary logarithm of the channels of an L2.
        sampling: Fixed power of two; by default it follows from the size of the allocations and the number of accesses.
        enabled: Record accesses; otherwise there are no buffers and no result.
    """

    def __init__(
        self,
        runtime: Runtime,
        threads: int,
        workgroups: int,
        registry: Sequence[AllocationEntry] | ctypes.Array[AllocationEntry],
        *,
        xcds: int = 1,
        channel_bits: int = 4,
        sampling: int | None = None,
        enabled: bool = True,
    ) -> None:
        threads = threads if enabled else 0
        self._runtime = runtime
        self._allocations = tuple((int(e.begin), int(e.end - e.begin)) for e in registry)
        live = sum(-(-int(e.end - e.begin) // LINE_BYTES) for e in registry if not e.freed)
        self._memory_instructions = np.zeros((threads, workgroups), dtype=np.uint32)
        shift = sampling_shift(live) if sampling is None else round(log2(sampling))
        self._limit = _RECORDS if sampling is None else 2**62
        self._records = (FootprintRecord * threads)()
        self._windows = np.zeros((threads, xcds, WINDOWS, 1 << channel_bits), dtype=np.uint32)
        self._counted = np.zeros((threads, _COUNTED_LINES), dtype=np.uint64)
        for number, record in enumerate(self._records):
            record.shift, record.limit = shift, self._limit
            record.memory_instructions = self._memory_instructions[number].ctypes.data
            record.xcds, record.channel_bits = xcds, channel_bits
            record.channel_masks[: len(CHANNEL_MASKS)] = CHANNEL_MASKS
            record.windows, record.counted = self._windows[number].ctypes.data, self._counted[number].ctypes.data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for record in self._records:
            self._runtime.library.rpl_footprint_free(ctypes.byref(record))

    def address(self, thread: int) -> int | None:
        """Return the address of the buffer of a thread, or None if disabled."""
        return ctypes.addressof(self._records[thread]) if len(self._records) else None

    def result(self) -> LineFootprint | None:
        """Return the accesses of all threads, with the sampling of the one that sampled least, or None if disabled."""
        if not len(self._records):
            return None
        level = self._common_level()
        parts = [_copied(record) for record in self._records]
        accesses = np.concatenate(parts)
        key = accesses["workgroup"].astype(np.uint64) << np.uint64(32) | accesses["time"]
        accesses = accesses[np.argsort(key, kind="stable")]
        workgroups = self._memory_instructions.shape[1]
        return LineFootprint(
            accesses=accesses,
            first=np.append(0, np.bincount(accesses["workgroup"], minlength=workgroups).cumsum()).astype(np.uint64),
            memory_instructions=self._memory_instructions.max(axis=0, initial=0),
            sampling=1 << (self._records[0].shift + level),
            allocations=self._allocations,
            channel_windows=self._windows.sum(axis=0, dtype=np.uint64),
            is_complete=not any(record.is_truncated for record in self._records),
        )

    def _common_level(self) -> int:
        """Thin the records of all threads to one level at which they do not exceed the limit together."""
        level = max(int(record.level) for record in self._records)
        while True:
            for record in self._records:
                if record.level < level:
                    self._runtime.library.rpl_footprint_thin(ctypes.byref(record), ctypes.c_uint32(level))
            if sum(int(record.count) for record in self._records) <= self._limit:
                return level
            level += 1


def sampling_shift(lines: int) -> int:
    """Return the binary logarithm of the sampling that a launch with this number of allocated lines starts with."""
    shift = round(log2(max(1, lines) / _LINES_IN_DETAIL))
    return min(_LARGEST_SHIFT, max(0, shift))


def _copied(record: FootprintRecord) -> NDArray[np.void]:
    if not record.count:
        return np.zeros(0, dtype=LINE_ACCESS)
    raw = (ctypes.c_uint8 * (record.count * LINE_ACCESS.itemsize)).from_address(record.records)
    return np.frombuffer(raw, dtype=LINE_ACCESS).copy()
