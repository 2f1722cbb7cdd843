"""Exact reservation of the captured addresses through the HSA runtime.

This process holds the ranges until the runtime has started, so that the runtime does not occupy them. Then each range is released
and reserved through the runtime, the largest first. If an address is in use, the runtime silently reserves a different one; every
returned address is therefore compared with the requested one.
"""

from __future__ import annotations

from ctypes import c_uint64
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.replay.address_space import owner_of, release
from rocm_perf_lab.replay.errors import RelocatedReservation, ReplayError, ReservationError
from rocm_perf_lab.replay.format import PAGE_BYTES
from rocm_perf_lab.replay.hsa import library as hsa
from rocm_perf_lab.replay.hsa.agents import choose_gpu, choose_pool, list_agents
from rocm_perf_lab.replay.hsa.library import HsaLibrary, out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.format import Region


@dataclass(frozen=True)
class Extent:
    """One reservation of whole granules, for one or more regions."""

    address: int
    nbytes: int


def extents_of(regions: Sequence[Region], granule: int) -> tuple[Extent, ...]:
    """Round regions to granules and merge those that share one; ordered by address."""
    granule = max(granule, PAGE_BYTES)
    extents: list[Extent] = []
    for region in regions:
        begin, end = region.base // granule * granule, -(-region.end // granule) * granule
        if extents and begin < extents[-1].address + extents[-1].nbytes:
            begin = extents.pop().address
        extents.append(Extent(begin, end - begin))
    return tuple(extents)


def reserve_extents(library: HsaLibrary, capture: Capture, granule: int) -> tuple[Extent, ...]:
    """Replace the reservations of this process by reservations of the runtime.

    Raises:
        ReservationError: The runtime failed to reserve an address or reserved a different one.
        ReplayError: The runtime has no virtual memory interface.
    """
    require_virtual_memory(library)
    for region in capture.regions:
        release(region.base, region.size)
    extents = extents_of(capture.regions, granule)
    for extent in sorted(extents, key=lambda e: -e.nbytes):
        _reserve(library, extent)
    return extents


def require_virtual_memory(library: HsaLibrary) -> None:
    """Check for the virtual memory interface.

    Raises:
        ReplayError: The runtime or the driver does not have it.
    """
    supported = library.word("hsa_system_get_info", hsa.SYSTEM_VIRTUAL_MEMORY, bits=8)
    if supported == 0 or not library.has("hsa_amd_vmem_address_reserve"):
        raise ReplayError(
            "the HSA runtime or its driver has no virtual memory interface",
            where=library.path,
            hint="Install ROCm 6 or later and amdgpu with KFD interface 1.15, or use --device emulator.",
        )


def try_addresses(capture: Capture, *, agent: int | None, library: str | None) -> None:
    """Reserve all captured addresses once and release them, for `reserve-check`.

    Raises:
        ReservationError: The runtime failed to reserve an address or reserved a different one.
        ReplayError: The runtime, a suitable GPU, or the virtual memory interface is missing.
    """
    runtime = HsaLibrary(library)
    runtime.initialise()
    gpu = choose_gpu(list_agents(runtime), capture, agent)
    extents = reserve_extents(runtime, capture, choose_pool(runtime, gpu, hsa.POOL_COARSE).granule)
    for extent in extents:
        runtime.status("hsa_amd_vmem_address_free", extent.address, extent.nbytes)
    runtime.status("hsa_shut_down")


def _reserve(library: HsaLibrary, extent: Extent) -> None:
    got = c_uint64()
    status = library.status("hsa_amd_vmem_address_reserve", out(got), extent.nbytes, extent.address, 0)
    wanted = f"{extent.nbytes:,} bytes at {extent.address:#x}"
    if status != hsa.SUCCESS:
        raise ReservationError(
            f"the runtime does not reserve {wanted}: {library.status_text(status)}",
            where="hsa_amd_vmem_address_reserve",
            hint="This GPU or driver may not support fixed addresses; some APUs do not.",
        )
    if got.value != extent.address:
        library.status("hsa_amd_vmem_address_free", got.value, extent.nbytes)
        raise RelocatedReservation(
            f"relocation: {wanted} were requested, but the runtime reserved {got.value:#x}",
            where=f"occupied by {owner_of(extent.address, extent.nbytes) or 'no mapping of this process'}",
            hint="No kernel was replayed. Capture with --low-addresses, which places device memory away from libraries.",
        )
