"""Structures of the timing engine (`runtime/timing.h`) for ctypes."""

from __future__ import annotations

import ctypes
from enum import IntEnum


class ExecutionUnit(IntEnum):
    """Unit that an instruction occupies (enum rpl_unit)."""

    VALU = 0
    SCALAR = 1
    SMEM = 2
    LOAD = 3
    STORE = 4
    LDS = 5
    BRANCH = 6
    WAIT = 7
    BARRIER = 8
    END = 9
    INTERNAL = 10


class TimedInstruction(ctypes.Structure):
    """struct rpl_timed_instruction."""

    _fields_ = (
        ("unit", ctypes.c_uint32),
        ("cycles", ctypes.c_uint32),
        ("vmcnt", ctypes.c_int32),
        ("lgkmcnt", ctypes.c_int32),
        ("bytes", ctypes.c_uint32),
    )


class TimedBlock(ctypes.Structure):
    """struct rpl_timed_block."""

    _fields_ = (("first", ctypes.c_uint32), ("count", ctypes.c_uint32))


class TimedWave(ctypes.Structure):
    """struct rpl_timed_wave."""

    _fields_ = (("words", ctypes.c_void_p), ("count", ctypes.c_uint64))


class CuParameters(ctypes.Structure):
    """struct rpl_cu_parameters."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("simds", "barrier_cycles", "scalar_load_latency", "lds_latency")),
        *((name, ctypes.c_uint32) for name in ("l1_latency", "l2_latency", "mall_latency", "dram_latency")),
        *((name, ctypes.c_uint32) for name in ("l1_lines", "l2_lines", "mall_lines", "workgroup_launch_cycles")),
        *((name, ctypes.c_double) for name in ("l1_bytes", "l2_bytes", "mall_bytes", "dram_bytes")),
    )


class CuCounters(ctypes.Structure):
    """struct rpl_cu_counters."""

    _fields_ = tuple(
        (name, ctypes.c_double)
        for name in (
            "cycles", "wave_cycles", "busy_cycles", "valu_busy_cycles", "wait_cycles", "l1_lookups", "l2_reads",
            "l2_writes", "l2_hits", "l2_misses", "dram_reads", "dram_writes", "memory_instructions",
        )
    )  # fmt: skip


class TimingEvent(ctypes.Structure):
    """struct rpl_event."""

    _fields_ = (
        ("attempt", ctypes.c_double),
        ("issued", ctypes.c_double),
        ("done", ctypes.c_double),
        ("inst", ctypes.c_uint64),
    )


class TracedWaveRecord(ctypes.Structure):
    """struct rpl_traced_wave."""

    _fields_ = (
        ("events", ctypes.POINTER(TimingEvent)),
        ("count", ctypes.c_uint64),
        ("capacity", ctypes.c_uint64),
        ("begin", ctypes.c_double),
        ("end", ctypes.c_double),
        ("simd", ctypes.c_uint32),
        ("slot", ctypes.c_uint32),
    )


class ThreadTraceRecord(ctypes.Structure):
    """struct rpl_thread_trace."""

    _fields_ = (("waves", ctypes.c_void_p), ("workgroups", ctypes.c_uint32), ("is_short_of_memory", ctypes.c_uint32))


class CuRun(ctypes.Structure):
    """struct rpl_cu_run."""

    _fields_ = (
        ("instructions", ctypes.c_void_p),
        ("blocks", ctypes.c_void_p),
        ("waves", ctypes.c_void_p),
        ("sampled_workgroups", ctypes.c_uint32),
        ("waves_per_workgroup", ctypes.c_uint32),
        ("workgroups", ctypes.c_uint32),
        ("resident", ctypes.c_uint32),
        ("cu", ctypes.c_void_p),
        ("finish_cycles", ctypes.c_void_p),
        ("hits", ctypes.c_void_p),
        ("latency_cycles", ctypes.c_void_p),
        ("stall_cycles", ctypes.c_void_p),
        ("idle_cycles", ctypes.c_void_p),
        ("counters", ctypes.c_void_p),
        ("thread_trace", ctypes.c_void_p),
    )
