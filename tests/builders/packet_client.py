"""A client of the emulated driver without a runtime: in a process that preloads the driver, it writes the packets itself."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
import time
from dataclasses import dataclass

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_PRIVATE, _SHARED, _FIXED, _ANONYMOUS, _NORESERVE = 2, 1, 0x10, 0x20, 0x4000
_VRAM, _GTT, _WRITABLE, _EXECUTABLE, _PUBLIC, _COHERENT = 1 << 0, 1 << 1, 1 << 31, 1 << 30, 1 << 29, 1 << 26
_GPU = 0x4242
_AQL, _SDMA = 2, 1
_SIGNAL_EVENT, _MEMORY_EVENT, _EXCEPTION_EVENT = 0, 8, 3
_PAGE = 4096
_SMALL_BYTES = 4 << 20
DISPATCH, BARRIER_AND, BARRIER_OR, VENDOR, INVALID = 2, 3, 5, 0, 1
BARRIER_BIT, FENCES = 1 << 8, 2 << 9 | 2 << 11


def peek(address: int, code: str = "Q") -> int:
    """Return a number in memory."""
    return int(struct.unpack(code, ctypes.string_at(address, struct.calcsize(code)))[0])


def poke(address: int, content: bytes) -> None:
    """Write memory."""
    ctypes.memmove(address, content, len(content))


@dataclass
class Signal:
    """amd_signal_t in memory of the GPU."""

    address: int
    event: int = 0

    @property
    def value(self) -> int:
        """Value that packets decrement."""
        return peek(self.address + 8, "q")

    @value.setter
    def value(self, value: int) -> None:
        poke(self.address + 8, struct.pack("q", value))

    @property
    def ticks(self) -> tuple[int, int]:
        """Start and end of the packet."""
        return peek(self.address + 32), peek(self.address + 40)

    def wait(self, value: int = 0, seconds: float = 20.0) -> bool:
        """Wait until the value arrives; return whether it did."""
        end = time.monotonic() + seconds
        while self.value != value:
            if time.monotonic() > end:
                return False
            time.sleep(0.0002)
        return True

    def wait_until_set(self, seconds: float) -> bool:
        """Wait until the value is not 0; return whether it is."""
        end = time.monotonic() + seconds
        while not self.value and time.monotonic() < end:
            time.sleep(0.0005)
        return self.value != 0


class Gpu:
    """The first emulated GPU."""

    def __init__(self) -> None:
        self.kfd = os.open("/dev/kfd", os.O_RDWR | os.O_CLOEXEC)
        self.render = os.open("/dev/dri/renderD128", os.O_RDWR | os.O_CLOEXEC)
        self.ioctl(0x15, struct.pack("II", self.render, _GPU), 1)
        self._small = self._free = self.allocate(_SMALL_BYTES, host=True)
        self._event_page = self._allocate_handle(8 * 4096, _GTT | _WRITABLE | _COHERENT)[1]
        self.create_event()

    def ioctl(self, number: int, content: bytes, direction: int = 3) -> bytes:
        """Call the driver and return what it wrote."""
        buffer = bytearray(content)
        fcntl.ioctl(self.kfd, direction << 30 | len(buffer) << 16 | ord("K") << 8 | number, buffer, True)
        return bytes(buffer)

    def create_event(self, kind: int = _SIGNAL_EVENT) -> int:
        """Return the number of a new event."""
        said = self.ioctl(0x08, struct.pack("QIIIIII", self._event_page, 0, kind, 1, 0, 0, 0))
        self._event_page = 0
        return int(struct.unpack("QIIIIII", said)[5])

    def wait_event(self, event: int, milliseconds: int) -> bytes | None:
        """Wait for an event; return its data (after the number), or None after the time."""
        data = ctypes.create_string_buffer(48)
        struct.pack_into("I", data, 40, event)
        said = self.ioctl(0x0C, struct.pack("QIIII", ctypes.addressof(data), 1, 1, milliseconds, 0))
        return None if struct.unpack("QIIII", said)[4] else data.raw

    def _allocate_handle(self, nbytes: int, flags: int) -> tuple[int, int]:
        nbytes = -(-nbytes // _PAGE) * _PAGE
        address = _LIBC.mmap(None, nbytes, 0, _PRIVATE | _ANONYMOUS | _NORESERVE, -1, 0)
        said = self.ioctl(0x16, struct.pack("QQQQII", address, nbytes, 0, 0, _GPU, flags))
        _, _, handle, offset, _, _ = struct.unpack("QQQQII", said)
        mapped = _LIBC.mmap(address, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, _SHARED | _FIXED, self.render, offset)
        assert mapped == address, "the memory of the driver cannot be mapped"
        devices = (ctypes.c_uint32 * 1)(_GPU)
        self.ioctl(0x18, struct.pack("QQII", handle, ctypes.addressof(devices), 1, 0))
        return address, handle

    def allocate(self, nbytes: int, *, host: bool = False) -> int:
        """Return the address of zeroed memory of the GPU, or of the host."""
        kind = _GTT | _COHERENT if host else _VRAM | _PUBLIC
        return self._allocate_handle(nbytes, kind | _WRITABLE | _EXECUTABLE)[0]

    def small(self, nbytes: int) -> int:
        """Return the address of a few bytes of host memory, on lines of their own."""
        address, self._free = self._free, self._free + -(-nbytes // 64) * 64
        assert self._free <= self._small + _SMALL_BYTES - 64, "the memory for signals is used up"
        return address

    def signal(self, value: int = 1, *, event: bool = False) -> Signal:
        """Return a new signal."""
        made = Signal(self.small(64), self.create_event() if event else 0)
        poke(made.address, struct.pack("qqQI4xQQ", 1, value, self._mailbox(made.event), made.event, 0, 0))
        return made

    def _mailbox(self, event: int) -> int:
        return self._small + _SMALL_BYTES - 64 if event else 0

    def memory(self, content: bytes) -> int:
        """Return the address of memory with a content."""
        address = self.allocate(len(content))
        poke(address, content)
        return address


class Queue:
    """A user-mode queue with `packets` places, or a copy engine's of `nbytes` bytes."""

    def __init__(self, gpu: Gpu, packets: int = 1024, *, sdma_bytes: int = 0, percentage: int = 100) -> None:
        self.gpu, self.packets = gpu, packets
        self.sdma_bytes = sdma_bytes
        self.block = gpu.allocate(_PAGE, host=True)
        """amd_queue_t"""
        self.ring_bytes = sdma_bytes or packets * 64
        self.ring = gpu.allocate(self.ring_bytes, host=True)
        if not sdma_bytes:
            for place in range(packets):
                poke(self.ring + 64 * place, struct.pack("H", INVALID))
        self.inactive = gpu.signal(0, event=True)
        poke(self.block + 0xC0, struct.pack("Q", self.inactive.address))
        kind = _SDMA if sdma_bytes else _AQL
        arguments = struct.pack(
            "QQQQIIIIIIQQQIIII", self.ring, self.block + 0x38, self.block + 0x80, 0, self.ring_bytes, _GPU, kind, percentage, 7,
            0, 0, 0, 0, 0, 0, 0, 0,
        )  # fmt: skip
        said = struct.unpack("QQQQIIIIIIQQQIIII", gpu.ioctl(0x02, arguments))
        self.id = said[9]

    @property
    def write_index(self) -> int:
        """Packets (bytes) written."""
        return peek(self.block + 0x38)

    @property
    def read_index(self) -> int:
        """Packets (bytes) executed."""
        return peek(self.block + 0x80)

    def put(self, packet: bytes) -> None:
        """Write one packet, whose first two bytes are its header."""
        index = self.write_index
        while index - self.read_index >= self.packets:
            time.sleep(0.0001)
        place = self.ring + 64 * (index % self.packets)
        poke(place + 2, packet[2:])
        poke(self.block + 0x38, struct.pack("Q", index + 1))
        poke(place, packet[:2])

    def put_sdma(self, *words: int) -> None:
        """Write a packet of a copy engine; it wraps around at the end of the ring."""
        index = self.write_index
        for position, word in enumerate(words):
            poke(self.ring + (index + 4 * position) % self.ring_bytes, struct.pack("I", word))
        poke(self.block + 0x38, struct.pack("Q", index + 4 * len(words)))

    def wait_for_room(self, nbytes: int) -> None:
        """Wait until a packet of a copy engine fits in its ring."""
        while self.write_index + nbytes - self.read_index > self.ring_bytes:
            time.sleep(0.0001)

    def update(self, percentage: int) -> None:
        """Let the queue run (100) or pause (0)."""
        self.gpu.ioctl(0x07, struct.pack("QIIII", self.ring, self.id, self.ring_bytes, percentage, 7), 1)

    def destroy(self) -> None:
        """Destroy the queue."""
        self.gpu.ioctl(0x03, struct.pack("II", self.id, 0))


def dispatch(
    kernel: int, kernarg: int, grid: tuple[int, int, int], block: tuple[int, int, int], *, lds: int = 0, scratch: int = 0,
    signal: Signal | None = None, barrier: bool = False, dimensions: int = 3,
) -> bytes:  # fmt: skip
    """Return a kernel dispatch packet; `grid` is in work-items."""
    header = DISPATCH | FENCES | BARRIER_BIT * barrier
    done = signal.address if signal else 0
    return struct.pack("<HHHHHHIIIIIQQQQ", header, dimensions, *block, 0, *grid, scratch, lds, kernel, kernarg, 0, done)


def barrier(kind: int, dependencies: list[Signal], signal: Signal | None = None) -> bytes:
    """Return a barrier packet that waits for all or one of up to five signals."""
    addresses = [one.address for one in dependencies] + [0] * (5 - len(dependencies))
    return struct.pack("<HHI5QQQ", kind | FENCES, 0, 0, *addresses, 0, signal.address if signal else 0)


def barrier_value(waited: Signal, value: int, mask: int, condition: int, signal: Signal | None = None) -> bytes:
    """Return AMD's packet that waits for a value."""
    done = signal.address if signal else 0
    return struct.pack("<HBBIQqqIIQQQ", VENDOR | FENCES, 2, 0, 0, waited.address, value, mask, condition, 0, 0, 0, done)


def instruction_cache_invalidation() -> bytes:
    """Return AMD's packet with PM4 commands, which runtimes use after they have loaded code."""
    return struct.pack("<HBB", VENDOR | FENCES, 1, 0).ljust(64, b"\0")
