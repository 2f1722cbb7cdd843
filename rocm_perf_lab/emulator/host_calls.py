"""Host calls of a kernel: the packets through which device code asks the host to print or to allocate memory.

A wavefront takes a free packet, fills it, makes it a ready one, signals, and waits until the host gives it back. A `PacketQueue`
is the memory that both sides see, `Messages` what the packets of one work-item add up to. Layout: ROCm device libraries
(`ockl/src/hostcall_impl.cl`, `services.cl`), ROCclr (`device/devhostcall.hpp`, `devhcmessages.cpp`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rocm_perf_lab.emulator.wave import LANES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

QUEUE_NAME = "host call packets"
_PACKETS = 64
"""A power of two, and the bits of a word. A wavefront that finds no free one waits until another gives its back."""
_SLOT_WORDS = 8
_READY_FLAG = 1
_STACKS = struct.Struct("<QQQQQQ")  # headers, payloads, doorbell, free stack, ready stack, mask of a packet's number
_READY_STACK_OFFSET = 32
_HEADER = np.dtype([("next", "<u8"), ("active", "<u8"), ("service", "<u4"), ("control", "<u4")])
_PHASES = struct.Struct("<QQQQQQI")  # phases of the device and of the host, claimed bits, headers, payloads, doorbell, packets
_PHASED_HEADER = np.dtype([("active", "<u8"), ("service", "<u4"), ("padding", "<u4")])
_PART_ALIGNMENT = 4096
_DOORBELL, _DEVICE_PHASES, _HOST_PHASES, _OCCUPIED = 64, 1024, 2048, 3072
"""A doorbell is an amd_signal_t. All zero it has no mailbox, so ringing it only counts."""
_HEADERS, _PAYLOADS = _PART_ALIGNMENT, 2 * _PART_ALIGNMENT

_BEGIN, _END = 1, 2
_LENGTH_SHIFT, _LENGTH_MASK, _ID_SHIFT = 5, 7, 8


class HostService(IntEnum):
    """What a packet asks for."""

    FUNCTION_CALL = 1
    PRINTF = 2
    DEVICE_MEMORY = 3
    SANITIZER = 4


@dataclass(frozen=True)
class Packet:
    """One request of a wavefront: `slots` is (64, 8), a view of the words of each work-item; the answer goes there too."""

    service: int
    active: int
    slots: NDArray[np.uint64]

    @property
    def lanes(self) -> Iterator[int]:
        """Those that ask."""
        return (lane for lane in range(LANES) if self.active >> lane & 1)


class PacketQueue(Protocol):
    """The memory of the packets, as one version of the device libraries knows it; zero before."""

    @property
    def ready_address(self) -> int:
        """Of a 64-bit word that is not zero while a packet waits."""
        ...

    def take_ready(self) -> list[tuple[int, Packet]]:
        """All packets that wait for an answer, the oldest first where that is known, with their numbers."""
        ...

    def give_back(self, number: int) -> None:
        """Let the wavefront that waits for this packet go on."""
        ...


QUEUE_BYTES = _PART_ALIGNMENT * (2 + _PACKETS)


class StackedQueue:
    """Packets on a stack of free and a stack of ready ones; device libraries of ROCm until 7."""

    def __init__(self, address: int, content: NDArray[np.uint8]) -> None:
        mask = _PACKETS - 1
        self._headers = content[_HEADERS : _HEADERS + _PACKETS * _HEADER.itemsize].view(_HEADER)
        self._slots = _slots(content)
        self._ready = content[_READY_STACK_OFFSET:][:8].view(np.uint64)
        # A reference is the packet's number and, above the mask, a tag that changes with every use; zero is the stack's end.
        self._headers["next"][1:] = np.arange(_PACKETS - 1) | _PACKETS
        self._headers["next"][0] = 0
        where = (address + _HEADERS, address + _PAYLOADS, address + _DOORBELL)
        _STACKS.pack_into(content.data, 0, *where, mask | _PACKETS, 0, mask)
        self.ready_address = address + _READY_STACK_OFFSET

    def take_ready(self) -> list[tuple[int, Packet]]:
        """All packets that wait for an answer, the oldest first."""
        reference, found = int(self._ready[0]), []
        self._ready[0] = 0
        while reference:
            number = reference & _PACKETS - 1
            header = self._headers[number]
            found.append((number, Packet(int(header["service"]), int(header["active"]), self._slots[number])))
            reference = int(header["next"])
        return found[::-1]

    def give_back(self, number: int) -> None:
        """Clear its ready flag."""
        self._headers["control"][number] &= np.uint32(~_READY_FLAG & 0xFFFF_FFFF)


class PhasedQueue:
    """Packets that are claimed by a bit, and belong to the host while their two phases differ; device libraries since 2026."""

    def __init__(self, address: int, content: NDArray[np.uint8]) -> None:
        self._headers = content[_HEADERS : _HEADERS + _PACKETS * _PHASED_HEADER.itemsize].view(_PHASED_HEADER)
        self._slots = _slots(content)
        self._device, self._host = (content[place:][: 4 * _PACKETS].view(np.uint32) for place in (_DEVICE_PHASES, _HOST_PHASES))
        phases = (address + _DEVICE_PHASES, address + _HOST_PHASES, address + _OCCUPIED)
        _PHASES.pack_into(content.data, 0, *phases, address + _HEADERS, address + _PAYLOADS, address + _DOORBELL, _PACKETS)
        self.ready_address = address + _OCCUPIED

    def take_ready(self) -> list[tuple[int, Packet]]:
        """All packets that wait for an answer, by number."""
        waiting = np.flatnonzero(self._device != self._host).tolist()
        return [(n, Packet(int(self._headers["service"][n]), int(self._headers["active"][n]), self._slots[n])) for n in waiting]

    def give_back(self, number: int) -> None:
        """Make its phases equal."""
        self._host[number] ^= np.uint32(1)


def _slots(content: NDArray[np.uint8]) -> NDArray[np.uint64]:
    return content[_PAYLOADS:].view(np.uint64).reshape(_PACKETS, LANES, _SLOT_WORDS)


class Messages:
    """Puts together what work-items send in pieces: `add(words)` for each piece, in the order of arrival."""

    def __init__(self) -> None:
        self._open: dict[int, list[int]] = {}
        self._last_id = 0

    def add(self, words: list[int]) -> tuple[int, list[int] | None]:
        """One piece: a descriptor and up to seven words.

        Returns:
            The descriptor to go on with, and the words of the whole message where this was its last piece.
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
