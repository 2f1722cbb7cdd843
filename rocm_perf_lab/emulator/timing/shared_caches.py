"""Service of memory requests by the caches that compute units share: `shared_memory_profile(...) -> SharedMemoryProfile`.

All workgroups are replayed with a sample of their lines (`runtime/shared_caches.c`) through the L2 of their XCD, the MALL and
HBM. The result tells which level serves the requests of a workgroup, and the traffic of the launch at each level. See
"Shared caches" in `docs/timing-model.md`.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.emulator.errors import EmulationError
from rocm_perf_lab.emulator.footprint import ALLOCATION_MASK, ALLOCATION_SHIFT, CHANNEL_MASKS, LINE_BYTES, PRIVATE_ALLOCATION
from rocm_perf_lab.emulator.timing.shared_cache_structures import (
    CHANNEL_COUNTS,
    MEMORY_CHANNEL,
    RequestKind,
    Service,
    SharedParameters,
    SharedRun,
    SharedTotals,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.build import Runtime
    from rocm_perf_lab.emulator.footprint import LineFootprint
    from rocm_perf_lab.target.model import Target

_PLACEMENT_BYTES = 1 << 21
_PENDING_TIME = 1
_L1_WAYS, _L2_WAYS, _MALL_WAYS = 64, 16, 16
_PRIOR_REQUESTS = 32.0
"""Requests of the whole launch that each estimate of a part of it contains."""
_LINES_FOR_TRUST = 4.0
"""Independent sampled lines per channel at which half of an observed imbalance is believed."""


@dataclass(frozen=True)
class ServiceShares:
    """Fractions of requests by the level that serves them; those beyond L1 add up to 1.

    `l1` is the fraction of all requests of a kind that L1 serves; the others are fractions of the rest. `pending` are requests
    for a line that another request is fetching into L2: they cause no traffic, but wait for it.
    """

    l1: float
    l2: float
    pending: float
    mall: float
    hbm: float
    requests: float
    """Requests of the launch that the estimate represents, including those to L1."""


@dataclass(frozen=True)
class SharedTraffic:
    """Traffic of the launch beyond L2, in bytes."""

    mall_read_bytes: float
    """Read from the memory side, whether the MALL or HBM has the data."""
    mall_write_bytes: float
    dram_read_bytes: float
    dram_write_bytes: float
    partial_write_sectors: float
    """Sectors of 32 bytes written in part, which memory merges."""
    dirty_bytes_at_end: float
    """In L2 when the last workgroup ends; written back before the kernel ends."""


@dataclass(frozen=True)
class SharedMemoryProfile:
    """Service of the requests of a launch beyond L1.

    `served` is (n_workgroups, 4 kinds of :class:`RequestKind`, 5 services of :class:`Service`), requests in the sample.
    `channels` is (xcds, channels) of :data:`CHANNEL_COUNTS` and `memory_channels` (n) of :data:`MEMORY_CHANNEL`, both scaled to
    the launch.
    """

    sampling: int
    served: NDArray[np.uint32]
    channels: NDArray[np.void]
    memory_channels: NDArray[np.void]
    traffic: SharedTraffic
    l2_imbalance: float
    """Requests to the busiest channel of an L2 relative to the average one, over the launch; at least 1."""
    l2_window_imbalance: float
    """The same within short parts of the launch, counted exactly for its first workgroups: 8 memory instructions of each of
    the first 64 workgroups of an XCD."""
    memory_imbalance: float
    """Bytes of the busiest HBM channel relative to the average one."""

    def shares(self, kind: RequestKind, workgroups: Sequence[int] | NDArray[np.integer] | None = None) -> ServiceShares:
        """Return the services of requests of one kind.

        Args:
            kind: Loads, stores, atomics or scalar loads.
            workgroups: Linear ids; the estimate is pooled over them. All workgroups by default.
        """
        total = self.served[:, kind].sum(axis=0, dtype=np.float64)
        selected = total if workgroups is None else self.served[np.asarray(workgroups), kind].sum(axis=0, dtype=np.float64)
        counts = selected + total * min(1.0, _PRIOR_REQUESTS / max(1.0, total.sum()))
        beyond = counts[Service.L2 :].sum()
        l2, pending, mall, hbm = counts[Service.L2 :] / beyond if beyond else (0.0, 0.0, 1.0, 0.0)
        return ServiceShares(
            l1=float(counts[Service.L1] / max(1.0, counts.sum())),
            l2=float(l2),
            pending=float(pending),
            mall=float(mall),
            hbm=float(hbm),
            requests=float(selected.sum() * self.sampling),
        )


def shared_memory_profile(
    runtime: Runtime,
    footprint: LineFootprint,
    buffers: Sequence[tuple[int, int]],
    target: Target,
    *,
    resident_workgroups: int,
    warm: bool = True,
) -> SharedMemoryProfile:
    """Replay the sampled lines of a launch through the shared caches; equal launches have equal profiles.

    Args:
        runtime: C runtime.
        footprint: Accesses of all workgroups.
        buffers: (address, bytes) in an order that is the same in every process.
        target: Target GPU.
        resident_workgroups: Number of workgroups that fit on one compute unit.
        warm: The same launch ran before, so that the MALL has its lines; L2 is always empty at the start.

    Raises:
        EmulationError: The host has too little memory.
    """
    parameters = _parameters(target, footprint.sampling, resident_workgroups)
    workgroups = len(footprint.memory_instructions)
    channels = np.zeros((target.xcds, 1 << parameters.l2_channel_bits), dtype=CHANNEL_COUNTS)
    memory_channels = np.zeros(1 << parameters.memory_channel_bits, dtype=MEMORY_CHANNEL)
    served = np.zeros((workgroups, len(RequestKind), len(Service)), dtype=np.uint32)
    bases = placed_allocations(footprint, buffers)
    totals = SharedTotals()
    run = SharedRun(
        parameters=ctypes.addressof(parameters),
        records=footprint.accesses.ctypes.data,
        first_record=footprint.first.ctypes.data,
        memory_instructions=footprint.memory_instructions.ctypes.data,
        allocation_base=bases.ctypes.data,
        workgroups=workgroups,
        is_warm=int(warm and parameters.mall_lines > 0),
        served=served.ctypes.data,
        channels=channels.ctypes.data,
        memory_channels=memory_channels.ctypes.data,
        totals=ctypes.addressof(totals),
    )
    if runtime.library.rpl_shared_caches(ctypes.byref(run)):
        raise EmulationError("too little memory for the model of the shared caches", hint="Free memory of the host.")
    return _profile(footprint, served, channels, memory_channels, totals)


def placed_allocations(footprint: LineFootprint, buffers: Sequence[tuple[int, int]]) -> NDArray[np.uint64]:
    """Return the address at which the model places each allocation, by its number in the record.

    Buffers are placed one after the other in the given order, other accessed allocations follow in order of their address, then
    scratch. All of them start at multiples of 2 MiB, as large allocations do on the GPU.
    """
    rank = {address: number for number, (address, _) in enumerate(buffers)}
    touched = np.unique(footprint.accesses["place"] >> np.uint64(ALLOCATION_SHIFT) & np.uint64(ALLOCATION_MASK)).tolist()
    known = [number for number in touched if number != PRIVATE_ALLOCATION]
    spans = {number: footprint.span(number) for number in known}
    order = sorted(known, key=lambda k: (rank.get(spans[k][0], len(rank)), spans[k][0]))
    bases = np.zeros(ALLOCATION_MASK + 1, dtype=np.uint64)
    next_free = _PLACEMENT_BYTES
    for number in order:
        bases[number] = next_free
        next_free += -(-(spans[number][1] + LINE_BYTES) // _PLACEMENT_BYTES) * _PLACEMENT_BYTES
    bases[PRIVATE_ALLOCATION] = next_free
    return bases


def _parameters(target: Target, sampling: int, resident_workgroups: int) -> SharedParameters:
    caches = target.caches
    return SharedParameters(
        xcds=target.xcds,
        units_per_xcd=max(1, target.compute_units // target.xcds),
        resident=max(1, resident_workgroups),
        sampling=sampling,
        l1_lines=caches.vector_l1_bytes // LINE_BYTES,
        l1_ways=_L1_WAYS,
        l2_lines=caches.l2_bytes_per_xcd // LINE_BYTES,
        l2_ways=_L2_WAYS,
        mall_lines=caches.mall_bytes // LINE_BYTES,
        mall_ways=_MALL_WAYS,
        pending_time=_PENDING_TIME,
        atomics_in_l2=int(target.xcds == 1),
        l2_channel_bits=min(len(CHANNEL_MASKS), round(log2(max(1, caches.l2_channels_per_xcd)))),
        memory_channel_bits=len(CHANNEL_MASKS),
        channel_masks=CHANNEL_MASKS,
    )


def _profile(
    footprint: LineFootprint,
    served: NDArray[np.uint32],
    channels: NDArray[np.void],
    memory_channels: NDArray[np.void],
    totals: SharedTotals,
) -> SharedMemoryProfile:
    sampling, requests = footprint.sampling, np.zeros(channels.shape)
    for name in ("reads", "scalar_reads", "writes", "atomics"):
        requests += channels[name]
    memory = (memory_channels["read_bytes"] + memory_channels["write_bytes"]).astype(np.float64)
    xcds = len(channels)
    return SharedMemoryProfile(
        sampling=sampling,
        served=served,
        channels=_scaled(channels, sampling),
        memory_channels=_scaled(memory_channels, sampling),
        traffic=SharedTraffic(
            **{name: float(getattr(totals, name)) * sampling for name in SharedTraffic.__dataclass_fields__},
        ),
        l2_imbalance=_imbalance(requests, _independent_lines(footprint, xcds) / requests.size, sampling),
        l2_window_imbalance=_window_imbalance(footprint.channel_windows),
        memory_imbalance=_imbalance(memory[None], _independent_lines(footprint, 1) / memory.size, sampling),
    )


def _independent_lines(footprint: LineFootprint, xcds: int) -> float:
    """Return the number of equally often accessed lines that have the variance of the sampled ones, summed over XCDs."""
    lines = footprint.accesses["place"] & np.uint64((1 << ALLOCATION_SHIFT + ALLOCATION_MASK.bit_length()) - 1)
    total = 0.0
    for xcd in range(xcds):
        _, counts = np.unique(lines[footprint.accesses["workgroup"] % xcds == xcd], return_counts=True)
        total += float(counts.sum()) ** 2 / max(1.0, float((counts.astype(np.float64) ** 2).sum()))
    return total


def _scaled(counts: NDArray[np.void], factor: int) -> NDArray[np.void]:
    result = counts.copy()
    for name in counts.dtype.names or ():
        result[name] *= np.uint64(factor)
    return result


def _imbalance(requests: NDArray[np.float64], distinct: float, sampling: int) -> float:
    """Return the load of the busiest channel relative to the average, without the noise of the sample.

    Args:
        requests: (groups, channels).
        distinct: Independent lines in the sample per channel.
        sampling: One of this number of lines is in the sample.
    """
    busy = requests[requests.sum(axis=1) > 0]
    if not len(busy):
        return 1.0
    ratio = float((busy.max(axis=1) / busy.mean(axis=1)).mean())
    noise = float((1 - 1 / sampling) ** 0.5) * _chance(requests.shape[1], distinct)
    trusted = 1.0 if sampling == 1 else distinct / (distinct + _LINES_FOR_TRUST)
    return 1.0 + trusted * max(0.0, ratio - 1.0 - noise)


def _window_imbalance(windows: NDArray[np.uint64]) -> float:
    """Return the requests of the busiest channel of all windows relative to the average one, beyond those of random lines.

    Args:
        windows: Requests, (xcds, windows, channels).
    """
    busy = windows[windows.sum(axis=2) > 0].astype(np.float64)
    if not len(busy):
        return 1.0
    means = busy.mean(axis=1)
    by_chance = np.array([_chance(busy.shape[1], mean) for mean in means])
    excess = np.maximum(0.0, busy.max(axis=1) - means * (1.0 + by_chance))
    return 1.0 + float(excess.sum() / means.sum())


def _chance(channels: int, mean: float) -> float:
    """Return the expected excess of the busiest of equally likely channels, relative to a mean number of requests."""
    if channels < 2 or mean <= 0:
        return 0.0
    deviations = (2 * np.log(channels)) ** 0.5 - (np.log(np.log(channels)) + np.log(4 * np.pi)) / (
        2 * (2 * np.log(channels)) ** 0.5
    )
    return float(deviations / mean**0.5)
