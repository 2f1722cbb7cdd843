"""Device memory during a launch whose workgroups may run a second time: `MemoryRewind(...)`, see `runtime/rewind.h`.

The first run copies every page before it writes to it. The second run sees memory as it was before the first one. At the end
memory is as the first run left it.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from rocm_perf_lab.emulator.errors import EmulationError
from rocm_perf_lab.emulator.memory import PAGE_BYTES
from rocm_perf_lab.emulator.structures import RewoundPages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.build import Runtime
    from rocm_perf_lab.emulator.structures import AllocationEntry


_WRITTEN = 2
"""RPL_PAGE_WRITTEN."""


class RewindUnavailable(EmulationError):
    """The host has too little address space for copies of device memory."""


@dataclass(frozen=True)
class _Part:
    """Consecutive pages that one or more allocations use."""

    record: RewoundPages
    state: NDArray[np.uint8]

    @property
    def nbytes(self) -> int:
        return len(self.state) * PAGE_BYTES


class MemoryRewind:
    """Copies of the pages of all live allocations; a context manager that restores memory after a second run.

    Args:
        runtime: C runtime.
        registry: Allocations of the launch, which must not change while this exists.
        images: Known content of buffers, by address.

    Raises:
        RewindUnavailable: Too little address space.
    """

    def __init__(
        self, runtime: Runtime, registry: ctypes.Array[AllocationEntry], images: Mapping[int, NDArray[np.uint8]]
    ) -> None:
        self._images = images  # the runtime has their addresses
        self._library = runtime.library
        self._registry = registry
        self._library.rpl_rewind_reserve.restype = ctypes.c_uint64
        self._parts: list[_Part] = []
        live = [entry for entry in registry if not entry.freed]
        try:
            for first, last in _page_ranges(live):
                self._parts.append(self._part(first, last - first))
        except RewindUnavailable:
            self._release()
            raise
        starts = np.array([part.record.first for part in self._parts], np.uint64)
        for entry in live:
            place = int(np.searchsorted(starts, entry.begin // PAGE_BYTES, side="right")) - 1
            entry.pages = ctypes.addressof(self._parts[place].record)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._parts:
            self._library.rpl_rewind_restore(ctypes.byref(part.record), ctypes.c_int(0))
        for entry in self._registry:
            entry.pages = None
        self._release()

    def again(self) -> None:
        """Restore pages that an incomplete second run changed, so that another one can start."""
        for part in self._parts:
            self._library.rpl_rewind_restore(ctypes.byref(part.record), ctypes.c_int(1))

    def _part(self, first: int, count: int) -> _Part:
        state = np.zeros(count, np.uint8)
        record = RewoundPages(first=first, count=count, state=state.ctypes.data)
        image = self._images.get(first * PAGE_BYTES)
        if image is not None:
            record.image, record.image_pages = image.ctypes.data, min(count, len(image) // PAGE_BYTES)
            state[: record.image_pages] = _WRITTEN
        for name in ("before", "after"):
            dense = ctypes.c_int(name == "before")  # the second run accesses few pages
            address = self._library.rpl_rewind_reserve(ctypes.c_uint64(count * PAGE_BYTES), dense)
            if not address:
                raise RewindUnavailable(
                    "too little memory to run workgroups a second time",
                    where=f"{count * PAGE_BYTES:,} bytes",
                    hint="Use smaller buffers, or device.sample=all, which needs no second run.",
                )
            setattr(record, name, address)
        return _Part(record, state)

    def _release(self) -> None:
        for part in self._parts:
            for address in (part.record.before, part.record.after):
                self._library.rpl_memory_unmap(ctypes.c_uint64(address), ctypes.c_uint64(part.nbytes))
        self._parts.clear()


def _page_ranges(entries: list[AllocationEntry]) -> Iterator[tuple[int, int]]:
    """Yield ranges of pages, joined if allocations share a page; `entries` are in the order of their addresses."""
    first = last = 0
    for entry in entries:
        begin, end = entry.begin // PAGE_BYTES, -(-entry.end // PAGE_BYTES)
        if begin >= last and last:
            yield first, last
            first = begin
        elif not last:
            first = begin
        last = max(last, end)
    if last:
        yield first, last
