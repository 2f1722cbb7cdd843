"""Wavefront with device memory, LDS and scratch, for tests of single runtime functions."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Self

import numpy as np

from rocm_perf_lab.emulator.build import Runtime, load_runtime
from rocm_perf_lab.emulator.memory import Allocation, DeviceMemory
from rocm_perf_lab.emulator.structures import EXEC, LANES, FaultRecord, MachineState, WaveState, WaveStatus, WaveTrace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.builders.opcodes import Snippets

_WAVE_ALIGNMENT = 64


class WaveBench:
    """Wavefront at the call of a runtime function; a context manager."""

    def __init__(self, *, lds_bytes: int = 4096, scratch_bytes: int = 64) -> None:
        self.runtime: Runtime = load_runtime()
        self.memory = DeviceMemory(self.runtime)
        self.machine = MachineState()
        storage = (ctypes.c_uint8 * (ctypes.sizeof(WaveState) + _WAVE_ALIGNMENT))()
        self.wave = WaveState.from_buffer(storage, -ctypes.addressof(storage) % _WAVE_ALIGNMENT)
        self.trace = WaveTrace()
        self._lds = (ctypes.c_uint8 * lds_bytes)()
        self.scratch = (ctypes.c_uint8 * (scratch_bytes * LANES))()
        self.wave.lds, self.wave.lds_bytes = ctypes.addressof(self._lds), lds_bytes
        self.wave.scratch, self.wave.scratch_bytes = ctypes.addressof(self.scratch), scratch_bytes
        self.wave.machine = ctypes.addressof(self.machine)
        self.wave.lane_count = LANES
        self.set_exec((1 << LANES) - 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.memory.close()

    @property
    def fault(self) -> FaultRecord:
        """Fault recorded by the last call."""
        fault: FaultRecord = self.machine.fault
        return fault

    @property
    def lds(self) -> NDArray[np.uint32]:
        """LDS as dwords."""
        return np.ctypeslib.as_array(self._lds).view(np.uint32)

    def row(self, index: int) -> NDArray[np.uint32]:
        """Return one VGPR, (64,); writable."""
        return np.ctypeslib.as_array(self.wave.vgpr[index])

    def set_exec(self, mask: int) -> None:
        """Set EXEC."""
        self.wave.sgpr[EXEC], self.wave.sgpr[EXEC + 1] = mask & 0xFFFFFFFF, mask >> 32

    def set_addresses(self, row: int, addresses: NDArray[np.uint64]) -> None:
        """Set rows `row` and `row + 1` to 64-bit addresses."""
        self.row(row)[:] = (addresses & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        self.row(row + 1)[:] = (addresses >> np.uint64(32)).astype(np.uint32)

    def buffer(self, content: NDArray[np.generic], name: str = "x") -> Allocation:
        """Return device memory with a content."""
        allocation = self.memory.allocate(name, content.nbytes)
        self.memory.view(allocation)[:] = content.view(np.uint8).ravel()
        return allocation

    def content(self, allocation: Allocation, dtype: type[np.generic]) -> NDArray[np.generic]:
        """Return a copy of device memory."""
        return self.memory.view(allocation).view(dtype).copy()

    def call(self, helper: str, *arguments: int | ctypes.c_uint64 | ctypes.c_int64) -> int:
        """Call `helper` for instruction 7 (plain numbers are passed as 32-bit ints): 0, or 1 after a fault."""
        registry = self.memory.registry()
        self.machine.allocations, self.machine.allocation_count = ctypes.addressof(registry), len(registry)
        passed = [a if isinstance(a, ctypes._SimpleCData) else ctypes.c_int(a) for a in arguments]
        return int(getattr(self.runtime.library, helper)(ctypes.byref(self.wave), ctypes.c_int(7), *passed))

    def execute(self, snippets: Snippets, text: str, *, optimised: bool = True) -> WaveStatus:
        """Run a snippet of assembly on this wavefront."""
        registry = self.memory.registry()
        self.machine.allocations, self.machine.allocation_count = ctypes.addressof(registry), len(registry)
        self.machine.fault.kind = 0
        snippets.run_on(self.wave, text, optimised=optimised)
        return WaveStatus(self.wave.status)
