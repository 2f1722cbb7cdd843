"""Binding of libhsa-runtime64 over ctypes: the functions that a replay calls, with their types.

Handles are structures of one 64-bit word and are passed as integers; constants are those of hsa.h and hsa_ext_amd.h.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.replay.errors import ReplayError

if TYPE_CHECKING:
    from collections.abc import Iterator

SONAME = "libhsa-runtime64.so.1"
SUCCESS, INFO_BREAK, CU_MASK_REDUCED = 0, 1, 44

AGENT_NAME, AGENT_PROFILE, AGENT_DEVICE = 0, 4, 17
AGENT_PRODUCT_NAME, AGENT_UUID = 0xA009, 0xA011
AGENT_CACHE_SIZES, AGENT_BDF, AGENT_PCI_DOMAIN = 18, 0xA006, 0xA00F
DEVICE_GPU = 1
ISA_NAME = 1
SYSTEM_VERSION_MAJOR, SYSTEM_VERSION_MINOR, SYSTEM_TIMESTAMP_FREQUENCY, SYSTEM_VIRTUAL_MEMORY = 0, 1, 3, 0x205
POOL_SEGMENT, POOL_FLAGS, POOL_ALLOCATION_ALLOWED, POOL_GRANULE = 0, 1, 5, 6
SEGMENT_GLOBAL = 0
POOL_KERNARG, POOL_FINE, POOL_COARSE, POOL_EXTENDED_FINE = 1, 2, 4, 8
SYMBOL_KERNEL_OBJECT = 22
PERMISSION_READ_WRITE = 3
QUEUE_TYPE_MULTI, QUEUE_TYPE_SINGLE, QUEUE_TYPE_COOPERATIVE = 0, 1, 2
CONDITION_LESS, WAIT_BLOCKED = 2, 0
EVENT_MEMORY_FAULT = 0


class AccessDescriptor(ctypes.Structure):
    """hsa_amd_memory_access_desc_t."""

    _fields_ = (("permissions", c_uint32), ("agent", c_uint64))


class DispatchTime(ctypes.Structure):
    """hsa_amd_profiling_dispatch_time_t, ticks of the system clock."""

    _fields_ = (("start", c_uint64), ("end", c_uint64))


class HsaEvent(ctypes.Structure):
    """hsa_amd_event_t of a memory fault."""

    _fields_ = (("type", c_uint32), ("agent", c_uint64), ("address", c_uint64), ("reasons", c_uint32))


class HsaQueue(ctypes.Structure):
    """hsa_queue_t."""

    _fields_ = (
        ("type", c_uint32),
        ("features", c_uint32),
        ("base", c_uint64),
        ("doorbell", c_uint64),
        ("size", c_uint32),
        ("reserved", c_uint32),
        ("id", c_uint64),
    )


HandleCallback = ctypes.CFUNCTYPE(c_int, c_uint64, c_void_p)
EventCallback = ctypes.CFUNCTYPE(c_int, POINTER(HsaEvent), c_void_p)
QueueErrorCallback = ctypes.CFUNCTYPE(None, c_int, POINTER(HsaQueue), c_void_p)

_HANDLE, _OUT = c_uint64, c_void_p
_CALLS: dict[str, tuple[Any, ...]] = {
    "hsa_init": (),
    "hsa_shut_down": (),
    "hsa_status_string": (c_int, POINTER(c_char_p)),
    "hsa_system_get_info": (c_int, _OUT),
    "hsa_iterate_agents": (HandleCallback, c_void_p),
    "hsa_agent_get_info": (_HANDLE, c_int, _OUT),
    "hsa_agent_iterate_isas": (_HANDLE, HandleCallback, c_void_p),
    "hsa_isa_get_info_alt": (_HANDLE, c_int, _OUT),
    "hsa_amd_agent_iterate_memory_pools": (_HANDLE, HandleCallback, c_void_p),
    "hsa_amd_memory_pool_get_info": (_HANDLE, c_int, _OUT),
    "hsa_amd_memory_pool_allocate": (_HANDLE, c_size_t, c_uint32, POINTER(c_uint64)),
    "hsa_amd_memory_pool_free": (c_uint64,),
    "hsa_amd_agents_allow_access": (c_uint32, POINTER(c_uint64), c_void_p, c_uint64),
    "hsa_amd_memory_async_copy": (c_uint64, _HANDLE, c_uint64, _HANDLE, c_size_t, c_uint32, c_void_p, _HANDLE),
    "hsa_amd_memory_fill": (c_uint64, c_uint32, c_size_t),
    "hsa_amd_vmem_address_reserve": (POINTER(c_uint64), c_size_t, c_uint64, c_uint64),
    "hsa_amd_vmem_address_free": (c_uint64, c_size_t),
    "hsa_amd_vmem_handle_create": (_HANDLE, c_size_t, c_int, c_uint64, POINTER(c_uint64)),
    "hsa_amd_vmem_handle_release": (_HANDLE,),
    "hsa_amd_vmem_map": (c_uint64, c_size_t, c_size_t, _HANDLE, c_uint64),
    "hsa_amd_vmem_unmap": (c_uint64, c_size_t),
    "hsa_amd_vmem_set_access": (c_uint64, c_size_t, POINTER(AccessDescriptor), c_size_t),
    "hsa_code_object_reader_create_from_memory": (c_char_p, c_size_t, POINTER(c_uint64)),
    "hsa_code_object_reader_destroy": (_HANDLE,),
    "hsa_executable_create_alt": (c_int, c_int, c_char_p, POINTER(c_uint64)),
    "hsa_executable_load_agent_code_object": (_HANDLE, _HANDLE, _HANDLE, c_char_p, c_void_p),
    "hsa_executable_freeze": (_HANDLE, c_char_p),
    "hsa_executable_destroy": (_HANDLE,),
    "hsa_executable_get_symbol_by_name": (_HANDLE, c_char_p, POINTER(c_uint64), POINTER(c_uint64)),
    "hsa_executable_symbol_get_info": (_HANDLE, c_int, _OUT),
    "hsa_queue_create": (
        _HANDLE, c_uint32, c_uint32, QueueErrorCallback, c_void_p, c_uint32, c_uint32, POINTER(POINTER(HsaQueue)),
    ),
    "hsa_queue_destroy": (POINTER(HsaQueue),),
    "hsa_amd_queue_cu_set_mask": (POINTER(HsaQueue), c_uint32, POINTER(c_uint32)),
    "hsa_signal_create": (c_int64, c_uint32, c_void_p, POINTER(c_uint64)),
    "hsa_signal_destroy": (_HANDLE,),
    "hsa_amd_profiling_set_profiler_enabled": (POINTER(HsaQueue), c_int),
    "hsa_amd_profiling_get_dispatch_time": (_HANDLE, _HANDLE, POINTER(DispatchTime)),
    "hsa_amd_register_system_event_handler": (EventCallback, c_void_p),
}  # fmt: skip
"""Argument types of functions that return a status."""
_PLAIN_CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "hsa_signal_store_screlease": (None, (_HANDLE, c_int64)),
    "hsa_signal_wait_scacquire": (c_int64, (_HANDLE, c_int, c_int64, c_uint64, c_int)),
    "hsa_queue_add_write_index_relaxed": (c_uint64, (POINTER(HsaQueue), c_uint64)),
}


class HsaLibrary:
    """Loaded HSA runtime. A missing virtual memory function is reported when it is called.

    Raises:
        ReplayError: The library cannot be loaded.
    """

    def __init__(self, path: str | None = None) -> None:
        self._library, self.path = _load(path)
        for name, (result, arguments) in _PLAIN_CALLS.items():
            function = self._function(name)
            function.restype, function.argtypes = result, arguments

    def call(self, name: str, *arguments: Any, doing: str) -> None:
        """Call a function and check its status.

        Raises:
            ReplayError: The call failed; `doing` describes the operation in the message.
        """
        status = self.status(name, *arguments)
        if status not in (SUCCESS, INFO_BREAK):
            raise ReplayError(f"{doing} failed: {self.status_text(status)}", where=name)

    def status(self, name: str, *arguments: Any) -> int:
        """Call a function and return its status."""
        function = self._function(name)
        function.restype, function.argtypes = c_int, _CALLS[name]
        return int(function(*arguments))

    def plain(self, name: str, *arguments: Any) -> int:
        """Call a function that returns a plain value."""
        return int(self._function(name)(*arguments) or 0)

    def status_text(self, status: int) -> str:
        """Return the message of the runtime for a status."""
        text = c_char_p()
        if self.status("hsa_status_string", status, ctypes.byref(text)) != SUCCESS or not text.value:
            return f"status {status:#x}"
        return f"{text.value.decode(errors='replace')} ({status:#x})"

    def initialise(self) -> None:
        """Call hsa_init.

        Raises:
            ReplayError: GPU or driver is missing.
        """
        status = self.status("hsa_init")
        if status != SUCCESS:
            raise ReplayError(
                f"the HSA runtime does not start: {self.status_text(status)}",
                where=self.path,
                hint="There is no GPU, or no access to /dev/kfd: run rocm-perf doctor, or use --device emulator.",
            )

    def handles(self, name: str, *before: Any) -> list[int]:
        """Return the handles that an iterate function passes to its callback."""
        found: list[int] = []

        def collect(handle: int, _: Any) -> int:
            found.append(handle)
            return SUCCESS

        self.call(name, *before, HandleCallback(collect), None, doing="listing agents, pools or instruction sets")
        return found

    def word(self, name: str, *arguments: Any, bits: int = 32) -> int | None:
        """Return a number from a get_info function, or None if the runtime does not support the attribute."""
        value = {8: ctypes.c_uint8, 16: c_uint16, 32: c_uint32, 64: c_uint64}[bits]()
        return int(value.value) if self.status(name, *arguments, ctypes.byref(value)) == SUCCESS else None

    def text(self, name: str, *arguments: Any) -> str:
        """Return a string from a get_info function; empty if the runtime does not support the attribute."""
        buffer = ctypes.create_string_buffer(256)
        if self.status(name, *arguments, ctypes.byref(buffer)) != SUCCESS:
            return ""
        return buffer.value.decode(errors="replace").strip()

    def has(self, name: str) -> bool:
        """Return whether this version of the runtime has a function."""
        return hasattr(self._library, name)

    def _function(self, name: str) -> Any:
        try:
            return getattr(self._library, name)
        except AttributeError as error:
            raise ReplayError(
                f"this HSA runtime has no {name}",
                where=self.path,
                hint="Replay needs the virtual memory functions of ROCm 6 or later. Otherwise use --device emulator.",
            ) from error


def _load(path: str | None) -> tuple[ctypes.CDLL, str]:
    failures = []
    for candidate in [path] if path is not None else _candidates():
        try:
            return ctypes.CDLL(candidate), candidate
        except OSError as error:
            failures.append(str(error))
    raise ReplayError(
        "the HSA runtime was not found",
        where=failures[0] if failures else None,
        hint=f"Install ROCm, add the directory of {SONAME} to LD_LIBRARY_PATH, or use --device emulator.",
    )


def _candidates() -> Iterator[str]:
    yield SONAME
    for root in (os.environ.get("ROCM_PATH"), "/opt/rocm"):
        if root and (Path(root) / "lib" / SONAME).exists():
            yield str(Path(root) / "lib" / SONAME)


def out(value: Any) -> Any:
    """Return a pointer to an output argument."""
    return ctypes.byref(value)
