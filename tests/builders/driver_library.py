"""The emulated driver for tests: a session directory, the library inside this process, and its ioctl structures."""

from __future__ import annotations

import ctypes
import os
import shutil
from ctypes import c_int32, c_uint32, c_uint64
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.emulator.build import runtime_files
from rocm_perf_lab.emulator.c_library import CLibrary, build_library
from rocm_perf_lab.runtime.driver_build import DRIVER_SOURCES
from rocm_perf_lab.toolchain.hsa_headers import find_hsa_headers

if TYPE_CHECKING:
    from pathlib import Path

FIRST_GPU_ID = 0x4242
FIRST_RENDER_MINOR = 128
PAGE = 4096
VRAM, GTT, USERPTR, DOORBELL = 1 << 0, 1 << 1, 1 << 2, 1 << 3
WRITABLE, PUBLIC = 1 << 31, 1 << 29
SIGNAL, HARDWARE, MEMORY = 0, 3, 8


def write_session(directory: Path, *, gpus: int = 2, memory_bytes: int = 1 << 36, xnack: bool = True, trace: int = 0) -> Path:
    """Write a session directory with the settings of `gpus` emulated GPUs, and return it."""
    directory.mkdir(parents=True, exist_ok=True)
    lines = [f"gpu_count {gpus}", "threads 1", f"trace {trace}"]
    for index in range(gpus):
        values = {
            "id": FIRST_GPU_ID + index,
            "node": index + 1,
            "render_minor": FIRST_RENDER_MINOR + index,
            "device_id": 0x74A1,
            "family_id": 141,
            "compute_units": 304,
            "xcds": 8,
            "wave_size": 64,
            "clock_mhz": 2100,
            "memory_clock_mhz": 1300,
            "memory_bytes": memory_bytes,
            "xnack": int(xnack),
            "architecture": "gfx942",
            "name": f"Emulated GPU {index}",
        }
        lines += [f"gpu.{index}.{name} {value}" for name, value in values.items()]
    (directory / "settings").write_text("\n".join(lines) + "\n")
    return directory


def build_test_library() -> Path:
    """Build the driver with all its functions visible, for calls from Python."""
    sources, headers = runtime_files()
    include = find_hsa_headers()
    library = CLibrary(
        what="the emulated driver for tests",
        sources=(*sources, *sorted(DRIVER_SOURCES.glob("*.c"))),
        headers=(*headers, *sorted(DRIVER_SOURCES.glob("*.h"))),
        flags=(
            "-std=gnu11", "-O1", "-march=native", "-fno-strict-aliasing", "-fPIC", "-pthread",
            "-isystem", str(include), "-isystem", str(include.parent),
        ),
        link_flags=("-lm", "-lpthread", "-ldl"),
        glibc="2.28",
    )  # fmt: skip
    return build_library(library, cache_dir() / "tests" / "driver")


class AllocateArguments(ctypes.Structure):
    """kfd_ioctl_alloc_memory_of_gpu_args."""

    _fields_ = (
        ("address", c_uint64), ("size", c_uint64), ("handle", c_uint64), ("mmap_offset", c_uint64),
        ("gpu_id", c_uint32), ("flags", c_uint32),
    )  # fmt: skip


class MapArguments(ctypes.Structure):
    """kfd_ioctl_map_memory_to_gpu_args, and that of unmapping."""

    _fields_ = (("handle", c_uint64), ("gpu_ids", c_uint64), ("count", c_uint32), ("done", c_uint32))


class EventArguments(ctypes.Structure):
    """kfd_ioctl_create_event_args."""

    _fields_ = (
        ("page_offset", c_uint64), ("trigger", c_uint32), ("type", c_uint32), ("auto_reset", c_uint32),
        ("node", c_uint32), ("event_id", c_uint32), ("slot", c_uint32),
    )  # fmt: skip


class EventData(ctypes.Structure):
    """kfd_event_data; `payload` is the age of a signal, or the data of an exception."""

    _fields_ = (("payload", c_uint64 * 4), ("extension", c_uint64), ("event_id", c_uint32), ("pad", c_uint32))


class WaitArguments(ctypes.Structure):
    """kfd_ioctl_wait_events_args."""

    _fields_ = (("events", c_uint64), ("count", c_uint32), ("all", c_uint32), ("timeout", c_uint32), ("result", c_uint32))


class Attribute(ctypes.Structure):
    """kfd_ioctl_svm_attribute."""

    _fields_ = (("type", c_uint32), ("value", c_uint32))


class _Ranges(ctypes.Structure):
    _fields_ = (("users", ctypes.c_long), ("version", c_uint64), ("count", c_uint64), ("gpu", c_uint64))


class _Allocation(ctypes.Structure):
    _fields_ = (
        ("begin", c_uint64), ("end", c_uint64), ("freed", c_uint64), ("written", c_uint64), ("first_page", c_uint64),
        ("pages", c_uint64), ("filled", c_uint64), ("fill", c_uint64),
    )  # fmt: skip


class _BlockPlace(ctypes.Structure):
    _fields_ = (("address", c_uint64), ("size", c_uint64), ("offset", c_uint64), ("gpu_id", c_uint32))


@dataclass(frozen=True)
class Wait:
    """End of WAIT_EVENTS."""

    error: int
    result: int
    payloads: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Driver:
    """The driver's functions in this process, with state of its own."""

    library: ctypes.CDLL

    @classmethod
    def load(cls, directory: Path, *, memory_bytes: int = 1 << 36, xnack: bool = True) -> Driver:
        """Load a copy of the library, whose session with two GPUs is below `directory`."""
        session = write_session(directory / "session", memory_bytes=memory_bytes, xnack=xnack)
        copy = directory / "driver.so"
        shutil.copy(build_test_library(), copy)
        before = os.environ.get("RPL_SESSION")
        os.environ["RPL_SESSION"] = str(session)
        try:
            library = ctypes.CDLL(str(copy))
            library.drv_settings()
        finally:
            del os.environ["RPL_SESSION"]
            if before is not None:
                os.environ["RPL_SESSION"] = before
        library.drv_ranges_get.restype = ctypes.POINTER(_Ranges)
        library.drv_ranges_version.restype = c_uint64
        return cls(library)

    @cached_property
    def file(self) -> int:
        """Descriptor of the memory file."""
        return int(self.library.drv_memory_file())

    def kfd(self, number: int, arguments: ctypes.Structure | c_uint64 | c_int32) -> None:
        """Call an ioctl of KFD; OSError if it fails."""
        error = self.library.drv_kfd_ioctl(number, ctypes.byref(arguments))
        if error:
            raise OSError(error, os.strerror(error))

    def allocate(
        self, size: int, *, address: int = 0, flags: int = VRAM | PUBLIC, gpu: int = 0, user: int = 0
    ) -> AllocateArguments:
        """ALLOC_MEMORY_OF_GPU."""
        arguments = AllocateArguments(address, size, 0, user, FIRST_GPU_ID + gpu, flags)
        self.kfd(0x16, arguments)
        return arguments

    def free(self, handle: int) -> None:
        """FREE_MEMORY_OF_GPU."""
        self.kfd(0x17, c_uint64(handle))

    def map(self, handle: int, *gpus: int) -> int:
        """MAP_MEMORY_TO_GPU; returns how many GPUs were done."""
        return self._for_gpus(0x18, handle, gpus)

    def unmap(self, handle: int, *gpus: int) -> int:
        """UNMAP_MEMORY_FROM_GPU; returns how many GPUs were done."""
        return self._for_gpus(0x19, handle, gpus)

    def ranges(self, gpu: int = 0) -> list[tuple[int, int]]:
        """Return the address ranges that a GPU can access."""
        snapshot = self.library.drv_ranges_get(gpu)
        base = ctypes.addressof(snapshot.contents) + ctypes.sizeof(_Ranges)
        found = (_Allocation * snapshot.contents.count).from_address(base)
        result = [(allocation.begin, allocation.end) for allocation in found]
        self.library.drv_ranges_put(snapshot)
        return result

    def block(self, address: int) -> tuple[int, int, int, int] | None:
        """Return address, size, offset in the memory file and GPU of the block that contains `address`."""
        place = _BlockPlace()
        found = self.library.drv_memory_block(c_uint64(address), ctypes.byref(place))
        return (place.address, place.size, place.offset, place.gpu_id) if found else None

    def event(self, kind: int = SIGNAL, *, auto_reset: bool = True, page: int = 0) -> int:
        """CREATE_EVENT."""
        arguments = EventArguments(page, 0, kind, int(auto_reset), 0, 0, 0)
        self.kfd(0x08, arguments)
        return int(arguments.event_id)

    def change_event(self, number: int, event_id: int) -> None:
        """DESTROY (9), SET (0xA) or RESET (0xB) an event."""
        self.kfd(number, c_uint64(event_id))

    def wait(self, events: list[tuple[int, int]], *, timeout: int = 0, wait_for_all: bool = False) -> Wait:
        """WAIT_EVENTS for events and their last ages."""
        data = (EventData * len(events))()
        for entry, (event_id, age) in zip(data, events, strict=True):
            entry.event_id, entry.payload[0] = event_id, age
        arguments = WaitArguments(ctypes.addressof(data), len(events), int(wait_for_all), timeout, 99)
        error = self.library.drv_kfd_ioctl(0x0C, ctypes.byref(arguments))
        return Wait(error, arguments.result, tuple(tuple(entry.payload) for entry in data))

    def svm(self, operation: int, begin: int, size: int, attributes: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """SVM: set (0) or get (1) attributes; returns them."""

        class Arguments(ctypes.Structure):
            _fields_ = (
                ("start", c_uint64), ("size", c_uint64), ("op", c_uint32), ("count", c_uint32),
                ("attributes", Attribute * len(attributes)),
            )  # fmt: skip

        arguments = Arguments(
            begin, size, operation, len(attributes), (Attribute * len(attributes))(*(Attribute(*pair) for pair in attributes))
        )
        self.kfd(0x20, arguments)
        return [(entry.type, entry.value) for entry in arguments.attributes]

    def xnack(self, mode: int) -> int:
        """SET_XNACK_MODE; a negative mode asks for the mode."""
        value = c_int32(mode)
        self.kfd(0x21, value)
        return value.value

    def _for_gpus(self, number: int, handle: int, gpus: tuple[int, ...]) -> int:
        ids = (c_uint32 * len(gpus))(*(FIRST_GPU_ID + gpu for gpu in gpus))
        arguments = MapArguments(handle, ctypes.addressof(ids), len(gpus), 0)
        try:
            self.kfd(number, arguments)
        except OSError as error:
            error.characters_written = arguments.done  # type: ignore[attr-defined]
            raise
        return int(arguments.done)
