"""Captured addresses in the hands of the HSA runtime, exactly or not at all.

Until the runtime is up this process keeps the ranges itself, so that nothing of the runtime settles there. Then they are given
back and reserved at once, the largest first. The runtime reserves elsewhere without a word where an address is taken; so every
answer is compared with what was asked for.
"""

from __future__ import annotations

from ctypes import c_uint64
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.replay.address_space import owner_of, release
from rocm_perf_lab.replay.errors import RelocationError, ReplayError
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
    """One reservation: whole granules around one or more regions."""

    address: int
    nbytes: int


def extents_of(regions: Sequence[Region], granule: int) -> tuple[Extent, ...]:
    """Regions rounded to granules, those that share one put together, by address."""
    granule = max(granule, PAGE_BYTES)
    extents: list[Extent] = []
    for region in regions:
        begin, end = region.base // granule * granule, -(-region.end // granule) * granule
        if extents and begin < extents[-1].address + extents[-1].nbytes:
            begin = extents.pop().address
        extents.append(Extent(begin, end - begin))
    return tuple(extents)


def reserve_extents(library: HsaLibrary, capture: Capture, granule: int) -> tuple[Extent, ...]:
    """Turn this process's claims into reservations of the runtime.

    Raises:
        RelocationError: The runtime reserved something else.
        ReplayError: It reserves nothing.
    """
    require_virtual_memory(library)
    for region in capture.regions:
        release(region.base, region.size)
    extents = extents_of(capture.regions, granule)
    for extent in sorted(extents, key=lambda e: -e.nbytes):
        _reserve(library, extent)
    return extents


def require_virtual_memory(library: HsaLibrary) -> None:
    """Raises ReplayError where the runtime or the driver has no virtual memory interface."""
    supported = library.word("hsa_system_get_info", hsa.SYSTEM_VIRTUAL_MEMORY, bits=8)
    if supported == 0 or not library.has("hsa_amd_vmem_address_reserve"):
        raise ReplayError(
            "the HSA runtime or its driver has no virtual memory interface here",
            where=library.path,
            hint="It needs ROCm 6 or later and amdgpu with KFD interface 1.15; --device emulator needs none.",
        )


def try_addresses(capture: Capture, *, agent: int | None, library: str | None) -> None:
    """Reserve everything once and give it back: what reserve-check asks.

    Raises:
        RelocationError: The runtime reserved something else.
        ReplayError: It reserves nothing, or there is no GPU.
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
        raise ReplayError(
            f"the runtime does not reserve {wanted}: {library.status_text(status)}",
            where="hsa_amd_vmem_address_reserve",
            hint="This GPU or driver may not support fixed addresses; some APUs do not.",
        )
    if got.value != extent.address:
        library.status("hsa_amd_vmem_address_free", got.value, extent.nbytes)
        raise RelocationError(
            f"relocation: {wanted} were asked for, the runtime reserved {got.value:#x}",
            where=f"there is {owner_of(extent.address, extent.nbytes) or 'nothing of this process'}",
            hint="Nothing was replayed. Capture with HSA_RESERVE_SVM=1: it keeps device memory away from libraries.",
        )
