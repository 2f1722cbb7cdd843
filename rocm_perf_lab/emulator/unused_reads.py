"""Reads of uninitialised memory that affect no result: decided by further runs with other content of that memory.

Correct kernels make them: a wavefront loads a whole tile of LDS although only a part of it is in use, and discards the rest. The
results of such a launch do not depend on the content of uninitialised memory; those of a defective kernel do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.memory import Allocation, DeviceMemory

_LARGEST_BYTES = 1 << 28
_BYTES_OF_DWORD = 4


@dataclass(frozen=True)
class Content:
    """Content of uninitialised memory: each dword is the previous one plus `step`, modulo 2^32."""

    first: int
    step: int = 0

    def dwords(self, count: int) -> NDArray[np.uint32]:
        """Return the first `count` dwords."""
        return (np.arange(count, dtype=np.uint64) * np.uint64(self.step) + np.uint64(self.first)).astype(np.uint32)


CONTENTS = (
    *map(Content, (0x0000_0000, 0x3F80_0001, 0x7F7F_FFFF, 0x8000_0001, 0xFFFF_FFFF)),
    Content(0x3F80_0001, 0x9E37_79B1),
)
"""Tried: zero, small and large, positive and negative, as integers and as floats; and dwords that differ from each other."""


@dataclass(frozen=True)
class _Buffer:
    """A buffer before the launch; `initialised` is (n_bytes) or None if all of it is."""

    allocation: Allocation
    content: NDArray[np.uint8]
    initialised: NDArray[np.bool_] | None


class MemoryBeforeLaunch:
    """Copy of device memory before a launch, which repeats the launch with other content of uninitialised memory."""

    def __init__(self, memory: DeviceMemory, buffers: list[_Buffer]) -> None:
        self._memory = memory
        self._buffers = buffers

    @classmethod
    def of(cls, memory: DeviceMemory, *, records_stores: bool) -> Self | None:
        """Return a copy of all live buffers; None if there is too much memory.

        Args:
            memory: Device memory.
            records_stores: Whether the launch records which bytes it initialises; else all buffers count as initialised.
        """
        live = [a for a in memory.allocations if a.nbytes and not memory.is_freed(a)]
        if memory.has_sparse or sum(a.nbytes for a in live) > _LARGEST_BYTES:
            return None
        masks = [_initialised_bytes(memory, a) if records_stores else None for a in live]
        return cls(memory, [_Buffer(a, memory.view(a).copy(), mask) for a, mask in zip(live, masks, strict=True)])

    def depends_on_uninitialised(self, run: Callable[[Content], bool]) -> bool:
        """Return whether a launch has other results if uninitialised memory has other content. Memory is left as it is.

        Args:
            run: Runs the launch again with a content of uninitialised LDS, and returns whether it succeeded.
        """
        results = [self._memory.view(buffer.allocation).copy() for buffer in self._buffers]
        written = [
            None if buffer.initialised is None else _initialised_bytes(self._memory, buffer.allocation)
            for buffer in self._buffers
        ]
        try:
            return any(not self._has_equal_results(run, content, results, written) for content in CONTENTS)
        finally:
            for buffer, result in zip(self._buffers, results, strict=True):
                self._memory.view(buffer.allocation)[:] = result

    def _has_equal_results(
        self,
        run: Callable[[Content], bool],
        content: Content,
        results: list[NDArray[np.uint8]],
        written: list[NDArray[np.bool_] | None],
    ) -> bool:
        for buffer in self._buffers:
            view = self._memory.view(buffer.allocation)
            view[:] = buffer.content
            if buffer.initialised is not None:
                filling = content.dwords(-(-len(view) // _BYTES_OF_DWORD)).view(np.uint8)[: len(view)]
                np.copyto(view, filling, where=~buffer.initialised)
        if not run(content):
            return False
        for buffer, result, defined in zip(self._buffers, results, written, strict=True):
            differs = self._memory.view(buffer.allocation) != result
            if bool((differs if defined is None else differs & defined).any()):
                return False
        return True


def _initialised_bytes(memory: DeviceMemory, allocation: Allocation) -> NDArray[np.bool_] | None:
    """Return a mask of the initialised bytes of a buffer, shape (n_bytes,), or None if all are initialised."""
    mask = memory.initialised(allocation)
    if mask is None:
        return None
    bits = np.unpackbits(mask[:, None], axis=1, count=_BYTES_OF_DWORD, bitorder="little").reshape(-1).astype(bool)
    first = allocation.address % _BYTES_OF_DWORD
    return bits[first : first + allocation.nbytes]
