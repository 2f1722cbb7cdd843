"""Host calls of a kernel: packets through which device code requests printing or memory from the host.

A wavefront claims a free packet, fills it, marks it as ready, signals, and waits until the host returns it. A `PacketQueue` is
the shared memory of the packets; `HostCallMessages` joins the packets of one work-item. Layout: ROCm device libraries
(`ockl/src/hostcall_impl.cl`, `services.cl`), ROCclr (`device/devhostcall.hpp`, `devhcmessages.cpp`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rocm_perf_lab.emulator.structures import LANES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

QUEUE_NAME = "host call packets"
_PACKETS = 64
"""A power of two, one bit of a word each. A wavefront without a free packet waits until one is returned."""
_SLOT_WORDS = 8
_READY_FLAG = 1
_STACKS = struct.Struct("<QQQQQQ")  # headers, payloads, doorbell, free stack, ready stack, mask of packet numbers
_READY_STACK_OFFSET = 32
_HEADER = np.dtype([("next", "<u8"), ("active", "<u8"), ("service", "<u4"), ("control", "<u4")])
_PHASES = struct.Struct("<QQQQQQI")  # phases of the device and of the host, claimed bits, headers, payloads, doorbell, packets
_PHASED_HEADER = np.dtype([("active", "<u8"), ("service", "<u4"), ("padding", "<u4")])
_PART_ALIGNMENT = 4096
_DOORBELL, _DEVICE_PHASES, _HOST_PHASES, _OCCUPIED = 64, 1024, 2048, 3072
"""A doorbell is an amd_signal_t. If all zero it has no mailbox, so ringing it only counts."""
_HEADERS, _PAYLOADS = _PART_ALIGNMENT, 2 * _PART_ALIGNMENT

_BEGIN, _END = 1, 2
_LENGTH_SHIFT, _LENGTH_MASK, _ID_SHIFT = 5, 7, 8


class HostService(IntEnum):
    """Service that a packet requests."""

    FUNCTION_CALL = 1
    PRINTF = 2
    DEVICE_MEMORY = 3
    SANITIZER = 4


@dataclass(frozen=True)
class HostCallPacket:
    """Request of a wavefront; `slots` is (64, 8), a view of the words of each work-item, and receives the results."""

    service: int
    active: int
    slots: NDArray[np.uint64]

    @property
    def lanes(self) -> Iterator[int]:
        """Return the active lanes."""
        return (lane for lane in range(LANES) if self.active >> lane & 1)


class PacketQueue(Protocol):
    """Memory of the packets in the layout of one version of the device libraries; zeroed before use."""

    @property
    def ready_address(self) -> int:
        """Address of a 64-bit word that is not zero while a packet waits."""
        ...

    def take_ready(self) -> list[tuple[int, HostCallPacket]]:
        """Return all waiting packets with their numbers, the oldest first if the order is known."""
        ...

    def give_back(self, number: int) -> None:
        """Let the wavefront that waits for this packet continue."""
        ...


QUEUE_BYTES = _PART_ALIGNMENT * (2 + _PACKETS)


class StackedQueue:
    """Stacks of free and ready packets, as in the device libraries up to ROCm 7."""

    def __init__(self, address: int, content: NDArray[np.uint8]) -> None:
        mask = _PACKETS - 1
        self._headers = content[_HEADERS : _HEADERS + _PACKETS * _HEADER.itemsize].view(_HEADER)
        self._slots = _slots(content)
        self._ready = content[_READY_STACK_OFFSET:][:8].view(np.uint64)
        # A reference is the packet number and, above the mask, a tag that changes with every use; zero ends the stack.
        self._headers["next"][1:] = np.arange(_PACKETS - 1) | _PACKETS
        self._headers["next"][0] = 0
        where = (address + _HEADERS, address + _PAYLOADS, address + _DOORBELL)
        _STACKS.pack_into(content.data, 0, *where, mask | _PACKETS, 0, mask)
        self.ready_address = address + _READY_STACK_OFFSET

    def take_ready(self) -> list[tuple[int, HostCallPacket]]:
        """Return all waiting packets, the oldest first."""
        reference = self.ready_reference
        self._ready[0] = 0
        return self.packets_above(reference, 0)

    @property
    def ready_reference(self) -> int:
        """Reference to the packet that became ready last; zero if there is none."""
        return int(self._ready[0])

    def packets_above(self, reference: int, end: int) -> list[tuple[int, HostCallPacket]]:
        """Return the packets from a reference down the stack to that before `end`, the oldest first."""
        found = []
        while reference not in (0, end):
            number = reference & _PACKETS - 1
            header = self._headers[number]
            found.append((number, HostCallPacket(int(header["service"]), int(header["active"]), self._slots[number])))
            reference = int(header["next"])
        return found[::-1]

    def give_back(self, number: int) -> None:
        """Clear the ready flag of the packet."""
        self._headers["control"][number] &= np.uint32(~_READY_FLAG & 0xFFFF_FFFF)


class PhasedQueue:
    """Packets claimed by a bit; the host owns a packet while its two phases differ. Device libraries since 2026."""

    def __init__(self, address: int, content: NDArray[np.uint8]) -> None:
        self._headers = content[_HEADERS : _HEADERS + _PACKETS * _PHASED_HEADER.itemsize].view(_PHASED_HEADER)
        self._slots = _slots(content)
        self._device, self._host = (content[place:][: 4 * _PACKETS].view(np.uint32) for place in (_DEVICE_PHASES, _HOST_PHASES))
        phases = (address + _DEVICE_PHASES, address + _HOST_PHASES, address + _OCCUPIED)
        _PHASES.pack_into(content.data, 0, *phases, address + _HEADERS, address + _PAYLOADS, address + _DOORBELL, _PACKETS)
        self.ready_address = address + _OCCUPIED

    def take_ready(self) -> list[tuple[int, HostCallPacket]]:
        """Return all waiting packets, by number."""
        waiting = np.flatnonzero(self._device != self._host).tolist()
        return [
            (n, HostCallPacket(int(self._headers["service"][n]), int(self._headers["active"][n]), self._slots[n]))
            for n in waiting
        ]

    def give_back(self, number: int) -> None:
        """Make the phases of the packet equal."""
        self._host[number] ^= np.uint32(1)


def _slots(content: NDArray[np.uint8]) -> NDArray[np.uint64]:
    return content[_PAYLOADS:].view(np.uint64).reshape(_PACKETS, LANES, _SLOT_WORDS)


class HostCallMessages:
    """Messages of work-items that arrive in several packets; call `add(words)` for each packet in order of arrival."""

    def __init__(self) -> None:
        self._open: dict[int, list[int]] = {}
        self._last_id = 0

    def add(self, words: list[int]) -> tuple[int, list[int] | None]:
        """Add one packet: a descriptor and up to seven words.

        Returns:
            Descriptor for the next packet, and the words of the whole message if this packet completes it.
        """
        descriptor, content = words[0], words[1:]
        if descriptor & _BEGIN:
            self._last_id += 1
            number = self._last_id
            self._open[number] = []
        else:
            number = descriptor >> _ID_SHIFT
        message = self._open.setdefault(number, [])
        message += content[: descriptor >> _LENGTH_SHIFT & _LENGTH_MASK]
        return number << _ID_SHIFT, self._open.pop(number) if descriptor & _END else None
