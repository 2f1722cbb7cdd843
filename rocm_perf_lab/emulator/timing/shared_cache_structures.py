"""Structures of `runtime/shared_caches.h`. A test compares their sizes with the compiled ones."""

from __future__ import annotations

import ctypes
from enum import IntEnum

import numpy as np

from rocm_perf_lab.emulator.footprint import CHANNEL_BITS_MAX


class RequestKind(IntEnum):
    """Kinds of requests of compute units."""

    LOAD = 0
    STORE = 1
    ATOMIC = 2
    SCALAR_LOAD = 3


class Service(IntEnum):
    """enum rpl_service: the level that serves a request."""

    L1 = 0
    L2 = 1
    L2_PENDING = 2
    MALL = 3
    HBM = 4


CHANNEL_COUNTS = np.dtype(
    [
        (name, np.uint64)
        for name in (
            "reads", "scalar_reads", "writes", "atomics", "hits", "misses",
            "memory_reads", "memory_scalar_reads", "memory_writes", "memory_partial_writes", "memory_atomics",
        )
    ]
)  # fmt: skip
"""struct rpl_channel_counts: requests to a channel of L2, and its requests to memory.

Reads fetch 128 bytes and scalar reads 64; writes and atomics are requests of up to 64 bytes. A partial write to memory has
fewer than 64 bytes.
"""
MEMORY_CHANNEL = np.dtype([(name, np.uint64) for name in ("read_bytes", "write_bytes", "partial_writes")])
"""struct rpl_memory_channel: traffic of one HBM channel."""


class SharedParameters(ctypes.Structure):
    """struct rpl_shared_parameters."""

    _fields_ = (
        *(
            (name, ctypes.c_uint32)
            for name in (
                "xcds", "units_per_xcd", "resident", "sampling",
                "l1_lines", "l1_ways", "l2_lines", "l2_ways", "mall_lines", "mall_ways",
                "pending_time", "atomics_in_l2", "l2_channel_bits", "memory_channel_bits",
            )
        ),
        ("channel_masks", ctypes.c_uint64 * CHANNEL_BITS_MAX),
    )  # fmt: skip


class SharedTotals(ctypes.Structure):
    """struct rpl_shared_totals."""

    _fields_ = (
        ("mall_read_bytes", ctypes.c_uint64),
        ("mall_write_bytes", ctypes.c_uint64),
        ("dram_read_bytes", ctypes.c_uint64),
        ("dram_write_bytes", ctypes.c_uint64),
        ("partial_write_sectors", ctypes.c_uint64),
        ("dirty_bytes_at_end", ctypes.c_uint64),
    )


class SharedRun(ctypes.Structure):
    """struct rpl_shared_run."""

    _fields_ = (
        ("parameters", ctypes.c_void_p),
        ("records", ctypes.c_void_p),
        ("first_record", ctypes.c_void_p),
        ("memory_instructions", ctypes.c_void_p),
        ("allocation_base", ctypes.c_void_p),
        ("workgroups", ctypes.c_uint64),
        ("is_warm", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
        ("served", ctypes.c_void_p),
        ("channels", ctypes.c_void_p),
        ("memory_channels", ctypes.c_void_p),
        ("totals", ctypes.c_void_p),
    )
