"""User-mode queue: submits a kernel dispatch packet, waits for it with a time limit, and reads the GPU timestamps."""

from __future__ import annotations

import ctypes
import struct
import time
from ctypes import c_uint32, c_uint64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.replay.errors import DeviceFault, ReplayError
from rocm_perf_lab.replay.hsa import library as hsa
from rocm_perf_lab.replay.hsa.library import DispatchTime, EventCallback, HsaEvent, HsaLibrary, HsaQueue, QueueErrorCallback, out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.hsa.agents import AgentInfo
    from rocm_perf_lab.replay.hsa.host_services import HsaHostServices

_QUEUE_PACKETS = 64
_PACKET_BYTES = 64
_BODY = struct.Struct("<HHHHIIIIIQQQQ")
_HEADER = 2 | 1 << 8 | 2 << 9 | 2 << 11
"""Kernel dispatch, barrier bit, acquire and release at system scope."""
_UNSET = 0xFFFF_FFFF
_SLICE_SECONDS = 0.2
_ANSWER_SECONDS = 0.0002
"""Interval in seconds of polling for host calls."""
_REASONS = {0: "page not present", 1: "page is read-only", 2: "page is not executable", 3: "page belongs to the host", 31: "hang"}


@dataclass(frozen=True)
class DispatchPacket:
    """AQL kernel dispatch packet; the grid counts work-items."""

    setup: int
    workgroup: tuple[int, int, int]
    grid: tuple[int, int, int]
    scratch_bytes: int
    lds_bytes: int
    kernel_object: int
    kernarg_address: int

    def body(self, signal: int) -> bytes:
        """Return bytes 4 to 63 of the packet."""
        return _BODY.pack(
            *self.workgroup,
            0,
            *self.grid,
            self.scratch_bytes,
            self.lds_bytes,
            self.kernel_object,
            self.kernarg_address,
            0,
            signal,
        )


class DispatchQueue:
    """Queue of one agent with profiling enabled. A GPU fault ends the wait for the running dispatch."""

    def __init__(
        self, library: HsaLibrary, agent: AgentInfo, capture: Capture, services: HsaHostServices, *, timeout_s: float
    ) -> None:
        self._library, self._agent, self._capture, self._timeout_s = library, agent, capture, timeout_s
        self._services = services
        self._frequency = library.word("hsa_system_get_info", hsa.SYSTEM_TIMESTAMP_FREQUENCY, bits=64) or 10**9
        self._fault: tuple[int, int] | None = None
        self._error: int | None = None
        self._on_event = EventCallback(self._remember_event)
        self._on_error = QueueErrorCallback(self._remember_error)
        library.status("hsa_amd_register_system_event_handler", self._on_event, None)  # The runtime may already have one.
        self._queue = ctypes.POINTER(HsaQueue)()
        library.call(
            "hsa_queue_create", agent.handle, _QUEUE_PACKETS, _queue_type(capture), self._on_error, None, _UNSET, _UNSET,
            out(self._queue), doing="creating a queue",
        )  # fmt: skip
        self.notes = tuple(self._use_captured_units())
        library.call("hsa_amd_profiling_set_profiler_enabled", self._queue, 1, doing="enabling profiling")
        self._signal = c_uint64()
        library.call("hsa_signal_create", 1, 0, None, out(self._signal), doing="creating a signal")

    @property
    def address(self) -> int:
        """Address of the queue structure, for the hidden queue pointer."""
        return ctypes.cast(self._queue, ctypes.c_void_p).value or 0

    def _use_captured_units(self) -> Iterator[str]:
        """Restrict the queue to the captured compute units; yield a note if that is impossible."""
        mask = self._capture.dispatch.queue.cu_mask
        if not mask:
            return
        words = (c_uint32 * len(mask))(*mask)
        status = self._library.status("hsa_amd_queue_cu_set_mask", self._queue, 32 * len(mask), words)
        if status not in (hsa.SUCCESS, hsa.CU_MASK_REDUCED):
            yield f"the captured mask of compute units is not used: {self._library.status_text(status)}"

    def dispatch(self, packet: DispatchPacket) -> float:
        """Submit a packet, wait for it, and return the duration in microseconds.

        Raises:
            DeviceFault: The kernel caused a memory fault or another error of the queue, or did not end in time.
        """
        face = self._queue.contents
        signal = self._signal.value
        self._library.plain("hsa_signal_store_screlease", signal, 1)
        index = self._library.plain("hsa_queue_add_write_index_relaxed", self._queue, 1)
        slot = face.base + index % face.size * _PACKET_BYTES
        body = packet.body(signal)
        ctypes.memmove(slot + 4, body, len(body))
        c_uint32.from_address(slot).value = _HEADER | packet.setup << 16  # one aligned store publishes the packet
        self._library.plain("hsa_signal_store_screlease", face.doorbell, index)
        self._wait(signal)
        return self._duration_us(signal)

    def close(self) -> None:
        """Destroy the queue and its signal."""
        self._library.status("hsa_queue_destroy", self._queue)
        self._library.status("hsa_signal_destroy", self._signal.value)

    def _wait(self, signal: int) -> None:
        deadline = time.monotonic() + self._timeout_s
        while True:
            seconds = _ANSWER_SECONDS if self._services.is_needed else _SLICE_SECONDS
            ticks = int(seconds * self._frequency)
            if self._library.plain("hsa_signal_wait_scacquire", signal, hsa.CONDITION_LESS, 1, ticks, hsa.WAIT_BLOCKED) < 1:
                return
            self._services.answer()
            if self._fault is not None:
                raise self._memory_fault(*self._fault)
            if self._error is not None:
                raise DeviceFault(
                    f"the queue stopped: {self._library.status_text(self._error)}",
                    where=f"kernel {self._capture.dispatch.kernel.name}",
                    hint="The kernel performed an invalid operation.",
                )
            if time.monotonic() > deadline:
                raise DeviceFault(
                    f"the kernel did not end within {self._timeout_s:g} s",
                    where=f"kernel {self._capture.dispatch.kernel.name}",
                    hint="It hangs, or needs a higher --timeout.",
                )

    def _memory_fault(self, address: int, reasons: int) -> DeviceFault:
        named = [text for bit, text in _REASONS.items() if reasons >> bit & 1]
        return DeviceFault(
            f"memory fault at {address:#x}{f' ({named[0]})' if named else ''}",
            where=f"kernel {self._capture.dispatch.kernel.name}; {place_of(self._capture, address)}",
            hint="The kernel accesses memory that was not captured (capture with --mode full), or has a bug.",
        )

    def _duration_us(self, signal: int) -> float:
        times = DispatchTime()
        doing = "reading the timestamps of the dispatch"
        self._library.call("hsa_amd_profiling_get_dispatch_time", self._agent.handle, signal, out(times), doing=doing)
        if times.end < times.start:
            raise ReplayError("the GPU's timestamps are not in order", where=f"{times.start} to {times.end}")
        return float(times.end - times.start) * 1e6 / self._frequency

    def _remember_event(self, event: Any, _: Any) -> int:
        found: HsaEvent = event.contents
        if found.type == hsa.EVENT_MEMORY_FAULT:
            self._fault = (int(found.address), int(found.reasons))
        else:
            self._error = hsa.INFO_BREAK
        return hsa.SUCCESS

    def _remember_error(self, status: int, _: Any, __: Any) -> None:
        self._error = status


def _queue_type(capture: Capture) -> int:
    """Return the captured type; cooperative queues wait for all workgroups."""
    captured = capture.dispatch.queue.type
    return captured if captured in (hsa.QUEUE_TYPE_SINGLE, hsa.QUEUE_TYPE_COOPERATIVE) else hsa.QUEUE_TYPE_MULTI


def place_of(capture: Capture, address: int) -> str:
    """Describe the position of an address: the captured region that contains it, or the distance to the nearest one."""
    region = capture.memory.region_at(address)
    if region is not None:
        return f"in captured region {region.base:#x} of {region.size:,} bytes"
    below = [r for r in capture.memory.regions if r.end <= address]
    above = [r for r in capture.memory.regions if r.base > address]
    distances = [(address - r.end, f"{address - r.end:,} bytes after region {r.base:#x}") for r in below[-1:]]
    distances += [(r.base - address, f"{r.base - address:,} bytes before region {r.base:#x}") for r in above[:1]]
    return f"outside captured memory, {min(distances)[1]}" if distances else "the capture has no memory"
