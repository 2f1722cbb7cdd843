"""Device memory of one emulated GPU: allocations at reproducible addresses and a registry of live and freed ones.

A device address is the host address of the same byte. Addresses ascend from a fixed base, with unmapped space between
allocations, so that equal runs use equal addresses. Addresses of freed memory are never reused.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.emulator.structures import FILL, AllocationEntry

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.build import Runtime

PAGE_BYTES = 4096
GUARD_BYTES = 1 << 16
_DWORD_BYTES = 4
_FIRST_ADDRESS = 0x1000_0000_0000
_LAST_ADDRESS = 0x5000_0000_0000  # mappings of the host are above
_FIRST_HIGH_ADDRESS = 0x7E00_0000_0000  # Linux maps libraries above 0x7eff_0000_0000
_LAST_HIGH_ADDRESS = 0x7E80_0000_0000
_SKIP_BYTES = 1 << 36  # distance to try next if another emulated GPU of this process uses the address


class DeviceMemoryError(LabError):
    """Device memory is unavailable, or the host accessed an address outside of it."""


@dataclass(frozen=True, order=True)
class Allocation:
    """Live or freed buffer."""

    address: int
    nbytes: int
    name: str

    @property
    def end(self) -> int:
        """First address after the buffer."""
        return self.address + self.nbytes

    @property
    def mapped_bytes(self) -> int:
        """Size in whole pages, at least one."""
        return max(1, -(-self.nbytes // PAGE_BYTES)) * PAGE_BYTES


@dataclass(frozen=True)
class TrackedPages:
    """Pages of `[address, address + nbytes)` that kernels wrote: `written` is (n_pages), 1 for a written page."""

    runtime: Runtime
    address: int
    nbytes: int
    written: NDArray[np.uint8]

    def restore(self, image: NDArray[np.uint8]) -> int:
        """Copy the written pages back from `image`, (nbytes), mark them as not written, and return their number."""
        restore = self.runtime.library.rpl_memory_restore
        restore.restype = ctypes.c_uint64
        return int(
            restore(
                ctypes.c_uint64(self.address),
                ctypes.c_void_p(image.ctypes.data),
                ctypes.c_void_p(self.written.ctypes.data),
                ctypes.c_uint64(len(self.written)),
            )
        )


@dataclass(frozen=True)
class SparsePages:
    """Buffer whose pages get their content at the first access: `filled` is (n_pages), 1 for an accessed page."""

    pages: TrackedPages
    filled: NDArray[np.uint8]
    fill: ctypes._CFunctionType = field(compare=False)

    def discard(self) -> None:
        """Free the memory of all pages; the buffer must not be used afterwards."""
        self.pages.runtime.library.rpl_memory_discard(ctypes.c_uint64(self.pages.address), ctypes.c_uint64(self.pages.nbytes))


@dataclass
class DeviceMemory:
    """Memory of one emulated GPU; close it to free the address space. `next_address` is the first address to try."""

    runtime: Runtime
    next_address: int = _FIRST_ADDRESS
    _allocations: list[Allocation] = field(default_factory=list)
    _freed: set[Allocation] = field(default_factory=set)
    _initialised: dict[Allocation, NDArray[np.uint8]] = field(default_factory=dict)
    _images: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    _adopted: set[Allocation] = field(default_factory=set)
    _reserved: list[Allocation] = field(default_factory=list)
    _tracked: list[TrackedPages] = field(default_factory=list)
    _sparse: dict[int, SparsePages] = field(default_factory=dict)

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """Live and freed allocations, by address."""
        return tuple(self._allocations)

    def is_freed(self, allocation: Allocation) -> bool:
        """Return whether an allocation was freed."""
        return allocation in self._freed

    def allocate(self, name: str, nbytes: int, address: int | None = None) -> Allocation:
        """Return zeroed memory, at the page-aligned `address` if given.

        Raises:
            DeviceMemoryError: The address is in use or unaligned, or the host has too little memory.
        """
        if nbytes < 0:
            raise DeviceMemoryError(f"buffer {name!r} of {nbytes} bytes", hint="Use a size of at least 0.")
        allocation = self._at(name, nbytes, address) if address is not None else self._anywhere(name, nbytes)
        insort(self._allocations, allocation)
        return allocation

    def use_high_addresses(self) -> None:
        """Choose addresses of later allocations near the end of the address space of a process, as ROCm does on a GPU."""
        self.next_address = _FIRST_HIGH_ADDRESS

    def adopt(self, name: str, nbytes: int, address: int) -> Allocation:
        """Let kernels use readable and writable memory that the caller mapped and unmaps after :meth:`close`.

        Raises:
            DeviceMemoryError: The memory overlaps another allocation.
        """
        allocation = Allocation(address, nbytes, name)
        position = bisect_right(self._allocations, address, key=lambda a: a.address)
        around = self._allocations[max(0, position - 1) : position + 1]
        overlapping = next((a for a in around if a.address < allocation.end and address < a.end), None)
        if overlapping is not None:
            raise DeviceMemoryError(f"{name!r} at {address:#x} overlaps {overlapping.name!r} at {overlapping.address:#x}")
        insort(self._allocations, allocation)
        self._adopted.add(allocation)
        return allocation

    def reserve(self, nbytes: int) -> int:
        """Map memory without an allocation, for parts that :meth:`adopt` registers later; :meth:`close` unmaps it.

        Raises:
            DeviceMemoryError: The host has too little memory.
        """
        reserved = self._anywhere("reserved", nbytes)
        self._reserved.append(reserved)
        return reserved.address

    def track_writes(self, address: int, nbytes: int) -> TrackedPages:
        """Record which pages of a range kernels write from the next launch on; both numbers are multiples of the page size."""
        pages = TrackedPages(self.runtime, address, nbytes, np.zeros(nbytes // PAGE_BYTES, dtype=np.uint8))
        insort(self._tracked, pages, key=lambda t: t.address)
        return pages

    def adopt_sparse(self, name: str, nbytes: int, address: int, fill: Callable[[int], None]) -> SparsePages:
        """Let kernels use a page-aligned buffer of any size, of which only accessed pages need memory of the host.

        Args:
            name: Name of the buffer.
            nbytes: Size in bytes.
            address: Memory of :meth:`reserve`, of this or another object.
            fill: Writes the initial content of the page at an address, before the first access to it.
        """
        allocation = self.adopt(name, nbytes, address)
        self.runtime.library.rpl_memory_sparse(ctypes.c_uint64(address), ctypes.c_uint64(allocation.mapped_bytes))
        pages = self.track_writes(address, allocation.mapped_bytes)
        self._sparse[address] = SparsePages(pages, np.zeros(len(pages.written), np.uint8), FILL(fill))
        return self._sparse[address]

    def free(self, allocation: Allocation) -> None:
        """Free a buffer; its addresses stay reserved, so that later accesses to it are detected."""
        self._require_live(allocation, "freed")
        give_back = (
            self.runtime.library.rpl_memory_discard if allocation in self._adopted else self.runtime.library.rpl_memory_retire
        )
        give_back(ctypes.c_uint64(allocation.address), ctypes.c_uint64(allocation.mapped_bytes))
        self._freed.add(allocation)

    def view(self, allocation: Allocation) -> NDArray[np.uint8]:
        """Return the bytes of a buffer; valid until it is freed or the memory is closed."""
        self._require_live(allocation, "accessed")
        content = (ctypes.c_uint8 * allocation.nbytes).from_address(allocation.address)
        return np.ctypeslib.as_array(content)

    def forget_content(self, allocation: Allocation) -> None:
        """Mark every byte of a buffer as uninitialised."""
        self._initialised[allocation] = np.zeros(_dwords(allocation), dtype=np.uint8)

    def set_image(self, allocation: Allocation, content: NDArray[np.generic]) -> None:
        """State that a contiguous array, which the caller does not change, is the content of a buffer until the next launch.

        A second run of workgroups then needs no copy of the buffer.
        """
        self._images[allocation.address] = content.reshape(-1).view(np.uint8)

    def forget_image(self, allocation: Allocation) -> None:
        """State that the content of a buffer changed."""
        self._images.pop(allocation.address, None)

    def images(self) -> dict[int, NDArray[np.uint8]]:
        """Return the images set since the last call, by address of the buffer: a launch may change the buffers."""
        images, self._images = self._images, {}
        return images

    def initialised(self, allocation: Allocation) -> NDArray[np.uint8] | None:
        """Return a bit per byte of each dword that is 1 if initialised, (n_dwords,), or None if all bytes are initialised."""
        return self._initialised.get(allocation)

    @property
    def has_sparse(self) -> bool:
        """Return whether a buffer gets its content page by page."""
        return bool(self._sparse)

    def registry(self) -> ctypes.Array[AllocationEntry]:
        """Return the sorted table of allocations that the runtime checks accesses against, without empty ones."""
        entries = [self._entry(a) for a in self._allocations if a.nbytes]
        return (AllocationEntry * len(entries))(*entries)

    def nearest(self, address: int) -> Allocation | None:
        """Return the allocation that contains `address`, or else the nearest one."""
        position = bisect_right(self._allocations, address, key=lambda a: a.address)
        around = self._allocations[max(0, position - 1) : position + 1]
        return min(around, key=lambda a: max(a.address - address, address - a.end + 1, 0), default=None)

    def close(self) -> None:
        """Unmap all memory."""
        for allocation in [*self._allocations, *self._reserved]:
            if allocation not in self._adopted:
                self.runtime.library.rpl_memory_unmap(
                    ctypes.c_uint64(allocation.address), ctypes.c_uint64(allocation.mapped_bytes)
                )
        self._adopted.clear()
        self._reserved.clear()
        self._tracked.clear()
        self._sparse.clear()
        self._initialised.clear()
        self._images.clear()
        self._allocations.clear()
        self._freed.clear()

    def _entry(self, allocation: Allocation) -> AllocationEntry:
        begin, end = allocation.address, allocation.end
        entry = AllocationEntry(begin, end, int(allocation in self._freed))
        position = bisect_right(self._tracked, begin, key=lambda t: t.address)
        tracked = self._tracked[position - 1] if position else None
        if tracked is not None and end <= tracked.address + tracked.nbytes:
            entry.written, entry.first_page = tracked.written.ctypes.data, tracked.address // PAGE_BYTES
        sparse = self._sparse.get(begin)
        if sparse is not None:
            entry.filled, entry.fill = sparse.filled.ctypes.data, ctypes.cast(sparse.fill, ctypes.c_void_p).value
        return entry

    def _at(self, name: str, nbytes: int, address: int) -> Allocation:
        allocation = Allocation(address, nbytes, name)
        if address % PAGE_BYTES or address <= 0 or not self._map(allocation):
            raise DeviceMemoryError(
                f"buffer {name!r} cannot be placed at {address:#x}",
                where=f"{nbytes:,} bytes",
                hint=f"The address must be a multiple of {PAGE_BYTES} and free in this process.",
            )
        return allocation

    def _anywhere(self, name: str, nbytes: int) -> Allocation:
        last = _LAST_HIGH_ADDRESS if self.next_address >= _FIRST_HIGH_ADDRESS else _LAST_ADDRESS
        while self.next_address < last:
            allocation = Allocation(self.next_address, nbytes, name)
            if self._map(allocation):
                self.next_address += allocation.mapped_bytes + GUARD_BYTES
                self.next_address = -(-self.next_address // GUARD_BYTES) * GUARD_BYTES
                return allocation
            self.next_address += _SKIP_BYTES
        raise DeviceMemoryError(f"no memory for buffer {name!r}", where=f"{nbytes:,} bytes", hint="Use smaller buffers.")

    def _map(self, allocation: Allocation) -> bool:
        refused = self.runtime.library.rpl_memory_map(
            ctypes.c_uint64(allocation.address), ctypes.c_uint64(allocation.mapped_bytes)
        )
        return not refused

    def _require_live(self, allocation: Allocation, verb: str) -> None:
        position = bisect_right(self._allocations, allocation) - 1
        known = position >= 0 and self._allocations[position] == allocation
        if not known or allocation in self._freed:
            raise DeviceMemoryError(
                f"buffer {allocation.name!r} cannot be {verb}: it was freed or belongs to another emulated GPU",
                hint="Allocate it again.",
            )


def _dwords(allocation: Allocation) -> int:
    """Return the number of dwords that contain a byte of a buffer, which may begin inside of a dword."""
    return -(-allocation.end // _DWORD_BYTES) - allocation.address // _DWORD_BYTES
