"""Host calls of a kernel: the packets through which device code asks the host to print or to allocate memory.

A wavefront takes a packet from a stack of free ones, fills it, puts it on the stack of ready ones, signals, and waits until
the packet's ready flag is cleared. `PacketQueue` is the memory that both sides see, `Messages` what the packets of one
work-item add up to. Layout: ROCm device libraries (`ockl/src/hostcall_impl.cl`, `services.cl`), ROCclr
(`device/devhostcall.hpp`, `devhcmessages.cpp`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.emulator.wave import LANES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

QUEUE_NAME = "host call packets"
_PACKETS = 64
"""A power of two. A wavefront that finds no free one waits until another gives its back."""
_SLOT_WORDS = 8
_QUEUE = struct.Struct("<QQQQQQ")  # headers, payloads, doorbell, free stack, ready stack, mask of a packet's number
_READY_STACK_OFFSET = 32
_SIGNAL_BYTES = 64  # amd_signal_t; all zero: no mailbox, so ringing it only counts
_HEADER = np.dtype([("next", "<u8"), ("active", "<u8"), ("service", "<u4"), ("control", "<u4")])
_READY_FLAG = 1
_PART_ALIGNMENT = 4096

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


class PacketQueue:
    """The memory of the packets, which lies at `address` and has `BYTES` bytes, zero before."""

    BYTES = _PART_ALIGNMENT * (2 + _PACKETS)

    def __init__(self, address: int, content: NDArray[np.uint8]) -> None:
        mask = _PACKETS - 1
        headers, payloads = _PART_ALIGNMENT, 2 * _PART_ALIGNMENT
        self._headers = content[headers : headers + _PACKETS * _HEADER.itemsize].view(_HEADER)
        self._slots = content[payloads:].view(np.uint64).reshape(_PACKETS, LANES, _SLOT_WORDS)
        self._ready = content[_READY_STACK_OFFSET:][:8].view(np.uint64)
        # A reference is the packet's number and, above the mask, a tag that changes with every use; zero is the stack's end.
        self._headers["next"][1:] = np.arange(_PACKETS - 1) | _PACKETS
        self._headers["next"][0] = 0
        doorbell = address + _QUEUE.size + -_QUEUE.size % _SIGNAL_BYTES
        _QUEUE.pack_into(content.data, 0, address + headers, address + payloads, doorbell, mask | _PACKETS, 0, mask)
        self.ready_address = address + _READY_STACK_OFFSET

    def take_ready(self) -> list[tuple[int, Packet]]:
        """All packets that wait for an answer, the oldest first, with their numbers."""
        reference, found = int(self._ready[0]), []
        self._ready[0] = 0
        while reference:
            number = reference & _PACKETS - 1
            header = self._headers[number]
            found.append((number, Packet(int(header["service"]), int(header["active"]), self._slots[number])))
            reference = int(header["next"])
        return found[::-1]

    def give_back(self, number: int) -> None:
        """Let the wavefront that waits for this packet go on."""
        self._headers["control"][number] &= np.uint32(~_READY_FLAG & 0xFFFF_FFFF)


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
