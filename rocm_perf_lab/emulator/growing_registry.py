"""The registry of allocations of a launch whose kernel allocates memory: the one table that changes while kernels run.

Such a launch runs on one thread, and changes come between two instructions of it.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.memory import Allocation
    from rocm_perf_lab.emulator.structures import AllocationEntry, ChecksRecord, MachineState

_ENTRY = np.dtype([("begin", "<u8"), ("end", "<u8"), ("freed", "<u8"), ("written", "<u8"), ("first_page", "<u8")])
"""struct rpl_allocation."""


class GrowingRegistry:
    """Owns the table that `state` and `checks` point to."""

    def __init__(self, entries: ctypes.Array[AllocationEntry], state: MachineState, checks: ChecksRecord | None) -> None:
        self._entries: NDArray[np.void] = np.frombuffer(bytes(entries), dtype=_ENTRY).copy()
        self._state, self._checks = state, checks
        count = len(entries)
        self._shadows = [] if checks is None else [_words(checks.cells, count), _words(checks.initialised, count)]
        self._publish()

    def add(self, allocations: Sequence[Allocation]) -> None:
        """Let the kernel use these from now on; no check has a shadow of them."""
        new = np.array(sorted((a.address, a.end, 0, 0, 0) for a in allocations if a.nbytes), dtype=_ENTRY)
        places = np.searchsorted(self._entries["begin"], new["begin"])
        self._entries = np.insert(self._entries, places, new)
        self._shadows = [np.insert(shadow, places, 0) for shadow in self._shadows]
        self._publish()

    def free(self, allocation: Allocation) -> None:
        """Make a later access a fault."""
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
