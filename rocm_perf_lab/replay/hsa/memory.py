"""Device memory of a replay on the HSA runtime: maps captured regions at their addresses, fills them, and restores them from a
shadow copy in device memory.

Transfers use the asynchronous copy of the runtime and one pinned buffer, because the plain copy treats virtual memory as host
memory.
"""

from __future__ import annotations

import ctypes
import time
from ctypes import c_uint64
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.replay.errors import DeviceFault, ReplayError
from rocm_perf_lab.replay.format import PAGE_BYTES
from rocm_perf_lab.replay.hsa import library as hsa
from rocm_perf_lab.replay.hsa.agents import choose_pool, choose_pool_like
from rocm_perf_lab.replay.hsa.library import AccessDescriptor, HsaLibrary, out
from rocm_perf_lab.replay.hsa.reservation import reserve_extents

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.format import Region
    from rocm_perf_lab.replay.hsa.agents import AgentInfo
    from rocm_perf_lab.replay.hsa.reservation import Extent

_STAGING_BYTES = 64 << 20
_COPY_SECONDS = 600
_SLICE_SECONDS = 1.0
_MOST_RUNS = 1024
"""Largest number of page runs that are restored one by one; for more, one copy of the whole region is faster."""


@dataclass(frozen=True)
class AgentPair:
    """GPU and CPU agent of a replay."""

    gpu: AgentInfo
    host: AgentInfo


class DeviceRegions:
    """Captured regions at their addresses.

    Raises:
        ReservationError: The runtime does not reserve the captured addresses.
        ReplayError: Memory is insufficient, or the runtime has no virtual memory interface.
    """

    def __init__(self, library: HsaLibrary, agents: AgentPair, capture: Capture) -> None:
        self._library, self._agents, self._capture = library, agents, capture
        self._frequency = library.word("hsa_system_get_info", hsa.SYSTEM_TIMESTAMP_FREQUENCY, bits=64) or 10**9
        pool = choose_pool(library, agents.gpu, hsa.POOL_COARSE)
        self._extents = reserve_extents(library, capture, pool.granule)
        self._handles = [self._map(extent, pool.handle) for extent in self._extents]
        self._signal = c_uint64()
        library.call("hsa_signal_create", 0, 0, None, out(self._signal), doing="creating a signal")
        self._staging_bytes = min(_STAGING_BYTES, max([PAGE_BYTES, *(region.size for region in capture.regions)]))
        self._staging = self.allocate_host(self._staging_bytes)
        self._shadow = self._allocate_shadow(pool.handle)
        self._places: dict[int, int] = {}
        place = self._shadow or 0
        for region in capture.regions:
            self.upload(region.base, capture.image(region))
            if self._shadow is not None:
                self._copy(place, agents.gpu, region.base, agents.gpu, region.size)
                self._places[region.base] = place
                place += region.size

    def restore(self, *, changed_only: bool) -> int:
        """Restore the memory; return the number of bytes copied.

        Args:
            changed_only: Copy only pages that the captured dispatch changed; valid after a run of the captured kernel.
        """
        copied = 0
        for region in self._capture.regions:
            for first, pages in _runs(region, changed_only=changed_only):
                offset, nbytes = first * PAGE_BYTES, pages * PAGE_BYTES
                if self._shadow is not None:
                    gpu = self._agents.gpu
                    self._copy(region.base + offset, gpu, self._places[region.base] + offset, gpu, nbytes)
                else:
                    self.upload(region.base + offset, self._capture.image(region)[offset : offset + nbytes])
                copied += nbytes
        return copied

    def upload(self, address: int, content: NDArray[np.uint8]) -> None:
        """Copy host bytes to the device."""
        for start in range(0, len(content), self._staging_bytes):
            piece = np.ascontiguousarray(content[start : start + self._staging_bytes])
            ctypes.memmove(self._staging, piece.ctypes.data, len(piece))
            self._copy(address + start, self._agents.gpu, self._staging, self._agents.host, len(piece))

    def download(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        """Copy device bytes to the host, (nbytes,)."""
        content = np.empty(nbytes, dtype=np.uint8)
        for start in range(0, nbytes, self._staging_bytes):
            size = min(self._staging_bytes, nbytes - start)
            self._copy(self._staging, self._agents.host, address + start, self._agents.gpu, size)
            ctypes.memmove(content.ctypes.data + start, self._staging, size)
        return content

    def allocate_host(self, nbytes: int, flag: int = hsa.POOL_FINE) -> int:
        """Allocate host memory that the GPU can access, and return its address.

        Raises:
            ReplayError: The allocation failed.
        """
        pool = choose_pool(self._library, self._agents.host, flag)
        address = self._allocate(pool.handle, nbytes)
        gpu = c_uint64(self._agents.gpu.handle)
        self._library.call("hsa_amd_agents_allow_access", 1, out(gpu), None, address, doing="sharing host memory")
        return address

    def allocate_device(self, nbytes: int, flags: int) -> int:
        """Allocate memory of the GPU with the granularity in `flags`, and return its address.

        Raises:
            ReplayError: The allocation failed.
        """
        return self._allocate(choose_pool_like(self._library, self._agents.gpu, flags).handle, nbytes)

    def close(self) -> None:
        """Unmap everything."""
        for (address, nbytes), handle in zip(((e.address, e.nbytes) for e in self._extents), self._handles, strict=True):
            self._library.status("hsa_amd_vmem_unmap", address, nbytes)
            self._library.status("hsa_amd_vmem_handle_release", handle)
            self._library.status("hsa_amd_vmem_address_free", address, nbytes)

    def _allocate(self, pool: int, nbytes: int) -> int:
        address = c_uint64()
        doing = f"allocating {nbytes:,} bytes"
        self._library.call("hsa_amd_memory_pool_allocate", pool, nbytes, 0, out(address), doing=doing)
        return int(address.value)

    def _pool_of(self, extent: Extent) -> int:
        """Return the GPU's memory pool with the granularity of the captured memory."""
        inside = [region for region in self._capture.regions if extent.address <= region.base < extent.address + extent.nbytes]
        flags = inside[0].pool_flags if inside and inside[0].location == "gpu" else hsa.POOL_COARSE
        return choose_pool_like(self._library, self._agents.gpu, flags).handle

    def _map(self, extent: Extent, coarse_pool: int) -> int:
        address, nbytes = extent.address, extent.nbytes
        handle, pool = c_uint64(), self._pool_of(extent)
        create = "hsa_amd_vmem_handle_create"
        if pool == coarse_pool or self._library.status(create, pool, nbytes, 0, 0, out(handle)) != hsa.SUCCESS:
            doing = f"backing {nbytes:,} bytes at {address:#x} with memory of the GPU"
            self._library.call(create, coarse_pool, nbytes, 0, 0, out(handle), doing=doing)
        self._library.call("hsa_amd_vmem_map", address, nbytes, 0, handle.value, 0, doing=f"mapping {address:#x}")
        both = (self._agents.gpu.handle, self._agents.host.handle)
        access = (AccessDescriptor * 2)(*(AccessDescriptor(hsa.PERMISSION_READ_WRITE, agent) for agent in both))
        self._library.call("hsa_amd_vmem_set_access", address, nbytes, access, 2, doing=f"setting access to {address:#x}")
        return int(handle.value)

    def _allocate_shadow(self, pool: int) -> int | None:
        address = c_uint64()
        nbytes = self._capture.total_bytes
        if not nbytes or self._library.status("hsa_amd_memory_pool_allocate", pool, nbytes, 0, out(address)) != hsa.SUCCESS:
            return None
        return int(address.value)

    def _copy(self, to: int, to_agent: AgentInfo, source: int, source_agent: AgentInfo, nbytes: int) -> None:
        self._library.plain("hsa_signal_store_screlease", self._signal.value, 1)
        self._library.call(
            "hsa_amd_memory_async_copy", to, to_agent.handle, source, source_agent.handle, nbytes, 0, None, self._signal.value,
            doing=f"copying {nbytes:,} bytes",
        )  # fmt: skip
        deadline = time.monotonic() + _COPY_SECONDS
        ticks = int(_SLICE_SECONDS * self._frequency)
        while True:
            value = self._library.plain(
                "hsa_signal_wait_scacquire", self._signal.value, hsa.CONDITION_LESS, 1, ticks, hsa.WAIT_BLOCKED
            )
            if value == 0:
                return
            if value < 0:
                raise ReplayError(f"copying {nbytes:,} bytes to {to:#x} failed", where="hsa_amd_memory_async_copy")
            if time.monotonic() > deadline:
                raise DeviceFault(f"a copy of {nbytes:,} bytes to {to:#x} did not end within {_COPY_SECONDS} s")


def _runs(region: Region, *, changed_only: bool) -> tuple[tuple[int, int], ...]:
    whole = ((0, region.size // PAGE_BYTES),)
    if not changed_only:
        return whole
    runs = region.after.runs if region.after is not None else ()
    return runs if len(runs) <= _MOST_RUNS else whole
