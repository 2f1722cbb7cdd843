"""Addresses of the buffers of a trial: divisible by the promised alignment, and by no larger power of two."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.memory import Allocation, DeviceMemory

_RESIDUES = 8


def place_buffer(memory: DeviceMemory, name: str, nbytes: int, alignment: int, index: int) -> Allocation:
    """Return a zeroed buffer of an emulated GPU. The bytes before and after it belong to no buffer, so every access there faults.

    Args:
        memory: Device memory.
        name: Name of the buffer.
        nbytes: Size in bytes.
        alignment: Power of two that divides the address; twice as much does not.
        index: Position of the argument; neighbours get different residues.
    """
    offset = alignment * (2 * (index % _RESIDUES) + 1)
    return memory.adopt(name, nbytes, memory.reserve(offset + nbytes) + offset)
