"""Memory that kernels allocate with `malloc` or `new`.

The device libraries manage small blocks in slabs of 2 MiB that they request from the host, and keep their state in a block of
zeroed memory (`hidden_heap_v1`). Larger blocks are separate allocations, so that the emulator detects accesses past their end
or after `free`. Source: ROCm device libraries, `ockl/src/dm.cl`.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.emulator.memory import PAGE_BYTES, Allocation, DeviceMemory, DeviceMemoryError
from rocm_perf_lab.emulator.structures import AllocationEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.structures import ChecksRecord, MachineState

BOOKS_NAME, SLAB_NAME, BLOCK_NAME = "device heap", "device malloc slab", "device malloc"
BOOKS_BYTES = 128 << 10
_SLAB_BYTES = 2 << 20
"""Slabs are aligned to their size, so that the address of a block identifies its slab."""
_LIMIT_BYTES = 1 << 30
"""Limit of live memory, beyond which `malloc` returns null; lower than on a GPU, since this is host memory."""
_REGION_BYTES = 256 << 20
_ENTRY = np.dtype([(name, "<u8") for name, *_ in AllocationEntry._fields_])
"""struct rpl_allocation."""


class DeviceHeap:
    """Blocks allocated by kernels of one emulated GPU; addresses ascend and are never reused."""

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._live: dict[int, Allocation] = {}
        self._live_bytes = 0
        self._next = self._end = 0

    def allocate(self, nbytes: int, added: Callable[[Allocation], None]) -> int:
        """Return the address of a new block and pass it to `added`; 0 if no memory is left."""
        size = -(-nbytes // PAGE_BYTES) * PAGE_BYTES
        if nbytes <= 0 or self._live_bytes + size > _LIMIT_BYTES:
            return 0
        is_slab = nbytes == _SLAB_BYTES
        address = self._place(size, _SLAB_BYTES if is_slab else PAGE_BYTES)
        if address is None:
            return 0
        block = self._memory.adopt(SLAB_NAME if is_slab else BLOCK_NAME, nbytes, address)
        self._live[address] = block
        self._live_bytes += size
        added(block)
        return address

    def free(self, address: int) -> Allocation | None:
        """Free and return a block; None if there is no such block."""
        block = self._live.pop(address, None)
        if block is not None:
            self._live_bytes -= block.mapped_bytes
            self._memory.free(block)
        return block

    def _place(self, size: int, alignment: int) -> int | None:
        """Return an aligned address with an unused page before the next block, or None if no memory is left."""
        address = -(-self._next // alignment) * alignment
        if address + size + PAGE_BYTES > self._end:
            region = max(_REGION_BYTES, size + _SLAB_BYTES + PAGE_BYTES)
            try:
                start = self._memory.reserve(region)
            except DeviceMemoryError:
                return None
            self._end = start + region
            address = -(-start // alignment) * alignment
        self._next = address + size + PAGE_BYTES
        return address


class MutableRegistry:
    """Registry of allocations of a launch whose kernel allocates memory, the only table that changes while kernels run.

    Such a launch runs on one thread, and the table changes between two of its instructions. `state` and `checks` point to it.
    """

    def __init__(self, entries: ctypes.Array[AllocationEntry], state: MachineState, checks: ChecksRecord | None) -> None:
        self._entries: NDArray[np.void] = np.frombuffer(bytes(entries), dtype=_ENTRY).copy()
        self._state, self._checks = state, checks
        count = len(entries)
        self._shadows = [] if checks is None else [_words(checks.cells, count), _words(checks.initialised, count)]
        self._publish()

    def add(self, allocations: Sequence[Allocation]) -> None:
        """Make allocations accessible to the kernel; checks have no shadow memory for them."""
        ranges = np.array(sorted((a.address, a.end) for a in allocations if a.nbytes), np.uint64).reshape(-1, 2)
        new = np.zeros(len(ranges), dtype=_ENTRY)
        new["begin"], new["end"] = ranges.T
        places = np.searchsorted(self._entries["begin"], new["begin"])
        self._entries = np.insert(self._entries, places, new)
        self._shadows = [np.insert(shadow, places, 0) for shadow in self._shadows]
        self._publish()

    def free(self, allocation: Allocation) -> None:
        """Make later accesses to an allocation fault."""
        place = int(np.searchsorted(self._entries["begin"], allocation.address))
        self._entries["freed"][place] = 1

    def _publish(self) -> None:
        self._state.allocations = self._entries.ctypes.data
        self._state.allocation_count = len(self._entries)
        self._state.last_hit = 0
        if self._checks is not None:
            self._checks.cells, self._checks.initialised = (shadow.ctypes.data for shadow in self._shadows)


def _words(address: int | None, count: int) -> NDArray[np.uint64]:
    return np.frombuffer(ctypes.string_at(address or 0, 8 * count), dtype=np.uint64).copy()
