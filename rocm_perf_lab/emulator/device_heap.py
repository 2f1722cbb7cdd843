"""Memory that kernels allocate: `malloc`, `new`, and what the device libraries' allocator asks the host for.

Small blocks are the device libraries' own business: they cut slabs of 2 MiB, which they get here, and keep books in a block of
zeroed memory (`hidden_heap_v1`). Larger ones are given out one by one, so that the emulator sees accesses past their ends
and after their `free`. Source: ROCm device libraries, `ockl/src/dm.cl`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.memory import PAGE_BYTES, Allocation, DeviceMemory, DeviceMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable

BOOKS_NAME, SLAB_NAME, BLOCK_NAME = "device heap", "device malloc slab", "device malloc"
BOOKS_BYTES = 128 << 10
_SLAB_BYTES = 2 << 20
"""Slabs are aligned to their size: a block's slab is found by its address."""
_LIMIT_BYTES = 1 << 30
"""Of live memory; `malloc` gives null beyond. A GPU would give more, but this is the host's memory."""
_REGION_BYTES = 256 << 20


class DeviceHeap:
    """Blocks of one machine's memory; addresses ascend and are not used again."""

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._live: dict[int, Allocation] = {}
        self._live_bytes = 0
        self._next = self._end = 0

    def allocate(self, nbytes: int, added: Callable[[Allocation], None]) -> int:
        """Address of a new block, which `added` is told of; 0 where there is no memory for it."""
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
        """Give a block back; None where there is no such block."""
        block = self._live.pop(address, None)
        if block is not None:
            self._live_bytes -= block.mapped_bytes
            self._memory.free(block)
        return block

    def _place(self, size: int, alignment: int) -> int | None:
        """With a page between blocks that belongs to nobody."""
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
