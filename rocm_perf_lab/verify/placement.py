"""Addresses of the buffers of a trial: divisible by the promised alignment, and by no larger power of two."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.memory import Allocation, DeviceMemory

_RESIDUES = 8


def place_buffer(memory: DeviceMemory, name: str, nbytes: int, alignment: int, index: int) -> Allocation:
    """Allocate a zeroed buffer on an emulated GPU. Bytes before and after it are not part of a buffer, so that any access faults.

    Args:
        memory: Device memory.
        name: Name of the buffer.
        nbytes: Size in bytes.
        alignment: Largest power of two that divides the address.
        index: Position of the argument; adjacent arguments have different residues.
    """
    offset = alignment * (2 * (index % _RESIDUES) + 1)
    return memory.adopt(name, nbytes, memory.reserve(offset + nbytes) + offset)
