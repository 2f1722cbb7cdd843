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
_LINES_IN_DETAIL = 1 << 12
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
        ("padding", ctypes.c_uint32),
    )


@dataclass(frozen=True)
class LineFootprint:
    """Accesses of a whole launch to a sample of the lines.

    `accesses` is (n_accesses) of :data:`LINE_ACCESS`, by workgroup, then by time, the number of earlier memory instructions of
    the wavefront. Those of workgroup `w` are `accesses[first[w]:first[w + 1]]`; `first` is (n_workgroups + 1).
    `memory_instructions` is (n_workgroups), that of the longest wavefront. `allocations` are (address, bytes) of the allocations
    that the records number.
    """

    accesses: NDArray[np.void]
    first: NDArray[np.uint64]
    memory_instructions: NDArray[np.uint32]
    sampling: int
    """One of this number of lines is sampled."""
    allocations: tuple[tuple[int, int], ...]
    is_complete: bool = True
    """False if the host had too little memory."""


class FootprintRecorder:
    """Buffers of the threads of a launch; a context manager that frees them.

    Args:
        runtime: C runtime.
        threads: Threads that run workgroups.
        workgroups: Workgroups of the launch.
        registry: Allocations sorted by address, as passed to the launch.
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
        for record, longest in zip(self._records, self._memory_instructions, strict=True):
            record.shift, record.limit = shift, self._limit
            record.memory_instructions = longest.ctypes.data

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
